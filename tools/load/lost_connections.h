// Established connections that were closed by the other side, or broken, and the reason
// of the first: without it nobody can tell a server that restarts from one that resets.
//
// Threads: a value.
#ifndef GYRE_TOOLS_LOAD_LOST_CONNECTIONS_H_
#define GYRE_TOOLS_LOAD_LOST_CONNECTIONS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gyre::load {

struct LostConnections {
  int64_t count = 0;
  std::string first_reason;

  void Add(absl::string_view reason) {
    if (count++ == 0) first_reason = std::string(reason);
  }
  void Add(const LostConnections& other) {
    if (count == 0) first_reason = other.first_reason;
    count += other.count;
  }
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_LOST_CONNECTIONS_H_
