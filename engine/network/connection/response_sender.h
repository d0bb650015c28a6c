// Puts responses on the wire: buffers gathered into one send through the ring,
// file slices by the cheapest way that does not stall the processor. One operation
// per connection at a time; short sends and short splices go on where they ended.
//
//   buffers       one sendmsg of up to kGatherParts pieces, over several responses
//                 (from zero_copy_min_bytes on without a copy, zero_copy.h)
//   small slices  copied behind the header (pages that are resident; else read
//                 through the ring)
//   hot slices    inline sendfile, a quantum per turn, then the others' turn
//   cold slices   spliced into a pooled pipe by the ring's workers, from there to
//                 the socket inline; with no pipe free, read through the ring
//
// Threads: owner (the processor).
// Owns: transfers (leased while a send needs more than a pointer) and the pipes.
// Borrows: ring, slab, options, metrics.
// Invariant: slot.sending names the operation in flight, if any, and exactly then
// the connection's send side is busy.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_RESPONSE_SENDER_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_RESPONSE_SENDER_H_

#include <sys/socket.h>

#include <cstdint>
#include <memory>

#include "engine/base/object_pool.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/connection/connection_table.h"
#include "engine/network/connection/zero_copy.h"
#include "engine/network/network_metrics.h"
#include "engine/network/server_options.h"
#include "engine/uring/ring.h"
#include "engine/uring/splice_pipe.h"

namespace gyre {

// What an operation in the kernel points to, and a pipe's content.
struct Transfer {
  msghdr message = {};
  iovec parts[kGatherParts];
  Buffer read;
  iovec read_part = {};
  uring::PipeFds pipe;
  bool has_pipe = false;
  uint32_t pipe_bytes = 0;
};

class ResponseSender {
 public:
  // What the processor does about it.
  class Host {
   public:
    // The front request of slot.output has left (or needs no bytes).
    virtual void OnFrontSent(ConnectionSlot& slot) = 0;
    // The front response asks for the connection's end.
    virtual void OnCloseResponse(ConnectionSlot& slot) = 0;
    // `reason` null: the peer is gone, which is no news.
    virtual void OnSendFailed(ConnectionSlot& slot, const char* reason) = 0;
    // The quantum is used up: call Continue in a later turn.
    virtual void OnQuantumUsed(ConnectionSlot& slot) = 0;

   protected:
    ~Host() = default;
  };

  ResponseSender(Host& host, uring::Ring& ring, SlabPool& slab, const ProcessorOptions& options,
                 NetworkMetrics& metrics);

  // Sends from where the front response stands until an operation is in flight,
  // the quantum is used up, or nothing is ready.
  void Continue(ConnectionSlot& slot);
  // An operation of the sending side was retired.
  void OnCompletion(ConnectionSlot& slot, Operation operation, const uring::Completion& completion);
  // A completion of OpKind::kSendZeroCopy: whose connection it moved on; null when
  // it names none.
  ConnectionSlot* OnZeroCopy(const uring::Completion& completion);
  // Cancels the send in flight (SendOperation::kZeroCopy).
  void CancelZeroCopy(ConnectionSlot& slot) { zero_copy_.Cancel(slot); }
  // As ZeroCopySends'.
  int64_t zero_copy_excess_bytes() const { return zero_copy_.excess_bytes(); }
  // The ring has the slab as fixed buffers.
  void OnSlabRegistered() { zero_copy_.OnSlabRegistered(); }
  // Nothing of the slot is in flight and nothing more will be sent.
  void Abandon(ConnectionSlot& slot);
  // Once, before the ring goes.
  void Stop() { pipes_.reset(); }

 private:
  enum class Method : uint8_t { kCopySmall, kSendfile, kSplice, kRead };

  void StartSend(ConnectionSlot& slot);
  // True: go on at once.
  bool ContinueSlice(ConnectionSlot& slot);
  Method Choose(const ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                int64_t chunk_bytes) const;
  bool Sendfile(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                int64_t chunk_bytes);
  bool StartSplice(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                   int64_t left_bytes);
  bool DrainPipe(ConnectionSlot& slot);
  // After an inline call that moved no byte: true where it is to be made again. `if_none`
  // is why there was none to move.
  bool OnNothingSent(ConnectionSlot& slot, const IoResult& sent, const char* if_none);
  void OnFileBytesSent(ConnectionSlot& slot, int64_t bytes);
  void StartRead(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                 int64_t chunk_bytes);
  // Copies the resident small slices among the next parts of the front response, from
  // `index` on: what one send takes, since there may be thousands. False: a file ended early.
  bool CopySmallSlices(ConnectionSlot& slot, uint32_t index);
  enum class Copied : uint8_t { kAll, kNotResident, kFileEnded };
  // `*out` is a copy of `head`, where there is one, and of the slice.
  Copied CopySlice(const FileSlice& slice, const Buffer* head, Buffer* out);
  bool CopyParts(const ConnectionSlot& slot) const;
  void OnShortSend(ConnectionSlot& slot);
  void WaitWritable(ConnectionSlot& slot);
  void SetBusy(ConnectionSlot& slot, ConnectionSlot::SendOperation operation);
  void Fail(ConnectionSlot& slot, const char* reason);
  Buffer Allocate(uint32_t size_bytes);
  Transfer& TransferOf(ConnectionSlot& slot);
  void ReleasePipe(Transfer& transfer);
  void ReleaseTransfer(ConnectionSlot& slot);

  Host& host_;
  uring::Ring& ring_;
  SlabPool& slab_;
  const ProcessorOptions& options_;
  NetworkMetrics& metrics_;
  ZeroCopySends zero_copy_;
  std::unique_ptr<uring::SplicePipePool> pipes_;
  ObjectPool<Transfer, 4> transfers_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_RESPONSE_SENDER_H_
