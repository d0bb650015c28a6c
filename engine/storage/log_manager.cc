#include "engine/storage/log_manager.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr absl::string_view kDeletedSuffix = "-delete";
constexpr absl::string_view kStraySuffix = "-stray";

int64_t Lookup(const OffsetMap& offsets, const TopicPartition& partition, int64_t otherwise) {
  const auto found = offsets.find(partition);
  return found == offsets.end() ? otherwise : found->second;
}

// A damaged checkpoint costs a longer recovery, nothing else.
OffsetMap TakeOrWarn(absl::StatusOr<OffsetMap> offsets) {
  if (offsets.ok()) return *std::move(offsets);
  LOG(WARNING) << offsets.status() << "; doing without it";
  return {};
}

}  // namespace

LogManager::LogManager(DataDirectory& directory, const LogManagerOptions& options)
    : directory_(directory),
      options_(options),
      flusher_(*options.file_io, options.flush_mode),
      always_durable_flusher_(*options.file_io, FlushMode::kGroup) {}

LogManager::~LogManager() = default;

absl::StatusOr<std::unique_ptr<LogManager>> LogManager::Open(DataDirectory& directory,
                                                             const LogManagerOptions& options) {
  std::unique_ptr<LogManager> manager(new LogManager(directory, options));
  GYRE_RETURN_IF_ERROR(manager->OpenAll(), absl::StrCat("data directory ", directory.path()));
  return manager;
}

std::string LogManager::DirectoryOf(const TopicPartition& topic_partition) const {
  return absl::StrCat(directory_.path(), "/", topic_partition.ToString());
}

PartitionLogOptions LogManager::MakeLogOptions(const TopicPartition& topic_partition,
                                               const LogConfig& config) {
  PartitionLogOptions options;
  options.file_system = &directory_.file_system();
  options.clock = options_.clock;
  options.flusher =
      topic_partition.topic == options_.always_durable_topic ? &always_durable_flusher_ : &flusher_;
  options.listener = options_.listener;
  options.lane = options_.lane;
  options.config = config;
  return options;
}

absl::Status LogManager::OpenAll() {
  FileSystem& file_system = directory_.file_system();
  GYRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system.List(directory_.path()));
  OffsetMap recovery_points = TakeOrWarn(directory_.ReadRecoveryPoints());
  const OffsetMap log_starts = TakeOrWarn(directory_.ReadLogStartOffsets());
  std::set<TopicPartition> found;
  std::vector<std::string> deleted;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, kDeletedSuffix) && name.find('.') != std::string::npos) {
      deleted.push_back(name);
    } else if (std::optional<TopicPartition> partition = TopicPartition::Parse(name)) {
      found.insert(*std::move(partition));
    }
  }
  GYRE_RETURN_IF_ERROR(FinishDeletions(deleted, found, &recovery_points));
  // Those that ought to be there open too: offline.
  for (const auto& [partition, offset] : recovery_points) {
    if (offset > 0) found.insert(partition);
  }
  const std::vector<TopicPartition> partitions(found.begin(), found.end());
  // A process that died while it created a partition may have left a name that
  // is not durable; from now on records are acknowledged under it.
  GYRE_RETURN_IF_ERROR(file_system.SyncDirectory(directory_.path()));
  const bool clean = directory_.was_clean_stop();
  std::vector<LogRef> opened(partitions.size());
  std::atomic<size_t> next{0};
  const auto open_some = [&] {
    while (true) {
      // relaxed: hands out indexes; the joins below order the results.
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= partitions.size()) return;
      opened[i] = PartitionLog::Open(DirectoryOf(partitions[i]), partitions[i], clean,
                                     Lookup(recovery_points, partitions[i], -1),
                                     Lookup(log_starts, partitions[i], 0),
                                     MakeLogOptions(partitions[i], options_.default_config));
    }
  };
  // Where no thread is to be had, the others have more to do.
  const auto run = [](void* some) -> void* {
    (*static_cast<decltype(open_some)*>(some))();
    return nullptr;
  };
  std::vector<pthread_t> threads;
  for (int i = 1; i < options_.recovery_thread_count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, run,
                       const_cast<void*>(static_cast<const void*>(&open_some))) != 0) {
      break;
    }
    threads.push_back(thread);
  }
  open_some();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  for (size_t i = 0; i < partitions.size(); ++i) {
    // A crash in the middle of Create: nobody was told that this partition exists.
    if (!opened[i]->is_offline() && opened[i]->topic_id().is_zero() &&
        opened[i]->log_end_offset() == 0) {
      opened[i].reset();
      GYRE_RETURN_IF_ERROR(file_system.RemoveRecursively(DirectoryOf(partitions[i])));
    }
  }
  {
    MutexLock lock(mutex_);
    for (size_t i = 0; i < partitions.size(); ++i) {
      if (opened[i] == nullptr) continue;
      if (opened[i]->was_recovered()) ++recovered_log_count_;
      logs_.emplace(partitions[i], std::move(opened[i]));
    }
  }
  MutexLock lock(checkpoint_mutex_);
  recovery_points_ = std::move(recovery_points);
  log_starts_ = log_starts;
  return absl::OkStatus();
}

absl::Status LogManager::FinishDeletions(const std::vector<std::string>& names,
                                         const std::set<TopicPartition>& found,
                                         OffsetMap* recovery_points) {
  bool changed = false;
  for (const std::string& name : names) {
    const std::optional<TopicPartition> partition =
        TopicPartition::Parse(absl::string_view(name).substr(0, name.rfind('.')));
    // A later life of the name keeps its own.
    if (!partition.has_value() || found.contains(*partition)) continue;
    changed = recovery_points->erase(*partition) > 0 || changed;
  }
  // Before the files go, which are all that tells a deletion from a loss.
  if (changed) {
    const absl::Status written = directory_.WriteRecoveryPoints(*recovery_points);
    if (!written.ok()) {
      LOG(WARNING) << written << "; deleted partitions are removed at the next start";
      return absl::OkStatus();
    }
  }
  for (const std::string& name : names) {
    GYRE_RETURN_IF_ERROR(
        directory_.file_system().RemoveRecursively(absl::StrCat(directory_.path(), "/", name)));
  }
  return absl::OkStatus();
}

LogRef LogManager::Find(const TopicPartition& topic_partition) const {
  MutexLock lock(mutex_);
  const auto found = logs_.find(topic_partition);
  return found == logs_.end() ? nullptr : found->second;
}

std::vector<LogRef> LogManager::All() const {
  MutexLock lock(mutex_);
  std::vector<LogRef> logs;
  logs.reserve(logs_.size());
  for (const auto& [partition, log] : logs_) logs.push_back(log);
  return logs;
}

absl::StatusOr<LogRef> LogManager::Create(const TopicPartition& topic_partition,
                                          const Uuid& topic_id, const LogConfig& config) {
  if (const LogRef existing = Find(topic_partition)) {
    if (existing->topic_id() == topic_id) return existing;
    if (existing->topic_id().is_zero()) {
      // Its partition.metadata is gone or unreadable, its records need not be.
      if (existing->is_offline()) return existing;
      LOG(WARNING) << topic_partition.ToString()
                   << ": partition.metadata was missing, written anew";
      GYRE_RETURN_IF_ERROR(existing->AdoptTopicId(topic_id));
      return existing;
    }
    return absl::AlreadyExistsError(
        absl::StrCat("partition ", topic_partition.ToString(), " exists with topic id ",
                     existing->topic_id().ToString(), ", not ", topic_id.ToString()));
  }
  // Of an earlier life of the name, whose deletion a crash cut short.
  GYRE_RETURN_IF_ERROR(RemoveFromCheckpoints(topic_partition));
  FileSystem& file_system = directory_.file_system();
  const std::string path = DirectoryOf(topic_partition);
  // What stands in the way is not ours to remove.
  GYRE_RETURN_IF_ERROR(file_system.CreateDirectory(path),
                       absl::StrCat("partition ", topic_partition.ToString()));
  absl::StatusOr<LogRef> log = PartitionLog::Create(path, topic_partition, topic_id,
                                                    MakeLogOptions(topic_partition, config));
  absl::Status status = log.status();
  if (status.ok()) status = file_system.SyncDirectory(directory_.path());
  if (!status.ok()) {
    // What is half there must not be taken for a partition at the next start.
    const absl::Status removed = file_system.RemoveRecursively(path);
    if (!removed.ok()) LOG(ERROR) << removed;
    return Annotate(status, absl::StrCat("partition ", topic_partition.ToString()));
  }
  MutexLock lock(mutex_);
  logs_.emplace(topic_partition, *log);
  return log;
}

absl::Status LogManager::RemoveFromCheckpoints(const TopicPartition& topic_partition) {
  // A later partition of this name must not inherit a recovery point.
  MutexLock lock(checkpoint_mutex_);
  if (OffsetMap left = recovery_points_; left.erase(topic_partition) > 0) {
    GYRE_RETURN_IF_ERROR(directory_.WriteRecoveryPoints(left));
    recovery_points_ = std::move(left);
  }
  if (OffsetMap left = log_starts_; left.erase(topic_partition) > 0) {
    GYRE_RETURN_IF_ERROR(directory_.WriteLogStartOffsets(left));
    log_starts_ = std::move(left);
  }
  return absl::OkStatus();
}

absl::StatusOr<LogRef> LogManager::Retire(const TopicPartition& topic_partition,
                                          absl::string_view suffix) {
  LogRef log;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    const auto found = logs_.find(topic_partition);
    if (found == logs_.end()) {
      return absl::NotFoundError(absl::StrCat("no partition ", topic_partition.ToString()));
    }
    log = found->second;
    number = ++deletion_count_;
  }
  // "<topic>-<n>.<unique>-delete", as Kafka names it; the topic id keeps apart
  // what several lives of one name leave behind.
  const std::string new_path =
      absl::StrCat(DirectoryOf(topic_partition), ".", log->topic_id().ToString(), number, suffix);
  GYRE_RETURN_IF_ERROR(log->MarkDeleted(new_path));
  {
    MutexLock lock(mutex_);
    logs_.erase(topic_partition);
  }
  GYRE_RETURN_IF_ERROR(directory_.file_system().SyncDirectory(directory_.path()));
  // On a full disk a deletion is what makes room: it goes on, and Delete tries this again.
  const absl::Status removed = RemoveFromCheckpoints(topic_partition);
  if (!removed.ok()) LOG(WARNING) << topic_partition.ToString() << ": " << removed;
  return log;
}

absl::Status LogManager::Delete(const TopicPartition& topic_partition) {
  GYRE_ASSIGN_OR_RETURN(const LogRef log, Retire(topic_partition, kDeletedSuffix));
  FileSystem& file_system = directory_.file_system();
  const absl::StatusOr<std::vector<std::string>> names = file_system.List(log->path());
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  if (names.ok()) {
    for (const std::string& name : *names) {
      GYRE_RETURN_IF_ERROR(file_system.RemoveRecursively(absl::StrCat(log->path(), "/", name)));
    }
  }
  // Nothing to do, unless there was no room for it before. The directory goes last: to the
  // next start its name tells a deletion from a loss.
  GYRE_RETURN_IF_ERROR(RemoveFromCheckpoints(topic_partition));
  return log->RemoveFiles();
}

absl::Status LogManager::SetAside(const TopicPartition& topic_partition) {
  GYRE_ASSIGN_OR_RETURN(const LogRef log, Retire(topic_partition, kStraySuffix));
  LOG(ERROR) << topic_partition.ToString() << ": its files, of topic id "
             << log->topic_id().ToString() << ", are kept in " << log->path();
  return absl::OkStatus();
}

void LogManager::RequestFlushAll() {
  for (const LogRef& log : All()) flusher_.RequestFlush(*log, log->log_end_offset());
}

absl::Status LogManager::WriteCheckpoints() {
  MutexLock lock(checkpoint_mutex_);
  OffsetMap recovery_points;
  OffsetMap log_starts;
  for (const LogRef& log : All()) {
    const TopicPartition& partition = log->topic_partition();
    if (log->is_offline()) {
      // What was known before still holds, and nothing newer is.
      const auto point = recovery_points_.find(partition);
      if (point != recovery_points_.end()) recovery_points.insert(*point);
      const auto start = log_starts_.find(partition);
      if (start != log_starts_.end()) log_starts.insert(*start);
      continue;
    }
    recovery_points[partition] = log->durable_offset();
    if (log->log_start_offset() > 0) log_starts[partition] = log->log_start_offset();
  }
  if (recovery_points != recovery_points_) {
    GYRE_RETURN_IF_ERROR(directory_.WriteRecoveryPoints(recovery_points));
    recovery_points_ = std::move(recovery_points);
  }
  if (log_starts != log_starts_) {
    GYRE_RETURN_IF_ERROR(directory_.WriteLogStartOffsets(log_starts));
    log_starts_ = std::move(log_starts);
  }
  return absl::OkStatus();
}

absl::Status LogManager::Close(int64_t broker_epoch) {
  {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return absl::OkStatus();
  }
  absl::Status first_error;
  for (const LogRef& log : All()) {
    const absl::Status status = log->Close();
    if (status.ok()) continue;
    LOG(ERROR) << "closing " << log->topic_partition().ToString() << ": " << status;
    first_error.Update(status);
  }
  first_error.Update(WriteCheckpoints());
  GYRE_RETURN_IF_ERROR(first_error, "no clean-stop marker written");
  return directory_.WriteCleanStopMarker(broker_epoch);
}

}  // namespace gyre
