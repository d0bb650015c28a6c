// How the server's memory limit is divided. Slab, receive rings and one request for each
// privileged listener are taken out first, with something for the program itself;
// requests and answers get a half each of what is left, so that requests never take the
// room in which they are answered. What zero copy may pin comes from the answers' half.
//
// Threads: any.
#ifndef GYRE_ENGINE_NETWORK_MEMORY_PLAN_H_
#define GYRE_ENGINE_NETWORK_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/network/server_options.h"

namespace gyre {

struct MemoryPlan {
  int64_t slab_bytes = 0;
  int64_t ring_bytes = 0;     // of every processor's receive buffers
  int64_t request_bytes = 0;  // MemoryPool::kUnbounded: no limit
  // Of each privileged listener, beside that: one request.
  int64_t privileged_request_bytes = 0;
  int64_t response_bytes = 0;  // of all processors; ResponseBudget::kUnbounded: no limit
  int64_t pinned_bytes = 0;    // of each processor, lent to the kernel by zero copy
};

// INVALID_ARGUMENT when the limit has no room for one request of the largest size.
absl::StatusOr<MemoryPlan> PlanMemory(const SocketServerOptions& options);
// The least memory_limit_bytes that has room for one request of the largest size; a byte
// less has none.
int64_t LeastMemoryLimit(const SocketServerOptions& options);
// The largest frame, with its length.
int64_t LargestRequest(const SocketServerOptions& options);
// Over all listeners, as they start.
int64_t ProcessorCount(const SocketServerOptions& options);

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_MEMORY_PLAN_H_
