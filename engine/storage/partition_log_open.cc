// What Create and Open do: making a log, loading one that was closed, recovering
// one that was not.
#include "engine/storage/partition_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/storage/batch_cursor.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr absl::string_view kTopicIdKey = "topic_id: ";
constexpr absl::string_view kItsLine =
    "its line from recovery-point-offset-checkpoint (whose second line counts them)";

std::string MetadataPath(absl::string_view directory) {
  return absl::StrCat(directory, "/partition.metadata");
}

absl::Status WriteTopicId(FileSystem& file_system, absl::string_view directory,
                          const Uuid& topic_id) {
  return file_system.WriteFileAtomically(
      MetadataPath(directory),
      absl::StrCat("version: 0\n", kTopicIdKey, topic_id.ToString(), "\n"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<PartitionLog>> PartitionLog::Create(
    const std::string& path, const TopicPartition& topic_partition, const Uuid& topic_id,
    const PartitionLogOptions& options) {
  FileSystem& file_system = *options.file_system;
  GYRE_RETURN_IF_ERROR(file_system.CreateDirectory(path));
  GYRE_RETURN_IF_ERROR(WriteTopicId(file_system, path, topic_id));
  std::shared_ptr<PartitionLog> log(new PartitionLog(path, topic_partition, topic_id, options));
  GYRE_ASSIGN_OR_RETURN(LogSegmentRef segment, LogSegment::Create(file_system, path, 0));
  GYRE_RETURN_IF_ERROR(log->SyncDirectory());
  log->is_open_ = true;
  MutexLock lock(log->mutex_);
  log->segments_.push_back(std::move(segment));
  return log;
}

std::shared_ptr<PartitionLog> PartitionLog::Open(const std::string& path,
                                                 const TopicPartition& topic_partition, bool clean,
                                                 int64_t recovery_point, int64_t log_start_offset,
                                                 const PartitionLogOptions& options) {
  std::shared_ptr<PartitionLog> log(new PartitionLog(path, topic_partition, Uuid(), options));
  absl::Status status = log->LoadTopicId();
  if (status.ok()) status = log->Load(clean, recovery_point, log_start_offset);
  if (!status.ok()) log->GoOffline(status);
  log->is_open_ = true;
  return log;
}

absl::Status PartitionLog::LoadTopicId() {
  const std::string path = MetadataPath(this->path());
  const absl::StatusOr<std::string> text = file_system_.ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  GYRE_RETURN_IF_ERROR(text.status());
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::StartsWith(line, kTopicIdKey)) continue;
    const std::optional<Uuid> id = Uuid::Parse(line.substr(kTopicIdKey.size()));
    if (!id.has_value()) break;
    topic_id_ = *id;
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path, ": no topic id in it; restore it, or remove it and it is written anew"));
}

absl::Status PartitionLog::AdoptTopicId(const Uuid& topic_id) {
  GYRE_RETURN_IF_ERROR(WriteTopicId(file_system_, path(), topic_id));
  topic_id_ = topic_id;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> PartitionLog::ListSegments() {
  const std::string path = this->path();
  GYRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system_.List(path));
  std::vector<int64_t> bases;
  for (const std::string& name : names) {
    if (const auto base = LogSegment::ParseFileName(name, ".log")) bases.push_back(*base);
    if (absl::EndsWith(name, ".swap")) {
      return absl::DataLossError(
          absl::StrCat(path, "/", name,
                       ": left by a compaction that was interrupted; open the directory once "
                       "with the server that wrote it"));
    }
  }
  std::sort(bases.begin(), bases.end());
  for (const std::string& name : names) {
    std::optional<int64_t> index = LogSegment::ParseFileName(name, ".index");
    if (!index.has_value()) index = LogSegment::ParseFileName(name, ".timeindex");
    const bool is_orphan =
        index.has_value() && !std::binary_search(bases.begin(), bases.end(), *index);
    if (is_orphan || absl::EndsWith(name, ".deleted") || absl::EndsWith(name, ".cleaned") ||
        absl::EndsWith(name, ".tmp")) {
      GYRE_RETURN_IF_ERROR(file_system_.Remove(absl::StrCat(path, "/", name)));
    }
  }
  return bases;
}

absl::Status PartitionLog::Load(bool clean, int64_t recovery_point, int64_t log_start_offset) {
  absl::StatusOr<std::vector<int64_t>> listed = ListSegments();
  if (absl::IsNotFound(listed.status())) {
    is_missing_ = true;
    return absl::FailedPreconditionError(absl::StrCat(
        path(), ": is missing, but was synced up to ", recovery_point,
        ": acknowledged records are lost; restore it, or begin it anew by removing ", kItsLine));
  }
  GYRE_RETURN_IF_ERROR(listed.status());
  std::vector<int64_t> bases = *std::move(listed);
  const absl::Status epochs = epochs_.Load(file_system_, EpochPath());
  if (!epochs.ok() && !absl::IsNotFound(epochs)) LOG(WARNING) << epochs << "; rebuilding it";
  if (bases.empty()) {
    const int64_t base_offset = std::max<int64_t>(log_start_offset, 0);
    GYRE_RETURN_IF_ERROR(LogSegment::Create(file_system_, path(), base_offset).status());
    GYRE_RETURN_IF_ERROR(SyncDirectory());
    bases.push_back(base_offset);
  }
  absl::Status status = clean ? LoadClosed(bases) : absl::DataLossError("not closed");
  if (absl::IsDataLoss(status)) {
    if (clean) LOG(WARNING) << topic_partition_.ToString() << ": " << status << "; recovering";
    status = Recover(bases, std::max<int64_t>(recovery_point, 0));
  }
  GYRE_RETURN_IF_ERROR(status);
  const LogSegment::Extent end = ActiveSegment()->extent();
  // Going on would give the offsets of acknowledged records to others.
  if (end.end_offset < recovery_point) {
    return absl::FailedPreconditionError(absl::StrCat(
        path(), ": ends at offset ", end.end_offset, ", but was synced up to ", recovery_point,
        ": acknowledged records are lost; restore its files, or serve what is left by removing ",
        kItsLine));
  }
  if (bases.front() > std::max<int64_t>(log_start_offset, 0)) {
    LOG(WARNING) << path() << ": begins at offset " << bases.front()
                 << ": what was before was deleted by retention, or is lost";
  }
  log_start_offset_.store(std::min(std::max(log_start_offset, bases.front()), end.end_offset),
                          std::memory_order_release);
  log_end_offset_.store(end.end_offset, std::memory_order_release);
  durable_offset_.store(end.end_offset, std::memory_order_release);
  if (!epochs.ok() && end.end_offset > 0) return RebuildEpochs();
  if (epochs_.TruncateFromEnd(end.end_offset + 1) || was_recovered_) {
    return epochs_.Persist(file_system_, EpochPath());
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentScan> PartitionLog::Rescan(LogSegment& segment) {
  was_recovered_ = true;
  GYRE_RETURN_IF_ERROR(segment.ResetIndexes(file_system_, path()));
  GYRE_ASSIGN_OR_RETURN(SegmentScan scan,
                        ScanAndIndexSegment(segment, config().index_interval_bytes, epochs_));
  segment.Publish({scan.valid_bytes, scan.end_offset, segment.largest_timestamp().timestamp});
  return scan;
}

absl::Status PartitionLog::RebuildSealedIndex(LogSegment& segment, int64_t end_offset,
                                              absl::string_view why) {
  LOG(WARNING) << topic_partition_.ToString() << ": " << why << "; rebuilding the index";
  GYRE_ASSIGN_OR_RETURN(const SegmentScan scan, Rescan(segment));
  if (!scan.damage.empty() && scan.end_offset != end_offset) {
    return absl::FailedPreconditionError(scan.damage);
  }
  return segment.Seal();
}

PartitionLog::SealedEnd PartitionLog::FindSealedEnd(const LogSegment& segment, int64_t end_offset,
                                                    int64_t size_bytes) {
  // The last batches only: what lies before them was checked when it was synced.
  SealedEnd end{segment.base_offset(), segment.offset_index().Last().position};
  BatchCursor cursor(*segment.file(), end.position, size_bytes);
  while (cursor.Next()) {
    end = {cursor.header().next_offset(), cursor.end_position()};
    if (end.offset >= end_offset) break;
  }
  return end;
}

absl::Status PartitionLog::LoadSealed(LogSegment& segment, int64_t end_offset) {
  GYRE_ASSIGN_OR_RETURN(const int64_t size_bytes, segment.file()->SizeBytes());
  const absl::Status indexes = segment.LoadIndexes(file_system_, path(), size_bytes);
  if (!indexes.ok()) {
    GYRE_RETURN_IF_ERROR(RebuildSealedIndex(segment, end_offset, indexes.ToString()));
  }
  SealedEnd end = FindSealedEnd(segment, end_offset, size_bytes);
  if (indexes.ok() && end.position < size_bytes && end.offset != end_offset) {
    // The index may be what is wrong, not the log.
    GYRE_RETURN_IF_ERROR(RebuildSealedIndex(
        segment, end_offset,
        absl::StrCat(segment.file()->path(), ": its last index entry leads to no end")));
    end = FindSealedEnd(segment, end_offset, size_bytes);
  }
  if (end.offset < end_offset) ReportHole(segment, end.offset, end_offset);
  if (end.position < size_bytes) {
    if (end.offset != end_offset) {
      return absl::FailedPreconditionError(
          absl::StrCat(segment.file()->path(), " at position ", end.position,
                       ": no whole batch, but the next segment begins at ", end_offset));
    }
    LOG(WARNING) << segment.file()->path() << ": " << size_bytes - end.position
                 << " bytes after its last batch dropped";
    GYRE_RETURN_IF_ERROR(segment.file()->Truncate(end.position));
    GYRE_RETURN_IF_ERROR(segment.file()->Sync());
  }
  segment.Publish({end.position, end_offset, segment.largest_timestamp().timestamp});
  return absl::OkStatus();
}

void PartitionLog::ReportHole(const LogSegment& segment, int64_t from_offset,
                              int64_t to_offset) const {
  LOG(WARNING) << segment.file()->path() << ": ends at offset " << from_offset
               << ", the next segment begins at " << to_offset
               << ": what was between them was compacted away, or is lost";
}

absl::Status PartitionLog::LoadActive(LogSegment& segment) {
  GYRE_ASSIGN_OR_RETURN(const int64_t size_bytes, segment.file()->SizeBytes());
  GYRE_RETURN_IF_ERROR(segment.LoadIndexes(file_system_, path(), size_bytes));
  int64_t end_offset = segment.base_offset();
  TimestampOffset largest = segment.largest_timestamp();
  BatchCursor cursor(*segment.file(), segment.offset_index().Last().position, size_bytes);
  while (cursor.Next()) {
    const RecordBatchView header = cursor.header();
    end_offset = header.next_offset();
    if (header.max_timestamp() > largest.timestamp) {
      largest = {header.max_timestamp(), header.last_offset()};
    }
  }
  GYRE_RETURN_IF_ERROR(cursor.status());
  segment.set_largest_timestamp(largest);
  segment.Publish({size_bytes, end_offset, largest.timestamp});
  return absl::OkStatus();
}

absl::Status PartitionLog::LoadClosed(const std::vector<int64_t>& bases) {
  std::vector<LogSegmentRef> segments;
  for (size_t i = 0; i < bases.size(); ++i) {
    GYRE_ASSIGN_OR_RETURN(LogSegmentRef segment, LogSegment::Open(file_system_, path(), bases[i]));
    if (i + 1 < bases.size()) {
      GYRE_RETURN_IF_ERROR(LoadSealed(*segment, bases[i + 1]));
    } else if (const absl::Status status = LoadActive(*segment); !status.ok()) {
      return absl::DataLossError(status.message());
    }
    segments.push_back(std::move(segment));
  }
  MutexLock lock(mutex_);
  segments_ = std::move(segments);
  return absl::OkStatus();
}

absl::Status PartitionLog::Recover(const std::vector<int64_t>& bases, int64_t recovery_point) {
  std::vector<LogSegmentRef> segments;
  size_t used = 0;
  for (bool ends_here = false; used < bases.size() && !ends_here; ++used) {
    const int64_t next_base = used + 1 < bases.size() ? bases[used + 1] : INT64_MAX;
    GYRE_ASSIGN_OR_RETURN(LogSegmentRef segment,
                          LogSegment::Open(file_system_, path(), bases[used]));
    segments.push_back(segment);
    if (next_base <= recovery_point) {
      GYRE_RETURN_IF_ERROR(LoadSealed(*segment, next_base));
      continue;
    }
    GYRE_ASSIGN_OR_RETURN(const SegmentScan scan, Rescan(*segment));
    if (!scan.damage.empty()) {
      if (scan.end_offset < recovery_point) {
        return absl::FailedPreconditionError(
            absl::StrCat(scan.damage, "; it was synced up to offset ", recovery_point,
                         ", so no crash explains this"));
      }
      LOG(WARNING) << topic_partition_.ToString() << ": truncated to offset " << scan.end_offset
                   << ", " << scan.file_bytes - scan.valid_bytes
                   << " bytes dropped: " << scan.damage;
      GYRE_RETURN_IF_ERROR(segment->file()->Truncate(scan.valid_bytes));
    }
    GYRE_RETURN_IF_ERROR(segment->Seal());
    GYRE_RETURN_IF_ERROR(segment->SyncAll());
    if (scan.end_offset > next_base) {
      return absl::FailedPreconditionError(
          absl::StrCat(segment->file()->path(), ": ends at offset ", scan.end_offset,
                       ", beyond the start of the next segment ", next_base));
    }
    // A hole where nothing was synced: what follows it was never acknowledged.
    const bool has_hole = next_base != INT64_MAX && scan.end_offset < next_base;
    ends_here = has_hole && (!scan.damage.empty() || scan.end_offset >= recovery_point);
    if (has_hole && !ends_here) ReportHole(*segment, scan.end_offset, next_base);
  }
  for (size_t i = bases.size(); i > used; --i) {
    LOG(WARNING) << topic_partition_.ToString() << ": segment " << bases[i - 1]
                 << " removed, it begins beyond the end of the log";
    GYRE_RETURN_IF_ERROR(LogSegment::RemoveFiles(file_system_, path(), bases[i - 1]));
  }
  GYRE_RETURN_IF_ERROR(SyncDirectory());
  MutexLock lock(mutex_);
  segments_ = std::move(segments);
  return absl::OkStatus();
}

absl::Status PartitionLog::RebuildEpochs() {
  epochs_.TruncateFromEnd(0);
  std::vector<LogSegmentRef> segments;
  {
    MutexLock lock(mutex_);
    segments = segments_;
  }
  for (const LogSegmentRef& segment : segments) {
    BatchCursor cursor(*segment->file(), 0, segment->extent().size_bytes);
    while (cursor.Next()) {
      epochs_.Assign(cursor.header().leader_epoch(), cursor.header().base_offset());
    }
    GYRE_RETURN_IF_ERROR(cursor.status());
  }
  return epochs_.Persist(file_system_, EpochPath());
}

}  // namespace gyre
