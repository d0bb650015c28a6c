#include "engine/storage/partition_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/endian.h"
#include "engine/base/status_macros.h"
#include "engine/fs/file_error.h"
#include "engine/record/compression.h"
#include "engine/record/record_scanner.h"
#include "engine/storage/batch_cursor.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Bounds of one pwritev: enough to amortise it, little enough that the first
// request of a long queue does not wait for the last.
constexpr int kMaxRunRequests = 128;
constexpr int64_t kMaxRunBytes = 4 << 20;
// How often a writer may find the queue filled again before it hands over.
constexpr int kMaxWriterPasses = 8;

constexpr absl::string_view kTopicIdKey = "topic_id: ";

std::string MetadataPath(absl::string_view directory) {
  return absl::StrCat(directory, "/partition.metadata");
}

absl::Status WriteTopicId(FileSystem& file_system, absl::string_view directory,
                          const Uuid& topic_id) {
  return file_system.WriteFileAtomically(
      MetadataPath(directory),
      absl::StrCat("version: 0\n", kTopicIdKey, topic_id.ToString(), "\n"));
}

void Refuse(AppendRequest* request, ErrorCode error, std::string message) {
  request->error = error;
  request->message = std::move(message);
  request->base_offset = -1;
  request->last_offset = -1;
  request->log_append_time_ms = -1;
  request->log_start_offset = -1;
}

}  // namespace

PartitionLog::PartitionLog(std::string path, const TopicPartition& topic_partition,
                           const Uuid& topic_id, const PartitionLogOptions& options)
    : topic_partition_(topic_partition),
      topic_id_(topic_id),
      file_system_(*options.file_system),
      clock_(*options.clock),
      flusher_(*options.flusher),
      listener_(options.listener),
      lane_(options.lane),
      config_(options.config),
      path_(std::move(path)) {
  continuation_.run = &PartitionLog::ContinueWriting;
  continuation_.log = this;
}

PartitionLog::~PartitionLog() = default;

// --- Opening.

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
  GYRE_ASSIGN_OR_RETURN(std::vector<int64_t> bases, ListSegments());
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
        ": acknowledged records are lost; restore its files, or serve what is left by removing its "
        "line from recovery-point-offset-checkpoint"));
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

// --- Small things.

std::string PartitionLog::path() const {
  MutexLock lock(mutex_);
  return path_;
}

std::string PartitionLog::EpochPath() const {
  return absl::StrCat(path(), "/leader-epoch-checkpoint");
}

absl::Status PartitionLog::SyncDirectory() { return file_system_.SyncDirectory(path()); }

int64_t PartitionLog::settled_offset() const {
  return flusher_.mode() == FlushMode::kGroup ? durable_offset() : log_end_offset();
}

int64_t PartitionLog::size_bytes() const {
  MutexLock lock(mutex_);
  int64_t size_bytes = 0;
  for (const LogSegmentRef& segment : segments_) size_bytes += segment->extent().size_bytes;
  return size_bytes;
}

int PartitionLog::segment_count() const {
  MutexLock lock(mutex_);
  return static_cast<int>(segments_.size());
}

absl::Status PartitionLog::offline_reason() const {
  MutexLock lock(mutex_);
  return offline_reason_;
}

LogConfig PartitionLog::config() const {
  MutexLock lock(config_mutex_);
  return config_;
}

void PartitionLog::UpdateConfig(const LogConfig& config) {
  MutexLock lock(config_mutex_);
  config_ = config;
}

LogSegmentRef PartitionLog::ActiveSegment() const {
  MutexLock lock(mutex_);
  return segments_.back();
}

LogSegmentRef PartitionLog::SegmentFor(int64_t offset, LogSegmentRef* next) const {
  MutexLock lock(mutex_);
  auto after = std::upper_bound(
      segments_.begin(), segments_.end(), offset,
      [](int64_t value, const LogSegmentRef& segment) { return value < segment->base_offset(); });
  *next = after == segments_.end() ? LogSegmentRef() : *after;
  return after == segments_.begin() ? LogSegmentRef() : *std::prev(after);
}

void PartitionLog::GoOffline(const absl::Status& reason) {
  {
    MutexLock lock(mutex_);
    if (!offline_reason_.ok()) return;
    offline_reason_ = reason;
  }
  offline_.store(true, std::memory_order_release);
  LOG(ERROR) << "partition " << topic_partition_.ToString() << " is offline: " << reason;
  // Whoever opens a log looks for himself.
  if (is_open_ && listener_ != nullptr) listener_->OnOffline(*this);
}

// --- Appending.

bool PartitionLog::Prepare(AppendRequest* request) {
  request->error = ErrorCode::kNone;
  request->message.clear();
  request->record_errors.clear();
  request->log_append_time_ms = -1;
  if (deleted_.load(std::memory_order_acquire)) {
    Refuse(request, ErrorCode::kUnknownTopicOrPartition, "the partition was deleted");
    return false;
  }
  if (is_offline()) {
    Refuse(request, ErrorCode::kKafkaStorageError, "the partition is offline");
    return false;
  }
  const LogConfig config = this->config();
  ValidationRules rules;
  rules.origin = request->origin;
  rules.produce_version = request->produce_version;
  rules.max_message_bytes = config.max_message_bytes;
  rules.segment_bytes = config.segment_bytes;
  rules.max_decompressed_bytes =
      std::min<int64_t>(config.max_decompressed_message_bytes, kMaxDecompressedBytes);
  rules.is_compacted = config.is_compacted;
  rules.log_append_time = config.log_append_time;
  rules.now_ms = clock_.WallTimeMs();
  rules.timestamp_before_max_ms = config.timestamp_before_max_ms;
  rules.timestamp_after_max_ms = config.timestamp_after_max_ms;
  const bool is_replication = request->origin == AppendOrigin::kReplication;
  ValidationResult result = is_replication ? ValidateReplicated(request->records)
                                           : ValidateBatch(request->records, rules);
  if (!result.ok()) {
    Refuse(request, result.error, std::move(result.message));
    request->record_errors = std::move(result.record_errors);
    return false;
  }
  if (is_replication) return true;
  std::memcpy(request->header, request->records.data(), batch::kHeaderBytes);
  const RecordBatchView view(request->records);
  if (config.log_append_time) {
    StampLogAppendTime(request->header, view.payload(), rules.now_ms);
    request->log_append_time_ms = rules.now_ms;
  } else if (view.max_timestamp() != result.max_timestamp) {
    StampMaxTimestamp(request->header, view.payload(), result.max_timestamp);
  }
  return true;
}

void PartitionLog::Append(AppendRequest* request) {
  if (!Prepare(request)) {
    request->on_done(request);
    return;
  }
  if (queue_.Push(request)) RunWriter();
}

void PartitionLog::ContinueWriting(Continuation* continuation) {
  auto* self = static_cast<WriterContinuation*>(continuation);
  const std::shared_ptr<PartitionLog> keep_alive = std::move(self->keep_alive);
  keep_alive->RunWriter();
}

void PartitionLog::RunWriter() {
  // on_done may drop the caller's last reference to the log.
  const std::shared_ptr<PartitionLog> keep_alive = shared_from_this();
  for (int pass = 0;; ++pass) {
    if (pass == kMaxWriterPasses && lane_ != nullptr) {
      continuation_.keep_alive = keep_alive;
      lane_->Post(&continuation_);
      return;
    }
    AppendRequest* list = queue_.TakeAll();
    if (list == nullptr) return;
    const int64_t end_before = log_end_offset();
    bool has_rolled = false;
    {
      MutexLock lock(write_mutex_);
      WriteAll(list);
      has_rolled = std::exchange(has_rolled_, false);
    }
    const int64_t end_offset = log_end_offset();
    if (end_offset != end_before) AfterWrite(end_offset, has_rolled);
    while (list != nullptr) {
      AppendRequest* const request = list;
      list = request->next;
      request->on_done(request);
    }
  }
}

void PartitionLog::AfterWrite(int64_t end_offset, bool has_rolled) {
  if (flusher_.mode() == FlushMode::kGroup) {
    flusher_.RequestFlush(*this, end_offset);
    return;
  }
  // What will not be written again may as well be synced, as Kafka does.
  if (has_rolled) flusher_.RequestFlush(*this, ActiveSegment()->base_offset());
  if (listener_ != nullptr) listener_->OnSettled(*this);
}

bool PartitionLog::Place(AppendRequest* request, int64_t next_offset) {
  if (request->origin == AppendOrigin::kReplication) {
    absl::string_view records = request->records;
    request->base_offset = RecordBatchView(records).base_offset();
    if (request->base_offset < next_offset) {
      Refuse(request, ErrorCode::kOffsetOutOfRange,
             absl::StrCat("replicated offset is below the log end ", next_offset));
      return false;
    }
    while (!records.empty()) {
      const RecordBatchView view(records);
      request->last_offset = view.last_offset();
      records.remove_prefix(static_cast<size_t>(view.size_bytes()));
    }
  } else {
    if (request->leader_epoch < epochs_.latest_epoch()) {
      Refuse(request, ErrorCode::kNotLeaderOrFollower,
             absl::StrCat("leader epoch ", request->leader_epoch, " is over"));
      return false;
    }
    StoreBigEndian<int64_t>(request->header + batch::kBaseOffsetAt, next_offset);
    StoreBigEndian<int32_t>(request->header + batch::kLeaderEpochAt, request->leader_epoch);
    request->base_offset = next_offset;
    request->last_offset = RecordBatchView(request->header).last_offset();
  }
  request->log_start_offset = log_start_offset();
  return true;
}

void PartitionLog::Account(const AppendRequest& request, LogSegment& segment, int64_t position,
                           int32_t index_interval_bytes, LogSegment::Extent* extent) {
  if (request.origin != AppendOrigin::kReplication) {
    const RecordBatchView view(request.header);
    segment.IndexBatch(position, view, index_interval_bytes);
    if (epochs_.Assign(view.leader_epoch(), view.base_offset())) epochs_changed_ = true;
  } else {
    int64_t at = position;
    for (absl::string_view records = request.records; !records.empty();) {
      const RecordBatchView view(records);
      segment.IndexBatch(at, view, index_interval_bytes);
      if (epochs_.Assign(view.leader_epoch(), view.base_offset())) epochs_changed_ = true;
      at += view.size_bytes();
      records.remove_prefix(static_cast<size_t>(view.size_bytes()));
    }
  }
  extent->size_bytes = position + static_cast<int64_t>(request.records.size());
  extent->end_offset = request.last_offset + 1;
  extent->max_timestamp = segment.largest_timestamp().timestamp;
}

AppendRequest* PartitionLog::WriteRun(AppendRequest* first) {
  const LogConfig config = this->config();
  LogSegmentRef segment = ActiveSegment();
  LogSegment::Extent extent = segment->extent();
  iovec parts[2 * kMaxRunRequests];
  AppendRequest* run[kMaxRunRequests];
  int part_count = 0;
  int run_count = 0;
  int64_t run_bytes = 0;
  int64_t next_offset = extent.end_offset;
  AppendRequest* request = first;
  for (; request != nullptr && run_count < kMaxRunRequests && run_bytes < kMaxRunBytes;
       request = request->next) {
    if (!Place(request, next_offset)) continue;
    const int64_t size_bytes = static_cast<int64_t>(request->records.size());
    const int64_t segment_bytes = extent.size_bytes + run_bytes;
    if (segment_bytes > 0 && (segment_bytes + size_bytes > config.segment_bytes ||
                              request->last_offset - segment->base_offset() > INT32_MAX)) {
      if (run_count > 0) break;
      if (const absl::Status status = Roll(request->base_offset); !status.ok()) {
        Refuse(request, ErrorCode::kKafkaStorageError, std::string(status.message()));
        continue;
      }
      segment = ActiveSegment();
      extent = segment->extent();
    }
    if (request->origin == AppendOrigin::kReplication) {
      parts[part_count++] = {const_cast<char*>(request->records.data()), request->records.size()};
    } else {
      parts[part_count++] = {request->header, batch::kHeaderBytes};
      const absl::string_view payload = request->records.substr(batch::kHeaderBytes);
      if (!payload.empty()) {
        parts[part_count++] = {const_cast<char*>(payload.data()), payload.size()};
      }
    }
    run[run_count++] = request;
    run_bytes += size_bytes;
    next_offset = request->last_offset + 1;
  }
  if (run_count == 0) return request;
  const absl::Status status = segment->Write(extent.size_bytes, parts, part_count);
  if (!status.ok()) {
    for (int i = 0; i < run_count; ++i) {
      Refuse(run[i], ErrorCode::kKafkaStorageError, std::string(status.message()));
    }
    OnWriteFailed(*segment, status, extent.size_bytes);
    return request;
  }
  for (int i = 0; i < run_count; ++i) {
    Account(*run[i], *segment, extent.size_bytes, config.index_interval_bytes, &extent);
  }
  segment->Publish(extent);
  log_end_offset_.store(extent.end_offset, std::memory_order_release);
  return request;
}

void PartitionLog::WriteAll(AppendRequest* list) {
  while (list != nullptr) {
    const bool is_deleted = deleted_.load(std::memory_order_acquire);
    if (is_deleted || closed_ || is_offline()) {
      for (; list != nullptr; list = list->next) {
        Refuse(list,
               is_deleted ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kKafkaStorageError,
               is_deleted ? "the partition was deleted"
               : closed_  ? "the log is closed"
                          : "the partition is offline");
      }
      return;
    }
    list = WriteRun(list);
  }
  if (std::exchange(epochs_changed_, false)) {
    const absl::Status status = epochs_.Persist(file_system_, EpochPath());
    // The epochs are in the batches too: recovery finds them there.
    if (!status.ok()) LOG(ERROR) << topic_partition_.ToString() << ": " << status;
  }
}

absl::Status PartitionLog::Roll(int64_t base_offset) {
  const absl::Status sealed = ActiveSegment()->Seal();
  // An index that cannot be written is rebuilt at the next open.
  if (!sealed.ok()) LOG(ERROR) << topic_partition_.ToString() << ": " << sealed;
  const std::string path = this->path();
  GYRE_ASSIGN_OR_RETURN(LogSegmentRef segment, LogSegment::Create(file_system_, path, base_offset));
  GYRE_RETURN_IF_ERROR(file_system_.SyncDirectory(path));
  has_rolled_ = true;
  MutexLock lock(mutex_);
  segments_.push_back(std::move(segment));
  return absl::OkStatus();
}

void PartitionLog::OnWriteFailed(LogSegment& segment, const absl::Status& status,
                                 int64_t good_bytes) {
  absl::Status cut = segment.file()->Truncate(good_bytes);
  // Synced, because the segment may be rolled without another sync: a crash must
  // not bring the cut bytes back below the next segment.
  if (cut.ok()) cut = segment.file()->Sync();
  // A full disk refuses appends and goes on serving reads.
  if (cut.ok() && absl::IsResourceExhausted(status)) {
    LOG_EVERY_N(ERROR, 100) << topic_partition_.ToString() << ": append refused: " << status;
    return;
  }
  GoOffline(status);
}

// --- Durability.

Flushable::Sync PartitionLog::NextSync(int64_t wanted_offset) {
  MutexLock lock(mutex_);
  const int64_t durable = durable_offset();
  if (durable >= wanted_offset || !offline_reason_.ok() || segments_.empty()) return {};
  size_t i = segments_.size() - 1;
  while (i > 0 && segments_[i]->base_offset() > durable) --i;
  for (; i < segments_.size(); ++i) {
    const LogSegment::Extent extent = segments_[i]->extent();
    if (extent.end_offset > durable) return {segments_[i]->file(), extent.end_offset, generation_};
  }
  return {};
}

void PartitionLog::OnSynced(int64_t end_offset, uint64_t generation) {
  {
    MutexLock lock(mutex_);
    if (generation != generation_ || end_offset <= durable_offset()) return;
    durable_offset_.store(end_offset, std::memory_order_release);
  }
  if (flusher_.mode() == FlushMode::kGroup && listener_ != nullptr) listener_->OnSettled(*this);
}

void PartitionLog::OnSyncFailed(int error) { GoOffline(FileError("fdatasync", path(), error)); }

// --- Reading.

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

// --- Cold calls.

absl::Status PartitionLog::StartLeaderEpoch(int32_t epoch) {
  MutexLock lock(write_mutex_);
  if (is_offline()) return offline_reason();
  const int32_t latest = epochs_.latest_epoch();
  if (epoch == latest) return absl::OkStatus();
  if (epoch < latest) {
    return absl::FailedPreconditionError(absl::StrCat(
        topic_partition_.ToString(), ": leader epoch ", epoch, " is below the latest, ", latest));
  }
  epochs_.Assign(epoch, log_end_offset());
  return epochs_.Persist(file_system_, EpochPath());
}

absl::Status PartitionLog::DropLeaderEpochsAbove(int32_t epoch) {
  MutexLock write_lock(write_mutex_);
  LOG(WARNING) << EpochPath() << ": has epoch " << epochs_.latest_epoch()
               << ", above the latest that was given out, " << epoch << "; rebuilding it";
  GYRE_RETURN_IF_ERROR(RebuildEpochs());
  if (epochs_.latest_epoch() <= epoch) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path(), ": batches of leader epoch ",
                                          epochs_.latest_epoch(), ", above ", epoch));
}

absl::Status PartitionLog::ReplaceByPrefix(LogSegmentRef segment,
                                           const LogSegment::Batch& first_dropped) {
  const std::string path = this->path();
  const int64_t base_offset = segment->base_offset();
  const std::string log_path = absl::StrCat(path, "/", LogSegment::FileName(base_offset, ".log"));
  const std::string copy_path = absl::StrCat(log_path, ".tmp");
  GYRE_ASSIGN_OR_RETURN(FileRef copy, file_system_.Open(copy_path, OpenMode::kCreate));
  GYRE_RETURN_IF_ERROR(copy->Truncate(0));
  constexpr int64_t kStepBytes = 1 << 20;
  const std::unique_ptr<char[]> step(new char[kStepBytes]);
  for (int64_t at = 0; at < first_dropped.position; at += kStepBytes) {
    const size_t size_bytes =
        static_cast<size_t>(std::min(kStepBytes, first_dropped.position - at));
    GYRE_RETURN_IF_ERROR(segment->file()->ReadExactly(at, step.get(), size_bytes));
    GYRE_RETURN_IF_ERROR(copy->WriteAll(at, step.get(), size_bytes));
  }
  GYRE_RETURN_IF_ERROR(copy->Sync());
  GYRE_RETURN_IF_ERROR(file_system_.Rename(copy_path, log_path));
  GYRE_RETURN_IF_ERROR(SyncDirectory());
  GYRE_ASSIGN_OR_RETURN(LogSegmentRef replacement,
                        LogSegment::Open(file_system_, path, base_offset));
  GYRE_RETURN_IF_ERROR(replacement->ResetIndexes(file_system_, path));
  GYRE_ASSIGN_OR_RETURN(const SegmentScan scan,
                        ScanAndIndexSegment(*replacement, config().index_interval_bytes, epochs_));
  if (!scan.damage.empty()) return absl::DataLossError(scan.damage);
  replacement->Publish(
      {scan.valid_bytes, first_dropped.base_offset, replacement->largest_timestamp().timestamp});
  MutexLock lock(mutex_);
  segments_.back() = std::move(replacement);
  return absl::OkStatus();
}

absl::Status PartitionLog::TruncateTo(int64_t offset) {
  MutexLock write_lock(write_mutex_);
  if (is_offline()) return offline_reason();
  if (offset >= log_end_offset()) return absl::OkStatus();
  if (offset < log_start_offset()) {
    return absl::OutOfRangeError(absl::StrCat(topic_partition_.ToString(), ": truncation to ",
                                              offset, ", below the log start"));
  }
  std::vector<int64_t> dropped;
  {
    MutexLock lock(mutex_);
    ++generation_;
    durable_offset_.store(std::min(durable_offset(), offset), std::memory_order_release);
    while (segments_.size() > 1 && segments_.back()->base_offset() >= offset) {
      dropped.push_back(segments_.back()->base_offset());
      segments_.pop_back();
    }
  }
  for (const int64_t base_offset : dropped) {
    GYRE_RETURN_IF_ERROR(LogSegment::RemoveFiles(file_system_, path(), base_offset));
  }
  GYRE_RETURN_IF_ERROR(SyncDirectory());
  const LogSegmentRef active = ActiveSegment();
  const absl::StatusOr<LogSegment::Batch> first_dropped =
      active->FindBatch(offset, active->extent().size_bytes);
  if (first_dropped.ok()) {
    GYRE_RETURN_IF_ERROR(ReplaceByPrefix(active, *first_dropped));
  } else if (!absl::IsOutOfRange(first_dropped.status())) {
    return first_dropped.status();
  }
  const int64_t end_offset = ActiveSegment()->extent().end_offset;
  log_end_offset_.store(end_offset, std::memory_order_release);
  {
    MutexLock lock(mutex_);
    durable_offset_.store(std::min(durable_offset(), end_offset), std::memory_order_release);
  }
  epochs_.TruncateFromEnd(end_offset);
  return epochs_.Persist(file_system_, EpochPath());
}

absl::Status PartitionLog::Close() {
  MutexLock write_lock(write_mutex_);
  if (closed_) return absl::OkStatus();
  closed_ = true;
  if (is_offline()) return offline_reason();
  std::vector<LogSegmentRef> segments;
  {
    MutexLock lock(mutex_);
    segments = segments_;
  }
  GYRE_RETURN_IF_ERROR(segments.back()->Seal());
  for (const LogSegmentRef& segment : segments) GYRE_RETURN_IF_ERROR(segment->SyncAll());
  GYRE_RETURN_IF_ERROR(SyncDirectory());
  if (epochs_.latest_epoch() >= 0) {
    GYRE_RETURN_IF_ERROR(epochs_.Persist(file_system_, EpochPath()));
  }
  {
    MutexLock lock(mutex_);
    durable_offset_.store(log_end_offset(), std::memory_order_release);
  }
  if (flusher_.mode() == FlushMode::kGroup && listener_ != nullptr) listener_->OnSettled(*this);
  return absl::OkStatus();
}

absl::Status PartitionLog::MarkDeleted(const std::string& new_path) {
  MutexLock write_lock(write_mutex_);
  GYRE_RETURN_IF_ERROR(file_system_.Rename(path(), new_path));
  deleted_.store(true, std::memory_order_release);
  MutexLock lock(mutex_);
  path_ = new_path;
  return absl::OkStatus();
}

absl::Status PartitionLog::RemoveFiles() { return file_system_.RemoveRecursively(path()); }

}  // namespace gyre
