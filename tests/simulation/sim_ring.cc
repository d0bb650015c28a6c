#include "tests/simulation/sim_ring.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace gyre::sim {

using uring::Completion;
using uring::kNoBuffer;
using uring::PipeFds;
using uring::Token;

namespace {

std::string Gather(const std::vector<absl::string_view>& parts, size_t skip_bytes) {
  std::string bytes;
  for (const absl::string_view part : parts) absl::StrAppend(&bytes, part);
  return bytes.substr(std::min(skip_bytes, bytes.size()));
}

std::vector<absl::string_view> PartsOf(const msghdr& message) {
  std::vector<absl::string_view> parts;
  for (size_t i = 0; i < message.msg_iovlen; ++i) {
    parts.emplace_back(static_cast<const char*>(message.msg_iov[i].iov_base),
                       message.msg_iov[i].iov_len);
  }
  return parts;
}

// The simulation's files hold no descriptor, and the kernel would keep the file
// alive through it.
FileRef Hold(const File& file) { return FileRef(const_cast<File*>(&file)); }

}  // namespace

// --- submission -----------------------------------------------------------------

SimRing::Operation& SimRing::Queue(Kind kind, Token token, int fd) {
  ++stats_.submissions;
  Operation& operation = operations_.emplace_back();
  operation.kind = kind;
  operation.token = token;
  operation.fd = fd;
  return operation;
}

void SimRing::AcceptMultishot(Token token, int listen_fd) {
  ++stats_.accept_arms;
  Queue(Kind::kAccept, token, listen_fd).multishot = true;
}

void SimRing::AcceptOnce(Token token, int listen_fd) {
  ++stats_.accept_arms;
  Queue(Kind::kAccept, token, listen_fd);
}

void SimRing::RecvProvided(Token token, int socket_fd) {
  ++stats_.receive_arms;
  Queue(Kind::kReceiveProvided, token, socket_fd).multishot = options_.multishot_receive;
}

void SimRing::RecvProvidedOnce(Token token, int socket_fd) {
  ++stats_.receive_arms;
  Queue(Kind::kReceiveProvided, token, socket_fd);
}

void SimRing::RecvInto(Token token, int socket_fd, char* to, size_t size_bytes) {
  Operation& operation = Queue(Kind::kReceiveInto, token, socket_fd);
  operation.to = to;
  operation.size_bytes = size_bytes;
}

void SimRing::QueueSend(Token token, int fd, std::vector<absl::string_view> parts, bool zero_copy) {
  Operation& operation = Queue(Kind::kSend, token, fd);
  operation.parts = std::move(parts);
  operation.zero_copy = zero_copy;
  if (zero_copy) operation.snapshot = Gather(operation.parts, 0);
}

void SimRing::SendMessage(Token token, int socket_fd, const msghdr* message, bool more_follows) {
  QueueSend(token, socket_fd, PartsOf(*message), false);
}

void SimRing::Send(Token token, int socket_fd, const char* from, size_t size_bytes,
                   bool more_follows) {
  QueueSend(token, socket_fd, {absl::string_view(from, size_bytes)}, false);
}

void SimRing::SendZeroCopy(Token token, int socket_fd, const char* from, size_t size_bytes,
                           int registered_index, bool more_follows) {
  CHECK(options_.zero_copy);
  QueueSend(token, socket_fd, {absl::string_view(from, size_bytes)}, true);
}

void SimRing::SendMessageZeroCopy(Token token, int socket_fd, const msghdr* message,
                                  bool more_follows) {
  CHECK(options_.zero_copy);
  QueueSend(token, socket_fd, PartsOf(*message), true);
}

void SimRing::Poll(Token token, int fd, uint32_t poll_mask) {
  Queue(Kind::kPoll, token, fd).poll_mask = poll_mask;
}

void SimRing::Connect(Token token, int socket_fd, const sockaddr* address, socklen_t address_size) {
  Queue(Kind::kConnect, token, socket_fd);
}

void SimRing::Cancel(Token token, Token target) { Queue(Kind::kCancel, token, -1).target = target; }

void SimRing::SpliceFileToPipe(Token token, const File& file, int64_t position, const PipeFds& pipe,
                               size_t size_bytes) {
  Operation& operation = Queue(Kind::kSplice, token, pipe.read_fd);
  operation.file = Hold(file);
  operation.position = position;
  operation.size_bytes = size_bytes;
}

void SimRing::ReadFile(Token token, const File& file, int64_t position, const iovec* parts,
                       int part_count) {
  Operation& operation = Queue(Kind::kRead, token, -1);
  operation.file = Hold(file);
  operation.position = position;
  operation.vector = parts;
  operation.vector_count = part_count;
}

void SimRing::WriteFile(Token token, const File& file, int64_t position, const iovec* parts,
                        int part_count) {
  Operation& operation = Queue(Kind::kWrite, token, -1);
  operation.file = Hold(file);
  operation.position = position;
  operation.vector = parts;
  operation.vector_count = part_count;
}

void SimRing::SyncFile(Token token, const File& file) {
  Queue(Kind::kSync, token, -1).file = Hold(file);
}

// --- inline calls -----------------------------------------------------------------

IoResult SimRing::SendFileNow(int socket_fd, const File& file, int64_t position, size_t size_bytes,
                              bool more_follows) {
  if ((network_.PollEvents(socket_fd) & POLLOUT) == 0) return IoResult::Error(EAGAIN);
  std::string bytes(std::min<size_t>(size_bytes, 65536), '\0');
  const IoResult read = file.ReadAt(position, bytes.data(), bytes.size());
  if (read.bytes() == 0) return read;
  return network_.Send(socket_fd,
                       absl::string_view(bytes).substr(0, static_cast<size_t>(read.bytes())));
}

IoResult SimRing::SplicePipeToSocketNow(const PipeFds& pipe, int socket_fd, size_t size_bytes,
                                        bool more_follows) {
  std::string& bytes = network_.PipeOf(pipe.read_fd).bytes;
  if (bytes.empty()) return IoResult::Error(EAGAIN);
  const IoResult sent = network_.Send(socket_fd, absl::string_view(bytes).substr(0, size_bytes));
  bytes.erase(0, static_cast<size_t>(sent.bytes()));
  return sent;
}

absl::StatusOr<PipeFds> SimRing::OpenPipe(size_t capacity_bytes) {
  if (open_pipes_ >= options_.max_pipes) return absl::ResourceExhaustedError("pipe: no more");
  ++open_pipes_;
  const int fd = network_.OpenPipe(capacity_bytes);
  return PipeFds{fd, fd + 1, capacity_bytes};
}

void SimRing::ClosePipe(const PipeFds& pipe) {
  --open_pipes_;
  network_.ClosePipe(pipe.read_fd);
}

void SimRing::Shutdown(int socket_fd, bool write_side_only) {
  network_.Shutdown(socket_fd, write_side_only);
}

void SimRing::Close(int fd) {
  if (!network_.IsOpen(fd)) return;  // went with the machine
  for (const Operation& operation : operations_) {
    CHECK(operation.fd != fd || operation.kind == Kind::kNotification)
        << "descriptor closed under an operation of kind " << static_cast<int>(operation.kind);
  }
  network_.Close(fd);
}

void SimRing::SetResetOnClose(int socket_fd) {
  if (network_.IsOpen(socket_fd)) network_.SetResetOnClose(socket_fd);
}

IoResult SimRing::SetSocketOption(int socket_fd, int level, int option, const void* value,
                                  socklen_t value_size) {
  return network_.IsOpen(socket_fd) ? IoResult::Bytes(0) : IoResult::Error(EBADF);
}

IoResult SimRing::PeerName(int socket_fd, sockaddr_storage* address, socklen_t* address_size) {
  return network_.PeerName(socket_fd, address, address_size);
}

// --- buffers ------------------------------------------------------------------------

absl::Status SimRing::ProvideBuffers(char* base, uint32_t size_bytes, uint32_t count) {
  CHECK(buffer_base_ == nullptr) << "provided buffers: already given to this ring";
  buffer_base_ = base;
  buffer_size_bytes_ = size_bytes;
  lent_.assign(count, false);
  for (uint32_t id = 0; id < count; ++id) buffers_.push_back(id);
  return absl::OkStatus();
}

void SimRing::ReturnBuffer(uint32_t id) {
  CHECK(id < lent_.size() && lent_[id]) << "buffer " << id << " returned twice";
  lent_[id] = false;
  buffers_.push_back(id);
}

absl::Status SimRing::RegisterBuffers(absl::Span<const iovec> buffers) { return absl::OkStatus(); }

// --- completion -----------------------------------------------------------------------

void SimRing::Complete(const Operation& operation, IoResult result, bool more, uint32_t buffer_id) {
  ++stats_.completions;
  Completion completion;
  completion.token = operation.token;
  completion.result = result;
  completion.more = more;
  completion.buffer_id = buffer_id;
  completion.notification = operation.kind == Kind::kNotification;
  completion.zero_copy_copied = completion.notification && options_.zero_copy_copied_one_in != 0 &&
                                random_.OneIn(options_.zero_copy_copied_one_in);
  ready_.push_back(completion);
}

bool SimRing::AttemptAccept(Operation& operation) {
  const IoResult accepted = network_.Accept(operation.fd);
  if (accepted.would_block()) return false;
  const bool more = operation.multishot && accepted.ok() && !Mischief();
  Complete(operation, accepted, more);
  return !more;
}

bool SimRing::AttemptReceiveProvided(Operation& operation) {
  if (operation.misses_reset && (network_.PollEvents(operation.fd) & POLLERR) != 0) return false;
  // A few buffers' worth for each time it is looked at.
  for (uint64_t rounds = 1 + random_.Below(3); rounds > 0; --rounds) {
    if ((network_.PollEvents(operation.fd) & (POLLIN | POLLNVAL)) == 0) return false;
    if (buffers_.empty()) {
      ++stats_.no_buffers;
      Complete(operation, IoResult::Error(ENOBUFS));
      return true;
    }
    const uint32_t id = buffers_.front();
    char* const to = buffer_base_ + static_cast<size_t>(id) * buffer_size_bytes_;
    const IoResult received = network_.Receive(operation.fd, to, buffer_size_bytes_);
    if (received.bytes() == 0) {
      Complete(operation, received);
      return true;
    }
    buffers_.pop_front();
    lent_[id] = true;
    const bool more = operation.multishot && !Mischief();
    operation.misses_reset =
        options_.misses_reset_one_in != 0 && random_.OneIn(options_.misses_reset_one_in);
    Complete(operation, received, more, id);
    if (!more) return true;
  }
  return false;
}

bool SimRing::AttemptSend(Operation& operation) {
  const std::string left = Gather(operation.parts, operation.done_bytes);
  if (operation.zero_copy) {
    CHECK(Gather(operation.parts, 0) == operation.snapshot)
        << "zero-copy bytes changed before they were sent";
  }
  const IoResult sent = network_.Send(operation.fd, left);
  if (sent.would_block()) return false;
  operation.done_bytes += static_cast<size_t>(sent.bytes());
  const bool all = sent.ok() && static_cast<size_t>(sent.bytes()) == left.size();
  if (sent.ok() && !all && !Mischief()) return false;
  const IoResult result =
      operation.done_bytes > 0 ? IoResult::Bytes(static_cast<int32_t>(operation.done_bytes)) : sent;
  if (!operation.zero_copy || !result.ok()) {
    Complete(operation, result);
    return true;
  }
  Complete(operation, result, /*more=*/true);
  operation.kind = Kind::kNotification;
  operation.acknowledged = network_.WatchAcknowledged(operation.fd);
  return false;
}

bool SimRing::AttemptCancel(const Operation& operation) {
  for (auto target = operations_.begin(); target != operations_.end(); ++target) {
    if (target->token != operation.target || &*target == &operation ||
        target->kind == Kind::kNotification ||
        std::find(cancelled_.begin(), cancelled_.end(), target) != cancelled_.end()) {
      continue;
    }
    if (target->kind == Kind::kSplice || target->kind == Kind::kSync) {
      // In a worker's hands: it ends as it ends.
      Complete(operation, IoResult::Error(EALREADY));
      return true;
    }
    Complete(*target, target->done_bytes > 0
                          ? IoResult::Bytes(static_cast<int32_t>(target->done_bytes))
                          : IoResult::Error(ECANCELED));
    cancelled_.push_back(target);
    Complete(operation, IoResult::Bytes(0));
    return true;
  }
  Complete(operation, IoResult::Error(ENOENT));
  return true;
}

IoResult SimRing::Splice(const Operation& operation) {
  SimNetwork::Pipe& pipe = network_.PipeOf(operation.fd);
  const size_t room = pipe.capacity_bytes - pipe.bytes.size();
  if (room == 0) return IoResult::Error(EAGAIN);
  std::string bytes(std::min(room, operation.size_bytes), '\0');
  if (Mischief()) bytes.resize(1 + random_.Below(bytes.size()));
  const IoResult read = operation.file->ReadAt(operation.position, bytes.data(), bytes.size());
  pipe.bytes.append(bytes, 0, static_cast<size_t>(read.bytes()));
  return read;
}

IoResult SimRing::ReadOrWrite(const Operation& operation) {
  if (operation.kind == Kind::kWrite) {
    return operation.file->WriteVAt(operation.position, operation.vector, operation.vector_count);
  }
  int32_t total = 0;
  for (int i = 0; i < operation.vector_count; ++i) {
    const iovec& part = operation.vector[i];
    size_t size_bytes = part.iov_len;
    if (Mischief() && size_bytes > 1) size_bytes = 1 + random_.Below(size_bytes);
    const IoResult read =
        operation.file->ReadAt(operation.position + total, part.iov_base, size_bytes);
    if (!read.ok()) return total > 0 ? IoResult::Bytes(total) : read;
    total += read.bytes();
    if (static_cast<size_t>(read.bytes()) < part.iov_len) break;
  }
  return IoResult::Bytes(total);
}

bool SimRing::Attempt(Operation& operation) {
  switch (operation.kind) {
    case Kind::kAccept:
      return AttemptAccept(operation);
    case Kind::kReceiveProvided:
      return AttemptReceiveProvided(operation);
    case Kind::kReceiveInto: {
      const IoResult received = network_.Receive(operation.fd, operation.to, operation.size_bytes);
      if (received.would_block()) return false;
      Complete(operation, received);
      return true;
    }
    case Kind::kSend:
      return AttemptSend(operation);
    case Kind::kNotification:
      if (!operation.acknowledged() || random_.OneIn(2)) return false;
      CHECK(Gather(operation.parts, 0) == operation.snapshot)
          << "zero-copy bytes changed before the notification";
      Complete(operation, IoResult::Bytes(0));
      return true;
    case Kind::kPoll: {
      const uint32_t events =
          network_.PollEvents(operation.fd) & (operation.poll_mask | POLLERR | POLLHUP | POLLNVAL);
      if (events == 0) return false;
      Complete(operation, IoResult::Bytes(static_cast<int32_t>(events)));
      return true;
    }
    case Kind::kConnect:
      Complete(operation, IoResult::Error(ECONNREFUSED));
      return true;
    case Kind::kCancel:
      return AttemptCancel(operation);
    case Kind::kSplice:
      Complete(operation, Splice(operation));
      return true;
    case Kind::kRead:
    case Kind::kWrite:
      Complete(operation, ReadOrWrite(operation));
      return true;
    case Kind::kSync:
      Complete(operation, operation.file->Sync().ok() ? IoResult::Bytes(0) : IoResult::Error(EIO));
      return true;
  }
  return true;
}

size_t SimRing::SubmitAndReap(absl::Span<Completion> out, int64_t wait_ns) {
  ++stats_.enters;
  std::vector<Operations::iterator> order;
  for (auto it = operations_.begin(); it != operations_.end(); ++it) order.push_back(it);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
  for (size_t i = 0; i < order.size(); ++i) {
    const bool gone = std::find(cancelled_.begin(), cancelled_.end(), order[i]) != cancelled_.end();
    // Each takes its own time.
    if (gone || random_.OneIn(4) || !Attempt(*order[i])) continue;
    operations_.erase(order[i]);
  }
  for (const Operations::iterator target : cancelled_) operations_.erase(target);
  cancelled_.clear();

  size_t count = std::min(out.size(), ready_.size());
  if (count > 1 && random_.OneIn(4)) count = random_.Below(count);
  std::copy_n(ready_.begin(), count, out.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

}  // namespace gyre::sim
