// One consumer of some partitions: a Fetch under way to each of their leaders, always for
// all of them that it leads.
//
// Threads: its client's.
#ifndef GYRE_TOOLS_LOAD_KAFKA_CONSUMER_H_
#define GYRE_TOOLS_LOAD_KAFKA_CONSUMER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "tools/load/kafka/client.h"
#include "tools/load/kafka/partition_reader.h"

namespace gyre::load {

enum class ConsumerMode : uint8_t {
  kMeasureFetches,  // consume: an operation is a record, its latency the Fetch's
  kMeasureRecords,  // end-to-end: the latency is in the record
  kVerify,          // reading back: nothing is measured
};

class Consumer final : public ChannelEvents, private RecordSink {
 public:
  Consumer(KafkaClient& client, const std::vector<int32_t>& partitions, ConsumerMode mode);

  void Open();
  bool ready() const;
  // `recorder` may be null (kVerify).
  void Start(Recorder* recorder);
  void Turn(int64_t now_ns);
  // No more Fetches.
  void Stop() { stopped_ = true; }

  // All partitions were read up to `ends` (by partition), or cannot be.
  bool AllReadTo(const std::vector<int64_t>& ends) const;
  int64_t unread_count(const std::vector<int64_t>& ends) const;
  // Grows while something comes.
  int64_t progress() const { return progress_; }

  const std::vector<PartitionReader>& readers() const { return readers_; }
  void LetGo() { channels_.LetGo(); }
  LostConnections lost_connections() const { return channels_.lost_connections(); }

  bool OnResponse(Channel& channel, uint64_t tag, wire::Reader& reader) override;
  void OnBroken(Channel& channel, const absl::Status& why,
                const std::vector<uint64_t>& tags) override;

 private:
  struct Under {
    int64_t sent_ns = 0;
    bool is = false;
  };

  void OnRecord(const PayloadHeader& header, int64_t bytes) override;
  void SendFetch(Channel& channel, const std::vector<size_t>& readers);
  PartitionReader* ReaderOf(int32_t partition);
  void OnPartitionError(size_t reader, ErrorCode error, int64_t now_ns);
  void AtEnd(PartitionReader& reader, int64_t high_watermark);

  KafkaClient& client_;
  const Options& options_;
  const ConsumerMode mode_;
  ChannelSet channels_;
  Recorder* recorder_ = nullptr;
  std::vector<PartitionReader> readers_;
  std::vector<int64_t> paused_until_ns_;  // by reader; INT64_MAX: it failed
  std::map<Channel*, Under> under_way_;
  size_t rotation_ = 0;
  bool stopped_ = false;
  int64_t progress_ = 0;
  int64_t now_ns_ = 0;  // of the response that is read
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_CONSUMER_H_
