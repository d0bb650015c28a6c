// A range of a file that is to be sent; keeps the file alive.
#ifndef GYRE_ENGINE_FS_FILE_SLICE_H_
#define GYRE_ENGINE_FS_FILE_SLICE_H_

#include <cstdint>

#include "engine/fs/file.h"

namespace gyre {

struct FileSlice {
  FileRef file;
  int64_t position = 0;
  int64_t size_bytes = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_SLICE_H_
