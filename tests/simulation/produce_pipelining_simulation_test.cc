// A producer that sends ahead, to a broker on simulated rings and a simulated disk:
// with one and with several requests in flight, many seeds. Checked: each partition
// holds the batches in the order in which they were sent, whatever acks they asked
// for, and the answers come in that order; and what several in flight are for: they
// share syncs.
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/record/batch_builder.h"
#include "engine/record/record.h"
#include "engine/record/record_batch.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "proto/create_topics.h"
#include "proto/fetch.h"
#include "proto/produce.h"
#include "tests/simulation/sim_broker.h"
#include "tests/simulation/sim_client.h"
#include "tests/simulation/sim_seeds.h"

namespace gyre::sim {
namespace {

constexpr uint16_t kPort = 9092;
constexpr char kTopic[] = "t";
constexpr int16_t kVersion = 9;
constexpr int kBatches = 30;

// Sends every request without waiting for an answer.
class AheadProducer {
 public:
  AheadProducer(SimNetwork& network, const std::vector<int16_t>& acks, int32_t partitions)
      : network_(network), fd_(network.Connect(kPort)) {
    for (int32_t i = 0; i < static_cast<int32_t>(acks.size()); ++i) {
      BatchBuilder builder;
      builder.Add(1'700'000'000'000, std::nullopt, absl::StrCat(i));
      const std::string batch = builder.Build();
      proto::ProduceRequest request;
      request.acks = acks[static_cast<size_t>(i)];
      request.timeout_ms = 60'000;
      auto& topic = request.topic_data.emplace_back();
      topic.name = kTopic;
      topic.partition_data.push_back(
          {.index = i % partitions, .records = wire::RecordsView(batch)});
      std::string bytes(proto::RequestSize(request, "sim", kVersion), '\0');
      wire::Writer writer(bytes.data(), bytes.size());
      proto::EncodeRequest(writer, request, "sim", i, kVersion);
      outgoing_ += bytes;
      if (request.acks != 0) expected_.push_back(i);
    }
  }
  ~AheadProducer() { network_.Close(fd_); }

  bool done() const { return outgoing_.empty() && expected_.empty(); }

  bool Step() {
    bool moved = false;
    if (!outgoing_.empty()) {
      const IoResult sent = network_.Send(fd_, outgoing_);
      if (sent.bytes() > 0) outgoing_.erase(0, static_cast<size_t>(sent.bytes()));
      moved = sent.bytes() > 0;
    }
    char chunk[300];
    const IoResult received = network_.Receive(fd_, chunk, sizeof(chunk));
    if (received.bytes() == 0) return moved;
    incoming_.append(chunk, static_cast<size_t>(received.bytes()));
    while (incoming_.size() >= 4) {
      const auto size = static_cast<size_t>(LoadBigEndian<int32_t>(incoming_.data()));
      if (incoming_.size() < 4 + size) break;
      OnAnswer(absl::string_view(incoming_).substr(4, size));
      incoming_.erase(0, 4 + size);
    }
    return true;
  }

 private:
  void OnAnswer(absl::string_view frame) {
    wire::Reader reader(frame);
    proto::ResponseHeader header;
    proto::ProduceResponse response;
    ASSERT_TRUE(proto::DecodeResponseHeader(reader, ApiKey::kProduce, kVersion, header));
    ASSERT_TRUE(response.Decode(reader, kVersion));
    ASSERT_FALSE(expected_.empty());
    EXPECT_EQ(header.correlation_id, expected_.front()) << "an answer out of order";
    expected_.pop_front();
    EXPECT_EQ(response.responses.at(0).partition_responses.at(0).error_code, ErrorCode::kNone);
  }

  SimNetwork& network_;
  const int fd_;
  std::string outgoing_;
  std::string incoming_;
  std::deque<int32_t> expected_;
};

class World {
 public:
  World(uint64_t seed, int32_t in_flight)
      : random_(seed),
        network_(random_.Next(), {}),
        disk_(random_.Next()),
        scheduler_(random_.Next(), clock_),
        broker_(random_.Next(), kPort, 1 << 20, FlushMode::kGroup, clock_, network_, disk_,
                scheduler_) {
    broker_.set_max_in_flight(in_flight);
    CHECK(broker_.Start().ok());
    scheduler_.Add("wire", [this] { return network_.RunOnce(); });
    scheduler_.Add("wire", [this] { return network_.RunOnce(); });
    scheduler_.Add("client", [this] {
      if (client_ == nullptr || !client_->waiting()) return false;
      return client_->Step() != SimClient::Event::kIdle;
    });
    scheduler_.Add("producer", [this] { return producer_ != nullptr && producer_->Step(); });
  }
  ~World() { broker_.Crash(PowerLossMode::kKeepEverything); }

  void CreateTopic(int32_t partitions) {
    proto::CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = kTopic;
    topic.num_partitions = partitions;
    topic.replication_factor = 1;
    Ask(request, 5);
  }

  // Returns when every answer that is due is here.
  void Produce(const std::vector<int16_t>& acks, int32_t partitions) {
    producer_ = std::make_unique<AheadProducer>(network_, acks, partitions);
    EXPECT_TRUE(scheduler_.RunUntil([this] { return producer_->done(); }, 4'000'000)) << "hangs";
    producer_.reset();
  }

  // The values of a partition from its beginning, once there are `count`.
  std::string Values(int32_t partition, int count) {
    std::string values;
    for (int64_t offset = 0; offset < count;) {
      proto::FetchRequest request;
      request.max_bytes = 1 << 20;
      auto& topic = request.topics.emplace_back();
      topic.topic = kTopic;
      topic.partitions.push_back(
          {.partition = partition, .fetch_offset = offset, .partition_max_bytes = 1 << 20});
      Ask(request, 12);
      proto::FetchResponse response;
      if (!client_->Decode(12, &response)) return "malformed";
      absl::string_view bytes = response.responses.at(0).partitions.at(0).records.bytes();
      while (!bytes.empty()) {
        const RecordBatchView batch(bytes);
        RecordReader records(batch, batch.payload());
        Record record;
        while (records.Next(&record)) absl::StrAppend(&values, *record.value, " ");
        offset = batch.last_offset() + 1;
        bytes.remove_prefix(static_cast<size_t>(batch.size_bytes()));
      }
    }
    return values;
  }

  uint64_t sync_count() const { return disk_.sync_count(); }

 private:
  template <typename Message>
  void Ask(const Message& request, int16_t version) {
    if (client_ == nullptr) {
      client_ = std::make_unique<SimClient>(network_, kPort);
      EXPECT_TRUE(client_->Connect());
    }
    client_->Ask(request, version);
    EXPECT_TRUE(scheduler_.RunUntil([this] { return !client_->waiting(); }, 1'000'000)) << "hangs";
  }

  Random random_;
  ManualClock clock_;
  SimNetwork network_;
  FaultInjectingFileSystem disk_;
  SimScheduler scheduler_;
  SimBroker broker_;
  std::unique_ptr<SimClient> client_;
  std::unique_ptr<AheadProducer> producer_;
};

TEST(ProducePipeliningSimulationTest, EachPartitionHoldsTheBatchesInTheOrderTheyWereSent) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  ForEachSeed(0, 40, [](uint64_t seed) {
    Random random(seed);
    const auto in_flight = static_cast<int32_t>(random.Between(1, 8));
    const auto partitions = static_cast<int32_t>(random.Between(1, 3));
    // The last one makes the others visible: consumers see synced records only.
    std::vector<int16_t> acks;
    for (int i = 0; i < kBatches; ++i) {
      acks.push_back(i + partitions >= kBatches ? -1 : static_cast<int16_t>(random.Between(-1, 1)));
    }
    World world(seed, in_flight);
    world.CreateTopic(partitions);
    world.Produce(acks, partitions);
    for (int32_t partition = 0; partition < partitions; ++partition) {
      std::string sent;
      int count = 0;
      for (int i = partition; i < kBatches; i += partitions, ++count) {
        absl::StrAppend(&sent, i, " ");
      }
      EXPECT_EQ(world.Values(partition, count), sent) << "partition " << partition;
    }
  });
}

TEST(ProducePipeliningSimulationTest, SeveralInFlightShareTheirSyncs) {
  FLAGS_minloglevel = google::GLOG_ERROR;
  const auto syncs_of = [](int32_t in_flight) {
    uint64_t syncs = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      World world(seed, in_flight);
      world.CreateTopic(1);
      const uint64_t before = world.sync_count();
      world.Produce(std::vector<int16_t>(kBatches, -1), 1);
      syncs += world.sync_count() - before;
    }
    return syncs;
  };
  const uint64_t one = syncs_of(1), five = syncs_of(5);
  std::printf("syncs for the same batches: %llu with one in flight, %llu with five\n",
              static_cast<unsigned long long>(one), static_cast<unsigned long long>(five));
  EXPECT_EQ(one, uint64_t{10 * kBatches}) << "one sync for each answer";
  EXPECT_LT(5 * five, 4 * one);
}

}  // namespace
}  // namespace gyre::sim
