#include "engine/broker/handlers/list_offsets.h"

#include <set>
#include <utility>

#include "engine/broker/replica_manager.h"
#include "engine/record/record_batch.h"
#include "proto/list_offsets.h"

namespace gyre {

namespace {

using RequestPartition = proto::ListOffsetsRequest::Partition;
using ResponsePartition = proto::ListOffsetsResponse::Partition;

constexpr int64_t kLatest = -1;
constexpr int64_t kEarliest = -2;

// The epoch under which the first record was written; the current one when
// there is none.
int32_t EarliestEpoch(const Partition& partition, int64_t log_start_offset) {
  const ReadResult first =
      partition.log().Read(log_start_offset, 1, partition.high_watermark(), true);
  char header[batch::kHeaderBytes];
  if (first.error != ErrorCode::kNone || first.slice.size_bytes == 0 ||
      !first.slice.file->ReadExactly(first.slice.position, header, sizeof(header)).ok()) {
    return partition.leader_epoch();
  }
  return RecordBatchView(header).leader_epoch();
}

void FindByTimestamp(const Partition& partition, int64_t timestamp, ResponsePartition& out) {
  const TimestampResult found =
      partition.log().OffsetForTimestamp(timestamp, partition.high_watermark());
  out.error_code = found.error;
  if (found.error != ErrorCode::kNone) return;
  out.offset = found.offset;
  out.timestamp = found.timestamp;
  out.leader_epoch = found.leader_epoch;
}

// Special values of versions that are not served.
bool IsUnknownTimestamp(int64_t timestamp) { return timestamp < kEarliest; }

// Precondition: the timestamp is a known one.
void Find(const Partition& partition, const RequestPartition& asked, ResponsePartition& out) {
  out.error_code = partition.CheckUsable();
  if (out.error_code != ErrorCode::kNone) return;
  out.error_code = partition.CheckLeaderEpoch(asked.current_leader_epoch);
  if (out.error_code != ErrorCode::kNone) return;
  if (asked.timestamp >= 0) return FindByTimestamp(partition, asked.timestamp, out);
  if (asked.timestamp == kLatest) {
    // Without transactions the last stable offset is the high watermark.
    out.offset = partition.high_watermark();
    out.leader_epoch = partition.leader_epoch();
    return;
  }
  out.offset = partition.log().log_start_offset();
  out.leader_epoch = EarliestEpoch(partition, out.offset);
}

// Partitions that are named more than once.
std::set<std::pair<absl::string_view, int32_t>> Duplicates(
    const proto::ListOffsetsRequest& request) {
  std::set<std::pair<absl::string_view, int32_t>> seen, duplicates;
  for (const auto& topic : request.topics) {
    for (const auto& partition : topic.partitions) {
      const std::pair<absl::string_view, int32_t> key(topic.name, partition.partition_index);
      if (!seen.insert(key).second) duplicates.insert(key);
    }
  }
  return duplicates;
}

}  // namespace

void HandleListOffsets(const BrokerServices& services, RequestContext context) {
  proto::ListOffsetsRequest request;
  if (!context.Decode(request)) return;
  const auto duplicates = Duplicates(request);
  proto::ListOffsetsResponse response;
  response.topics.reserve(request.topics.size());
  for (const auto& topic : request.topics) {
    auto& out_topic = response.topics.emplace_back();
    out_topic.name = topic.name;
    out_topic.partitions.reserve(topic.partitions.size());
    for (const RequestPartition& asked : topic.partitions) {
      ResponsePartition& out = out_topic.partitions.emplace_back();
      out.partition_index = asked.partition_index;
      if (duplicates.contains({topic.name, asked.partition_index})) {
        out.error_code = ErrorCode::kInvalidRequest;
        continue;
      }
      if (IsUnknownTimestamp(asked.timestamp)) {
        out.error_code = ErrorCode::kUnsupportedVersion;
        continue;
      }
      const PartitionRef partition = services.replicas.Find(topic.name, asked.partition_index);
      if (partition) {
        Find(*partition, asked, out);
      } else {
        out.error_code = services.replicas.WhyMissing(topic.name, asked.partition_index);
      }
    }
  }
  context.Reply(response);
}

}  // namespace gyre
