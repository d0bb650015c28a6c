#include "engine/network/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/processor/response_budget.h"

namespace gyre {
namespace {

// The program, its stacks and tables, and what the heap keeps of freed memory until it
// is trimmed: so much, and one eighth of the limit.
constexpr int64_t kProgramBytes = 32 << 20;
constexpr int64_t kProgramShare = 8;
// The slab is at most one so many-th of the limit.
constexpr int64_t kSlabShare = 8;
// What zero copy may pin is at most one so many-th of the answers' part.
constexpr int64_t kPinnedShare = 4;
constexpr int64_t kRoundingBytes = 16;

int64_t RingBytes(const SocketServerOptions& options) {
  const ProcessorOptions& processor = options.processor;
  return (int64_t{processor.receive_buffer_bytes} * processor.receive_buffer_count +
          kSlabMaxBytes) *
         ProcessorCount(options);
}

int64_t SlabBytes(const SocketServerOptions& options, int64_t limit) {
  return std::min(options.slab_bytes, limit / kSlabShare);
}

int64_t PrivilegedBytes(const SocketServerOptions& options) {
  return LargestRequest(options) *
         std::count_if(options.listeners.begin(), options.listeners.end(),
                       [](const ListenerOptions& listener) { return listener.privileged; });
}

// What `limit` leaves for requests and answers.
int64_t LeftBytes(const SocketServerOptions& options, int64_t limit) {
  return limit - SlabBytes(options, limit) - RingBytes(options) - PrivilegedBytes(options) -
         kProgramBytes - limit / kProgramShare;
}

bool HasRoom(const SocketServerOptions& options, int64_t limit) {
  return LeftBytes(options, limit) / 2 >= LargestRequest(options);
}

}  // namespace

int64_t LargestRequest(const SocketServerOptions& options) {
  return options.processor.connection.socket_request_max_bytes + kLengthBytes;
}

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
  plan.pinned_bytes = options.processor.connection.zero_copy_max_pinned_bytes;
  const int64_t limit = options.memory_limit_bytes;
  plan.privileged_request_bytes =
      asked > 0 || limit > 0 ? LargestRequest(options) : MemoryPool::kUnbounded;
  if (limit <= 0) return plan;

  plan.slab_bytes = SlabBytes(options, limit);
  const int64_t left = LeftBytes(options, limit);
  if (!HasRoom(options, limit)) {
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
  const int64_t processors = std::max<int64_t>(1, ProcessorCount(options));
  plan.pinned_bytes = std::min(plan.pinned_bytes, plan.response_bytes / kPinnedShare / processors);
  plan.response_bytes -= plan.pinned_bytes * processors;
  return plan;
}

int64_t LeastMemoryLimit(const SocketServerOptions& options) {
  const int64_t fixed_bytes =
      RingBytes(options) + kProgramBytes + PrivilegedBytes(options) + 2 * LargestRequest(options);
  // What the slab and the program take in proportion, solved for the limit.
  const int64_t with_full_share = (fixed_bytes * kProgramShare * kSlabShare) /
                                  (kProgramShare * kSlabShare - kProgramShare - kSlabShare);
  const int64_t with_whole_slab =
      (fixed_bytes + options.slab_bytes) * kProgramShare / (kProgramShare - 1);
  // Shares are rounded: a few bytes below the solution nothing fits, a few above it does.
  int64_t limit = std::max<int64_t>(1, std::min(with_full_share, with_whole_slab) - kRoundingBytes);
  while (!HasRoom(options, limit)) ++limit;
  return limit;
}

}  // namespace gyre
