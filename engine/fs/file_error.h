// The one place where an errno of a file call becomes a status: the code the
// callers branch on, and a message with what was tried, on what, and why not.
//
// Threads: any.
#ifndef GYRE_ENGINE_FS_FILE_ERROR_H_
#define GYRE_ENGINE_FS_FILE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gyre {

// "open /data/t-0/0.log: No such file or directory (ENOENT)" as NOT_FOUND.
// NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED (EACCES, EPERM, EROFS),
// RESOURCE_EXHAUSTED (ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE), else INTERNAL.
absl::Status FileError(absl::string_view action, absl::string_view path, int error);

}  // namespace gyre

#endif  // GYRE_ENGINE_FS_FILE_ERROR_H_
