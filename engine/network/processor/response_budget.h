// What one processor may hold in memory for its connections beside requests: answers
// that wait for slow readers, and bytes that were received ahead of their turn. File
// slices count nothing. Connections whose answers are small always go on, since small
// answers leave at once into the sockets' buffers; of the others the next request
// waits, first come, first served, until what is held and what the requests under way
// will probably be answered with fit.
//
// Threads: owner (the processor).
// Owns: nothing.
// Invariant: used = the sum of what was added and not removed; the bound is exceeded
// only by answers larger than those before them.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_RESPONSE_BUDGET_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_RESPONSE_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace gyre {

class ResponseBudget {
 public:
  static constexpr int64_t kUnbounded = INT64_MAX;
  // Answers up to this hold up nobody.
  static constexpr int64_t kSmallBytes = 16 * 1024;

  explicit ResponseBudget(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  bool bounded() const { return capacity_bytes_ != kUnbounded; }
  // A request that may be answered at length must wait. With nothing held, one never does.
  bool IsExhausted() const {
    if (!bounded() || (used_bytes_ == 0 && under_way_ == 0)) return false;
    return used_bytes_ + (under_way_ + 1) * likely_bytes_ > capacity_bytes_;
  }

  // A request that may be answered at length was handed over; it was answered.
  void OnRequest() { ++under_way_; }
  void OnAnswered() { --under_way_; }
  void AddResponse(int64_t bytes) {
    used_bytes_ += bytes;
    if (bytes > kSmallBytes) likely_bytes_ = std::max(bytes, likely_bytes_ - likely_bytes_ / 64);
  }
  // Bytes came (> 0) or went.
  void Change(int64_t bytes) { used_bytes_ += bytes; }

  int64_t used_bytes() const { return used_bytes_; }
  int64_t under_way() const { return under_way_; }

 private:
  const int64_t capacity_bytes_;
  int64_t used_bytes_ = 0;
  int64_t under_way_ = 0;
  int64_t likely_bytes_ = 64 * 1024;  // of an answer that is not small
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_RESPONSE_BUDGET_H_
