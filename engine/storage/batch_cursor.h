// Walks the batch headers of a log file, reading a little ahead so that small
// batches cost one system call per few of them. Payloads are not read and CRCs
// not checked: for files whose content was checked when it was written.
//
// Threads: one at a time.
// Borrows: the file.
#ifndef GYRE_ENGINE_STORAGE_BATCH_CURSOR_H_
#define GYRE_ENGINE_STORAGE_BATCH_CURSOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/fs/file.h"
#include "engine/record/record_batch.h"

namespace gyre {

class BatchCursor {
 public:
  // Batches in [position, end) of `file`; `position` is where one starts.
  BatchCursor(const File& file, int64_t position, int64_t end)
      : file_(file), next_position_(position), end_(end) {}
  BatchCursor(const BatchCursor&) = delete;
  BatchCursor& operator=(const BatchCursor&) = delete;

  // Steps to the next batch. False at the end, or when what is there is no whole
  // batch or cannot be read (then !status().ok()).
  bool Next();
  const absl::Status& status() const { return status_; }

  // Of the current batch; its 61 header bytes, valid until Next.
  RecordBatchView header() const { return RecordBatchView(header_); }
  int64_t position() const { return position_; }
  // Where the current batch ends: the start of the next.
  int64_t end_position() const { return next_position_; }

 private:
  bool Fill();

  const File& file_;
  int64_t position_ = 0;
  int64_t next_position_;
  const int64_t end_;
  const char* header_ = nullptr;
  int64_t buffer_position_ = 0;
  int64_t buffer_bytes_ = 0;
  absl::Status status_;
  char buffer_[4096];
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_BATCH_CURSOR_H_
