#include "engine/network/connection/response_sender.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "glog/logging.h"

namespace gyre {
namespace {

using SendOperation = ConnectionSlot::SendOperation;

// One send's bound: a slow but living reader is seen to make progress.
constexpr int64_t kSendMaxBytes = 1 << 20;
// One read through the ring, where a file is copied.
constexpr int64_t kReadMaxBytes = 64 * 1024;
// A small slice and the header before it are one buffer up to this size.
constexpr uint32_t kJoinMaxBytes = 16 * 1024;

constexpr char kFileEnded[] = "a file that was to be sent ended early";
constexpr char kFileFailed[] = "a file that was to be sent could not be read";

bool IsPeerGone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ECANCELED || error == ETIMEDOUT ||
         error == ENOTCONN;
}

}  // namespace

ResponseSender::ResponseSender(Host& host, uring::Ring& ring, SlabPool& slab,
                               const ProcessorOptions& options, NetworkMetrics& metrics)
    : host_(host),
      ring_(ring),
      slab_(slab),
      options_(options),
      metrics_(metrics),
      zero_copy_(ring, slab, options, metrics),
      pipes_(std::make_unique<uring::SplicePipePool>(
          ring, static_cast<size_t>(std::max(1, options.splice_pipe_count)),
          options.splice_pipe_bytes)) {}

void ResponseSender::Continue(ConnectionSlot& slot) {
  while (ConnectionRequest* request = slot.output.front()) {
    if (request->response_kind() == ResponseKind::kCloseConnection) {
      host_.OnCloseResponse(slot);
      return;
    }
    if (slot.output.front_done()) {
      host_.OnFrontSent(slot);
      continue;
    }
    if (std::holds_alternative<Buffer>(slot.output.front_part())) {
      StartSend(slot);
      return;
    }
    if (!ContinueSlice(slot)) return;
  }
  ReleaseTransfer(slot);
}

bool ResponseSender::CopyParts(const ConnectionSlot& slot) const {
  return options_.connection.file_transfer == FileTransfer::kAuto ||
         options_.connection.file_transfer == FileTransfer::kCopy ||
         !slot.transport->passes_through();
}

void ResponseSender::StartSend(ConnectionSlot& slot) {
  if (CopyParts(slot) && !CopySmallSlices(slot, slot.output.part_index() + 1)) {
    return Fail(slot, kFileEnded);
  }
  iovec parts[kGatherParts];
  int64_t bytes = 0;
  bool more_follows = false;
  const int count = slot.output.Gather(parts, kGatherParts, kSendMaxBytes, &bytes, &more_follows);
  const msghdr* message = nullptr;
  if (count > 1) {
    Transfer& transfer = TransferOf(slot);
    std::copy_n(parts, count, transfer.parts);
    transfer.message = {};
    transfer.message.msg_iov = transfer.parts;
    transfer.message.msg_iovlen = static_cast<size_t>(count);
    message = &transfer.message;
  }
  slot.connection.OnOperationSubmitted();
  if (zero_copy_.ShouldUse(slot, bytes)) {
    SetBusy(slot, SendOperation::kZeroCopy);
    return zero_copy_.Start(slot, parts, count, bytes, message, more_follows);
  }
  SetBusy(slot, SendOperation::kSend);
  const uring::Token token = slot.TokenFor(uring::OpKind::kSend, Operation::kSend);
  if (message != nullptr) return ring_.SendMessage(token, slot.fd, message, more_follows);
  ring_.Send(token, slot.fd, static_cast<const char*>(parts[0].iov_base), parts[0].iov_len,
             more_follows);
}

bool ResponseSender::CopySmallSlices(ConnectionSlot& slot, uint32_t index) {
  auto& parts = slot.output.front_parts();
  const auto end = static_cast<uint32_t>(std::min<size_t>(parts.size(), index + kGatherParts));
  Copied copied = Copied::kAll;
  // Those before `kept` stay; slices that went into the buffer before them leave a gap.
  uint32_t kept = index;
  uint32_t next = index;
  for (; next < end; ++next) {
    if (const FileSlice* slice = std::get_if<FileSlice>(&parts[next])) {
      if (slice->size_bytes > options_.connection.file_copy_max_bytes) break;
      // Behind the buffer before it, if none of that has left: one piece is cheaper
      // to send than two.
      const Buffer* head = slot.output.UnsentBufferBefore(kept);
      if (head != nullptr && head->size_bytes() + slice->size_bytes > kJoinMaxBytes) head = nullptr;
      Buffer bytes;
      copied = CopySlice(*slice, head, &bytes);
      if (copied != Copied::kAll) break;
      if (head != nullptr) {
        parts[kept - 1] = std::move(bytes);
        continue;
      }
      parts[next] = std::move(bytes);
    }
    if (kept != next) parts[kept] = std::move(parts[next]);
    ++kept;
  }
  parts.erase(parts.begin() + kept, parts.begin() + next);
  return copied != Copied::kFileEnded;
}

ResponseSender::Copied ResponseSender::CopySlice(const FileSlice& slice, const Buffer* head,
                                                 Buffer* out) {
  const auto size_bytes = static_cast<uint32_t>(slice.size_bytes);
  const uint32_t head_bytes = head == nullptr ? 0 : head->size_bytes();
  *out = Allocate(head_bytes + size_bytes);
  if (head != nullptr) std::copy_n(head->data(), head_bytes, out->data());
  uint32_t done = 0;
  while (done < size_bytes) {
    const IoResult read = slice.file->ReadResident(
        slice.position + done, out->data() + head_bytes + done, size_bytes - done);
    if (read.would_block()) return Copied::kNotResident;
    if (read.error() == EINTR) continue;
    if (read.bytes() == 0) return Copied::kFileEnded;
    done += static_cast<uint32_t>(read.bytes());
  }
  metrics_.file_bytes_copied.Add(size_bytes);
  return Copied::kAll;
}

bool ResponseSender::ContinueSlice(ConnectionSlot& slot) {
  if (slot.transfer != nullptr && slot.transfer->pipe_bytes > 0) return DrainPipe(slot);
  const FileSlice& slice = std::get<FileSlice>(slot.output.front_part());
  const int64_t position = slice.position + slot.output.part_offset();
  const int64_t left_bytes = slice.size_bytes - slot.output.part_offset();
  const int64_t quantum_left = options_.connection.send_quantum_bytes - slot.turn_bytes;
  if (quantum_left <= 0) {
    SetBusy(slot, SendOperation::kTurn);
    host_.OnQuantumUsed(slot);
    return false;
  }
  const int64_t chunk_bytes = std::min(left_bytes, quantum_left);
  switch (Choose(slot, slice, position, chunk_bytes)) {
    case Method::kCopySmall:
      if (!CopySmallSlices(slot, slot.output.part_index())) {
        Fail(slot, kFileEnded);
        return false;
      }
      if (std::holds_alternative<Buffer>(slot.output.front_part())) return true;
      // Not all of it is in the page cache.
      StartRead(slot, std::get<FileSlice>(slot.output.front_part()), position, chunk_bytes);
      return false;
    case Method::kSendfile:
      return Sendfile(slot, slice, position, chunk_bytes);
    case Method::kSplice:
      return StartSplice(slot, slice, position, left_bytes);
    case Method::kRead:
      StartRead(slot, slice, position, chunk_bytes);
      return false;
  }
  return false;
}

ResponseSender::Method ResponseSender::Choose(const ConnectionSlot& slot, const FileSlice& slice,
                                              int64_t position, int64_t chunk_bytes) const {
  const bool small =
      slice.size_bytes <= options_.connection.file_copy_max_bytes && slot.output.part_offset() == 0;
  if (small && CopyParts(slot)) return Method::kCopySmall;
  if (!slot.transport->passes_through()) return Method::kRead;
  switch (options_.connection.file_transfer) {
    case FileTransfer::kCopy:
      return Method::kRead;
    case FileTransfer::kSendfile:
      return Method::kSendfile;
    case FileTransfer::kSplice:
      return Method::kSplice;
    case FileTransfer::kAuto:
      return slice.file->IsResident(position, static_cast<size_t>(chunk_bytes)) ? Method::kSendfile
                                                                                : Method::kSplice;
  }
  return Method::kRead;
}

bool ResponseSender::Sendfile(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                              int64_t chunk_bytes) {
  const int64_t left_bytes = slice.size_bytes - slot.output.part_offset();
  const bool more_follows = chunk_bytes < left_bytes || slot.output.more_after_part();
  const IoResult sent = ring_.SendFileNow(slot.fd, *slice.file, position,
                                          static_cast<size_t>(chunk_bytes), more_follows);
  if (sent.bytes() == 0) return OnNothingSent(slot, sent, kFileEnded);
  metrics_.file_bytes_sendfile.Add(sent.bytes());
  OnFileBytesSent(slot, sent.bytes());
  if (sent.bytes() < chunk_bytes) {
    // The socket is full (or the file ended, which the next call tells).
    OnShortSend(slot);
    return false;
  }
  return true;
}

bool ResponseSender::OnNothingSent(ConnectionSlot& slot, const IoResult& sent,
                                   const char* if_none) {
  if (sent.error() == EINTR) return true;
  if (sent.would_block()) {
    OnShortSend(slot);
  } else if (sent.ok()) {
    Fail(slot, if_none);
  } else {
    Fail(slot, IsPeerGone(sent.error()) ? nullptr : kFileFailed);
  }
  return false;
}

void ResponseSender::OnFileBytesSent(ConnectionSlot& slot, int64_t bytes) {
  metrics_.bytes_sent.Add(bytes);
  slot.traffic.sent_bytes += bytes;
  slot.turn_bytes += bytes;
  slot.output.Advance(bytes);
}

bool ResponseSender::StartSplice(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                                 int64_t left_bytes) {
  const uring::SplicePipePool::Lease lease = pipes_->TryLease(slot.index);
  if (lease.outcome != uring::SplicePipePool::LeaseOutcome::kLeased) {
    // Standing in line would let slow readers, whose pipes drain slowly, hold up
    // everybody's cold reads.
    if (lease.outcome == uring::SplicePipePool::LeaseOutcome::kQueued) pipes_->Forget(slot.index);
    metrics_.file_pipes_exhausted.Increment();
    StartRead(slot, slice, position, left_bytes);
    return false;
  }
  Transfer& transfer = TransferOf(slot);
  transfer.pipe = lease.pipe;
  transfer.has_pipe = true;
  const size_t chunk_bytes =
      std::min(static_cast<size_t>(left_bytes), lease.pipe.capacity_bytes > 0
                                                    ? lease.pipe.capacity_bytes
                                                    : size_t{options_.splice_pipe_bytes});
  SetBusy(slot, SendOperation::kSplice);
  slot.connection.OnOperationSubmitted();
  ring_.SpliceFileToPipe(slot.TokenFor(uring::OpKind::kSplice, Operation::kSplice), *slice.file,
                         position, transfer.pipe, chunk_bytes);
  return false;
}

bool ResponseSender::DrainPipe(ConnectionSlot& slot) {
  Transfer& transfer = *slot.transfer;
  const FileSlice& slice = std::get<FileSlice>(slot.output.front_part());
  const bool more_follows = slot.output.part_offset() + transfer.pipe_bytes < slice.size_bytes ||
                            slot.output.more_after_part();
  const IoResult sent =
      ring_.SplicePipeToSocketNow(transfer.pipe, slot.fd, transfer.pipe_bytes, more_follows);
  if (sent.bytes() == 0) return OnNothingSent(slot, sent, kFileFailed);
  metrics_.file_bytes_spliced.Add(sent.bytes());
  transfer.pipe_bytes -= static_cast<uint32_t>(sent.bytes());
  OnFileBytesSent(slot, sent.bytes());
  if (transfer.pipe_bytes > 0) {
    OnShortSend(slot);
    return false;
  }
  ReleasePipe(transfer);
  return true;
}

void ResponseSender::StartRead(ConnectionSlot& slot, const FileSlice& slice, int64_t position,
                               int64_t chunk_bytes) {
  const auto size_bytes = static_cast<uint32_t>(std::min(chunk_bytes, kReadMaxBytes));
  Transfer& transfer = TransferOf(slot);
  transfer.read = Allocate(size_bytes);
  transfer.read_part = {transfer.read.data(), size_bytes};
  SetBusy(slot, SendOperation::kFileRead);
  slot.connection.OnOperationSubmitted();
  ring_.ReadFile(slot.TokenFor(uring::OpKind::kFile, Operation::kFileRead), *slice.file, position,
                 &transfer.read_part, 1);
}

void ResponseSender::OnCompletion(ConnectionSlot& slot, Operation operation,
                                  const uring::Completion& completion) {
  slot.sending = SendOperation::kNone;
  slot.connection.OnSendIdle();
  slot.turn_bytes = 0;
  const IoResult result = completion.result;
  switch (operation) {
    case Operation::kSend:
      if (result.bytes() > 0) {
        metrics_.bytes_sent.Add(result.bytes());
        slot.traffic.sent_bytes += result.bytes();
        slot.output.Advance(result.bytes());
      }
      if (slot.connection.shutdown_done()) return;
      if (result.would_block()) return WaitWritable(slot);
      if (!result.ok() && result.error() != EINTR) {
        return Fail(slot, IsPeerGone(result.error()) ? nullptr : "sending failed");
      }
      return Continue(slot);
    case Operation::kWritable:
      if (slot.connection.shutdown_done()) return;
      return Continue(slot);
    case Operation::kSplice:
      if (result.bytes() > 0) slot.transfer->pipe_bytes = static_cast<uint32_t>(result.bytes());
      if (slot.connection.shutdown_done()) return;
      if (result.bytes() > 0) return Continue(slot);
      ReleasePipe(*slot.transfer);
      if (result.error() == EINTR || result.would_block()) return Continue(slot);
      return Fail(slot, result.ok() ? kFileEnded : kFileFailed);
    case Operation::kFileRead: {
      if (slot.connection.shutdown_done()) return;
      if (result.error() == EINTR || result.would_block()) return Continue(slot);
      if (result.bytes() == 0) return Fail(slot, result.ok() ? kFileEnded : kFileFailed);
      Buffer bytes = std::move(slot.transfer->read);
      bytes.Truncate(static_cast<uint32_t>(result.bytes()));
      metrics_.file_bytes_copied.Add(result.bytes());
      slot.output.InsertBeforeSlice(std::move(bytes));
      return Continue(slot);
    }
    case Operation::kReceive:
    case Operation::kReceiveDirect:
    case Operation::kReadable:
    case Operation::kHangup:
      DCHECK(false);
      return;
  }
}

ConnectionSlot* ResponseSender::OnZeroCopy(const uring::Completion& completion) {
  ConnectionSlot* const slot = zero_copy_.SlotOf(completion);
  if (slot == nullptr) {
    LOG(DFATAL) << "zero-copy completion of a send that is not in use";
    return nullptr;
  }
  if (completion.notification) {
    zero_copy_.OnNotification(completion);
    return slot;
  }
  slot->connection.OnOperationRetired();
  uring::Completion sent = completion;
  if (zero_copy_.OnSent(completion)) sent.result = IoResult::Error(EINTR);
  OnCompletion(*slot, Operation::kSend, sent);
  return slot;
}

void ResponseSender::OnShortSend(ConnectionSlot& slot) {
  metrics_.file_sends_short.Increment();
  WaitWritable(slot);
}

void ResponseSender::WaitWritable(ConnectionSlot& slot) {
  SetBusy(slot, SendOperation::kWritable);
  slot.connection.OnOperationSubmitted();
  ring_.Poll(slot.TokenFor(uring::OpKind::kPoll, Operation::kWritable), slot.fd, POLLOUT);
}

void ResponseSender::SetBusy(ConnectionSlot& slot, SendOperation operation) {
  DCHECK(slot.sending == SendOperation::kNone);
  slot.sending = operation;
  slot.connection.OnSendBusy();
}

void ResponseSender::Fail(ConnectionSlot& slot, const char* reason) {
  host_.OnSendFailed(slot, reason);
}

Buffer ResponseSender::Allocate(uint32_t size_bytes) {
  Buffer buffer = slab_.Allocate(size_bytes);
  return buffer.block() != nullptr ? buffer : Buffer::Allocate(size_bytes);
}

Transfer& ResponseSender::TransferOf(ConnectionSlot& slot) {
  if (slot.transfer == nullptr) slot.transfer = transfers_.Acquire();
  return *slot.transfer;
}

void ResponseSender::ReleasePipe(Transfer& transfer) {
  if (!transfer.has_pipe) return;
  transfer.has_pipe = false;
  if (std::exchange(transfer.pipe_bytes, 0) > 0) {
    pipes_->Discard(transfer.pipe);
  } else {
    pipes_->Return(transfer.pipe);
  }
}

void ResponseSender::ReleaseTransfer(ConnectionSlot& slot) {
  if (slot.transfer == nullptr) return;
  ReleasePipe(*slot.transfer);
  slot.transfer->read.Reset();
  transfers_.Release(std::exchange(slot.transfer, nullptr));
}

void ResponseSender::Abandon(ConnectionSlot& slot) { ReleaseTransfer(slot); }

}  // namespace gyre
