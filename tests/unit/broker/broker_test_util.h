// A whole broker without threads and sockets: a disk in memory whose syncs are
// carried out when the test says, a clock that stands still, and requests that
// go in as a client's bytes and come out as the bytes a client would read.
#ifndef GYRE_TESTS_UNIT_BROKER_BROKER_TEST_UTIL_H_
#define GYRE_TESTS_UNIT_BROKER_BROKER_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/broker/broker.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_handler_pool.h"
#include "engine/network/request/request_run.h"
#include "engine/timer/timer.h"
#include "gtest/gtest.h"
#include "proto/create_topics.h"
#include "proto/frame.h"
#include "proto/produce.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"
#include "tests/unit/storage/storage_test_util.h"

namespace gyre {

// One request on its way, and what came back.
class Exchange {
 public:
  bool answered() const { return request_.ready; }
  ResponseKind kind() { return request_.response_kind(); }
  const char* close_reason() const { return request_.close_reason(); }
  // The response's bytes, files read in.
  const std::string& bytes() const { return bytes_; }

  // Decodes the whole response; fails the test if it is none of that type.
  template <typename Response>
  Response As(int16_t version) {
    Response response;
    EXPECT_TRUE(answered());
    EXPECT_EQ(kind(), ResponseKind::kSend);
    wire::Reader reader(bytes_);
    EXPECT_EQ(static_cast<size_t>(reader.ReadInt32()), bytes_.size() - 4);
    proto::ResponseHeader header;
    EXPECT_TRUE(proto::DecodeResponseHeader(reader, Response::kApiKey, version, header));
    EXPECT_EQ(header.correlation_id, kCorrelationId);
    EXPECT_TRUE(response.Decode(reader, version));
    EXPECT_EQ(reader.remaining(), 0u);
    return response;
  }

  static constexpr int32_t kCorrelationId = 77;

 private:
  friend class TestBroker;

  void Collect() {
    for (const NetworkSend::Part& part : request_.response().parts()) {
      if (const Buffer* buffer = std::get_if<Buffer>(&part)) {
        bytes_.append(buffer->data(), buffer->size_bytes());
        continue;
      }
      const FileSlice& slice = std::get<FileSlice>(part);
      std::string range(static_cast<size_t>(slice.size_bytes), '\0');
      EXPECT_TRUE(slice.file->ReadExactly(slice.position, range.data(), range.size()).ok());
      bytes_ += range;
    }
    request_.ReleaseResponse();
  }

  ConnectionRequest request_;
  std::string bytes_;
};

class TestBroker : public ResponseSink {
 public:
  TestBroker() : memory_(MemoryPool::kUnbounded), timer_(clock), channel_(16, clock, memory_) {
    listener.advertised_host = "127.0.0.1";
    listener.advertised_port = 9092;
    session.listener = &listener;
    options.log_dir = "/data";
    options.seed = 42;
    options.recovery_thread_count = 0;
    options.file_system = &disk;
    options.file_io = &file_io;
    options.clock = &clock;
    options.timer = &timer_;
    options.lane = &channel_;
    options.response_allocator = &BufferAllocator::Heap();
    file_io.set_immediate(true);
  }
  ~TestBroker() { Crash(); }

  absl::Status Open() {
    absl::StatusOr<std::unique_ptr<Broker>> opened = Broker::Open(options);
    if (!opened.ok()) return opened.status();
    broker = *std::move(opened);
    const absl::Status registered =
        broker->Register({{"PLAINTEXT", listener.advertised_host, 9092, 0}});
    Pump();
    return registered;
  }
  // Ends the process: nothing is written any more.
  void Crash() {
    if (broker == nullptr) return;
    broker->DropDelayed();
    Pump();
    file_io.RunAll();
    Pump();
    broker.reset();
  }
  absl::Status Close() {
    const absl::Status closed = broker->Close();
    Pump();
    broker.reset();
    return closed;
  }

  // Runs what handlers would run, until nothing is left.
  void Pump() {
    while (Continuation* continuation = channel_.TryTakeContinuation()) {
      continuation->run(continuation);
    }
  }
  void AdvanceMs(int64_t ms) {
    clock.AdvanceMs(ms);
    while (timer_.RunOnce(clock.NowNs())) {
    }
    Pump();
  }

  // Starts a request that is given as a frame without its length.
  std::shared_ptr<Exchange> SendFrame(absl::string_view frame) {
    auto exchange = std::make_shared<Exchange>();
    ConnectionRequest& request = exchange->request_;
    request.Fill(&channel_, this, &session, 0, 0, Buffer::CopyOf(frame), 0, clock.NowNs());
    request.run.first = &request;
    request.run.sink = this;
    request.run.count = 1;
    in_flight_.push_back(exchange);
    HandlerTurn turn;
    HandlerWorker::StartRun(&request.run, broker->request_handler(), clock, turn);
    Pump();
    return exchange;
  }
  template <typename Message>
  std::shared_ptr<Exchange> Send(const Message& message, int16_t version) {
    std::string bytes(proto::RequestSize(message, "test", version), '\0');
    wire::Writer writer(bytes.data(), bytes.size());
    proto::EncodeRequest(writer, message, "test", Exchange::kCorrelationId, version);
    return SendFrame(absl::string_view(bytes).substr(proto::kFrameSizePrefix));
  }
  // The exchange stays alive as long as this object: responses point into it.
  template <typename Message>
  typename Message::Response Call(const Message& message, int16_t version) {
    exchanges_.push_back(Send(message, version));
    return exchanges_.back()->template As<typename Message::Response>(version);
  }

  ErrorCode CreateTopic(absl::string_view name, int32_t partitions = 1,
                        const TopicConfigOverrides& configs = {}) {
    proto::CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = partitions;
    topic.replication_factor = 1;
    for (const auto& [key, value] : configs) {
      topic.configs.push_back({.name = key, .value = absl::string_view(value)});
    }
    return Call(request, 7).topics.at(0).error_code;
  }
  static proto::ProduceRequest MakeProduce(absl::string_view topic, absl::string_view records,
                                           int16_t acks = -1, int32_t partition = 0) {
    proto::ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 1000;
    auto& data = request.topic_data.emplace_back();
    data.name = topic;
    data.partition_data.push_back({.index = partition, .records = records});
    return request;
  }
  proto::ProduceResponse::Partition Produce(absl::string_view topic, absl::string_view records,
                                            int16_t acks = -1, int16_t version = 9) {
    return Call(MakeProduce(topic, records, acks), version)
        .responses.at(0)
        .partition_responses.at(0);
  }

  // ResponseSink.
  void EnqueueResponse(ConnectionRequest* request) override {
    for (const std::shared_ptr<Exchange>& waiting : in_flight_) {
      const std::shared_ptr<Exchange> exchange = waiting;
      if (&exchange->request_ != request) continue;
      request->ready = true;
      // What a processor does with an answer.
      if (auto software = request->TakeClientSoftware()) session.software = std::move(software);
      exchange->Collect();
      std::erase(in_flight_, exchange);
      return;
    }
    FAIL() << "an answer to no request, or a second one";
  }
  void EnqueueThrottle(ThrottleSignal*) override {}
  void EnqueueRunStarted(RequestRun*) override {}
  void EnqueueRoom(int) override {}

  FaultInjectingFileSystem disk{1};
  ManualFileIo file_io;
  ManualClock clock{0, kTestNow};
  Listener listener;
  Session session;
  BrokerOptions options;
  std::unique_ptr<Broker> broker;

 private:
  MemoryPool memory_;
  Timer timer_;
  RequestChannel channel_;
  // Kept until they are answered, whether or not the test still looks.
  std::vector<std::shared_ptr<Exchange>> in_flight_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

// A broker that has started.
class BrokerTest : public ::testing::Test, public TestBroker {
 protected:
  void SetUp() override { ASSERT_TRUE(Open().ok()); }
};

}  // namespace gyre

#endif  // GYRE_TESTS_UNIT_BROKER_BROKER_TEST_UTIL_H_
