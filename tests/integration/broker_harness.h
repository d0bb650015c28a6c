// A broker in this process, on real rings, sockets and files, and a client that
// speaks to it with the generated codec.
#ifndef GYRE_TESTS_INTEGRATION_BROKER_HARNESS_H_
#define GYRE_TESTS_INTEGRATION_BROKER_HARNESS_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/unique_fd.h"
#include "engine/fs/file_system.h"
#include "engine/record/batch_builder.h"
#include "gtest/gtest.h"
#include "proto/create_topics.h"
#include "proto/fetch.h"
#include "proto/frame.h"
#include "proto/produce.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"
#include "tools/gyred/broker_server.h"

namespace gyre {

// One blocking connection. Responses point into bytes that stay until the next
// receive.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const timeval limit = {20, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }

  bool connected() const { return connected_; }

  bool SendBytes(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  template <typename Message>
  bool Send(const Message& message, int16_t version, int32_t correlation_id = 1) {
    std::string bytes(proto::RequestSize(message, "test", version), '\0');
    wire::Writer writer(bytes.data(), bytes.size());
    proto::EncodeRequest(writer, message, "test", correlation_id, version);
    return SendBytes(bytes);
  }

  // The next frame without its length; false when the connection ended.
  bool Receive() {
    std::string size(4, '\0');
    if (!ReadExactly(size)) return false;
    frame_.resize(static_cast<size_t>(wire::Reader(size).ReadInt32()));
    return ReadExactly(frame_);
  }
  const std::string& frame() const { return frame_; }
  template <typename Response>
  Response As(int16_t version, int32_t correlation_id = 1) {
    Response response;
    wire::Reader reader(frame_);
    proto::ResponseHeader header;
    EXPECT_TRUE(proto::DecodeResponseHeader(reader, Response::kApiKey, version, header));
    EXPECT_EQ(header.correlation_id, correlation_id);
    EXPECT_TRUE(response.Decode(reader, version));
    EXPECT_EQ(reader.remaining(), 0u);
    return response;
  }
  template <typename Message>
  typename Message::Response Call(const Message& message, int16_t version) {
    EXPECT_TRUE(Send(message, version));
    EXPECT_TRUE(Receive()) << "the connection ended";
    return As<typename Message::Response>(version);
  }

  // True when the peer has closed: nothing but an end comes.
  bool IsClosedByPeer() {
    char byte;
    return Receive(&byte, 1) <= 0;
  }
  // Ends the connection with a RST.
  void Reset() {
    const linger hard = {1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    socket_.Reset();
  }
  bool HasBytesWithin(int timeout_ms) {
    pollfd poll = {socket_.get(), POLLIN, 0};
    int ready = 0;
    do {
      ready = ::poll(&poll, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
  }

  // --- What most tests do.
  ErrorCode CreateTopic(absl::string_view name, int32_t partitions = 1) {
    proto::CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = partitions;
    topic.replication_factor = 1;
    return Call(request, 5).topics.at(0).error_code;
  }
  static std::string Batch(absl::string_view value, int count = 1) {
    BatchBuilder builder;
    for (int i = 0; i < count; ++i) builder.Add(1'700'000'000'000, "key", value);
    return builder.Build();
  }
  static proto::ProduceRequest MakeProduce(absl::string_view topic, absl::string_view records,
                                           int16_t acks = -1) {
    proto::ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 10'000;
    auto& data = request.topic_data.emplace_back();
    data.name = topic;
    data.partition_data.emplace_back().records = records;
    return request;
  }
  // The base offset; -1 on an error.
  int64_t Produce(absl::string_view topic, absl::string_view records, int16_t acks = -1) {
    return Call(MakeProduce(topic, records, acks), 9)
        .responses.at(0)
        .partition_responses.at(0)
        .base_offset;
  }
  static proto::FetchRequest MakeFetch(absl::string_view topic, int64_t offset,
                                       int32_t max_wait_ms = 0) {
    proto::FetchRequest request;
    request.max_wait_ms = max_wait_ms;
    request.min_bytes = 1;
    request.max_bytes = 50 << 20;
    auto& wanted = request.topics.emplace_back();
    wanted.topic = topic;
    wanted.partitions.push_back(
        {.partition = 0, .fetch_offset = offset, .partition_max_bytes = 50 << 20});
    return request;
  }
  // The bytes of the records from `offset` on.
  std::string Fetch(absl::string_view topic, int64_t offset) {
    const auto response = Call(MakeFetch(topic, offset), 12);
    return std::string(response.responses.at(0).partitions.at(0).records.bytes());
  }

 private:
  // Rings of the same process interrupt the threads that made them.
  ssize_t Receive(char* to, size_t size_bytes) {
    ssize_t got = 0;
    do {
      got = ::recv(socket_.get(), to, size_bytes, 0);
    } while (got < 0 && errno == EINTR);
    return got;
  }
  bool ReadExactly(std::string& to) {
    size_t done = 0;
    while (done < to.size()) {
      const ssize_t got = Receive(to.data() + done, to.size() - done);
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }

  UniqueFd socket_;
  bool connected_ = false;
  std::string frame_;
};

// A broker whose data directory outlives its restarts.
class BrokerHarness {
 public:
  BrokerHarness() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/gyreXXXXXX");
    directory_ = ::mkdtemp(pattern.data());
    options.log_dir = absl::StrCat(directory_, "/data");
    options.network.num_network_threads = 2;
    options.network.num_io_threads = 2;
    options.network.listeners.emplace_back().endpoint = {"PLAINTEXT", "127.0.0.1", 0};
    options.drain_timeout_ms = 10'000;
  }
  ~BrokerHarness() {
    server.reset();
    FileSystem::Real().RemoveRecursively(directory_).IgnoreError();
  }

  absl::Status Start() {
    options.seed += 1;
    server = std::make_unique<BrokerServer>(options);
    return server->Start();
  }
  absl::Status Stop() {
    const absl::Status status = server->Stop();
    server.reset();
    return status;
  }
  // As a crash of the process.
  void Abandon() { server.reset(); }

  Client Connect() { return Client(port()); }
  uint16_t port() const { return server->bound_endpoints().at(0).port; }

  BrokerServerOptions options;
  std::unique_ptr<BrokerServer> server;

 private:
  std::string directory_;
};

}  // namespace gyre

#endif  // GYRE_TESTS_INTEGRATION_BROKER_HARNESS_H_
