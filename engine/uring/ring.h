// One io_uring instance, seen without a liburing type: typed submissions, a
// batch of completions back. Every socket call the engine makes is a method
// here, the inline ones too, so that a processor runs unchanged on the
// simulated ring of tests/simulation.
//
// Submissions are queued and leave with the next SubmitAndReap; a full
// submission queue is flushed by the call that needs room, so none fails.
// What an operation points to (buffers, iovecs, msghdr) stays valid until it
// is retired: a completion without `more`.
//
// Threads: the one that called Attach(), except Wake().
// Owns: the ring, its provided-buffer ring and its wake-up descriptor.
// Borrows: the memory of provided and registered buffers.
#ifndef GYRE_ENGINE_URING_RING_H_
#define GYRE_ENGINE_URING_RING_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/io_result.h"
#include "engine/base/owner_counter.h"
#include "engine/fs/file.h"
#include "engine/uring/completion.h"

namespace gyre::uring {

// A pipe's two ends, for file -> pipe -> socket.
struct PipeFds {
  int read_fd = -1;
  int write_fd = -1;
  // What it was granted; less than asked for where the user's pipe budget
  // (fs.pipe-user-pages-soft) is used up.
  size_t capacity_bytes = 0;
};

// What a ring did so far. Only grows; counted by the owner, read by anyone.
struct RingStats {
  OwnerCounter enters;             // io_uring_enter calls
  OwnerCounter submissions;        // sqes taken by the kernel
  OwnerCounter completions;        // cqes, internal ones included
  OwnerCounter batched_waits;      // waits that asked for more than one completion
  OwnerCounter receive_arms;       // RecvProvided calls; with multishot: re-arms
  OwnerCounter accept_arms;        // AcceptMultishot and AcceptOnce calls
  OwnerCounter no_buffers;         // receives that ended with -ENOBUFS
  OwnerCounter wakes;              // wake-ups that reached the owner
  OwnerCounter full_submissions;   // the submission queue had to be flushed early
  OwnerCounter worker_operations;  // of kinds that the kernel hands to its workers: splice, sync
  OwnerCounter overflows;          // the completion queue was found overflown
};

class Ring {
 public:
  virtual ~Ring() = default;

  // Makes the calling thread the owner (enables the ring). Once, before all else.
  virtual absl::Status Attach() = 0;

  // --- sockets, through the ring -------------------------------------------
  // Multishot; result is the new socket (non-blocking, close-on-exec).
  virtual void AcceptMultishot(Token token, int listen_fd) = 0;
  virtual void AcceptOnce(Token token, int listen_fd) = 0;
  // Bytes land in provided buffers (Completion::buffer_id). Multishot where
  // the kernel has it (`features`), else one shot; either way the caller
  // re-arms on a completion without `more`. -ENOBUFS: no provided buffer left.
  virtual void RecvProvided(Token token, int socket_fd) = 0;
  // One buffer, and no more.
  virtual void RecvProvidedOnce(Token token, int socket_fd) = 0;
  // One shot straight into [to, to + size_bytes).
  virtual void RecvInto(Token token, int socket_fd, char* to, size_t size_bytes) = 0;
  // One send; asks the kernel to finish short sends (MSG_WAITALL), but short
  // results still happen. `message` and what it points to must outlive it.
  // `more_follows`: MSG_MORE, a file part comes right after.
  virtual void SendMessage(Token token, int socket_fd, const msghdr* message,
                           bool more_follows) = 0;
  virtual void Send(Token token, int socket_fd, const char* from, size_t size_bytes,
                    bool more_follows) = 0;
  // Zero copy; a second completion (`notification`) frees the bytes.
  // registered_index < 0: not from a registered buffer.
  virtual void SendZeroCopy(Token token, int socket_fd, const char* from, size_t size_bytes,
                            int registered_index, bool more_follows) = 0;
  // Gathered. `message` is read until the first completion, its bytes until the
  // notification. Only where zero_copy_is_reported().
  virtual void SendMessageZeroCopy(Token token, int socket_fd, const msghdr* message,
                                   bool more_follows) = 0;
  // One shot; poll(2) event mask.
  virtual void Poll(Token token, int fd, uint32_t poll_mask) = 0;
  virtual void Connect(Token token, int socket_fd, const sockaddr* address,
                       socklen_t address_size) = 0;
  // Cancels the operation submitted with `target`; its own completion comes
  // under `token`, the target's as usual.
  virtual void Cancel(Token token, Token target) = 0;

  // --- files, through the ring ---------------------------------------------
  virtual void SpliceFileToPipe(Token token, const File& file, int64_t position,
                                const PipeFds& pipe, size_t size_bytes) = 0;
  virtual void ReadFile(Token token, const File& file, int64_t position, const iovec* parts,
                        int part_count) = 0;
  virtual void WriteFile(Token token, const File& file, int64_t position, const iovec* parts,
                         int part_count) = 0;
  // fdatasync.
  virtual void SyncFile(Token token, const File& file) = 0;

  // --- inline, non-blocking --------------------------------------------------
  virtual IoResult SendFileNow(int socket_fd, const File& file, int64_t position, size_t size_bytes,
                               bool more_follows) = 0;
  virtual IoResult SplicePipeToSocketNow(const PipeFds& pipe, int socket_fd, size_t size_bytes,
                                         bool more_follows) = 0;
  virtual absl::StatusOr<PipeFds> OpenPipe(size_t capacity_bytes) = 0;
  virtual void ClosePipe(const PipeFds& pipe) = 0;
  // shutdown(2) of both sides or of the write side only.
  virtual void Shutdown(int socket_fd, bool write_side_only) = 0;
  virtual void Close(int fd) = 0;
  // What was sent and the peer has not acknowledged; 0 where the kernel cannot say.
  virtual int64_t UnacknowledgedBytes(int socket_fd) = 0;
  // A reset instead of a FIN at Close: SO_LINGER {1, 0}.
  virtual void SetResetOnClose(int socket_fd) = 0;
  virtual IoResult SetSocketOption(int socket_fd, int level, int option, const void* value,
                                   socklen_t value_size) = 0;
  // The peer's address; `*address_size` in and out as getpeername(2).
  virtual IoResult PeerName(int socket_fd, sockaddr_storage* address, socklen_t* address_size) = 0;

  // --- provided buffers ------------------------------------------------------
  // `count` (a power of two) buffers of `size_bytes` each at base + id * size;
  // all are available at once. Once per ring.
  virtual absl::Status ProvideBuffers(char* base, uint32_t size_bytes, uint32_t count) = 0;
  // Gives buffer `id` back to the kernel; visible at the latest with the next
  // SubmitAndReap.
  virtual void ReturnBuffer(uint32_t id) = 0;
  // Registers fixed buffers; the status says when the memlock limit refuses.
  virtual absl::Status RegisterBuffers(absl::Span<const iovec> buffers) = 0;

  // --- waiting ---------------------------------------------------------------
  // Submits what is queued, waits until a completion, a Wake() or `wait_ns`
  // (0: does not wait; < 0: no limit), and copies completions to `out`.
  // Returns how many. May return 0 early.
  virtual size_t SubmitAndReap(absl::Span<Completion> out, int64_t wait_ns) = 0;
  // Ends the owner's present wait or the next one (a SubmitAndReap that does
  // not wait uses none up). Any thread, also before Attach(); cheap when not parked
  // is the caller's concern (network/processor/processor keeps a parked flag).
  virtual void Wake() = 0;

  virtual RingStats stats() const { return {}; }

  // True where RecvProvided is multishot.
  virtual bool recv_is_multishot() const = 0;
  // False: SendZeroCopy must not be called.
  virtual bool send_zero_copy_available() const = 0;
  // True: notifications say whether the bytes were copied after all.
  virtual bool zero_copy_is_reported() const = 0;
};

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_RING_H_
