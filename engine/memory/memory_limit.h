// How much memory this process may take, where nobody says: a share of what its
// cgroup (v2 or v1) or the machine has.
//
// Threads: any.
#ifndef GYRE_ENGINE_MEMORY_MEMORY_LIMIT_H_
#define GYRE_ENGINE_MEMORY_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace gyre {

struct MemoryLimit {
  int64_t bytes = 0;
  std::string source;  // "half of the cgroup's 4294967296"
};

// Half of the least that /proc/self/cgroup's memory controller and its parents,
// and MemTotal, allow: the page cache, which serves consumers, needs the rest.
// `root` is put in front of every path.
MemoryLimit DefaultMemoryLimit(const std::string& root = "");

}  // namespace gyre

#endif  // GYRE_ENGINE_MEMORY_MEMORY_LIMIT_H_
