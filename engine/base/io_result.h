// The outcome of one I/O call: bytes (>= 0) or a negated errno, as io_uring's
// cqe->res. Four bytes, no allocation; the name says which side to look at.
//
// Threads: immutable value.
#ifndef GYRE_ENGINE_BASE_IO_RESULT_H_
#define GYRE_ENGINE_BASE_IO_RESULT_H_

#include <cerrno>
#include <cstdint>

namespace gyre {

class IoResult {
 public:
  constexpr IoResult() = default;
  // `res` as io_uring gives it: a count, or -errno.
  static constexpr IoResult FromRes(int32_t res) { return IoResult(res); }
  static constexpr IoResult Bytes(int32_t bytes) { return IoResult(bytes); }
  static constexpr IoResult Error(int error) { return IoResult(-error); }
  // From a system call that returned `ret` and, on -1, left `error` in errno.
  static constexpr IoResult FromSyscall(int64_t ret, int error) {
    return ret < 0 ? IoResult(-error) : IoResult(static_cast<int32_t>(ret));
  }

  constexpr bool ok() const { return res_ >= 0; }
  constexpr int32_t bytes() const { return res_ < 0 ? 0 : res_; }
  constexpr int error() const { return res_ < 0 ? -res_ : 0; }
  constexpr bool would_block() const { return res_ == -EAGAIN; }
  constexpr bool cancelled() const { return res_ == -ECANCELED; }
  constexpr int32_t res() const { return res_; }

  friend constexpr bool operator==(IoResult, IoResult) = default;

 private:
  explicit constexpr IoResult(int32_t res) : res_(res) {}
  int32_t res_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BASE_IO_RESULT_H_
