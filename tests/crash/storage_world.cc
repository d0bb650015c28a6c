#include "tests/crash/storage_world.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/record/batch_builder.h"
#include "engine/record/compression.h"
#include "engine/record/record.h"

namespace gyre {

void ScheduledFileIo::RunOne(Random& random) {
  if (pending_.empty()) return;
  std::swap(pending_[random.Below(pending_.size())], pending_.back());
  FileOperation* operation = pending_.back();
  pending_.pop_back();
  operation->result = operation->file->Sync().ok() ? IoResult::Bytes(0) : IoResult::Error(EIO);
  operation->on_done(operation);
}

void ScheduledFileIo::RunAll(Random& random) {
  while (!pending_.empty()) RunOne(random);
}

StorageWorld::StorageWorld(uint64_t seed, FlushMode mode) : disk_(seed), random_(seed + 1) {
  options_.file_io = &file_io_;
  options_.clock = &clock_;
  options_.flush_mode = mode;
  options_.recovery_thread_count = 0;
  options_.default_config.segment_bytes = random_.Between(400, 3000);
  options_.default_config.index_interval_bytes = static_cast<int32_t>(random_.Between(50, 500));
  partitions_ = {{"steady", 0}, {"steady", 1}, {"brief", 0}};
}

StorageWorld::~StorageWorld() { Kill(); }

bool StorageWorld::Start() {
  DataDirectoryOptions directory_options;
  directory_options.fresh_cluster_id = Uuid{1, random_.Next()};
  directory_options.fresh_directory_id = Uuid{2, random_.Next()};
  auto directory = DataDirectory::Open(disk_, "/data", directory_options);
  if (!directory.ok()) return false;
  directory_ = *std::move(directory);
  auto manager = LogManager::Open(*directory_, options_);
  if (!manager.ok()) {
    directory_.reset();
    return false;
  }
  manager_ = *std::move(manager);
  return true;
}

void StorageWorld::Kill() {
  // The kernel finishes or fails what was submitted; nobody hears of it.
  pending_.clear();
  if (manager_ != nullptr) {
    while (!file_io_.idle()) file_io_.RunOne(random_);
  }
  manager_.reset();
  directory_.reset();
}

bool StorageWorld::StopCleanly() {
  file_io_.RunAll(random_);
  CollectAcknowledgements();
  const bool ok = manager_->Close(1).ok();
  Kill();
  return ok;
}

void StorageWorld::Violate(const TopicPartition& partition, const std::string& what) {
  violations_.push_back(absl::StrCat(partition.ToString(), ": ", what));
}

void StorageWorld::Step() {
  const uint64_t dice = random_.Below(100);
  if (dice < 55) {
    StepAppend(partitions_[random_.Below(partitions_.size())]);
  } else if (dice < 92) {
    file_io_.RunOne(random_);
  } else if (dice < 95) {
    (void)manager_->WriteCheckpoints();
  } else {
    StepCreateOrDelete();
  }
  clock_.AdvanceMs(1);
  CollectAcknowledgements();
}

void StorageWorld::StepAppend(const TopicPartition& partition) {
  const LogRef log = manager_->Find(partition);
  if (log == nullptr) return;
  auto append = std::make_unique<PendingAppend>();
  append->value = absl::StrCat("value-", next_value_++, "-");
  BatchOptions batch_options;
  batch_options.codec = static_cast<Codec>(random_.Below(5));
  BatchBuilder builder(batch_options);
  const int64_t count = random_.Between(1, 4);
  for (int64_t i = 0; i < count; ++i) {
    std::string filler(random_.Below(200), 'f');
    builder.Add(clock_.WallTimeMs(), "key", absl::StrCat(append->value, i, ":", filler));
  }
  append->records = builder.Build();
  append->request.records = append->records;
  append->request.context = append.get();
  append->request.on_done = [](AppendRequest* request) {
    static_cast<PendingAppend*>(request->context)->done = true;
  };
  log->Append(&append->request);
  if (!append->done) Violate(partition, "an append to an idle queue was not answered");
  if (append->request.error == ErrorCode::kNone) pending_[partition].push_back(std::move(append));
}

void StorageWorld::StepCreateOrDelete() {
  const TopicPartition& partition = partitions_[random_.Below(partitions_.size())];
  Promised& promised = promised_[partition];
  if (manager_->Find(partition) == nullptr) {
    const Uuid topic_id{3, next_topic_id_++};
    promised = Promised();
    pending_[partition].clear();
    promised.topic_id = topic_id;
    promised.exists = manager_->Create(partition, topic_id, options_.default_config).ok();
  } else if (partition.topic == "brief") {
    // From here on either outcome is right until the answer.
    promised.exists = false;
    promised.records.clear();
    pending_[partition].clear();
    promised.is_gone = manager_->Delete(partition).ok();
  }
}

void StorageWorld::CollectAcknowledgements() {
  for (auto& [partition, appends] : pending_) {
    const LogRef log = manager_->Find(partition);
    if (log == nullptr) continue;
    while (!appends.empty() && appends.front()->request.last_offset < log->settled_offset()) {
      const PendingAppend& append = *appends.front();
      Promised& promised = promised_[partition];
      for (int64_t offset = append.request.base_offset; offset <= append.request.last_offset;
           ++offset) {
        promised.records[offset] =
            absl::StrCat(append.value, offset - append.request.base_offset, ":");
        ++acknowledged_count_;
      }
      appends.pop_front();
    }
  }
}

void StorageWorld::Check() {
  for (const TopicPartition& partition : partitions_) {
    Promised& promised = promised_[partition];
    const LogRef log = manager_->Find(partition);
    if (log == nullptr) {
      if (promised.exists) Violate(partition, "the partition is gone");
      continue;
    }
    if (promised.is_gone) Violate(partition, "the deleted partition is back");
    if (promised.exists && log->topic_id() != promised.topic_id) {
      Violate(partition, "another topic id");
    }
    if (log->is_offline()) {
      Violate(partition, absl::StrCat("offline: ", log->offline_reason().ToString()));
      continue;
    }
    promised.exists = true;
    promised.is_gone = false;
    promised.topic_id = log->topic_id();
    CheckLog(*log, promised);
  }
}

void StorageWorld::CheckLog(PartitionLog& log, Promised& promised) {
  const TopicPartition& partition = log.topic_partition();
  std::map<int64_t, std::string> found;
  int64_t offset = log.log_start_offset();
  while (offset < log.log_end_offset()) {
    const ReadResult read = log.Read(offset, random_.Between(1, 2000), INT64_MAX, true);
    if (read.error != ErrorCode::kNone || read.slice.size_bytes == 0) {
      Violate(partition, absl::StrCat("cannot read at ", offset));
      return;
    }
    std::string bytes(static_cast<size_t>(read.slice.size_bytes), '\0');
    if (!read.slice.file->ReadExactly(read.slice.position, bytes.data(), bytes.size()).ok()) {
      Violate(partition, absl::StrCat("slice at ", offset, " goes beyond its file"));
      return;
    }
    for (absl::string_view rest = bytes; !rest.empty();) {
      const RecordBatchView view(rest);
      if (CheckBatchShape(rest) != BatchShape::kOk ||
          view.crc() != ComputeBatchCrc(rest.substr(0, static_cast<size_t>(view.size_bytes())))) {
        Violate(partition, absl::StrCat("damaged batch at ", offset));
        return;
      }
      if (view.base_offset() != offset) {
        Violate(partition, absl::StrCat("gap: ", view.base_offset(), " follows ", offset));
        return;
      }
      const absl::StatusOr<std::string> payload = Decompress(view.codec(), view.payload());
      if (!payload.ok()) {
        Violate(partition, absl::StrCat("payload at ", offset, " does not decompress"));
        return;
      }
      RecordReader reader(view, *payload);
      Record record;
      while (reader.Next(&record)) found[record.offset] = std::string(*record.value);
      offset = view.next_offset();
      rest.remove_prefix(static_cast<size_t>(view.size_bytes()));
    }
  }
  for (const auto& [at, value] : promised.records) {
    const auto it = found.find(at);
    if (it == found.end()) {
      Violate(partition, absl::StrCat("acknowledged offset ", at, " is gone"));
    } else if (it->second.compare(0, value.size(), value) != 0) {
      Violate(partition, absl::StrCat("offset ", at, " holds ", it->second.substr(0, 20),
                                      ", acknowledged was ", value));
    }
  }
  promised.records.clear();
  for (const auto& [at, value] : found) {
    promised.records[at] = value.substr(0, value.find(':') + 1);
  }
}

}  // namespace gyre
