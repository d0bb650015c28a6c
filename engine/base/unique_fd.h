// Owns one file descriptor and closes it.
//
// Threads: one at a time.
#ifndef GYRE_ENGINE_BASE_UNIQUE_FD_H_
#define GYRE_ENGINE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace gyre {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }

  // Gives the descriptor away without closing it; -1 when there is none.
  int Release() { return std::exchange(fd_, -1); }
  // close(2) is not retried on EINTR: Linux has released the number by then,
  // and another thread may hold it already.
  void Reset(int fd = -1) {
    const int previous = std::exchange(fd_, fd);
    if (previous >= 0 && previous != fd) ::close(previous);
  }

 private:
  int fd_ = -1;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_UNIQUE_FD_H_
