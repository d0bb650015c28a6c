// How far behind a peer is with what it should have moved by now at the least rate: of
// an answer it is to take, or of a request it is to send. Time adds to it and bytes take
// from it, down to nothing and no further: no burst buys time for later, and a drip
// stands hardly better than silence.
//
// Threads: owner (the connection's processor).
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_PACE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_PACE_H_

#include <algorithm>
#include <cstdint>

namespace gyre {

class Pace {
 public:
  // What a peer on a bad line still does.
  static constexpr int64_t kLeastBytesPerSecond = 32 * 1024;

  // It is its turn from now on.
  void Begin(int64_t now_ns) { even_ns_ = now_ns; }
  void Move(int64_t now_ns, int64_t bytes) {
    constexpr int64_t kNsPerByte = 1'000'000'000 / kLeastBytesPerSecond;
    even_ns_ = std::min(now_ns, even_ns_ + bytes * kNsPerByte);
  }
  // For so long it was not its turn; what it moved meanwhile buys no time either.
  void Forgive(int64_t now_ns, int64_t duration_ns) {
    even_ns_ = std::min(now_ns, even_ns_ + duration_ns);
  }
  int64_t BehindNs(int64_t now_ns) const { return now_ns - even_ns_; }

 private:
  int64_t even_ns_ = 0;  // when it had moved what it should have
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_PACE_H_
