// One thread's view of the cluster: the channels' router, who leads what, and asking
// again when that changed.
//
// Threads: its connector's owner.
#ifndef GYRE_TOOLS_LOAD_KAFKA_CLIENT_H_
#define GYRE_TOOLS_LOAD_KAFKA_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/record/record_batch.h"
#include "tools/load/kafka/channel.h"
#include "tools/load/kafka/cluster.h"
#include "tools/load/workload.h"

namespace gyre::load {

// A producer's identity, where the broker gave one.
struct ProducerIdentity {
  int64_t id = kNoProducerId;
  int16_t epoch = kNoProducerEpoch;
};

// What the threads of a part share about the cluster.
struct KafkaShared {
  Cluster cluster;  // as it was before the run
  bool idempotent = false;
  std::vector<ProducerIdentity> identities;  // one for each producer, if idempotent
  std::vector<int64_t> start_offsets;        // by partition: where reading begins
  std::vector<int64_t> end_offsets;          // consume: where the log ended before the run
  // By partition: one above the highest offset that was acknowledged. Relaxed: read for
  // good only after `writing_threads` was seen at 0.
  std::unique_ptr<std::atomic<int64_t>[]> acknowledged_end;
  std::vector<std::string> notes;
  // Threads with producers that are not done. Release at the end pairs with the acquire
  // of consumers.
  std::atomic<int32_t> writing_threads{0};

  void NoteAcknowledged(int32_t partition, int64_t end_offset);
};

class KafkaClient final : public ChannelEvents {
 public:
  KafkaClient(Part& part, KafkaShared& shared, Connector& connector)
      : part_(part), shared_(shared), connector_(connector), cluster_(shared.cluster) {}

  Part& part() { return part_; }
  const Options& options() const { return part_.options; }
  KafkaShared& shared() { return shared_; }
  Connector& connector() { return connector_; }
  ChannelRouter& router() { return router_; }
  const Cluster& cluster() const { return cluster_; }
  int64_t NowNs() const { return part_.clock->NowNs(); }

  // Leaders may have moved: asks a broker soon.
  void AskForMetadata() { metadata_wanted_ = true; }
  void Turn(int64_t now_ns);
  void LetGo() { control_ = nullptr; }

  // ChannelEvents, of the connection for metadata.
  bool OnResponse(Channel& channel, uint64_t tag, wire::Reader& reader) override;
  void OnBroken(Channel& channel, const absl::Status& why,
                const std::vector<uint64_t>& tags) override;

 private:
  Part& part_;
  KafkaShared& shared_;
  Connector& connector_;
  ChannelRouter router_;
  Cluster cluster_;
  std::unique_ptr<Channel> control_;
  size_t next_address_ = 0;
  bool metadata_wanted_ = false;
  bool metadata_asked_ = false;
  bool move_on_ = false;  // to the next address
  int64_t ask_at_ns_ = 0;
};

// The channels of one producer or consumer, one for each broker it talks to.
class ChannelSet {
 public:
  ChannelSet(KafkaClient& client, ChannelEvents& events) : client_(client), events_(events) {}

  // The channel to the partition's leader; nullptr while there is none.
  Channel* ToLeader(int32_t partition);
  void Turn(int64_t now_ns);
  // Closes and forgets all of them.
  void LetGo();
  LostConnections lost_connections() const;

 private:
  KafkaClient& client_;
  ChannelEvents& events_;
  std::map<int32_t, std::unique_ptr<Channel>> by_node_;
  LostConnections lost_before_;  // of those that are forgotten
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_CLIENT_H_
