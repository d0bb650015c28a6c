// One producer: records into batches by partition, batches into Produce requests, each
// stream's batches in order. What fails is sent again, in order, once nothing of its
// stream is under way; with an identity from the broker that can make no duplicates.
//
// Threads: its client's.
// Invariant: every record added is in exactly one of: the open batch, ready, under way,
// acknowledged, failed.
#ifndef GYRE_TOOLS_LOAD_KAFKA_PRODUCER_H_
#define GYRE_TOOLS_LOAD_KAFKA_PRODUCER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "engine/record/batch_builder.h"
#include "tools/load/checks.h"
#include "tools/load/kafka/client.h"
#include "tools/load/payload.h"

namespace gyre::load {

class Producer final : public ChannelEvents {
 public:
  // `index` among all producers of the part. `counts_acknowledgements`: an acknowledged
  // record is an operation done (else its consumption is).
  Producer(KafkaClient& client, int32_t index, bool counts_acknowledgements);

  // Connects to every leader. True once they are all up.
  void Open();
  bool ready() const;

  void Start(Recorder& recorder, bool open_loop);
  // There is room for one more record.
  bool HasRoom() const;
  void Add(int64_t intended_ns, int64_t now_ns);
  // Batches that are not full wait no longer.
  void Flush() { flushing_ = true; }
  // Sends what may be sent; returns when a batch's linger is over.
  int64_t Turn(int64_t now_ns);
  bool drained() const { return buffered_count_ == 0; }

  const StreamSent& sent(int32_t partition) const {
    return streams_[static_cast<size_t>(partition)].sent;
  }
  int64_t unanswered_count() const { return buffered_count_; }
  int64_t sent_again_count() const { return sent_again_count_; }
  void LetGo() { channels_.LetGo(); }
  LostConnections lost_connections() const { return channels_.lost_connections(); }
  // Acknowledged offsets that did not rise within a stream.
  int64_t bad_offset_count() const { return bad_offset_count_; }

  bool OnResponse(Channel& channel, uint64_t tag, wire::Reader& reader) override;
  void OnBroken(Channel& channel, const absl::Status& why,
                const std::vector<uint64_t>& tags) override;

 private:
  struct Made {
    int64_t intended_ns;
    int64_t made_ns;
    int64_t bytes;
  };
  struct Batch {
    int32_t partition = 0;
    int64_t first_number = 0;
    int32_t times_sent = 0;
    int64_t value_bytes = 0;
    std::vector<Made> records;
    std::string bytes;

    int64_t end_number() const { return first_number + static_cast<int64_t>(records.size()); }
  };
  struct Stream {
    uint32_t id = 0;
    int64_t next_number = 0;
    int32_t next_sequence = 0;
    int64_t last_offset = -1;
    StreamSent sent;
    std::unique_ptr<Batch> open;
    std::unique_ptr<BatchBuilder> builder;
    std::deque<std::unique_ptr<Batch>> ready;  // by first_number
    int32_t under_way_count = 0;
    bool recovering = false;  // nothing more before all that is under way came back
    bool listed = false;      // in sendable_
  };

  int32_t ChoosePartition(std::string* key);
  Stream& StreamOf(int32_t partition) { return streams_[static_cast<size_t>(partition)]; }
  void OpenBatch(int32_t partition);
  void Seal(int32_t partition);
  void List(int32_t partition);
  int64_t SealLingering(int64_t now_ns);
  // True: a batch of the partition left.
  bool SendOne(int32_t partition);
  void TakeBack(std::unique_ptr<Batch> batch);
  void Acknowledge(const Batch& batch, int64_t base_offset, int64_t now_ns);
  void Drop(const Batch& batch, absl::string_view why, int64_t now_ns);
  std::unique_ptr<Batch> TakeUnderWay(uint64_t tag);

  KafkaClient& client_;
  const Options& options_;
  const ProducerIdentity identity_;
  const bool counts_acknowledgements_;
  ChannelSet channels_;
  Recorder* recorder_ = nullptr;
  bool open_loop_ = false;
  bool flushing_ = false;
  PayloadSource source_;
  Random random_;
  std::vector<Stream> streams_;                           // by partition
  std::vector<int32_t> opened_;                           // partitions with an open batch
  std::deque<int32_t> sendable_;                          // partitions with ready batches
  std::map<uint64_t, std::unique_ptr<Batch>> under_way_;  // by tag
  uint64_t next_tag_ = 1;
  int32_t sticky_partition_;
  int64_t buffered_bytes_ = 0;
  int64_t buffered_count_ = 0;      // records that are not settled
  int64_t sealed_batch_count_ = 0;  // ready or under way
  int64_t sent_again_count_ = 0;
  int64_t bad_offset_count_ = 0;
  std::string value_, key_;
};

// The partition that Kafka's own clients choose for a key.
int32_t PartitionForKey(absl::string_view key, int32_t partition_count);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_PRODUCER_H_
