// Two producers with acks=all and a consumer against a broker whose connections
// are reset and whose machine loses its power, in every way a disk can forget,
// under many seeds.
//
// Checked: a record that was acknowledged is in the log, at its offset, after
// every crash; what a consumer has seen is never taken back or changed; offsets
// have no gaps; each producer's records are in its order; what a crash leaves
// opens again; nothing hangs. And the check of the checks: with a disk whose
// sync is a lie, they fail.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
constexpr int32_t kPartitions = 2;
constexpr int16_t kProduceVersion = 9;
constexpr int16_t kFetchVersion = 12;
constexpr int16_t kCreateTopicsVersion = 5;
constexpr int16_t kAcksAll = -1;
constexpr int kBatchesPerProducer = 15;

// What went wrong; empty when nothing did.
using Violations = std::vector<std::string>;
// A partition's records by offset.
using Log = std::vector<std::string>;

struct Acknowledged {
  int32_t partition;
  int64_t base_offset;
  std::vector<std::string> values;
};

// Asks for the topic until it is there.
class Creator {
 public:
  explicit Creator(SimNetwork& network) : client_(network, kPort) {}
  bool done() const { return done_; }

  bool Step() {
    if (done_) return false;
    if (!client_.connected()) return client_.Connect();
    if (!client_.waiting()) {
      proto::CreateTopicsRequest request;
      auto& topic = request.topics.emplace_back();
      topic.name = kTopic;
      topic.num_partitions = kPartitions;
      topic.replication_factor = 1;
      client_.Ask(request, kCreateTopicsVersion);
      return true;
    }
    const SimClient::Event event = client_.Step();
    if (event != SimClient::Event::kAnswer) return event != SimClient::Event::kIdle;
    proto::CreateTopicsResponse response;
    if (client_.Decode(kCreateTopicsVersion, &response) && response.topics.size() == 1 &&
        (response.topics[0].error_code == ErrorCode::kNone ||
         response.topics[0].error_code == ErrorCode::kTopicAlreadyExists)) {
      done_ = true;
      client_.Close();
    }
    return true;
  }

 private:
  SimClient client_;
  bool done_ = false;
};

class Producer {
 public:
  Producer(int id, uint64_t seed, SimNetwork& network, const Clock& clock, Violations& violations)
      : id_(id), random_(seed), client_(network, kPort), clock_(clock), violations_(violations) {}

  bool done() const { return batches_left_ == 0 && pending_.values.empty(); }
  const std::vector<Acknowledged>& acknowledged() const { return acknowledged_; }
  int attempts() const { return attempts_; }

  bool Step() {
    if (done()) return false;
    if (!client_.connected()) return client_.Connect();
    if (!client_.waiting()) {
      Ask();
      return true;
    }
    const SimClient::Event event = client_.Step();
    if (event == SimClient::Event::kAnswer) OnAnswer();
    return event != SimClient::Event::kIdle;
  }

 private:
  // The batch of the last try again, unless that was acknowledged.
  void Ask() {
    if (pending_.values.empty()) {
      --batches_left_;
      pending_.partition = static_cast<int32_t>(random_.Below(kPartitions));
      for (uint64_t i = 1 + random_.Below(3); i > 0; --i) {
        pending_.values.push_back(
            absl::StrCat(id_, ":", next_sequence_++, ":", std::string(random_.Below(120), 'x')));
      }
    }
    ++attempts_;
    BatchBuilder builder;
    for (const std::string& value : pending_.values) {
      builder.Add(clock_.WallTimeMs(), std::nullopt, value);
    }
    const std::string batch = builder.Build();
    proto::ProduceRequest request;
    request.acks = kAcksAll;
    request.timeout_ms = 30'000;
    auto& topic = request.topic_data.emplace_back();
    topic.name = kTopic;
    auto& partition = topic.partition_data.emplace_back();
    partition.index = pending_.partition;
    partition.records = wire::RecordsView(batch);
    client_.Ask(request, kProduceVersion);
  }

  void OnAnswer() {
    proto::ProduceResponse response;
    if (!client_.Decode(kProduceVersion, &response) || response.responses.size() != 1 ||
        response.responses[0].partition_responses.size() != 1) {
      violations_.push_back("a malformed Produce response");
      pending_.values.clear();
      return;
    }
    const auto& partition = response.responses[0].partition_responses[0];
    if (partition.error_code != ErrorCode::kNone) return;  // tried again
    pending_.base_offset = partition.base_offset;
    acknowledged_.push_back(std::exchange(pending_, {}));
  }

  const int id_;
  Random random_;
  SimClient client_;
  const Clock& clock_;
  Violations& violations_;
  int batches_left_ = kBatchesPerProducer;
  int next_sequence_ = 0;
  int attempts_ = 0;
  Acknowledged pending_;
  std::vector<Acknowledged> acknowledged_;
};

// Reads both partitions from the start, on and on.
class Consumer {
 public:
  Consumer(uint64_t seed, SimNetwork& network, Violations& violations)
      : random_(seed), client_(network, kPort), violations_(violations), logs_(kPartitions) {}

  const std::vector<Log>& logs() const { return logs_; }
  // True when the last answer for each partition had nothing beyond what was read.
  bool at_end() const { return at_end_[0] && at_end_[1]; }

  bool Step() {
    if (!client_.connected()) return client_.Connect();
    if (!client_.waiting()) {
      Ask();
      return true;
    }
    const SimClient::Event event = client_.Step();
    if (event == SimClient::Event::kAnswer) OnAnswer();
    return event != SimClient::Event::kIdle;
  }

 private:
  void Ask() {
    proto::FetchRequest request;
    request.max_wait_ms = static_cast<int32_t>(random_.Below(20));
    request.min_bytes = static_cast<int32_t>(random_.Below(300));
    request.max_bytes = 1 << 20;
    auto& topic = request.topics.emplace_back();
    topic.topic = kTopic;
    for (int32_t index = 0; index < kPartitions; ++index) {
      auto& partition = topic.partitions.emplace_back();
      partition.partition = index;
      partition.fetch_offset = static_cast<int64_t>(logs_[static_cast<size_t>(index)].size());
      partition.partition_max_bytes = static_cast<int32_t>(1 + random_.Below(3'000));
    }
    client_.Ask(request, kFetchVersion);
  }

  void OnAnswer() {
    proto::FetchResponse response;
    if (!client_.Decode(kFetchVersion, &response)) {
      violations_.push_back("a malformed Fetch response");
      return;
    }
    for (const auto& topic : response.responses) {
      for (const auto& partition : topic.partitions) OnPartition(partition);
    }
  }

  void OnPartition(const proto::FetchResponse::Partition& partition) {
    const auto index = static_cast<size_t>(partition.partition_index);
    Log& log = logs_[index];
    at_end_[index] = false;
    if (partition.error_code == ErrorCode::kOffsetOutOfRange) {
      violations_.push_back(
          absl::StrCat("partition ", index, " has lost what was consumed at ", log.size() - 1));
      return;
    }
    if (partition.error_code != ErrorCode::kNone) return;
    if (partition.high_watermark < static_cast<int64_t>(log.size())) {
      violations_.push_back(absl::StrCat("partition ", index, " ends at ", partition.high_watermark,
                                         ", but ", log.size(), " records were consumed"));
    }
    absl::string_view bytes = partition.records.bytes();
    while (!bytes.empty()) {
      const BatchShape shape = CheckBatchShape(bytes);
      // Cut by partition_max_bytes, as it may be.
      if (shape == BatchShape::kTooShort || shape == BatchShape::kIncomplete) break;
      const RecordBatchView batch(bytes);
      const absl::string_view whole = bytes.substr(0, static_cast<size_t>(batch.size_bytes()));
      if (shape != BatchShape::kOk || ComputeBatchCrc(whole) != batch.crc()) {
        violations_.push_back(absl::StrCat("a damaged batch in partition ", index));
        return;
      }
      ReadBatch(batch, index);
      bytes.remove_prefix(whole.size());
    }
    at_end_[index] = partition.high_watermark == static_cast<int64_t>(log.size());
  }

  void ReadBatch(const RecordBatchView& batch, size_t index) {
    Log& log = logs_[index];
    RecordReader reader(batch, batch.payload());
    Record record;
    while (reader.Next(&record)) {
      // A fetch inside a batch gives the batch from its start.
      if (record.offset < static_cast<int64_t>(log.size())) continue;
      if (record.offset != static_cast<int64_t>(log.size())) {
        violations_.push_back(absl::StrCat("partition ", index, ": offset ", record.offset,
                                           " follows ", log.size() - 1));
        return;
      }
      log.emplace_back(*record.value);
    }
  }

  Random random_;
  SimClient client_;
  Violations& violations_;
  std::vector<Log> logs_;
  bool at_end_[kPartitions] = {};
};

// The first appearances of each producer's records are in its order. (Without
// idempotence a lost answer makes duplicates.)
void CheckOrder(const Log& log, Violations& violations) {
  std::map<int, std::set<int>> seen;
  for (const std::string& value : log) {
    const std::vector<std::string> fields = absl::StrSplit(value, ':');
    int producer = 0;
    int sequence = 0;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &producer) ||
        !absl::SimpleAtoi(fields[1], &sequence)) {
      violations.push_back("a record nobody produced");
      return;
    }
    std::set<int>& sequences = seen[producer];
    if (!sequences.insert(sequence).second) continue;
    if (*sequences.rbegin() != sequence) {
      violations.push_back(absl::StrCat("record ", producer, ":", sequence, " first appears after ",
                                        *sequences.rbegin()));
    }
  }
}

struct Totals {
  int seeds = 0;
  int crashes = 0;
  int clean_stops = 0;
  int acknowledged = 0;
  int attempts = 0;
  uint64_t steps = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed, bool sync_is_a_lie)
      : random_(seed),
        network_(random_.Next(), {.socket_buffer_bytes = 512u << random_.Below(4)}),
        disk_(random_.Next()),
        scheduler_(random_.Next(), clock_),
        broker_(random_.Next(), kPort, 500 + static_cast<int64_t>(random_.Below(3'000)),
                FlushMode::kGroup, clock_, network_, disk_, scheduler_),
        creator_(network_),
        consumer_(random_.Next(), network_, violations_) {
    disk_.SetSyncDisabled(sync_is_a_lie);
    if (random_.OneIn(4)) disk_.SetShortIoOneIn(8);
    EXPECT_TRUE(disk_.CreateDirectory(SimBroker::kLogDir).ok());
    EXPECT_TRUE(disk_.SyncDirectory("/").ok());
    for (int id = 0; id < 2; ++id) {
      producers_.push_back(
          std::make_unique<Producer>(id, random_.Next(), network_, clock_, violations_));
    }
  }

  Violations Run(Totals* totals) {
    if (!StartBroker()) return violations_;
    // Each ends with a stop of one of many kinds.
    for (uint64_t lives = 1 + random_.Below(4); lives > 0 && violations_.empty(); --lives) {
      if (random_.OneIn(2)) broker_.ScheduleDiskPowerOff(1 + random_.Below(150));
      RunUntil([this] { return ProducersDone() || disk_.powered_off(); }, random_.Below(20'000));
      // The broker may run on for a while without its disk.
      if (disk_.powered_off()) scheduler_.RunUntil([] { return false; }, random_.Below(3'000));
      EndBroker(totals);
      if (!violations_.empty() || !StartBroker()) return violations_;
    }
    if (!RunUntil([this] { return ProducersDone(); }, 3'000'000)) {
      violations_.push_back("the producers hang");
    }
    if (!RunUntil([this] { return consumer_.at_end(); }, 1'000'000)) {
      violations_.push_back("the consumer hangs");
    }
    if (violations_.empty()) CheckLogs();
    totals->seeds += 1;
    totals->steps += scheduler_.steps();
    for (const auto& producer : producers_) {
      totals->acknowledged += static_cast<int>(producer->acknowledged().size());
      totals->attempts += producer->attempts();
    }
    return violations_;
  }

 private:
  // Ends early when something went wrong.
  bool RunUntil(const std::function<bool()>& done, uint64_t max_steps) {
    return scheduler_.RunUntil([&] { return !violations_.empty() || done(); }, max_steps);
  }
  bool ProducersDone() const { return producers_[0]->done() && producers_[1]->done(); }

  bool StartBroker() {
    scheduler_.Clear();
    const absl::Status started = broker_.Start();
    Trace("after a start");
    if (!started.ok()) {
      violations_.push_back(absl::StrCat("does not start: ", started.ToString()));
      return false;
    }
    scheduler_.Add("wire", [this] { return network_.RunOnce(); });
    scheduler_.Add("wire", [this] { return network_.RunOnce(); });
    scheduler_.Add("resets", [this] {
      if (random_.OneIn(2'000)) network_.ResetOne();
      return false;
    });
    scheduler_.Add("cache", [this] {
      disk_.SetResident(!random_.OneIn(3));
      return false;
    });
    scheduler_.Add("creator", [this] { return creator_.Step(); });
    for (const auto& producer : producers_) {
      scheduler_.Add("producer", [&producer, this] { return creator_.done() && producer->Step(); });
    }
    scheduler_.Add("consumer", [this] { return creator_.done() && consumer_.Step(); });
    return true;
  }

  // What is on the disk, for one who repeats a seed.
  void Trace(absl::string_view when) {
    if (std::getenv("SIMULATION_TRACE") == nullptr) return;
    std::string text =
        absl::StrCat("--- ", when, ", step ", scheduler_.steps(), ", consumed ",
                     consumer_.logs()[0].size(), " and ", consumer_.logs()[1].size(), "\n");
    const absl::StatusOr<std::vector<std::string>> names = disk_.List(SimBroker::kLogDir);
    for (const std::string& name : names.value_or(std::vector<std::string>())) {
      const std::string path = absl::StrCat(SimBroker::kLogDir, "/", name);
      absl::StrAppend(&text, path, ":");
      const absl::StatusOr<std::vector<std::string>> files = disk_.List(path);
      for (const std::string& file : files.value_or(std::vector<std::string>())) {
        const absl::StatusOr<std::string> content = disk_.ReadFile(absl::StrCat(path, "/", file));
        absl::StrAppend(&text, " ", file, "=", content.ok() ? content->size() : 0);
      }
      absl::StrAppend(&text, "\n");
    }
    std::fputs(text.c_str(), stderr);
  }

  void EndBroker(Totals* totals) {
    Trace(disk_.powered_off() ? "before the end, without disk" : "before the end");
    if (!disk_.powered_off() && random_.OneIn(4)) {
      ++totals->clean_stops;
      disk_.PowerOffAt(UINT64_MAX / 2);
      const absl::Status stopped = broker_.Stop();
      Trace("after a clean stop");
      if (!stopped.ok()) violations_.push_back(absl::StrCat("clean stop: ", stopped.ToString()));
      return;
    }
    ++totals->crashes;
    static constexpr PowerLossMode kModes[] = {
        PowerLossMode::kKeepEverything, PowerLossMode::kDropUnsynced, PowerLossMode::kKeepPrefix,
        PowerLossMode::kKeepSubset};
    const PowerLossMode mode = kModes[random_.Below(4)];
    broker_.Crash(mode);
    Trace(absl::StrCat("after a crash of mode ", static_cast<int>(mode)));
  }

  void CheckLogs() {
    // From the start again: this is what is really there.
    Consumer verifier(random_.Next(), network_, violations_);
    scheduler_.Add("verifier", [&verifier] { return verifier.Step(); });
    // A request whose answer was lost may still be on its way into the log.
    const bool same =
        RunUntil([&] { return verifier.at_end() && verifier.logs() == consumer_.logs(); }, 300'000);
    if (!same) violations_.push_back("what is there is not what was consumed");
    for (size_t index = 0; index < kPartitions; ++index) {
      const Log& log = verifier.logs()[index];
      CheckOrder(log, violations_);
    }
    for (const auto& producer : producers_) {
      for (const Acknowledged& batch : producer->acknowledged()) {
        CheckAcknowledged(batch, verifier.logs()[static_cast<size_t>(batch.partition)]);
      }
    }
  }

  void CheckAcknowledged(const Acknowledged& batch, const Log& log) {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const size_t offset = static_cast<size_t>(batch.base_offset) + i;
      if (offset >= log.size() || log[offset] != batch.values[i]) {
        violations_.push_back(absl::StrCat("acknowledged record ", batch.values[i].substr(0, 8),
                                           " is not at offset ", offset, " of partition ",
                                           batch.partition));
      }
    }
  }

  Random random_;
  ManualClock clock_;
  Violations violations_;
  SimNetwork network_;
  FaultInjectingFileSystem disk_;
  SimScheduler scheduler_;
  SimBroker broker_;
  Creator creator_;
  Consumer consumer_;
  std::vector<std::unique_ptr<Producer>> producers_;
};

class BrokerSimulationTest : public ::testing::Test {
 protected:
  BrokerSimulationTest() {
    // Failing disks are the point.
    if (std::getenv("SIMULATION_TRACE") == nullptr) FLAGS_minloglevel = google::GLOG_FATAL;
  }
};

// With SIMULATION_TRACE=1 a run tells what is on the disk at each stop.
TEST_F(BrokerSimulationTest, AcknowledgedAndConsumedRecordsSurviveEveryCrash) {
  Totals totals;
  ForEachSeed(0, 1'000, [&](uint64_t seed) {
    for (const std::string& violation : Simulation(seed, false).Run(&totals)) {
      ADD_FAILURE() << violation;
    }
  });
  std::printf(
      "%d seeds: %d crashes, %d clean stops, %d batches acknowledged in %d tries, "
      "%llu steps\n",
      totals.seeds, totals.crashes, totals.clean_stops, totals.acknowledged, totals.attempts,
      static_cast<unsigned long long>(totals.steps));
}

TEST_F(BrokerSimulationTest, WithASyncThatLiesTheChecksFail) {
  Totals totals;
  int found = 0;
  for (uint64_t seed = 0; seed < 30 && found < 5; ++seed) {
    if (!Simulation(seed, true).Run(&totals).empty()) ++found;
  }
  EXPECT_EQ(found, 5) << "of 30 seeds";
}

TEST_F(BrokerSimulationTest, TheSameSeedIsTheSameRun) {
  Totals first;
  Totals second;
  EXPECT_EQ(Simulation(5, false).Run(&first), Simulation(5, false).Run(&second));
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.attempts, second.attempts);
}

}  // namespace
}  // namespace gyre::sim
