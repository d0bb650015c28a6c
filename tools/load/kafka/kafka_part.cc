#include "tools/load/kafka/kafka_part.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "tools/load/kafka/kafka_load.h"
#include "tools/load/kafka/setup.h"
#include "tools/load/load_ring.h"

namespace gyre::load {
namespace {

constexpr int64_t kMaxWaitNs = 50'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<KafkaPart>> KafkaPart::Prepare(
    Part& part, const std::atomic<bool>& interrupted) {
  auto prepared = absl::WrapUnique(new KafkaPart(part));
  GYRE_RETURN_IF_ERROR(SetUpKafka(part, interrupted, &prepared->shared_));
  return prepared;
}

std::unique_ptr<ThreadLoad> KafkaPart::MakeLoad(int32_t thread) {
  auto load = std::make_unique<KafkaLoad>(part_, shared_, thread);
  loads_.push_back(load.get());
  return load;
}

void KafkaPart::SettleStreams(const std::vector<const Consumer*>& consumers,
                              PartResult* result) const {
  const size_t partition_count = shared_.cluster.leaders.size();
  const StreamCheck never_seen;
  for (const KafkaLoad* load : loads_) {
    for (const KafkaLoad::IndexedProducer& each : load->producers()) {
      for (const Consumer* consumer : consumers) {
        for (const PartitionReader& reader : consumer->readers()) {
          const auto partition = static_cast<size_t>(reader.partition());
          const auto stream =
              static_cast<uint32_t>(static_cast<size_t>(each.index) * partition_count + partition);
          const auto found = reader.streams().find({part_.run, stream});
          const StreamCheck& seen = found == reader.streams().end() ? never_seen : found->second;
          result->checks.Add(
              seen.Settle(each.producer->sent(reader.partition()), shared_.idempotent));
        }
      }
    }
  }
}

void KafkaPart::Settle(const std::atomic<bool>& interrupted, PartResult* result) {
  const Workload workload = part_.options.workload;
  result->idempotent = shared_.idempotent;
  result->notes.insert(result->notes.end(), shared_.notes.begin(), shared_.notes.end());
  if (part_.options.acks == 0 && workload == Workload::kProduce) {
    result->has_latency = false;
    result->notes.push_back("acks=0: nothing is answered, so there is no latency to measure");
  }
  if (workload == Workload::kConsume) {
    result->notes.push_back("the latency is a Fetch's: from its sending to its records");
  }
  if (workload == Workload::kProduce) {
    if (part_.options.verify && !interrupted) ReadBack(interrupted, result);
    return;
  }
  std::vector<const Consumer*> consumers;
  for (const KafkaLoad* load : loads_) {
    for (const auto& consumer : load->consumers()) consumers.push_back(consumer.get());
  }
  result->checked = true;
  for (const Consumer* consumer : consumers) {
    for (const PartitionReader& reader : consumer->readers()) {
      result->checks.corrupted += reader.corrupted_count();
      result->checks.foreign += reader.foreign_count();
      if (workload == Workload::kEndToEnd) continue;
      for (const auto& [key, stream] : reader.streams()) result->checks.Add(stream.SettleAlone());
    }
  }
  // Interrupted, what is not there may simply not have been read.
  if (workload == Workload::kEndToEnd && !interrupted) SettleStreams(consumers, result);
}

void KafkaPart::ReadBack(const std::atomic<bool>& interrupted, PartResult* result) {
  absl::StatusOr<std::unique_ptr<uring::Ring>> ring = MakeLoadRing(part_.options);
  if (!ring.ok()) {
    result->notes.push_back(absl::StrCat("not read back: ", ring.status().message()));
    result->unread_partitions = static_cast<int64_t>(shared_.cluster.leaders.size());
    return;
  }
  std::vector<int64_t> ends;
  std::vector<int32_t> partitions;
  for (size_t i = 0; i < shared_.cluster.leaders.size(); ++i) {
    ends.push_back(shared_.acknowledged_end[i].load(std::memory_order_relaxed));
    partitions.push_back(static_cast<int32_t>(i));
  }
  const Int32LengthPrefixed decoder(128 << 20);
  // The router is the client's, which needs the connector.
  struct Events final : ConnectorEvents {
    void OnConnected(ConnectionHandle c) override { router->OnConnected(c); }
    void OnFrame(ConnectionHandle c, absl::string_view p) override { router->OnFrame(c, p); }
    void OnClosed(ConnectionHandle c, const absl::Status& w) override { router->OnClosed(c, w); }
    ChannelRouter* router = nullptr;
  } events;
  ConnectorOptions connector_options;
  connector_options.connect_timeout_ns = part_.options.timeout_ns;
  Connector connector(**ring, *part_.clock, decoder, events, connector_options);
  if (!connector.Attach().ok()) return;
  KafkaClient client(part_, shared_, connector);
  events.router = &client.router();
  Consumer consumer(client, partitions, ConsumerMode::kVerify);
  consumer.Open();
  consumer.Start(nullptr);
  // With acks=0 nothing says where the end is: until nothing more comes.
  const bool to_the_end = part_.options.acks != 0;
  const int64_t patience_ns = to_the_end ? part_.options.timeout_ns : 1'000'000'000;
  int64_t progress = -1;
  int64_t progress_ns = 0;
  while (!interrupted.load(std::memory_order_relaxed)) {
    const int64_t now_ns = part_.clock->NowNs();
    if (consumer.progress() != progress) {
      progress = consumer.progress();
      progress_ns = now_ns;
    }
    if (to_the_end && consumer.AllReadTo(ends)) break;
    if (now_ns - progress_ns > patience_ns) break;
    client.Turn(now_ns);
    consumer.Turn(now_ns);
    connector.RunOnce(kMaxWaitNs);
  }
  if (interrupted.load(std::memory_order_relaxed)) return;  // Half of it says nothing.
  result->checked = true;
  result->unread_partitions = to_the_end ? consumer.unread_count(ends) : 0;
  for (const PartitionReader& reader : consumer.readers()) {
    result->checks.corrupted += reader.corrupted_count();
    result->checks.foreign += reader.foreign_count();
  }
  SettleStreams({&consumer}, result);
}

}  // namespace gyre::load
