#include "engine/network/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/processor/response_budget.h"

namespace gyre {
namespace {

// The program, its stacks, tables and what the allocator keeps: so much, and one
// sixteenth of the limit.
constexpr int64_t kProgramBytes = 32 << 20;
constexpr int64_t kProgramShare = 16;
// The slab is at most one so many-th of the limit.
constexpr int64_t kSlabShare = 8;

int64_t RingBytes(const SocketServerOptions& options) {
  const ProcessorOptions& processor = options.processor;
  return (int64_t{processor.receive_buffer_bytes} * processor.receive_buffer_count +
          kSlabMaxBytes) *
         ProcessorCount(options);
}

int64_t OneRequest(const SocketServerOptions& options) {
  return options.processor.connection.socket_request_max_bytes + 4;
}

}  // namespace

int64_t ProcessorCount(const SocketServerOptions& options) {
  int64_t count = 0;
  for (const ListenerOptions& listener : options.listeners) {
    count += NetworkThreadsOf(options, listener);
  }
  return count;
}

absl::StatusOr<MemoryPlan> PlanMemory(const SocketServerOptions& options) {
  MemoryPlan plan;
  plan.slab_bytes = options.slab_bytes;
  plan.ring_bytes = RingBytes(options);
  const int64_t asked = options.queued_max_request_bytes;
  plan.request_bytes = asked > 0 ? asked : MemoryPool::kUnbounded;
  plan.response_bytes = ResponseBudget::kUnbounded;
  const int64_t limit = options.memory_limit_bytes;
  if (limit <= 0) return plan;

  plan.slab_bytes = std::min(plan.slab_bytes, limit / kSlabShare);
  const int64_t left =
      limit - plan.slab_bytes - plan.ring_bytes - kProgramBytes - limit / kProgramShare;
  if (left / 2 < OneRequest(options)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_limit_bytes=", limit, " has no room for one request of socket_request_max_bytes=",
        options.processor.connection.socket_request_max_bytes, "; the least is ",
        LeastMemoryLimit(options)));
  }
  if (asked > left / 2) {
    return absl::InvalidArgumentError(absl::StrCat("queued_max_request_bytes=", asked,
                                                   " is more than memory_limit_bytes=", limit,
                                                   " leaves for requests; the most is ", left / 2));
  }
  plan.request_bytes = asked > 0 ? asked : left / 2;
  plan.response_bytes = left - plan.request_bytes;
  return plan;
}

int64_t LeastMemoryLimit(const SocketServerOptions& options) {
  const int64_t fixed_bytes = RingBytes(options) + kProgramBytes + 2 * OneRequest(options);
  // What the slab and the program take in proportion, solved for the limit.
  const int64_t with_full_share = (fixed_bytes * kProgramShare * kSlabShare) /
                                      (kProgramShare * kSlabShare - kProgramShare - kSlabShare) +
                                  kProgramShare;
  const int64_t with_whole_slab =
      (fixed_bytes + options.slab_bytes) * kProgramShare / (kProgramShare - 1) + kProgramShare;
  return std::min(with_full_share, with_whole_slab) + kPageBytes;
}

}  // namespace gyre
