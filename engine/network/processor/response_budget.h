// What one processor may hold in memory for its connections beside requests: answers
// that wait for slow readers, and bytes that were received ahead of their turn. File
// slices count nothing. Connections whose last answer was small, or that had none yet,
// go on, since small answers leave at once into the sockets' buffers; of the others the
// next request waits, first come, first served, until what is held and what the requests
// under way will probably be answered with fit.
//
// That is an estimate, which keeps those who read from being closed. The bound is kept
// by closing: what is held beyond the capacity is the excess, and the processor closes
// holders until there is none (memory_victims.h).
//
// Threads: owner (the processor).
// Owns: nothing.
// Invariant: used = answers + ahead = the sum of what was added and not removed.
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
  // Who closes for the excess makes room for one part in so many beside it, so that the
  // next answer does not have it look for victims again.
  static constexpr int64_t kSlackPart = 64;

  // Receiving ahead ends when one part in so many is held.
  static constexpr int64_t kAheadPart = 2;

  explicit ResponseBudget(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  bool bounded() const { return capacity_bytes_ != kUnbounded; }
  void SetCapacity(int64_t capacity_bytes) { capacity_bytes_ = capacity_bytes; }

  // A request that may be answered at length must wait. With no answer held or under way
  // one never does.
  bool IsExhausted() const {
    if (!bounded() || at_rest()) return false;
    return used_bytes() + (under_way_ + 1) * likely_bytes_ > capacity_bytes_;
  }
  // So must one whose answers are small: of what is held beyond the capacity some is on
  // its way out.
  bool IsOverdrawn() const { return leaving_bytes_ > 0 && used_bytes() > capacity_bytes_; }
  // Requests may be received ahead of their turn. What is on its way when that is over
  // comes nevertheless.
  bool HasRoomAhead() const { return used_bytes() <= capacity_bytes_ / kAheadPart; }
  // What is held beyond the capacity by connections that are not being closed for it.
  int64_t excess_bytes() const {
    return bounded() ? std::max<int64_t>(0, used_bytes() - leaving_bytes_ - capacity_bytes_) : 0;
  }
  int64_t slack_bytes() const { return capacity_bytes_ / kSlackPart; }

  // A request that may be answered at length was handed over; it was answered.
  void OnRequest() { ++under_way_; }
  void OnAnswered() { --under_way_; }
  // What an answer takes, once it is known.
  void Learn(int64_t bytes) {
    if (bytes > kSmallBytes) likely_bytes_ = std::max(bytes, likely_bytes_ - likely_bytes_ / 64);
  }
  // Bytes came (> 0) or went; `leaving`: of a connection that is being closed for them.
  void ChangeAnswers(int64_t bytes, bool leaving) {
    answer_bytes_ += bytes;
    if (leaving) leaving_bytes_ += bytes;
  }
  void ChangeAhead(int64_t bytes, bool leaving) {
    ahead_bytes_ += bytes;
    if (leaving) leaving_bytes_ += bytes;
  }
  // A connection that holds so many is being closed for them.
  void OnLeaving(int64_t bytes) { leaving_bytes_ += bytes; }

  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const { return answer_bytes_ + ahead_bytes_; }
  int64_t answer_bytes() const { return answer_bytes_; }
  int64_t leaving_bytes() const { return leaving_bytes_; }
  int64_t under_way() const { return under_way_; }

 private:
  bool at_rest() const { return answer_bytes_ == 0 && under_way_ == 0; }

  int64_t capacity_bytes_;
  int64_t answer_bytes_ = 0;
  int64_t ahead_bytes_ = 0;
  int64_t leaving_bytes_ = 0;  // of both
  int64_t under_way_ = 0;
  int64_t likely_bytes_ = 64 * 1024;  // of an answer that is not small
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_RESPONSE_BUDGET_H_
