#include "engine/storage/data_directory.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr absl::string_view kLockName = ".lock";
constexpr absl::string_view kMetaName = "meta.properties";
constexpr absl::string_view kCleanStopName = ".kafka_cleanshutdown";
constexpr absl::string_view kRecoveryPointName = "recovery-point-offset-checkpoint";
constexpr absl::string_view kHighWatermarkName = "replication-offset-checkpoint";
constexpr absl::string_view kLogStartName = "log-start-offset-checkpoint";
constexpr absl::string_view kPartitionMetadataName = "partition.metadata";
constexpr int kMetaVersion = 1;

using Properties = std::map<std::string, std::string>;

// Lines of key=value; '#' and '!' begin comments.
Properties ParseProperties(absl::string_view text) {
  Properties properties;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == '!') continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    properties[std::string(absl::StripAsciiWhitespace(parts.first))] =
        std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return properties;
}

std::string ParentOf(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

// What may lie in a directory that shall become a data directory: what an Open that was
// cut short has left, and what belongs to the file system or the take-over.
bool MayPrecedeMeta(absl::string_view name) {
  for (const absl::string_view own :
       {kMetaName, kRecoveryPointName, kHighWatermarkName, kLogStartName}) {
    if (name == own || name == absl::StrCat(own, ".tmp")) return true;
  }
  return absl::StartsWith(name, ".") || absl::EndsWith(name, ".sock") || name == "lost+found" ||
         name == "bootstrap.checkpoint";
}

// The names in a directory without meta.properties: nothing in it may be somebody's.
absl::Status CheckNew(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == kPartitionMetadataName) {
      return absl::FailedPreconditionError(
          "is the directory of one partition of another data directory; give that one, or an "
          "empty directory, with --log_dirs");
    }
    if (TopicPartition::Parse(name).has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("holds partition ", name,
                       " but no meta.properties; restore that file or give an empty "
                       "directory with --log_dirs"));
    }
  }
  for (const std::string& name : names) {
    if (MayPrecedeMeta(name)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("is no data directory (it has no meta.properties) and holds \"", name,
                     "\"; give an empty directory with --log_dirs"));
  }
  return absl::OkStatus();
}

std::string Get(const Properties& properties, const std::string& key) {
  const auto found = properties.find(key);
  return found == properties.end() ? std::string() : found->second;
}

}  // namespace

std::string DataDirectory::LockPathOf(absl::string_view path) {
  return absl::StrCat(path, "/", kLockName);
}

std::string DataDirectory::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(
    FileSystem& file_system, const std::string& path, const DataDirectoryOptions& options) {
  std::unique_ptr<DataDirectory> directory(new DataDirectory(file_system, path));
  const std::string noun = absl::StrCat("data directory ", path);
  GYRE_RETURN_IF_ERROR(file_system.CreateDirectory(path),
                       absl::StrCat(noun,
                                    ": cannot be created (give one that can with "
                                    "--log_dirs)"));
  GYRE_RETURN_IF_ERROR(directory->Lock(), noun);
  absl::Status loaded = directory->LoadMeta(options);
  if (absl::IsNotFound(loaded)) loaded = directory->CreateMeta(options);
  GYRE_RETURN_IF_ERROR(loaded, noun);
  GYRE_RETURN_IF_ERROR(directory->TakeCleanStopMarker(), noun);
  return directory;
}

absl::Status DataDirectory::Lock() {
  absl::StatusOr<std::unique_ptr<FileLock>> lock = file_system_.Lock(LockPathOf(path_));
  if (absl::IsFailedPrecondition(lock.status())) {
    return absl::FailedPreconditionError(
        "in use by another process; stop that one or give another directory with --log_dirs");
  }
  if (absl::IsPermissionDenied(lock.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat("not writable; give this user write access or another directory with "
                     "--log_dirs (",
                     lock.status().message(), ")"));
  }
  GYRE_RETURN_IF_ERROR(lock.status());
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status DataDirectory::CheckStillThere() const {
  const absl::Status there = lock_->CheckStillThere();
  if (there.ok()) return there;
  if (!absl::IsNotFound(there)) return Annotate(there, absl::StrCat("data directory ", path_));
  return absl::DataLossError(absl::StrCat(
      "data directory ", path_, ": was removed or replaced under this process (", there.message(),
      "); what it writes is lost when it ends: copy the topics away through it, or stop it and "
      "restore the directory"));
}

absl::Status DataDirectory::Check(FileSystem& file_system, const std::string& path,
                                  const DataDirectoryOptions& options) {
  DataDirectory directory(file_system, path);
  const absl::Status loaded = directory.LoadMeta(options);
  if (absl::IsNotFound(loaded)) return absl::OkStatus();
  return Annotate(loaded, absl::StrCat("data directory ", path));
}

absl::Status DataDirectory::CreateMeta(const DataDirectoryOptions& options) {
  cluster_id_ = options.cluster_id.value_or(options.fresh_cluster_id).ToString();
  directory_id_ = options.fresh_directory_id;
  node_id_ = options.node_id;
  is_new_ = true;
  // The directory's own name must survive, too.
  GYRE_RETURN_IF_ERROR(file_system_.SyncDirectory(ParentOf(path_)));
  return file_system_.WriteFileAtomically(
      PathOf(kMetaName),
      absl::StrCat("#\ncluster.id=", cluster_id_, "\ndirectory.id=", directory_id_.ToString(),
                   "\nnode.id=", node_id_, "\nversion=", kMetaVersion, "\n"));
}

absl::Status DataDirectory::LoadMeta(const DataDirectoryOptions& options) {
  const absl::StatusOr<std::string> text = file_system_.ReadFile(PathOf(kMetaName));
  if (absl::IsNotFound(text.status())) {
    GYRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system_.List(path_));
    GYRE_RETURN_IF_ERROR(CheckNew(names));
    return text.status();
  }
  GYRE_RETURN_IF_ERROR(text.status());
  const Properties properties = ParseProperties(*text);
  int version = -1;
  if (!absl::SimpleAtoi(Get(properties, "version"), &version) || version < 0) {
    return absl::DataLossError(
        "meta.properties has no version; restore it from a backup or from another directory");
  }
  if (version > kMetaVersion) {
    return absl::FailedPreconditionError(absl::StrCat("meta.properties has version ", version,
                                                      ", this program reads up to ", kMetaVersion,
                                                      "; run the newer program that wrote it"));
  }
  if (version == 0) {
    return absl::FailedPreconditionError(
        "meta.properties has version 0, of a ZooKeeper-based cluster; migrate it to KRaft first");
  }
  const std::string directory_id = Get(properties, "directory.id");
  const std::optional<Uuid> parsed_id = Uuid::Parse(directory_id);
  cluster_id_ = Get(properties, "cluster.id");
  if (cluster_id_.empty() || !absl::SimpleAtoi(Get(properties, "node.id"), &node_id_) ||
      !parsed_id.has_value()) {
    return absl::DataLossError(
        "meta.properties lacks a valid cluster.id, node.id or directory.id; restore it from a "
        "backup");
  }
  directory_id_ = *parsed_id;
  if (node_id_ != options.node_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("belongs to node ", node_id_, ", this is node ", options.node_id,
                     "; set --node_id=", node_id_, " or give another directory with --log_dirs"));
  }
  if (options.cluster_id.has_value() && options.cluster_id->ToString() != cluster_id_) {
    return absl::FailedPreconditionError(
        absl::StrCat("belongs to cluster ", cluster_id_, ", this is cluster ",
                     options.cluster_id->ToString(), "; give another directory with --log_dirs"));
  }
  return absl::OkStatus();
}

absl::Status DataDirectory::TakeCleanStopMarker() {
  const std::string path = PathOf(kCleanStopName);
  const absl::StatusOr<std::string> text = file_system_.ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    was_clean_stop_ = is_new_;
    return absl::OkStatus();
  }
  GYRE_RETURN_IF_ERROR(text.status());
  was_clean_stop_ = true;
  constexpr absl::string_view kEpochKey = "\"brokerEpoch\":";
  const size_t key = text->find(kEpochKey.data(), 0, kEpochKey.size());
  if (key != std::string::npos) {
    absl::string_view digits = absl::string_view(*text).substr(key + kEpochKey.size());
    digits = absl::StripAsciiWhitespace(digits.substr(0, digits.find_first_of(",}")));
    if (!absl::SimpleAtoi(digits, &last_broker_epoch_)) last_broker_epoch_ = -1;
  }
  // Gone, durably, before anything is written: the next stop must earn its own.
  GYRE_RETURN_IF_ERROR(file_system_.Remove(path));
  return file_system_.SyncDirectory(path_);
}

absl::Status DataDirectory::WriteCleanStopMarker(int64_t broker_epoch) {
  return file_system_.WriteFileAtomically(
      PathOf(kCleanStopName), absl::StrCat("{\"version\":0,\"brokerEpoch\":", broker_epoch, "}"));
}

absl::StatusOr<OffsetMap> DataDirectory::ReadRecoveryPoints() const {
  return ReadOffsetCheckpoint(file_system_, PathOf(kRecoveryPointName));
}
absl::Status DataDirectory::WriteRecoveryPoints(const OffsetMap& offsets) {
  return WriteOffsetCheckpoint(file_system_, PathOf(kRecoveryPointName), offsets);
}
absl::StatusOr<OffsetMap> DataDirectory::ReadHighWatermarks() const {
  return ReadOffsetCheckpoint(file_system_, PathOf(kHighWatermarkName));
}
absl::Status DataDirectory::WriteHighWatermarks(const OffsetMap& offsets) {
  return WriteOffsetCheckpoint(file_system_, PathOf(kHighWatermarkName), offsets);
}
absl::StatusOr<OffsetMap> DataDirectory::ReadLogStartOffsets() const {
  return ReadOffsetCheckpoint(file_system_, PathOf(kLogStartName));
}
absl::Status DataDirectory::WriteLogStartOffsets(const OffsetMap& offsets) {
  return WriteOffsetCheckpoint(file_system_, PathOf(kLogStartName), offsets);
}

}  // namespace gyre
