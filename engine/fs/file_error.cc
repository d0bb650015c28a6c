#include "engine/fs/file_error.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace gyre {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string Describe(int error) {
  // The GNU calls are thread-safe and give null for numbers they do not know.
  const char* text = strerrordesc_np(error);
  const char* name = strerrorname_np(error);
  if (text == nullptr || name == nullptr) return absl::StrCat("error ", error);
  // What the number does not say: whose limit, and where it is raised.
  const absl::string_view hint =
      error == EMFILE ? "; raise this process's limit (ulimit -n, systemd's LimitNOFILE)" : "";
  return absl::StrCat(text, " (", name, ")", hint);
}

}  // namespace

absl::Status FileError(absl::string_view action, absl::string_view path, int error) {
  return absl::Status(CodeOf(error), absl::StrCat(action, " ", path, ": ", Describe(error)));
}

}  // namespace gyre
