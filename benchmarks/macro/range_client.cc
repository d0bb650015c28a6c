// The load of the file benchmarks: connections with one range request each under way, going
// through the file. What comes is counted and dropped in the kernel (MSG_TRUNC), so that the
// client's own copying does not bound the server; the first answer on every connection is read
// and compared with the file.
//   --cold   drops the file from the page cache (posix_fadvise DONTNEED) and asks for its ranges in
//            an order that jumps, so that none of them was read ahead; drops it again when all were
//            read. The file must be clean, on a disk, and mapped by nobody. (To drop each range
//            before it is asked for would make all cores flush their page lists, over and over)
#include <fcntl.h>
#include <gflags/gflags.h>
#include <poll.h>

#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/macro/measurement.h"
#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_int32(connections, 4, "connections, each with one request under way");
DEFINE_string(file, "", "the file that the server serves");
DEFINE_int64(range_bytes, 65536, "bytes of one answer");
DEFINE_bool(cold, false, "ask for ranges that are not in the page cache");
DEFINE_double(megabytes_per_second, 0, "not faster than this; 0: as fast as answers come");
DEFINE_double(warmup_seconds, 0.3, "before the figures start");
DEFINE_double(seconds, 1.5, "how long the figures are taken; < 0: until killed");

namespace gyre::bench {
namespace {

class RangeLoad {
 public:
  RangeLoad()
      : file_(Checked(open(FLAGS_file.c_str(), O_RDONLY | O_CLOEXEC), FLAGS_file.c_str())),
        streams_(static_cast<size_t>(FLAGS_connections)),
        answer_bytes_(static_cast<int64_t>(kRangeHeaderBytes) + FLAGS_range_bytes),
        measurement_(FLAGS_server_pid) {
    file_bytes_ = Checked64(lseek(file_, 0, SEEK_END), "lseek");
    if (file_bytes_ < FLAGS_range_bytes) Die("the file is smaller than a range");
    range_count_ = file_bytes_ / FLAGS_range_bytes;
    if (FLAGS_cold) {
      stride_ = range_count_ * 5 / 13 + 1;
      while (std::gcd(stride_, range_count_) != 1) ++stride_;
    }
    for (Stream& s : streams_) {
      s.fd = Connect(FLAGS_port, FLAGS_congestion);
      polled_.push_back({s.fd, POLLIN, 0});
      CheckOne(s);
    }
  }

  void Run() {
    for (Stream& s : streams_) Send(s);
    measurement_.Start();
    Phase(FLAGS_warmup_seconds);
    answers_ = 0;
    measurement_.Start();
    Phase(FLAGS_seconds);
    std::vector<int64_t> none;
    measurement_.Print(answers_, answers_ * FLAGS_range_bytes, none);
  }

 private:
  struct Stream {
    int fd = -1;
    int64_t left_bytes = 0;
  };

  static int64_t Checked64(int64_t result, const char* what) {
    if (result < 0) Die(what);
    return result;
  }

  void Phase(double seconds) {
    const int64_t start_ns = NowNs();
    int64_t paced_bytes = 0;
    while (seconds < 0 || static_cast<double>(NowNs() - start_ns) < seconds * 1e9) {
      Checked(poll(polled_.data(), polled_.size(), 100), "poll");
      for (size_t i = 0; i < streams_.size(); ++i) {
        if (polled_[i].revents == 0 || !Receive(streams_[i])) continue;
        ++answers_;
        paced_bytes += FLAGS_range_bytes;
        if (FLAGS_megabytes_per_second > 0) Pace(start_ns, paced_bytes);
        Send(streams_[i]);
      }
    }
  }

  static void Pace(int64_t start_ns, int64_t bytes) {
    const double due = static_cast<double>(bytes) / (FLAGS_megabytes_per_second * 1e6);
    const int64_t due_ns = start_ns + static_cast<int64_t>(due * 1e9);
    const timespec wake = {due_ns / 1'000'000'000, due_ns % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
  }

  int64_t Send(Stream& s) {
    if (asked_ % range_count_ == 0 && FLAGS_cold) {
      errno = posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
      if (errno != 0) Die("posix_fadvise");
    }
    const int64_t position = asked_++ % range_count_ * stride_ % range_count_ * FLAGS_range_bytes;
    char request[kRangeRequestBytes];
    PutInt32(request, kRangeRequestBytes - 4);
    PutInt32(request + 4, static_cast<uint32_t>(position >> 32));
    PutInt32(request + 8, static_cast<uint32_t>(position));
    PutInt32(request + 12, static_cast<uint32_t>(FLAGS_range_bytes));
    WriteAll(s.fd, request, sizeof(request));
    s.left_bytes = answer_bytes_;
    return position;
  }

  // True: the answer is complete.
  bool Receive(Stream& s) {
    const ssize_t n =
        recv(s.fd, nullptr, static_cast<size_t>(s.left_bytes), MSG_TRUNC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) Die("the server closed a connection");
    s.left_bytes -= n;
    return s.left_bytes == 0;
  }

  void CheckOne(Stream& s) {
    const int64_t position = Send(s);
    std::vector<char> answer(static_cast<size_t>(answer_bytes_));
    if (!ReadAll(s.fd, answer.data(), answer.size())) Die("the server closed a connection");
    std::vector<char> expected(static_cast<size_t>(FLAGS_range_bytes));
    if (pread(file_, expected.data(), expected.size(), position) != FLAGS_range_bytes) Die("pread");
    if (GetInt32(answer.data()) != answer.size() - 4 ||
        memcmp(answer.data() + kRangeHeaderBytes, expected.data(), expected.size()) != 0) {
      fprintf(stderr, "an answer differs from the file\n");
      exit(1);
    }
  }

  const int file_;
  int64_t file_bytes_ = 0;
  std::vector<Stream> streams_;
  std::vector<pollfd> polled_;
  const int64_t answer_bytes_;
  Measurement measurement_;
  int64_t range_count_ = 0;
  int64_t stride_ = 1;  // the ranges' order; 1: one after the other
  int64_t asked_ = 0;
  int64_t answers_ = 0;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::RangeLoad().Run();
}
