// A range of a file that is to be sent; keeps the file alive.
//
// There is a file, and the range begins and ends within what a file may have; whether this
// one has it is known when it is sent. Where it ends early the peer gets the bytes before,
// and then the end of its connection: what is cut off later belongs to no answer.
#ifndef GYRE_ENGINE_FS_FILE_SLICE_H_
#define GYRE_ENGINE_FS_FILE_SLICE_H_

#include <cstdint>

#include "engine/fs/file.h"

namespace gyre {

struct FileSlice {
  FileRef file;
  int64_t position = 0;
  int64_t size_bytes = 0;

  bool valid() const {
    return file.get() != nullptr && position >= 0 && size_bytes >= 0 &&
           size_bytes <= INT64_MAX - position;
  }
};

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_SLICE_H_
