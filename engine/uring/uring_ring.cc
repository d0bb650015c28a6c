#include "engine/uring/uring_ring.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/uring/kernel_abi.h"
#include "engine/uring/setup_error.h"
#include "glog/logging.h"

namespace gyre::uring {
namespace {

constexpr uint16_t kBufferGroup = 0;
constexpr uint32_t kMaxProvidedBuffers = 32768;
// The most one sendfile or splice moves (MAX_RW_COUNT).
constexpr size_t kMaxTransferBytes = 0x7ffff000;
constexpr Token kWakeToken = {OpKind::kWake, 0, 0};
// Batch averages are kept as 28.4 fixed point.
constexpr uint32_t kBatchUnit = 16;

void IgnoreSigpipe() {
  struct sigaction current = {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    signal(SIGPIPE, SIG_IGN);
  }
}

class UringRing final : public Ring {
 public:
  UringRing(const Features& features, const RingOptions& options)
      : features_(features), options_(options) {}
  ~UringRing() override;

  absl::Status Init();

  absl::Status Attach() override;
  void AcceptMultishot(Token token, int listen_fd) override;
  void AcceptOnce(Token token, int listen_fd) override;
  void RecvProvided(Token token, int socket_fd) override;
  void RecvProvidedOnce(Token token, int socket_fd) override;
  void RecvInto(Token token, int socket_fd, char* to, size_t size_bytes) override;
  void SendMessage(Token token, int socket_fd, const msghdr* message, bool more_follows) override;
  void Send(Token token, int socket_fd, const char* from, size_t size_bytes,
            bool more_follows) override;
  void SendZeroCopy(Token token, int socket_fd, const char* from, size_t size_bytes,
                    int registered_index, bool more_follows) override;
  void SendMessageZeroCopy(Token token, int socket_fd, const msghdr* message,
                           bool more_follows) override;
  void Poll(Token token, int fd, uint32_t poll_mask) override;
  void Connect(Token token, int socket_fd, const sockaddr* address,
               socklen_t address_size) override;
  void Cancel(Token token, Token target) override;
  void SpliceFileToPipe(Token token, const File& file, int64_t position, const PipeFds& pipe,
                        size_t size_bytes) override;
  void ReadFile(Token token, const File& file, int64_t position, const iovec* parts,
                int part_count) override;
  void WriteFile(Token token, const File& file, int64_t position, const iovec* parts,
                 int part_count) override;
  void SyncFile(Token token, const File& file) override;
  IoResult SendFileNow(int socket_fd, const File& file, int64_t position, size_t size_bytes,
                       bool more_follows) override;
  IoResult SplicePipeToSocketNow(const PipeFds& pipe, int socket_fd, size_t size_bytes,
                                 bool more_follows) override;
  absl::StatusOr<PipeFds> OpenPipe(size_t capacity_bytes) override;
  void ClosePipe(const PipeFds& pipe) override;
  void Shutdown(int socket_fd, bool write_side_only) override;
  void Close(int fd) override;
  int64_t UnacknowledgedBytes(int socket_fd) override;
  void SetResetOnClose(int socket_fd) override;
  IoResult SetSocketOption(int socket_fd, int level, int option, const void* value,
                           socklen_t value_size) override;
  IoResult PeerName(int socket_fd, sockaddr_storage* address, socklen_t* address_size) override;
  absl::Status ProvideBuffers(char* base, uint32_t size_bytes, uint32_t count) override;
  void ReturnBuffer(uint32_t id) override;
  absl::Status RegisterBuffers(absl::Span<const iovec> buffers) override;
  size_t SubmitAndReap(absl::Span<Completion> out, int64_t wait_ns) override;
  void Wake() override;
  RingStats stats() const override { return stats_; }
  bool recv_is_multishot() const override { return features_.Has(Feature::kMultishotRecv); }
  bool send_zero_copy_available() const override { return features_.Has(Feature::kSendZeroCopy); }
  bool zero_copy_is_reported() const override {
    return features_.Has(Feature::kSendZeroCopyReport);
  }

 private:
  io_uring_sqe* NextSqe(Token token);
  io_uring_sqe* PrepareRecv(Token token, int socket_fd, size_t size_bytes);
  // The number of queued sqes, made visible to the kernel.
  unsigned PublishSubmissions();
  void PublishBuffers();
  // One io_uring_enter. `wait_for` completions at least, at most `wait_ns`
  // (< 0: no limit); 0 does not wait.
  int Enter(unsigned to_submit, unsigned wait_for, int64_t wait_ns);
  // Makes room in a full submission queue.
  void FlushSubmissions();
  size_t CopyCompletions(absl::Span<Completion> out);
  // False: the ring's own, not to be shown.
  bool Translate(const io_uring_cqe& cqe, Completion* out);
  void StashCompletions();
  size_t TakeStashed(absl::Span<Completion> out);
  unsigned WaitTarget(int64_t wait_ns) const;
  void NoteBatch(size_t completions);
  bool KernelHasWork() const;
  // True when a wake-up has not ended a wait yet.
  bool TakeWake();
  void ArmWakeRead();
  int SendWakeMessage();

  const Features features_;
  const RingOptions options_;
  io_uring ring_ = {};
  bool initialised_ = false;
  std::thread::id owner_;
  RingStats stats_;

  // Wake-up. Without message wakes, an eventfd with a read that is always
  // armed. pending_wake_ covers a Wake() before Attach().
  int event_fd_ = -1;
  uint64_t event_value_ = 0;
  bool wake_read_armed_ = false;
  // A wake-up that was reaped by a call that did not wait ends the next wait.
  bool woken_ = false;
  std::atomic<bool> pending_wake_{false};

  // Provided buffers; returned ones become visible all at once.
  io_uring_buf_ring* buffer_ring_ = nullptr;
  size_t buffer_ring_bytes_ = 0;
  char* buffer_base_ = nullptr;
  uint32_t buffer_size_bytes_ = 0;
  uint32_t buffer_count_ = 0;
  uint32_t unpublished_buffers_ = 0;

  // Completions that had to leave the kernel's queue before the owner asked.
  std::vector<Completion> stash_;
  size_t stash_begin_ = 0;

  uint32_t batch_average_ = 0;
};

UringRing::~UringRing() {
  if (initialised_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) close(event_fd_);
  if (buffer_ring_ != nullptr) munmap(buffer_ring_, buffer_ring_bytes_);
}

absl::Status UringRing::Init() {
  io_uring_params params = {};
  params.flags = SetupFlags(features_.available) | IORING_SETUP_CQSIZE;
  if (features_.Has(Feature::kSingleIssuer)) params.flags |= IORING_SETUP_R_DISABLED;
  params.cq_entries = std::max(options_.completion_entries, 4 * options_.submission_entries);
  const int ret = io_uring_queue_init_params(options_.submission_entries, &ring_, &params);
  if (ret != 0) return SetupError(-ret, ReadSetupEnvironment());
  initialised_ = true;
  io_uring_ring_dontfork(&ring_);
  if (!features_.Has(Feature::kMsgRingWake)) {
    // Blocking on purpose: a read of a non-blocking file answers EAGAIN
    // instead of waiting.
    event_fd_ = eventfd(0, EFD_CLOEXEC);
    if (event_fd_ < 0) return SetupError(errno, ReadSetupEnvironment());
  }
  return absl::OkStatus();
}

absl::Status UringRing::Attach() {
  owner_ = std::this_thread::get_id();
  if (features_.Has(Feature::kSingleIssuer)) {
    const int ret = io_uring_register(static_cast<unsigned>(ring_.ring_fd),
                                      IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    if (ret != 0) return SetupError(-ret, ReadSetupEnvironment());
  }
  unsigned workers[2] = {options_.bounded_workers, options_.unbounded_workers};
  const int ret = io_uring_register_iowq_max_workers(&ring_, workers);
  if (ret != 0) return SetupError(-ret, ReadSetupEnvironment());
  if (event_fd_ >= 0) ArmWakeRead();
  return absl::OkStatus();
}

// --- submission ---------------------------------------------------------------

io_uring_sqe* UringRing::NextSqe(Token token) {
  DCHECK(owner_ == std::this_thread::get_id())
      << "a ring is used by the thread that attached to it";
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    ++stats_.full_submissions;
    FlushSubmissions();
    sqe = io_uring_get_sqe(&ring_);
  }
  std::memset(sqe, 0, sizeof(*sqe));
  sqe->user_data = token.Pack();
  return sqe;
}

unsigned UringRing::PublishSubmissions() {
  // What liburing does in io_uring_submit, which takes no minimum wait: the
  // index array was filled once at set-up.
  io_uring_sq& queue = ring_.sq;
  if (queue.sqe_head != queue.sqe_tail) {
    queue.sqe_head = queue.sqe_tail;
    __atomic_store_n(queue.ktail, queue.sqe_tail, __ATOMIC_RELEASE);
  }
  return queue.sqe_tail - __atomic_load_n(queue.khead, __ATOMIC_ACQUIRE);
}

void UringRing::PublishBuffers() {
  if (unpublished_buffers_ == 0) return;
  io_uring_buf_ring_advance(buffer_ring_, static_cast<int>(unpublished_buffers_));
  unpublished_buffers_ = 0;
}

int UringRing::Enter(unsigned to_submit, unsigned wait_for, int64_t wait_ns) {
  ++stats_.enters;
  // GETEVENTS even without a wait: it runs the deferred task work and flushes
  // an overflow list.
  unsigned flags = IORING_ENTER_GETEVENTS;
  int ret;
  if (wait_for == 0) {
    ret = io_uring_enter(static_cast<unsigned>(ring_.ring_fd), to_submit, 0, flags, nullptr);
  } else {
    __kernel_timespec timeout = {wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
    io_uring_getevents_arg arg = {};
    arg.sigmask_sz = _NSIG / 8;
    if (wait_ns >= 0) arg.ts = reinterpret_cast<uint64_t>(&timeout);
    if (wait_for > 1) {
      abi::SetMinWait(&arg, kMinWaitUs);
      ++stats_.batched_waits;
    }
    flags |= IORING_ENTER_EXT_ARG;
    ret = io_uring_enter2(static_cast<unsigned>(ring_.ring_fd), to_submit, wait_for, flags,
                          reinterpret_cast<sigset_t*>(&arg), sizeof(arg));
  }
  if (ret > 0) stats_.submissions += static_cast<uint64_t>(ret);
  // These mean "go round again": a timeout, a signal, no memory for a request
  // right now, or completions that must be taken first. The rest can only be
  // our own doing (another thread, a closed ring).
  CHECK(ret >= 0 || ret == -ETIME || ret == -EINTR || ret == -EAGAIN || ret == -EBUSY ||
        ret == -EBADR || ret == -ENOMEM)
      << "io_uring_enter: " << std::strerror(-ret);
  return ret;
}

void UringRing::FlushSubmissions() {
  const unsigned to_submit = PublishSubmissions();
  if (Enter(to_submit, 0, 0) < static_cast<int>(to_submit)) StashCompletions();
}

void UringRing::AcceptMultishot(Token token, int listen_fd) {
  ++stats_.accept_arms;
  io_uring_prep_multishot_accept(NextSqe(token), listen_fd, nullptr, nullptr,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void UringRing::AcceptOnce(Token token, int listen_fd) {
  ++stats_.accept_arms;
  io_uring_prep_accept(NextSqe(token), listen_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void UringRing::RecvProvided(Token token, int socket_fd) {
  if (!recv_is_multishot()) return RecvProvidedOnce(token, socket_fd);
  PrepareRecv(token, socket_fd, 0)->ioprio |= IORING_RECV_MULTISHOT;
}

void UringRing::RecvProvidedOnce(Token token, int socket_fd) {
  PrepareRecv(token, socket_fd, buffer_size_bytes_);
}

io_uring_sqe* UringRing::PrepareRecv(Token token, int socket_fd, size_t size_bytes) {
  ++stats_.receive_arms;
  io_uring_sqe* sqe = NextSqe(token);
  io_uring_prep_recv(sqe, socket_fd, nullptr, size_bytes, 0);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = kBufferGroup;
  return sqe;
}

void UringRing::RecvInto(Token token, int socket_fd, char* to, size_t size_bytes) {
  io_uring_prep_recv(NextSqe(token), socket_fd, to, std::min(size_bytes, kMaxTransferBytes), 0);
}

void UringRing::SendMessage(Token token, int socket_fd, const msghdr* message, bool more_follows) {
  io_uring_prep_sendmsg(NextSqe(token), socket_fd, message,
                        MSG_NOSIGNAL | MSG_WAITALL | (more_follows ? MSG_MORE : 0));
}

void UringRing::Send(Token token, int socket_fd, const char* from, size_t size_bytes,
                     bool more_follows) {
  io_uring_prep_send(NextSqe(token), socket_fd, from, std::min(size_bytes, kMaxTransferBytes),
                     MSG_NOSIGNAL | MSG_WAITALL | (more_follows ? MSG_MORE : 0));
}

void UringRing::SendZeroCopy(Token token, int socket_fd, const char* from, size_t size_bytes,
                             int registered_index, bool more_follows) {
  DCHECK(send_zero_copy_available());
  io_uring_sqe* sqe = NextSqe(token);
  io_uring_prep_send_zc(sqe, socket_fd, from, std::min(size_bytes, kMaxTransferBytes),
                        MSG_NOSIGNAL | MSG_WAITALL | (more_follows ? MSG_MORE : 0), 0);
  if (features_.Has(Feature::kSendZeroCopyReport)) sqe->ioprio |= abi::kSendZeroCopyReportUsage;
  if (registered_index >= 0) {
    sqe->ioprio |= IORING_RECVSEND_FIXED_BUF;
    sqe->buf_index = static_cast<uint16_t>(registered_index);
  }
}

void UringRing::SendMessageZeroCopy(Token token, int socket_fd, const msghdr* message,
                                    bool more_follows) {
  DCHECK(zero_copy_is_reported());
  io_uring_sqe* sqe = NextSqe(token);
  io_uring_prep_sendmsg_zc(sqe, socket_fd, message,
                           MSG_NOSIGNAL | MSG_WAITALL | (more_follows ? MSG_MORE : 0));
  sqe->ioprio |= abi::kSendZeroCopyReportUsage;
}

void UringRing::Poll(Token token, int fd, uint32_t poll_mask) {
  io_uring_prep_poll_add(NextSqe(token), fd, poll_mask);
}

void UringRing::Connect(Token token, int socket_fd, const sockaddr* address,
                        socklen_t address_size) {
  io_uring_prep_connect(NextSqe(token), socket_fd, address, address_size);
}

void UringRing::Cancel(Token token, Token target) {
  io_uring_prep_cancel64(NextSqe(token), target.Pack(), 0);
}

void UringRing::SpliceFileToPipe(Token token, const File& file, int64_t position,
                                 const PipeFds& pipe, size_t size_bytes) {
  ++stats_.worker_operations;
  io_uring_prep_splice(NextSqe(token), file.fd(), position, pipe.write_fd, -1,
                       static_cast<unsigned>(std::min(size_bytes, kMaxTransferBytes)),
                       SPLICE_F_MOVE);
}

void UringRing::ReadFile(Token token, const File& file, int64_t position, const iovec* parts,
                         int part_count) {
  io_uring_prep_readv(NextSqe(token), file.fd(), parts, static_cast<unsigned>(part_count),
                      static_cast<uint64_t>(position));
}

void UringRing::WriteFile(Token token, const File& file, int64_t position, const iovec* parts,
                          int part_count) {
  io_uring_prep_writev(NextSqe(token), file.fd(), parts, static_cast<unsigned>(part_count),
                       static_cast<uint64_t>(position));
}

void UringRing::SyncFile(Token token, const File& file) {
  ++stats_.worker_operations;
  io_uring_prep_fsync(NextSqe(token), file.fd(), IORING_FSYNC_DATASYNC);
}

// --- inline calls ---------------------------------------------------------------

IoResult UringRing::SendFileNow(int socket_fd, const File& file, int64_t position,
                                size_t size_bytes, bool more_follows) {
  // sendfile(2) has no MORE flag: what follows starts a segment of its own.
  (void)more_follows;
  off_t offset = position;
  ssize_t ret;
  do {
    ret = sendfile(socket_fd, file.fd(), &offset, std::min(size_bytes, kMaxTransferBytes));
  } while (ret < 0 && errno == EINTR);
  return IoResult::FromSyscall(ret, errno);
}

IoResult UringRing::SplicePipeToSocketNow(const PipeFds& pipe, int socket_fd, size_t size_bytes,
                                          bool more_follows) {
  const unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE | (more_follows ? SPLICE_F_MORE : 0u);
  ssize_t ret;
  do {
    ret = splice(pipe.read_fd, nullptr, socket_fd, nullptr, std::min(size_bytes, kMaxTransferBytes),
                 flags);
  } while (ret < 0 && errno == EINTR);
  return IoResult::FromSyscall(ret, errno);
}

absl::StatusOr<PipeFds> UringRing::OpenPipe(size_t capacity_bytes) {
  int fds[2];
  // Non-blocking: a splice into a full pipe then ends instead of holding a
  // kernel worker.
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  PipeFds pipe = {fds[0], fds[1], 0};
  // Refused once the user's pages are used up: the pipe then stays smaller.
  fcntl(pipe.write_fd, F_SETPIPE_SZ, static_cast<int>(capacity_bytes));
  const int granted = fcntl(pipe.write_fd, F_GETPIPE_SZ);
  pipe.capacity_bytes = granted > 0 ? static_cast<size_t>(granted) : 4096;
  return pipe;
}

void UringRing::ClosePipe(const PipeFds& pipe) {
  close(pipe.read_fd);
  close(pipe.write_fd);
}

void UringRing::Shutdown(int socket_fd, bool write_side_only) {
  shutdown(socket_fd, write_side_only ? SHUT_WR : SHUT_RDWR);
}

void UringRing::Close(int fd) { close(fd); }

int64_t UringRing::UnacknowledgedBytes(int socket_fd) {
  int bytes = 0;
  return ioctl(socket_fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

void UringRing::SetResetOnClose(int socket_fd) {
  const linger reset = {1, 0};
  setsockopt(socket_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

IoResult UringRing::SetSocketOption(int socket_fd, int level, int option, const void* value,
                                    socklen_t value_size) {
  return IoResult::FromSyscall(setsockopt(socket_fd, level, option, value, value_size), errno);
}

IoResult UringRing::PeerName(int socket_fd, sockaddr_storage* address, socklen_t* address_size) {
  return IoResult::FromSyscall(
      getpeername(socket_fd, reinterpret_cast<sockaddr*>(address), address_size), errno);
}

// --- buffers --------------------------------------------------------------------

absl::Status UringRing::ProvideBuffers(char* base, uint32_t size_bytes, uint32_t count) {
  if (buffer_ring_ != nullptr) {
    return absl::FailedPreconditionError("provided buffers: already given to this ring");
  }
  if (count == 0 || (count & (count - 1)) != 0 || count > kMaxProvidedBuffers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "provided buffers: ", count, " is not a power of two up to ", kMaxProvidedBuffers));
  }
  buffer_ring_bytes_ = count * sizeof(io_uring_buf);
  void* memory =
      mmap(nullptr, buffer_ring_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return SetupError(ENOMEM, ReadSetupEnvironment());
  io_uring_buf_reg registration = {};
  registration.ring_addr = reinterpret_cast<uint64_t>(memory);
  registration.ring_entries = count;
  registration.bgid = kBufferGroup;
  if (const int ret = io_uring_register_buf_ring(&ring_, &registration, 0); ret != 0) {
    munmap(memory, buffer_ring_bytes_);
    return SetupError(-ret, ReadSetupEnvironment());
  }
  buffer_ring_ = static_cast<io_uring_buf_ring*>(memory);
  io_uring_buf_ring_init(buffer_ring_);
  buffer_base_ = base;
  buffer_size_bytes_ = size_bytes;
  buffer_count_ = count;
  for (uint32_t id = 0; id < count; ++id) ReturnBuffer(id);
  PublishBuffers();
  return absl::OkStatus();
}

void UringRing::ReturnBuffer(uint32_t id) {
  DCHECK_LT(id, buffer_count_);
  io_uring_buf_ring_add(buffer_ring_, buffer_base_ + static_cast<size_t>(id) * buffer_size_bytes_,
                        buffer_size_bytes_, static_cast<uint16_t>(id),
                        io_uring_buf_ring_mask(buffer_count_),
                        static_cast<int>(unpublished_buffers_));
  ++unpublished_buffers_;
}

absl::Status UringRing::RegisterBuffers(absl::Span<const iovec> buffers) {
  if (!features_.Has(Feature::kRegisteredBuffers)) {
    return absl::UnimplementedError("registered buffers: not available, or hidden by flag");
  }
  const int ret =
      io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size()));
  if (ret == 0) return absl::OkStatus();
  uint64_t size_bytes = 0;
  for (const iovec& buffer : buffers) size_bytes += buffer.iov_len;
  return RegisterBuffersError(-ret, size_bytes, ReadSetupEnvironment());
}

// --- completion -----------------------------------------------------------------

bool UringRing::Translate(const io_uring_cqe& cqe, Completion* out) {
  ++stats_.completions;
  const Token token = Token::Unpack(cqe.user_data);
  if (token.kind == OpKind::kWake) {
    ++stats_.wakes;
    woken_ = true;
    // Not re-armed here: that could flush, and so read the queue being read.
    wake_read_armed_ = false;
    return false;
  }
  if (token.kind == OpKind::kInternal) return false;
  *out = Completion{};
  out->token = token;
  out->more = (cqe.flags & IORING_CQE_F_MORE) != 0;
  out->socket_nonempty = (cqe.flags & IORING_CQE_F_SOCK_NONEMPTY) != 0;
  if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
    out->buffer_id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
  }
  if ((cqe.flags & IORING_CQE_F_NOTIF) != 0) {
    // Its res is not a count: it says how the bytes went, where asked for.
    out->notification = true;
    out->zero_copy_copied = (static_cast<uint32_t>(cqe.res) & abi::kNotifUsageCopied) != 0;
    return true;
  }
  out->result = IoResult::FromRes(cqe.res);
  if (token.kind == OpKind::kRecv && cqe.res == -ENOBUFS) ++stats_.no_buffers;
  return true;
}

size_t UringRing::CopyCompletions(absl::Span<Completion> out) {
  size_t copied = 0;
  unsigned seen = 0;
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    if (copied == out.size()) break;
    ++seen;
    if (Translate(*cqe, &out[copied])) ++copied;
  }
  io_uring_cq_advance(&ring_, seen);
  return copied;
}

void UringRing::StashCompletions() {
  ++stats_.overflows;
  Completion batch[64];
  while (io_uring_cq_ready(&ring_) > 0) {
    const size_t copied = CopyCompletions(absl::MakeSpan(batch));
    stash_.insert(stash_.end(), batch, batch + copied);
  }
}

size_t UringRing::TakeStashed(absl::Span<Completion> out) {
  const size_t count = std::min(out.size(), stash_.size() - stash_begin_);
  std::copy_n(stash_.begin() + static_cast<ptrdiff_t>(stash_begin_), count, out.begin());
  stash_begin_ += count;
  if (stash_begin_ == stash_.size()) {
    stash_.clear();
    stash_begin_ = 0;
  }
  return count;
}

bool UringRing::KernelHasWork() const {
  constexpr unsigned kWork = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
  return (__atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED) & kWork) != 0;
}

unsigned UringRing::WaitTarget(int64_t wait_ns) const {
  const uint32_t average = batch_average_ / kBatchUnit;
  const bool time_for_it = wait_ns < 0 || wait_ns > int64_t{2'000} * kMinWaitUs;
  if (!features_.Has(Feature::kMinWait) || average < kBatchThreshold || !time_for_it) return 1;
  return std::min(average, kMaxBatch);
}

void UringRing::NoteBatch(size_t completions) {
  // An exponential average over about eight waits.
  const auto sample = static_cast<uint32_t>(std::min<size_t>(completions, 1024)) * kBatchUnit;
  batch_average_ = (batch_average_ * 7 + sample) / 8;
}

size_t UringRing::SubmitAndReap(absl::Span<Completion> out, int64_t wait_ns) {
  if (event_fd_ >= 0 && !wake_read_armed_) ArmWakeRead();
  PublishBuffers();
  const bool wait = wait_ns != 0 && !TakeWake() && stash_.empty() && io_uring_cq_ready(&ring_) == 0;
  const unsigned to_submit = PublishSubmissions();
  if (wait) {
    Enter(to_submit, WaitTarget(wait_ns), wait_ns);
  } else if (to_submit > 0 || KernelHasWork()) {
    if (Enter(to_submit, 0, 0) == -EBUSY) StashCompletions();
  }
  size_t count = TakeStashed(out);
  count += CopyCompletions(out.subspan(count));
  if (wait || count > 0) NoteBatch(count);
  if (wait_ns != 0) woken_ = false;
  return count;
}

// --- wake-up --------------------------------------------------------------------

bool UringRing::TakeWake() {
  // Pairs with the store in Wake(); only wakes from before Attach() come so.
  if (pending_wake_.load(std::memory_order_relaxed) &&
      pending_wake_.exchange(false, std::memory_order_acquire)) {
    woken_ = true;
  }
  return std::exchange(woken_, false);
}

void UringRing::ArmWakeRead() {
  wake_read_armed_ = true;
  io_uring_prep_read(NextSqe(kWakeToken), event_fd_, &event_value_, sizeof(event_value_), 0);
}

int UringRing::SendWakeMessage() {
  io_uring_sqe message = {};
  message.opcode = IORING_OP_MSG_RING;
  message.fd = ring_.ring_fd;
  message.off = kWakeToken.Pack();  // the completion's user_data
  message.addr = IORING_MSG_DATA;
  return io_uring_register(static_cast<unsigned>(-1), abi::kRegisterSendMsgRing, &message, 1);
}

void UringRing::Wake() {
  if (event_fd_ >= 0) {
    const uint64_t one = 1;
    // Fails only when the counter is full, and then the read is due anyway.
    [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof(one));
    return;
  }
  for (;;) {
    const int ret = SendWakeMessage();
    // A full completion queue does not let its owner wait.
    if (ret >= 0 || ret == -EOVERFLOW) return;
    // The ring is still disabled (EBADFD): leave a note for its first wait.
    // The second try is for an owner that enabled it and waited in between.
    pending_wake_.store(true, std::memory_order_seq_cst);
    if (ret == -EBADFD) {
      SendWakeMessage();
      return;
    }
    CHECK(ret == -ENOMEM || ret == -EAGAIN || ret == -EINTR)
        << "io_uring wake: " << std::strerror(-ret);
    sched_yield();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> CreateUringRing(const Features& features,
                                                      const RingOptions& options) {
  IgnoreSigpipe();
  auto ring = std::make_unique<UringRing>(features, options);
  if (absl::Status status = ring->Init(); !status.ok()) return status;
  return std::unique_ptr<Ring>(std::move(ring));
}

}  // namespace gyre::uring
