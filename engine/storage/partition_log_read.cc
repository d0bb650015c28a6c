// What readers ask of a log: batches from an offset on, an offset by timestamp.
#include "engine/storage/partition_log.h"

#include <algorithm>
#include <string>

#include "engine/base/status_macros.h"
#include "engine/record/compression.h"
#include "engine/record/record_scanner.h"
#include "glog/logging.h"

namespace gyre {

ReadResult PartitionLog::Read(int64_t offset, int64_t max_bytes, int64_t upper_bound_offset,
                              bool min_one_batch) const {
  ReadResult result;
  result.next_offset = offset;
  if (deleted_.load(std::memory_order_acquire)) {
    result.error = ErrorCode::kUnknownTopicOrPartition;
    return result;
  }
  if (is_offline()) {
    result.error = ErrorCode::kKafkaStorageError;
    return result;
  }
  result.log_end_offset = log_end_offset();
  result.log_start_offset = log_start_offset();
  if (offset < result.log_start_offset || offset > result.log_end_offset) {
    result.error = ErrorCode::kOffsetOutOfRange;
    return result;
  }
  if (offset >= std::min(upper_bound_offset, result.log_end_offset)) return result;
  LogSegmentRef next;
  LogSegmentRef segment = SegmentFor(offset, &next);
  const auto failed = [&](const absl::Status& status) {
    LOG_EVERY_N(ERROR, 100) << topic_partition_.ToString() << ": read at offset " << offset << ": "
                            << status;
    result.error = ErrorCode::kKafkaStorageError;
    return result;
  };
  if (!segment) return failed(absl::InternalError("no segment holds it"));
  LogSegment::Extent extent = segment->extent();
  absl::StatusOr<LogSegment::Batch> first = segment->FindBatch(offset, extent.size_bytes);
  if (absl::IsOutOfRange(first.status()) && next) {
    // Compaction took the end of the segment away: the next one goes on.
    segment = next;
    extent = segment->extent();
    first = segment->FindBatch(offset, extent.size_bytes);
  }
  if (!first.ok()) return failed(first.status());

  int64_t end_position = extent.size_bytes;
  int64_t end_offset = extent.end_offset;
  if (upper_bound_offset < extent.end_offset) {
    const absl::StatusOr<LogSegment::Batch> bound =
        segment->FindBatch(upper_bound_offset, extent.size_bytes);
    if (!bound.ok()) return failed(bound.status());
    end_position = bound->position;
    end_offset = bound->base_offset;
  }
  if (first->end_position > end_position) return result;
  const int64_t limit = first->position + std::max<int64_t>(max_bytes, 0);
  if (limit < end_position) {
    if (first->end_position > limit) {
      if (!min_one_batch) return result;
      end_position = first->end_position;
      end_offset = first->last_offset + 1;
    } else {
      end_offset = first->last_offset + 1;
      const absl::StatusOr<int64_t> end =
          segment->EndOfBatchesBefore(first->end_position, limit, end_position, &end_offset);
      if (!end.ok()) return failed(end.status());
      end_position = *end;
    }
  }
  result.slice = {segment->file(), first->position, end_position - first->position};
  result.next_offset = end_offset;
  result.reached_segment_end = end_position == extent.size_bytes;
  return result;
}

TimestampResult PartitionLog::OffsetForTimestamp(int64_t timestamp,
                                                 int64_t upper_bound_offset) const {
  TimestampResult result;
  if (deleted_.load(std::memory_order_acquire) || is_offline()) {
    result.error =
        is_offline() ? ErrorCode::kKafkaStorageError : ErrorCode::kUnknownTopicOrPartition;
    return result;
  }
  std::vector<LogSegmentRef> segments;
  {
    MutexLock lock(mutex_);
    segments = segments_;
  }
  const int64_t log_start = log_start_offset();
  for (const LogSegmentRef& segment : segments) {
    const LogSegment::Extent extent = segment->extent();
    if (extent.max_timestamp < timestamp || extent.end_offset <= log_start) continue;
    if (segment->base_offset() >= upper_bound_offset) break;
    int64_t from_offset = std::max(log_start, segment->base_offset());
    while (true) {
      const absl::StatusOr<LogSegment::Batch> found =
          segment->FindBatchByTimestamp(timestamp, from_offset, extent.size_bytes);
      if (absl::IsOutOfRange(found.status())) break;
      const absl::Status status =
          found.ok() ? FindRecord(*segment, *found, timestamp, from_offset, &result)
                     : found.status();
      if (!status.ok()) {
        LOG(ERROR) << topic_partition_.ToString() << ": offset by timestamp: " << status;
        result.error = ErrorCode::kKafkaStorageError;
        return result;
      }
      if (result.offset >= upper_bound_offset) return TimestampResult();
      if (result.offset >= 0) return result;
      from_offset = found->last_offset + 1;
    }
  }
  return result;
}

absl::Status PartitionLog::FindRecord(const LogSegment& segment, const LogSegment::Batch& found,
                                      int64_t timestamp, int64_t from_offset,
                                      TimestampResult* result) {
  std::string bytes(static_cast<size_t>(found.end_position - found.position), '\0');
  GYRE_RETURN_IF_ERROR(segment.file()->ReadExactly(found.position, bytes.data(), bytes.size()));
  const RecordBatchView view(bytes);
  if (view.codec_id() > static_cast<int>(Codec::kZstd)) {
    return absl::DataLossError("unknown compression type");
  }
  Decompressor decompressor;
  RecordScanner scanner(view, decompressor);
  ScannedRecord record;
  while (scanner.Next(&record)) {
    const int64_t offset = view.base_offset() + record.offset_delta;
    if (record.timestamp < timestamp || offset < from_offset) continue;
    result->offset = offset;
    result->timestamp = record.timestamp;
    result->leader_epoch = view.leader_epoch();
    return absl::OkStatus();
  }
  return scanner.status();
}

EpochEndOffset PartitionLog::EndOffsetForEpoch(int32_t epoch) const {
  return epochs_.EndOffsetFor(epoch, log_end_offset());
}

int32_t PartitionLog::latest_leader_epoch() const { return epochs_.latest_epoch(); }

}  // namespace gyre
