// The load of the produce and fetch benchmarks, in raw protocol so that the client's own work is
// small: each connection has one request under way, and one thread reads the answers in turn.
//   --mode=produce   Produce v7 of one prepared batch of --records records, connection i to
//                    partition i, until --megabytes are in
//   --mode=fetch     Fetch v12 of --fetch_bytes, partition 0, round and round; never waits for more
//   --mode=ranges    the same ranges from sendfile_server
// Prints one JSON object: requests, payload bytes, CPU times of server and client.
#include <gflags/gflags.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/sockets.h"

DEFINE_string(mode, "", "produce, fetch or ranges");
DEFINE_int32(port, 0, "the server's port on 127.0.0.1");
DEFINE_int32(server_pid, 0, "the server's process");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");
DEFINE_int32(connections, 4, "connections, each with one request under way");
DEFINE_string(topic, "bench", "topic");
DEFINE_int32(acks, 1, "produce: 0 is not possible here, 1 or -1");
DEFINE_int32(records, 16, "produce: records in a batch");
DEFINE_int32(record_bytes, 1024, "produce: value bytes of a record");
DEFINE_int32(fetch_bytes, 1 << 20, "fetch, ranges: bytes of one answer at most");
DEFINE_int64(file_bytes, 0, "ranges: size of the file");
DEFINE_int64(warmup_megabytes, 16, "payload before the figures start");
DEFINE_int64(megabytes, 256, "payload that is measured");

namespace gyre::bench {
namespace {

class Bytes {
 public:
  Bytes& Int8(int v) { return Big(static_cast<uint64_t>(v), 1); }
  Bytes& Int16(int v) { return Big(static_cast<uint64_t>(v), 2); }
  Bytes& Int32(int64_t v) { return Big(static_cast<uint64_t>(v), 4); }
  Bytes& Int64(int64_t v) { return Big(static_cast<uint64_t>(v), 8); }
  Bytes& Raw(const std::string& v) {
    data_ += v;
    return *this;
  }
  Bytes& String(const std::string& v) { return Int16(static_cast<int>(v.size())).Raw(v); }
  Bytes& CompactString(const std::string& v) { return Unsigned(v.size() + 1).Raw(v); }
  Bytes& Unsigned(uint64_t v) {
    for (; v > 127; v >>= 7) data_ += static_cast<char>(v | 128);
    data_ += static_cast<char>(v);
    return *this;
  }
  Bytes& Signed(int64_t v) {
    return Unsigned(static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63));
  }
  const std::string& data() const { return data_; }

 private:
  Bytes& Big(uint64_t v, int size) {
    for (int i = size - 1; i >= 0; --i) data_ += static_cast<char>(v >> (8 * i));
    return *this;
  }
  std::string data_;
};

uint32_t Crc32c(const std::string& data) {
  uint32_t table[256];
  for (uint32_t n = 0; n < 256; ++n) {
    table[n] = n;
    for (int bit = 0; bit < 8; ++bit) {
      table[n] = table[n] >> 1 ^ (table[n] & 1 ? 0x82F63B78u : 0);
    }
  }
  uint32_t crc = ~0u;
  for (const char c : data) crc = table[(crc ^ static_cast<uint8_t>(c)) & 255] ^ crc >> 8;
  return ~crc;
}

std::string Batch() {
  Bytes records;
  for (int i = 0; i < FLAGS_records; ++i) {
    std::string value(static_cast<size_t>(FLAGS_record_bytes), 0);
    for (size_t j = 0; j < value.size(); ++j) value[j] = static_cast<char>(i * 31 + j * 17);
    Bytes body;
    body.Int8(0).Signed(0).Signed(i).Signed(-1);
    body.Signed(static_cast<int64_t>(value.size())).Raw(value).Signed(0);
    records.Signed(static_cast<int64_t>(body.data().size())).Raw(body.data());
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t now_ms = now.tv_sec * 1000LL;
  Bytes tail;
  tail.Int16(0).Int32(FLAGS_records - 1).Int64(now_ms).Int64(now_ms).Int64(-1).Int16(-1).Int32(-1);
  tail.Int32(FLAGS_records).Raw(records.data());
  Bytes batch;
  batch.Int64(0).Int32(static_cast<int64_t>(tail.data().size()) + 9).Int32(-1).Int8(2);
  batch.Int32(Crc32c(tail.data())).Raw(tail.data());
  return batch.data();
}

std::string Frame(const Bytes& content) {
  Bytes frame;
  frame.Int32(static_cast<int64_t>(content.data().size())).Raw(content.data());
  return frame.data();
}

[[noreturn]] void Refused(const char* what, int error) {
  fprintf(stderr, "%s: the broker answers error %d\n", what, error);
  exit(1);
}

// One request under way on one connection.
struct Stream {
  int fd = -1;
  std::string request;
  std::vector<char> answer;
  int64_t position = 0;  // fetch: the next offset; ranges: the next byte.
};

class Load {
 public:
  Load() : streams_(static_cast<size_t>(FLAGS_connections)) {
    const std::string batch = FLAGS_mode == "produce" ? Batch() : "";
    for (size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].fd = Connect(FLAGS_port, FLAGS_congestion);
      if (FLAGS_mode == "produce") PrepareProduce(streams_[i], static_cast<int>(i), batch);
    }
    batch_bytes_ = static_cast<int64_t>(batch.size());
  }

  void Run() {
    for (Stream& s : streams_) Send(s);
    Measure(FLAGS_warmup_megabytes << 20);
    const int64_t server_before = ProcessCpuNs(FLAGS_server_pid), client_before = ProcessCpuNs(0);
    const int64_t start = NowNs();
    requests_ = 0;
    const int64_t bytes = Measure(FLAGS_megabytes << 20);
    const int64_t elapsed = NowNs() - start;
    printf(
        "{\"operations\": %lld, \"bytes\": %lld, \"seconds\": %.6f, \"server_cpu_us\": %.1f, "
        "\"client_cpu_us\": %.1f}\n",
        static_cast<long long>(requests_), static_cast<long long>(bytes),
        static_cast<double>(elapsed) / 1e9,
        static_cast<double>(ProcessCpuNs(FLAGS_server_pid) - server_before) / 1e3,
        static_cast<double>(ProcessCpuNs(0) - client_before) / 1e3);
  }

 private:
  // Goes on until `wanted` payload bytes were moved; returns how many were.
  int64_t Measure(int64_t wanted) {
    int64_t bytes = 0;
    while (bytes < wanted) {
      for (Stream& s : streams_) {
        bytes += Receive(s);
        Send(s);
        ++requests_;
      }
    }
    return bytes;
  }

  static void PrepareProduce(Stream& s, int partition, const std::string& batch) {
    Bytes content;
    content.Int16(0).Int16(7).Int32(partition).String("bench").Int16(-1).Int16(FLAGS_acks);
    content.Int32(30000).Int32(1).String(FLAGS_topic).Int32(1).Int32(partition);
    content.Int32(static_cast<int64_t>(batch.size())).Raw(batch);
    s.request = Frame(content);
  }

  void Send(Stream& s) {
    if (FLAGS_mode == "fetch") {
      Bytes content;
      content.Int16(1).Int16(12).Int32(1).String("bench").Unsigned(0);
      content.Int32(-1).Int32(0).Int32(1).Int32(FLAGS_fetch_bytes).Int8(0).Int32(0).Int32(-1);
      content.Unsigned(2).CompactString(FLAGS_topic).Unsigned(2);
      content.Int32(0).Int32(-1).Int64(s.position).Int32(-1).Int64(-1).Int32(FLAGS_fetch_bytes);
      content.Unsigned(0).Unsigned(0).Unsigned(1).CompactString("").Unsigned(0);
      s.request = Frame(content);
    } else if (FLAGS_mode == "ranges") {
      if (s.position + FLAGS_fetch_bytes > FLAGS_file_bytes) s.position = 0;
      s.request = Frame(Bytes().Int64(s.position).Int32(FLAGS_fetch_bytes));
      s.position += FLAGS_fetch_bytes;
    }
    WriteAll(s.fd, s.request.data(), s.request.size());
  }

  // Reads one answer; returns the payload bytes it moved.
  int64_t Receive(Stream& s) {
    char length[4];
    if (!ReadAll(s.fd, length, sizeof(length))) Die("the server closed a connection");
    s.answer.resize(GetInt32(length));
    if (!ReadAll(s.fd, s.answer.data(), s.answer.size())) Die("the server closed a connection");
    if (FLAGS_mode == "produce") return OnProduced(s);
    return FLAGS_mode == "fetch" ? OnFetched(s) : static_cast<int64_t>(s.answer.size()) - 76;
  }

  int64_t OnProduced(const Stream& s) {
    // correlation id, topics, name, partitions, index, then the error.
    const char* at = s.answer.data() + 4 + 4 + 2 + FLAGS_topic.size() + 4 + 4;
    const int error = static_cast<int16_t>(GetInt32(at) >> 16);
    if (error != 0) Refused("produce", error);
    return batch_bytes_;
  }

  static int64_t OnFetched(Stream& s) {
    // correlation id, tags, throttle time, error, session, topics, name, partitions, index, error,
    // high watermark, last stable offset, log start, aborted, preferred replica, then the records.
    const char* at = s.answer.data() + 4 + 1 + 4;
    const int error = static_cast<int16_t>(GetInt32(at) >> 16);
    if (error != 0) Refused("fetch", error);
    at += 2 + 4 + 1 + 1 + FLAGS_topic.size() + 1 + 4;
    const int partition_error = static_cast<int16_t>(GetInt32(at) >> 16);
    if (partition_error != 0) Refused("fetch of the partition", partition_error);
    at += 2 + 8 + 8 + 8 + 1 + 4;
    uint64_t size = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(*at++);
      size |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    const int64_t bytes = size == 0 ? 0 : static_cast<int64_t>(size) - 1;
    if (bytes == 0) {  // The end of the log: from its start again.
      if (s.position == 0) Refused("fetch of an empty partition", 0);
      s.position = 0;
      return 0;
    }
    for (const char* end = at + bytes; end - at >= 61;) {
      const int64_t base = static_cast<int64_t>(GetInt32(at)) << 32 | GetInt32(at + 4);
      const int64_t total = static_cast<int64_t>(GetInt32(at + 8)) + 12;
      if (end - at < total) break;
      s.position = base + GetInt32(at + 23) + 1;
      at += total;
    }
    return bytes;
  }

  std::vector<Stream> streams_;
  int64_t batch_bytes_ = 0;
  int64_t requests_ = 0;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::Load().Run();
}
