// What came back from the ring, and the token that says whose it was.
#ifndef GYRE_ENGINE_URING_COMPLETION_H_
#define GYRE_ENGINE_URING_COMPLETION_H_

#include <cstdint>

#include "engine/base/io_result.h"

namespace gyre::uring {

// One byte of user_data: which On… handler gets the completion. The ring keeps
// kWake and kInternal for itself and never shows them.
enum class OpKind : uint8_t {
  kInternal = 0,
  kWake,
  kAccept,
  kRecv,
  kSend,
  kSendZeroCopy,
  kPoll,
  kSplice,
  kFile,
  kCancel,
  kTimer,
  kConnect,
};

// user_data: kind:8 | slot:24 | generation:32. A stale completion names a slot
// whose generation has moved on, so it can be refused without a pointer.
struct Token {
  OpKind kind = OpKind::kInternal;
  uint32_t slot = 0;  // < 2^24
  uint32_t generation = 0;

  constexpr uint64_t Pack() const {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(slot & 0xffffff) << 32 |
           generation;
  }
  static constexpr Token Unpack(uint64_t user_data) {
    return Token{static_cast<OpKind>(user_data >> 56),
                 static_cast<uint32_t>(user_data >> 32) & 0xffffff,
                 static_cast<uint32_t>(user_data)};
  }
  friend constexpr bool operator==(const Token&, const Token&) = default;
};

inline constexpr uint32_t kNoBuffer = UINT32_MAX;

struct Completion {
  Token token;
  IoResult result;
  uint32_t buffer_id = kNoBuffer;  // the provided buffer that holds the bytes
  // IORING_CQE_F_MORE: the operation lives on. It is retired iff this is false.
  bool more = false;
  // IORING_CQE_F_NOTIF: the zero-copy buffer is free.
  bool notification = false;
  // Only with `notification`: the kernel reports that it copied the bytes after
  // all (always on loopback), so zero copy gains nothing on this connection.
  bool zero_copy_copied = false;
  // IORING_CQE_F_SOCK_NONEMPTY: more bytes wait in the socket.
  bool socket_nonempty = false;
};

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_COMPLETION_H_
