#include "engine/fs/fault_injecting_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/fs/file_error.h"

namespace gyre {
namespace {

constexpr int64_t kSectorBytes = 512;

// One change to a file's bytes that is not durable yet.
struct FileChange {
  bool is_truncate = false;
  int64_t position = 0;  // the new size, for a truncate
  std::string bytes;
};

void ApplyWrite(std::string* content, int64_t position, absl::string_view bytes) {
  const auto begin = static_cast<size_t>(position);
  if (content->size() < begin + bytes.size()) content->resize(begin + bytes.size(), '\0');
  std::memcpy(content->data() + begin, bytes.data(), bytes.size());
}

void Apply(std::string* content, const FileChange& change) {
  if (change.is_truncate) {
    content->resize(static_cast<size_t>(change.position), '\0');
  } else {
    ApplyWrite(content, change.position, change.bytes);
  }
}

std::vector<std::string> Names(const std::string& path) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name != ".") names.emplace_back(name);
  }
  return names;
}

}  // namespace

struct FaultInjectingFileSystem::Node {
  // One change to a directory's entries that is not durable yet.
  struct EntryChange {
    std::string removed;  // empty: none
    std::string added;    // empty: none
    NodePtr node;         // what `added` names
  };
  using Entries = std::map<std::string, NodePtr>;

  static void Apply(Entries* entries, const EntryChange& change) {
    if (!change.removed.empty()) entries->erase(change.removed);
    if (!change.added.empty()) (*entries)[change.added] = change.node;
  }
  void Change(EntryChange change) {
    Apply(&entries, change);
    unsynced_entries.push_back(std::move(change));
  }

  bool is_directory = false;
  bool locked = false;
  // A file's: what is seen, what a power loss leaves, and what is between.
  std::string content;
  std::string durable;
  std::vector<FileChange> unsynced;
  // A directory's, likewise.
  Entries entries;
  Entries durable_entries;
  std::vector<EntryChange> unsynced_entries;
};

struct FaultInjectingFileSystem::Place {
  NodePtr directory;  // null: `error` says why
  std::string name;
  int error = 0;

  NodePtr Entry() const {
    const auto found = directory->entries.find(name);
    return found == directory->entries.end() ? nullptr : found->second;
  }
};

class FaultInjectingFileSystem::MemoryFile final : public File {
 public:
  MemoryFile(FaultInjectingFileSystem* disk, NodePtr node, uint64_t epoch, std::string path,
             bool writable)
      : disk_(disk),
        node_(std::move(node)),
        epoch_(epoch),
        path_(std::move(path)),
        writable_(writable) {}

  int fd() const override { return -1; }
  const std::string& path() const override { return path_; }
  IoResult ReadAt(int64_t position, void* to, size_t size_bytes) const override {
    return disk_->ReadAt(*this, position, to, size_bytes);
  }
  IoResult WriteVAt(int64_t position, const iovec* parts, int part_count) override {
    return disk_->WriteVAt(*this, position, parts, part_count);
  }
  absl::Status Truncate(int64_t size_bytes) override { return disk_->Truncate(*this, size_bytes); }
  absl::Status Sync() override { return disk_->Sync(*this); }
  absl::StatusOr<int64_t> SizeBytes() const override { return disk_->SizeBytes(*this); }
  bool IsResident(int64_t position, size_t size_bytes) const override {
    MutexLock lock(disk_->mutex_);
    return disk_->resident_;
  }

  Node& node() const { return *node_; }
  bool writable() const { return writable_; }
  bool Alive(uint64_t epoch) const { return epoch_ == epoch; }

 private:
  FaultInjectingFileSystem* const disk_;
  const NodePtr node_;
  const uint64_t epoch_;
  const std::string path_;
  const bool writable_;
};

class FaultInjectingFileSystem::MemoryLock final : public FileLock {
 public:
  MemoryLock(FaultInjectingFileSystem* disk, NodePtr node, std::string path, uint64_t epoch)
      : disk_(disk), node_(std::move(node)), path_(std::move(path)), epoch_(epoch) {}
  ~MemoryLock() override {
    MutexLock lock(disk_->mutex_);
    if (epoch_ == disk_->epoch_) node_->locked = false;
  }

  absl::Status CheckStillThere() const override {
    MutexLock lock(disk_->mutex_);
    int error = 0;
    const NodePtr there = disk_->Find(path_, &error);
    if (there == nullptr) return FileError("stat", path_, error == ENOTDIR ? ENOENT : error);
    if (there == node_) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(path_, ": is another file than the one locked"));
  }

 private:
  FaultInjectingFileSystem* const disk_;
  const NodePtr node_;
  const std::string path_;
  const uint64_t epoch_;
};

FaultInjectingFileSystem::FaultInjectingFileSystem(uint64_t seed)
    : random_(seed), root_(std::make_shared<Node>()) {
  root_->is_directory = true;
}

FaultInjectingFileSystem::~FaultInjectingFileSystem() = default;

// --- names ----------------------------------------------------------------------

FaultInjectingFileSystem::NodePtr FaultInjectingFileSystem::Find(const std::string& path,
                                                                 int* error) const {
  NodePtr node = root_;
  for (const std::string& name : Names(path)) {
    if (!node->is_directory) {
      *error = ENOTDIR;
      return nullptr;
    }
    const auto found = node->entries.find(name);
    if (found == node->entries.end()) {
      *error = ENOENT;
      return nullptr;
    }
    node = found->second;
  }
  return node;
}

FaultInjectingFileSystem::Place FaultInjectingFileSystem::FindPlace(const std::string& path) const {
  std::vector<std::string> names = Names(path);
  Place place;
  // The root has no place; ".." has none here.
  if (names.empty() || std::find(names.begin(), names.end(), "..") != names.end()) {
    place.error = EINVAL;
    return place;
  }
  place.name = std::move(names.back());
  place.directory = root_;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const auto found = place.directory->entries.find(names[i]);
    if (found == place.directory->entries.end() || !found->second->is_directory) {
      place.error = found == place.directory->entries.end() ? ENOENT : ENOTDIR;
      place.directory = nullptr;
      return place;
    }
    place.directory = found->second;
  }
  return place;
}

int FaultInjectingFileSystem::Enter(Fault::Operation operation, const std::string& path,
                                    bool changes) {
  if (changes) ++changing_operations_;
  if (changing_operations_ >= power_off_at_) return EIO;
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if (fault->operation != operation || !absl::StrContains(path, fault->path_contains)) continue;
    if (fault->nth > 1) {
      --fault->nth;
      continue;
    }
    const int error = fault->error;
    if (!fault->permanent) faults_.erase(fault);
    return error;
  }
  return 0;
}

int FaultInjectingFileSystem::OpenNode(const std::string& path, OpenMode mode, NodePtr* node) {
  const Place place = FindPlace(path);
  if (place.directory == nullptr) return place.error;
  NodePtr found = place.Entry();
  const bool may_create = mode == OpenMode::kCreate || mode == OpenMode::kCreateNew;
  if (const int error = Enter(Fault::Operation::kOpen, path, may_create && found == nullptr);
      error != 0) {
    return error;
  }
  if (found != nullptr) {
    if (mode == OpenMode::kCreateNew) return EEXIST;
    if (found->is_directory) return EISDIR;
  } else {
    if (!may_create) return ENOENT;
    found = std::make_shared<Node>();
    place.directory->Change({"", place.name, found});
  }
  *node = std::move(found);
  return 0;
}

absl::StatusOr<FileRef> FaultInjectingFileSystem::Open(const std::string& path, OpenMode mode) {
  MutexLock lock(mutex_);
  NodePtr node;
  if (const int error = OpenNode(path, mode, &node); error != 0) {
    return FileError("open", path, error);
  }
  return FileRef(new MemoryFile(this, std::move(node), epoch_, path, mode != OpenMode::kRead));
}

absl::Status FaultInjectingFileSystem::CreateDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  if (Names(path).empty()) return absl::OkStatus();
  const Place place = FindPlace(path);
  if (place.directory == nullptr) return FileError("mkdir", path, place.error);
  if (const NodePtr found = place.Entry(); found != nullptr) {
    return found->is_directory ? absl::OkStatus() : FileError("mkdir", path, EEXIST);
  }
  if (const int error = Enter(Fault::Operation::kCreateDirectory, path, true); error != 0) {
    return FileError("mkdir", path, error);
  }
  const NodePtr directory = std::make_shared<Node>();
  directory->is_directory = true;
  place.directory->Change({"", place.name, directory});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FaultInjectingFileSystem::List(const std::string& path) {
  MutexLock lock(mutex_);
  int error = Enter(Fault::Operation::kList, path, false);
  const NodePtr directory = error == 0 ? Find(path, &error) : nullptr;
  if (directory != nullptr && !directory->is_directory) error = ENOTDIR;
  if (error != 0) return FileError("list", path, error);
  std::vector<std::string> names;
  for (const auto& [name, node] : directory->entries) names.push_back(name);
  return names;
}

absl::StatusOr<bool> FaultInjectingFileSystem::Exists(const std::string& path) {
  MutexLock lock(mutex_);
  if (changing_operations_ >= power_off_at_) return FileError("stat", path, EIO);
  int error = 0;
  return Find(path, &error) != nullptr;
}

int FaultInjectingFileSystem::RenameNode(const std::string& from, const std::string& to) {
  const Place source = FindPlace(from);
  const Place target = FindPlace(to);
  if (source.directory == nullptr) return source.error;
  if (target.directory == nullptr) return target.error;
  const NodePtr moved = source.Entry();
  const NodePtr replaced = target.Entry();
  if (moved == nullptr) return ENOENT;
  if (moved == replaced) return 0;
  if (moved->is_directory && absl::StartsWith(absl::StrCat(to, "/"), absl::StrCat(from, "/"))) {
    return EINVAL;
  }
  if (replaced != nullptr) {
    if (replaced->is_directory && !moved->is_directory) return EISDIR;
    if (!replaced->is_directory && moved->is_directory) return ENOTDIR;
    if (!replaced->entries.empty()) return ENOTEMPTY;
  }
  if (const int error = Enter(Fault::Operation::kRename, from, true); error != 0) return error;
  if (source.directory == target.directory) {
    source.directory->Change({source.name, target.name, moved});
    return 0;
  }
  // Each directory is made durable by its own sync: between the two, the file
  // may be under both names or, the other way round, under none.
  target.directory->Change({"", target.name, moved});
  source.directory->Change({source.name, "", nullptr});
  return 0;
}

absl::Status FaultInjectingFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  const int error = RenameNode(from, to);
  return error == 0 ? absl::OkStatus() : FileError("rename", absl::StrCat(from, " to ", to), error);
}

absl::Status FaultInjectingFileSystem::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  const Place place = FindPlace(path);
  int error = place.error;
  if (place.directory != nullptr) {
    const NodePtr node = place.Entry();
    if (node == nullptr) {
      error = ENOENT;
    } else if (!node->entries.empty()) {
      error = ENOTEMPTY;
    } else {
      error = Enter(Fault::Operation::kRemove, path, true);
    }
  }
  if (error != 0) return FileError("remove", path, error);
  place.directory->Change({place.name, "", nullptr});
  return absl::OkStatus();
}

absl::Status FaultInjectingFileSystem::SyncDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  int error = 0;
  const NodePtr directory = Find(path, &error);
  if (directory != nullptr && !directory->is_directory) error = ENOTDIR;
  if (error == 0) error = Enter(Fault::Operation::kSyncDirectory, path, true);
  if (error != 0) return FileError("fsync directory", path, error);
  ++directory_syncs_;
  if (sync_directory_disabled_) return absl::OkStatus();
  directory->durable_entries = directory->entries;
  directory->unsynced_entries.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultInjectingFileSystem::Lock(const std::string& path) {
  MutexLock lock(mutex_);
  NodePtr node;
  if (const int error = OpenNode(path, OpenMode::kCreate, &node); error != 0) {
    return FileError("open lock file", path, error);
  }
  if (node->locked) {
    return absl::FailedPreconditionError(
        absl::StrCat("lock ", path, ": held by another process that uses this directory"));
  }
  node->locked = true;
  return std::make_unique<MemoryLock>(this, std::move(node), path, epoch_);
}

// --- bytes ----------------------------------------------------------------------

size_t FaultInjectingFileSystem::MaybeShorten(size_t size_bytes) {
  if (short_io_one_in_ == 0 || size_bytes < 2 || !random_.OneIn(short_io_one_in_)) {
    return size_bytes;
  }
  return 1 + random_.Below(size_bytes - 1);
}

int64_t FaultInjectingFileSystem::UsedBytes(const Node& node) const {
  auto used = static_cast<int64_t>(node.content.size());
  for (const auto& [name, child] : node.entries) used += UsedBytes(*child);
  return used;
}

IoResult FaultInjectingFileSystem::ReadAt(const MemoryFile& file, int64_t position, void* to,
                                          size_t size_bytes) {
  MutexLock lock(mutex_);
  if (!file.Alive(epoch_)) return IoResult::Error(ESTALE);
  if (const int error = Enter(Fault::Operation::kRead, file.path(), false); error != 0) {
    return IoResult::Error(error);
  }
  const std::string& content = file.node().content;
  if (position < 0) return IoResult::Error(EINVAL);
  const auto begin = static_cast<size_t>(position);
  if (begin >= content.size()) return IoResult::Bytes(0);
  const size_t count = MaybeShorten(std::min(size_bytes, content.size() - begin));
  std::memcpy(to, content.data() + begin, count);
  return IoResult::Bytes(static_cast<int32_t>(count));
}

IoResult FaultInjectingFileSystem::WriteVAt(const MemoryFile& file, int64_t position,
                                            const iovec* parts, int part_count) {
  MutexLock lock(mutex_);
  if (!file.Alive(epoch_)) return IoResult::Error(ESTALE);
  if (!file.writable()) return IoResult::Error(EBADF);
  if (position < 0) return IoResult::Error(EINVAL);
  if (const int error = Enter(Fault::Operation::kWrite, file.path(), true); error != 0) {
    return IoResult::Error(error);
  }
  FileChange change;
  change.position = position;
  for (int i = 0; i < part_count; ++i) {
    change.bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  change.bytes.resize(MaybeShorten(change.bytes.size()));
  Node& node = file.node();
  if (capacity_bytes_ >= 0 && !change.bytes.empty()) {
    const auto size = static_cast<int64_t>(node.content.size());
    const int64_t room = std::max<int64_t>(capacity_bytes_ - UsedBytes(*root_), 0);
    const int64_t may_write = std::max<int64_t>(size + room - position, 0);
    if (may_write == 0) return IoResult::Error(ENOSPC);
    change.bytes.resize(std::min(change.bytes.size(), static_cast<size_t>(may_write)));
  }
  const IoResult result = IoResult::Bytes(static_cast<int32_t>(change.bytes.size()));
  Apply(&node.content, change);
  node.unsynced.push_back(std::move(change));
  return result;
}

absl::Status FaultInjectingFileSystem::Truncate(const MemoryFile& file, int64_t size_bytes) {
  MutexLock lock(mutex_);
  int error = 0;
  if (!file.Alive(epoch_)) {
    error = ESTALE;
  } else if (!file.writable() || size_bytes < 0) {
    error = EINVAL;
  } else {
    error = Enter(Fault::Operation::kTruncate, file.path(), true);
  }
  if (error != 0) return FileError("truncate", file.path(), error);
  FileChange change;
  change.is_truncate = true;
  change.position = size_bytes;
  Apply(&file.node().content, change);
  file.node().unsynced.push_back(std::move(change));
  return absl::OkStatus();
}

absl::Status FaultInjectingFileSystem::Sync(const MemoryFile& file) {
  MutexLock lock(mutex_);
  if (!file.Alive(epoch_)) return FileError("fdatasync", file.path(), ESTALE);
  Node& node = file.node();
  if (const int error = Enter(Fault::Operation::kSync, file.path(), true); error != 0) {
    // Without power nothing more happens; with it, the dirty pages are given up.
    if (changing_operations_ < power_off_at_) node.unsynced.clear();
    return FileError("fdatasync", file.path(), error);
  }
  ++syncs_;
  if (sync_disabled_) return absl::OkStatus();
  for (const FileChange& change : node.unsynced) Apply(&node.durable, change);
  node.unsynced.clear();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FaultInjectingFileSystem::SizeBytes(const MemoryFile& file) {
  MutexLock lock(mutex_);
  if (!file.Alive(epoch_)) return FileError("fstat", file.path(), ESTALE);
  return static_cast<int64_t>(file.node().content.size());
}

// --- power ----------------------------------------------------------------------

void FaultInjectingFileSystem::LoseFileChanges(Node& node, PowerLossMode mode) {
  switch (mode) {
    case PowerLossMode::kKeepEverything:
      return;
    case PowerLossMode::kDropUnsynced:
      break;
    case PowerLossMode::kKeepPrefix: {
      const size_t kept = random_.Below(node.unsynced.size() + 1);
      for (size_t i = 0; i < kept; ++i) Apply(&node.durable, node.unsynced[i]);
      if (kept < node.unsynced.size() && !node.unsynced[kept].is_truncate) {
        FileChange torn = node.unsynced[kept];
        torn.bytes.resize(random_.Below(torn.bytes.size() + 1));
        if (!torn.bytes.empty()) Apply(&node.durable, torn);
      }
      break;
    }
    case PowerLossMode::kKeepSubset:
      for (const FileChange& change : node.unsynced) {
        if (change.is_truncate) {
          if (random_.OneIn(2)) Apply(&node.durable, change);
          continue;
        }
        const auto size = static_cast<int64_t>(change.bytes.size());
        for (int64_t begin = 0; begin < size;) {
          const int64_t sector_end =
              ((change.position + begin) / kSectorBytes + 1) * kSectorBytes - change.position;
          const int64_t end = std::min(sector_end, size);
          if (random_.OneIn(2)) {
            ApplyWrite(&node.durable, change.position + begin,
                       absl::string_view(change.bytes)
                           .substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
          }
          begin = end;
        }
      }
      break;
  }
  node.unsynced.clear();
  node.content = node.durable;
}

void FaultInjectingFileSystem::Lose(Node& node, PowerLossMode mode) {
  node.locked = false;
  if (!node.is_directory) {
    LoseFileChanges(node, mode);
    return;
  }
  if (mode != PowerLossMode::kKeepEverything) {
    const size_t kept =
        mode == PowerLossMode::kDropUnsynced ? 0 : random_.Below(node.unsynced_entries.size() + 1);
    for (size_t i = 0; i < kept; ++i) Node::Apply(&node.durable_entries, node.unsynced_entries[i]);
    node.unsynced_entries.clear();
    node.entries = node.durable_entries;
  }
  for (const auto& [name, child] : node.entries) Lose(*child, mode);
}

void FaultInjectingFileSystem::PowerLoss(PowerLossMode mode) {
  MutexLock lock(mutex_);
  Lose(*root_, mode);
  ++epoch_;
  power_off_at_ = UINT64_MAX;
}

void FaultInjectingFileSystem::PowerOffAt(uint64_t nth) {
  MutexLock lock(mutex_);
  power_off_at_ = changing_operations_ + nth;
}

bool FaultInjectingFileSystem::powered_off() const {
  MutexLock lock(mutex_);
  return changing_operations_ >= power_off_at_;
}

uint64_t FaultInjectingFileSystem::changing_operation_count() const {
  MutexLock lock(mutex_);
  return changing_operations_;
}

void FaultInjectingFileSystem::InjectFault(Fault fault) {
  MutexLock lock(mutex_);
  faults_.push_back(std::move(fault));
}

void FaultInjectingFileSystem::ClearFaults() {
  MutexLock lock(mutex_);
  faults_.clear();
}

void FaultInjectingFileSystem::SetShortIoOneIn(uint64_t n) {
  MutexLock lock(mutex_);
  short_io_one_in_ = n;
}

void FaultInjectingFileSystem::SetCapacityBytes(int64_t capacity_bytes) {
  MutexLock lock(mutex_);
  capacity_bytes_ = capacity_bytes;
}

void FaultInjectingFileSystem::SetSyncDisabled(bool disabled) {
  MutexLock lock(mutex_);
  sync_disabled_ = disabled;
}

void FaultInjectingFileSystem::SetSyncDirectoryDisabled(bool disabled) {
  MutexLock lock(mutex_);
  sync_directory_disabled_ = disabled;
}

void FaultInjectingFileSystem::SetResident(bool resident) {
  MutexLock lock(mutex_);
  resident_ = resident;
}

uint64_t FaultInjectingFileSystem::sync_count() const {
  MutexLock lock(mutex_);
  return syncs_;
}

uint64_t FaultInjectingFileSystem::sync_directory_count() const {
  MutexLock lock(mutex_);
  return directory_syncs_;
}

}  // namespace gyre
