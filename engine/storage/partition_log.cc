#include "engine/storage/partition_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/base/status_macros.h"
#include "engine/fs/file_error.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Bounds of one pwritev: enough to amortise it, little enough that the first
// request of a long queue does not wait for the last.
constexpr int kMaxRunRequests = 128;
constexpr int64_t kMaxRunBytes = 4 << 20;
// How often a writer may find the queue filled again before it hands over.
constexpr int kMaxWriterPasses = 8;

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
  // Its queue must not stay behind: what is in it wants its answers.
  continuation_.drop = &PartitionLog::ContinueWriting;
  continuation_.log = this;
}

PartitionLog::~PartitionLog() = default;

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

absl::Status PartitionLog::RecentRefusal(int64_t within_ms) const {
  const int64_t refused_at_ns = refused_at_ns_.load(std::memory_order_relaxed);
  if (refused_at_ns < 0 || clock_.NowNs() - refused_at_ns > within_ms * 1'000'000) {
    return absl::OkStatus();
  }
  MutexLock lock(mutex_);
  return refusal_;
}

void PartitionLog::RememberRefusal(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    refusal_ = status;
  }
  refused_at_ns_.store(clock_.NowNs(), std::memory_order_relaxed);
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
        RememberRefusal(status);
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
  if (refused_at_ns_.load(std::memory_order_relaxed) >= 0) {
    refused_at_ns_.store(-1, std::memory_order_relaxed);
  }
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
    RememberRefusal(status);
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

absl::Status PartitionLog::ReplaceByPrefix(const LogSegmentRef& segment,
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
  const absl::Status renamed = file_system_.Rename(path(), new_path);
  if (!renamed.ok() && !absl::IsNotFound(renamed)) return renamed;
  deleted_.store(true, std::memory_order_release);
  MutexLock lock(mutex_);
  path_ = new_path;
  return absl::OkStatus();
}

absl::Status PartitionLog::RemoveFiles() { return file_system_.RemoveRecursively(path()); }

}  // namespace gyre
