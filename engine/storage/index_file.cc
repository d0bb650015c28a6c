#include "engine/storage/index_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "glog/logging.h"

namespace gyre {

absl::Status IndexFile::Load(FileRef file,
                             bool (*in_order)(const char* previous, const char* next)) {
  GYRE_ASSIGN_OR_RETURN(const int64_t size_bytes, file->SizeBytes());
  file_ = std::move(file);
  broken_ = false;
  MutexLock lock(mutex_);
  const int64_t entry_bytes = static_cast<int64_t>(entry_bytes_);
  const int64_t count = size_bytes / entry_bytes;
  block_count_ = count / static_cast<int64_t>(kBlockEntries);
  tail_count_ = count % static_cast<int64_t>(kBlockEntries);
  absl::Status status = absl::OkStatus();
  if (size_bytes % entry_bytes != 0) {
    status = absl::DataLossError(
        absl::StrCat(file_->path(), ": ", size_bytes, " bytes are no whole number of entries"));
  } else if (tail_count_ > 0) {
    status = file_->ReadExactly(BlockPosition(block_count_), tail_,
                                static_cast<size_t>(tail_count_ * entry_bytes));
  }
  for (int64_t i = 1; status.ok() && i < tail_count_; ++i) {
    const char* entry = tail_ + i * entry_bytes;
    if (!in_order(entry - entry_bytes, entry)) {
      status = absl::DataLossError(absl::StrCat(file_->path(), ": entries out of order at ",
                                                BlockPosition(block_count_) + i * entry_bytes));
    }
  }
  if (!status.ok()) block_count_ = tail_count_ = 0;
  return status;
}

absl::Status IndexFile::Reset(FileRef file) {
  file_ = std::move(file);
  broken_ = false;
  return Truncate(0);
}

void IndexFile::Append(const char* entry) {
  if (broken_) return;
  MutexLock lock(mutex_);
  std::memcpy(tail_ + tail_count_ * static_cast<int64_t>(entry_bytes_), entry, entry_bytes_);
  if (++tail_count_ < static_cast<int64_t>(kBlockEntries)) return;
  const absl::Status status =
      file_->WriteAll(BlockPosition(block_count_), tail_, kBlockEntries * entry_bytes_);
  if (!status.ok()) {
    LOG(ERROR) << "index " << file_->path() << " ends here, reads will scan more: " << status;
    broken_ = true;
    --tail_count_;
    return;
  }
  ++block_count_;
  tail_count_ = 0;
}

absl::Status IndexFile::Truncate(int64_t entry_count) {
  MutexLock lock(mutex_);
  const int64_t block_count = entry_count / static_cast<int64_t>(kBlockEntries);
  const int64_t tail_count = entry_count % static_cast<int64_t>(kBlockEntries);
  if (block_count < block_count_ && tail_count > 0) {
    GYRE_RETURN_IF_ERROR(file_->ReadExactly(BlockPosition(block_count), tail_,
                                            static_cast<size_t>(tail_count) * entry_bytes_));
  }
  block_count_ = block_count;
  tail_count_ = tail_count;
  return file_->Truncate(BlockPosition(block_count));
}

absl::Status IndexFile::Flush() {
  MutexLock lock(mutex_);
  if (broken_ || tail_count_ == 0) return absl::OkStatus();
  return file_->WriteAll(BlockPosition(block_count_), tail_,
                         static_cast<size_t>(tail_count_) * entry_bytes_);
}

absl::Status IndexFile::Sync() {
  GYRE_RETURN_IF_ERROR(Flush());
  return file_->Sync();
}

int64_t IndexFile::entry_count() const {
  MutexLock lock(mutex_);
  return block_count_ * static_cast<int64_t>(kBlockEntries) + tail_count_;
}

bool IndexFile::Last(Entry* entry) const {
  int64_t block_count = 0;
  {
    MutexLock lock(mutex_);
    block_count = block_count_;
    if (tail_count_ > 0) {
      std::memcpy(entry->bytes, tail_ + (tail_count_ - 1) * static_cast<int64_t>(entry_bytes_),
                  entry_bytes_);
      return true;
    }
  }
  return block_count > 0 && ReadAt(BlockPosition(block_count) - static_cast<int64_t>(entry_bytes_),
                                   entry->bytes, entry_bytes_);
}

}  // namespace gyre
