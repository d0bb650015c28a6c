// Early returns on absl::Status, each layer adding its noun: an error that
// reaches the log reads from the outside in ("data directory /d: segment
// 000.log: No such file").
//
//   GYRE_RETURN_IF_ERROR(directory.Sync());
//   GYRE_RETURN_IF_ERROR(directory.Sync(), absl::StrCat("data directory ", path));
//   GYRE_ASSIGN_OR_RETURN(FileRef file, files.Open(path, OpenMode::kRead), "index");
//
// The noun is evaluated only on error. An expression with a comma outside its
// parentheses needs a pair of its own.
#ifndef GYRE_ENGINE_BASE_STATUS_MACROS_H_
#define GYRE_ENGINE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gyre {

inline absl::Status Annotate(absl::Status status) { return status; }
// The same code, the message prefixed by "noun: ". OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view noun) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(noun, ": ", status.message()));
}

}  // namespace gyre

#define GYRE_RETURN_IF_ERROR(expression, ...)                                      \
  do {                                                                             \
    if (absl::Status gyre_status = (expression); !gyre_status.ok()) [[unlikely]] { \
      return ::gyre::Annotate(std::move(gyre_status) __VA_OPT__(, ) __VA_ARGS__);  \
    }                                                                              \
  } while (false)

#define GYRE_ASSIGN_OR_RETURN(target, expression, ...)                                    \
  GYRE_INTERNAL_ASSIGN_OR_RETURN(GYRE_INTERNAL_CONCAT(gyre_status_or_, __LINE__), target, \
                                 expression __VA_OPT__(, ) __VA_ARGS__)

#define GYRE_INTERNAL_CONCAT_2(a, b) a##b
#define GYRE_INTERNAL_CONCAT(a, b) GYRE_INTERNAL_CONCAT_2(a, b)
#define GYRE_INTERNAL_ASSIGN_OR_RETURN(holder, target, expression, ...)             \
  auto holder = (expression);                                                       \
  if (!holder.ok()) [[unlikely]] {                                                  \
    return ::gyre::Annotate(std::move(holder).status() __VA_OPT__(, ) __VA_ARGS__); \
  }                                                                                 \
  target = *std::move(holder)

#endif  // GYRE_ENGINE_BASE_STATUS_MACROS_H_
