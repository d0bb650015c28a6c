// What the admin pages show and change: implemented by the program, which alone knows
// its flags, its servers and how far its start has come.
//
// Threads: any.
#ifndef GYRE_ENGINE_ADMIN_ADMIN_SOURCE_H_
#define GYRE_ENGINE_ADMIN_ADMIN_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/network/connection/connection_info.h"

namespace gyre {

struct AdminFlag {
  std::string name;
  std::string group;
  std::string type;  // "int32", "bool", "string", …
  std::string value;
  std::string default_value;
  std::string help;
  std::string unit;         // "ms", "bytes" or ""
  std::string good_values;  // "from 1 to 256"; "" when anything goes
  bool live = false;        // can be set while the server runs
};

struct AdminVersion {
  std::string program;
  std::string version;
  std::string kernel;
  std::string io_uring;  // which features are used
  int64_t start_time_unix_ms = 0;
};

class AdminSource {
 public:
  virtual ~AdminSource() = default;

  // Prometheus' text format.
  virtual std::string Metrics() = 0;
  // OK: the process is well. Else one line that says what is broken.
  virtual absl::Status Health() = 0;
  // OK: clients are served. Else what it is doing instead ("recovering", "draining").
  virtual absl::Status Ready() = 0;
  virtual AdminVersion Version() = 0;
  virtual std::vector<AdminFlag> Flags() = 0;
  // NOT_FOUND, FAILED_PRECONDITION (not live), INVALID_ARGUMENT or OUT_OF_RANGE (a bad
  // value, with the good ones), UNAVAILABLE (not serving now); nothing changed then.
  virtual absl::Status SetFlag(absl::string_view name, absl::string_view value) = 0;
  // At most `max_count` of the open connections, and how many there are.
  virtual std::vector<ConnectionInfo> Connections(size_t max_count, int64_t* open_count) = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_ADMIN_SOURCE_H_
