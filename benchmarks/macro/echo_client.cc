// The load of the echo benchmarks: a number of connections driven by epoll from one thread, some
// of them with one frame under way at a time. Every echo is compared with what was sent.
//   --in_flight=0   each connection always has one frame under way
//   --in_flight=N   N frames are under way in all, and they go round the connections in turn, so
//                   that the number of connections is all that differs between two runs
//   --protocol=redis  the payload is what Redis' ECHO is asked to echo
// Prints one JSON object with the echoes and the CPU times of server and client between the end
// of the warm-up and the end of the run.
#include <gflags/gflags.h>
#include <sys/epoll.h>

#include <string>
#include <vector>

#include "benchmarks/macro/measurement.h"
#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_int32(connections, 64, "connections");
DEFINE_int32(in_flight, 0, "frames under way; 0: one on each connection");
DEFINE_int32(payload_bytes, 128, "bytes of a frame after its length");
DEFINE_string(protocol, "frame", "frame (int32 length, payload) or redis (the command ECHO)");
DEFINE_double(warmup_seconds, 0.4, "before the figures start");
DEFINE_double(seconds, 1.5, "how long the figures are taken");

namespace gyre::bench {
namespace {

// What is sent and what must come back.
struct Exchange {
  std::string request;
  std::string answer;
};

Exchange MakeExchange(const std::string& payload) {
  if (FLAGS_protocol == "redis") {
    const std::string bulk = "$" + std::to_string(payload.size()) + "\r\n" + payload + "\r\n";
    return {"*2\r\n$4\r\nECHO\r\n" + bulk, bulk};
  }
  std::string frame(4, '\0');
  PutInt32(frame.data(), static_cast<uint32_t>(payload.size()));
  frame += payload;
  return {frame, frame};
}

class EchoLoad {
 public:
  EchoLoad()
      : epoll_(Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        streams_(static_cast<size_t>(FLAGS_connections)),
        measurement_(FLAGS_server_pid) {
    for (int i = 0; i < 26; ++i) {
      exchanges_.push_back(MakeExchange(
          std::string(static_cast<size_t>(FLAGS_payload_bytes), static_cast<char>('a' + i))));
    }
    size_ = exchanges_[0].answer.size();
    echo_.resize(size_ + 1);
    for (size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].fd = Connect(FLAGS_port, FLAGS_congestion);
      epoll_event event = {};
      event.events = EPOLLIN;
      event.data.u64 = i;
      Checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, streams_[i].fd, &event), "epoll_ctl");
    }
  }

  void Run() {
    const size_t in_flight =
        FLAGS_in_flight > 0 ? static_cast<size_t>(FLAGS_in_flight) : streams_.size();
    for (size_t i = 0; i < in_flight; ++i) SendNext();
    measurement_.Start();
    bool measuring = false;
    epoll_event events[256];
    for (;;) {
      const double elapsed = measurement_.SecondsSinceStart();
      if (!measuring && elapsed >= FLAGS_warmup_seconds) {
        measuring = true;
        echoes_ = 0;
        measurement_.Start();
      } else if (measuring && elapsed >= FLAGS_seconds) {
        std::vector<int64_t> none;
        measurement_.Print(echoes_, echoes_ * static_cast<int64_t>(size_), none);
        return;
      }
      const int n = epoll_wait(epoll_, events, 256, 100);
      for (int i = 0; i < n; ++i) Receive(events[i].data.u64);
    }
  }

 private:
  struct Stream {
    int fd = -1;
    bool busy = false;
    size_t received = 0;
  };

  // On the next connection that has nothing under way.
  void SendNext() {
    while (streams_[next_].busy) next_ = (next_ + 1) % streams_.size();
    streams_[next_].busy = true;
    const std::string& request = exchanges_[next_ % 26].request;
    WriteAll(streams_[next_].fd, request.data(), request.size());
    next_ = (next_ + 1) % streams_.size();
  }

  void Receive(size_t index) {
    Stream& s = streams_[index];
    // One byte more than is due, so that a server that says too much is noticed.
    const ssize_t got = recv(s.fd, echo_.data(), size_ - s.received + 1, 0);
    if (got <= 0) Die("the server closed a connection");
    const size_t end = s.received + static_cast<size_t>(got);
    if (end > size_ || memcmp(echo_.data(), exchanges_[index % 26].answer.data() + s.received,
                              static_cast<size_t>(got)) != 0) {
      fprintf(stderr, "an echo differs from what was sent\n");
      exit(1);
    }
    s.received = end;
    if (end < size_) return;
    ++echoes_;
    s.received = 0;
    s.busy = false;
    if (FLAGS_in_flight == 0) next_ = index;
    SendNext();
  }

  const int epoll_;
  size_t size_ = 0;  // of an answer
  std::vector<Stream> streams_;
  std::vector<Exchange> exchanges_;
  std::vector<char> echo_;
  Measurement measurement_;
  size_t next_ = 0;
  int64_t echoes_ = 0;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_protocol != "frame" && FLAGS_protocol != "redis") {
    fprintf(stderr, "--protocol is \"frame\" or \"redis\"\n");
    return 1;
  }
  gyre::bench::EchoLoad().Run();
}
