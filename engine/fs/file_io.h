// Asynchronous file operations, carried out by one thread that owns a ring
// (uring/file_ring.h) or by the simulated disk. Their main use is the
// group-commit fdatasync.
//
// Threads: Submit from any; on_done runs on the I/O thread and must not block
// (it marks something complete and posts it elsewhere).
#ifndef GYRE_ENGINE_FS_FILE_IO_H_
#define GYRE_ENGINE_FS_FILE_IO_H_

#include <sys/uio.h>

#include <cstdint>

#include "engine/base/io_result.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/fs/file.h"

namespace gyre {

// One operation; owned by the caller, who keeps it and what it points to alive
// until on_done. Reusable afterwards.
struct FileOperation : MpscNode {
  enum class Kind : uint8_t { kRead, kWrite, kSync };

  Kind kind = Kind::kSync;
  FileRef file;
  int64_t position = 0;          // kRead, kWrite
  const iovec* parts = nullptr;  // kRead, kWrite
  int part_count = 0;
  IoResult result;  // bytes, or the error; short results happen
  void (*on_done)(FileOperation* operation) = nullptr;
  void* context = nullptr;
};

class FileIo {
 public:
  virtual ~FileIo() = default;
  virtual void Submit(FileOperation* operation) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_IO_H_
