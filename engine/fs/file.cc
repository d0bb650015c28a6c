#include "engine/fs/file.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "engine/fs/file_error.h"

namespace gyre {

IoResult File::ReadResident(int64_t position, void* to, size_t size_bytes) const {
  if (!IsResident(position, size_bytes)) return IoResult::Error(EAGAIN);
  return ReadAt(position, to, size_bytes);
}

absl::Status File::ReadExactly(int64_t position, void* to, size_t size_bytes) const {
  char* out = static_cast<char*>(to);
  size_t done = 0;
  while (done < size_bytes) {
    const IoResult result =
        ReadAt(position + static_cast<int64_t>(done), out + done, size_bytes - done);
    if (!result.ok()) return FileError("read", path(), result.error());
    if (result.bytes() == 0) {
      return absl::OutOfRangeError(absl::StrCat("read ", path(), ": the file ends at ",
                                                position + static_cast<int64_t>(done), ", ",
                                                size_bytes - done, " bytes too early"));
    }
    done += static_cast<size_t>(result.bytes());
  }
  return absl::OkStatus();
}

absl::Status File::WriteAll(int64_t position, const void* from, size_t size_bytes) {
  const char* in = static_cast<const char*>(from);
  size_t done = 0;
  while (done < size_bytes) {
    const iovec part = {const_cast<char*>(in) + done, size_bytes - done};
    const IoResult result = WriteVAt(position + static_cast<int64_t>(done), &part, 1);
    if (!result.ok()) return FileError("write", path(), result.error());
    // A device that takes nothing and reports nothing would loop for ever.
    if (result.bytes() == 0) return FileError("write", path(), EIO);
    done += static_cast<size_t>(result.bytes());
  }
  return absl::OkStatus();
}

}  // namespace gyre
