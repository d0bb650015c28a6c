// Are the records that come out the ones that went in? Every record carries its stream
// (one producer's records of one partition, in the order of sending) and its number in
// it. A stream's check notes what is missing, came twice or came late; with what its
// producer sent and was acknowledged, that becomes counts.
//
// Threads: one at a time.
#ifndef GYRE_TOOLS_LOAD_CHECKS_H_
#define GYRE_TOOLS_LOAD_CHECKS_H_

#include <cstdint>
#include <map>

namespace gyre::load {

// A set of int64 kept as ranges.
class NumberSet {
 public:
  // [begin, end)
  void Add(int64_t begin, int64_t end);
  // False: it was not there.
  bool Remove(int64_t number);
  bool Contains(int64_t number) const;
  int64_t size() const { return size_; }
  // How many of [begin, end) are in it.
  int64_t CountWithin(int64_t begin, int64_t end) const;
  const std::map<int64_t, int64_t>& ranges() const { return ranges_; }  // begin -> end

 private:
  std::map<int64_t, int64_t> ranges_;
  int64_t size_ = 0;
};

struct CheckCounts {
  int64_t checked = 0;     // distinct records that came out whole
  int64_t lost = 0;        // acknowledged, and not there
  int64_t duplicated = 0;  // appearances after the first
  int64_t reordered = 0;   // came after a later one of their stream
  int64_t corrupted = 0;
  // What the generator explains itself: it sent these again after a failure, to a broker
  // that does not know the producer (no idempotence).
  int64_t duplicated_by_retry = 0;
  int64_t reordered_by_retry = 0;
  // Neither acknowledged nor there: allowed.
  int64_t never_written = 0;
  int64_t foreign = 0;  // records of nobody's run

  void Add(const CheckCounts& other);
  bool clean() const { return lost == 0 && duplicated == 0 && reordered == 0 && corrupted == 0; }
};

// What a producer knows of one of its streams: numbers 0 … sent_count - 1.
struct StreamSent {
  int64_t sent_count = 0;
  NumberSet acknowledged;
  NumberSet retried;  // sent more than once
};

class StreamCheck {
 public:
  enum class Seen : uint8_t { kNew, kLate, kAgain };
  // `first`: the number that the stream is expected to start with.
  explicit StreamCheck(int64_t first = 0) : next_(first) {}

  Seen OnRecord(int64_t number);

  // The counts, but for corrupted and foreign, given what was sent.
  CheckCounts Settle(const StreamSent& sent, bool idempotent) const;
  // The same without that knowledge: what is missing in between is lost.
  CheckCounts SettleAlone() const;

 private:
  int64_t next_;  // after the highest number seen
  int64_t distinct_ = 0;
  int64_t again_ = 0;
  NumberSet missing_;  // below next_
  NumberSet late_;
  std::map<int64_t, int64_t> again_by_number_;  // at most kMaxNoted of them
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_CHECKS_H_
