// What does a framed echo cost with io_uring and nothing else? The least server that does the
// same job as tools/examples/echo_server: one thread, one ring (single issuer, deferred task
// work), multishot accept, multishot receive into provided buffers, frames checked against a
// limit, whole frames echoed with one send, and the engine's wait batching: under load a wait
// asks for about as many completions as recent waits brought, but settles for one after 20 us.
#include <gflags/gflags.h>
#include <liburing.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "benchmarks/sockets.h"

DEFINE_int32(port, 0, "port on 127.0.0.1; 0 picks one and prints it");
DEFINE_string(congestion, "reno", "TCP congestion control; empty keeps the system's");

namespace gyre::bench {
namespace {

constexpr uint32_t kMaxFrameBytes = 1 << 20;
constexpr unsigned kBufferCount = 1024;  // A power of two.
constexpr unsigned kBufferBytes = 4096;
constexpr int kGroup = 0;
// As engine/uring/uring_ring.h has them.
constexpr unsigned kBatchThreshold = 4;
constexpr unsigned kMaxBatch = 16;
constexpr unsigned kMinWaitUs = 20;
constexpr unsigned kFeatureMinTimeout = 1u << 15;  // Linux 6.12; newer than liburing 2.3.

struct Connection {
  int fd = -1;
  bool receiving = false, sending = false, closing = false;
  std::string partial;  // The head of a frame that is not whole yet.
  std::string sent;     // In flight; must not move.
  std::string waiting;  // Whole frames to send next.
};

enum Kind : uint64_t { kAccept, kReceive, kSend };

class UringEcho {
 public:
  UringEcho() {
    io_uring_params params = {};
    params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                   IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE;
    params.cq_entries = 8192;
    int result = io_uring_queue_init_params(1024, &ring_, &params);
    if (result == -EINVAL) {  // Before 6.1.
      params = {};
      params.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE;
      params.cq_entries = 8192;
      result = io_uring_queue_init_params(1024, &ring_, &params);
    }
    errno = -result;
    Checked(result, "io_uring_queue_init_params");
    RegisterBuffers();
    listener_ = Listen("uring_echo", FLAGS_port, FLAGS_congestion);
    ArmAccept();
  }

  [[noreturn]] void Run() {
    for (;;) {
      const int result = SubmitAndWait();
      if (result < 0 && result != -EINTR && result != -EBUSY && result != -ETIME) {
        errno = -result;
        Die("io_uring_submit_and_wait");
      }
      unsigned head, count = 0;
      io_uring_cqe* cqe;
      io_uring_for_each_cqe(&ring_, head, cqe) {
        ++count;
        On(*cqe);
      }
      io_uring_cq_advance(&ring_, count);
      sixteenths_per_wait_ = (sixteenths_per_wait_ * 7 + count * 16) / 8;
    }
  }

 private:
  int SubmitAndWait() {
    const unsigned wanted = std::min(sixteenths_per_wait_ / 16, kMaxBatch);
    if (wanted < kBatchThreshold || !(ring_.features & kFeatureMinTimeout)) {
      return io_uring_submit_and_wait(&ring_, 1);
    }
    io_uring_sq& queue = ring_.sq;
    if (queue.sqe_head != queue.sqe_tail) {
      queue.sqe_head = queue.sqe_tail;
      __atomic_store_n(queue.ktail, queue.sqe_tail, __ATOMIC_RELEASE);
    }
    io_uring_getevents_arg arg = {};
    arg.sigmask_sz = _NSIG / 8;
    arg.pad = kMinWaitUs;  // Later headers call it min_wait_usec.
    return io_uring_enter2(static_cast<unsigned>(ring_.ring_fd),
                           queue.sqe_tail - __atomic_load_n(queue.khead, __ATOMIC_ACQUIRE), wanted,
                           IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                           reinterpret_cast<sigset_t*>(&arg), sizeof(arg));
  }

  void RegisterBuffers() {
    void* ring_memory = mmap(nullptr, kBufferCount * sizeof(io_uring_buf), PROT_READ | PROT_WRITE,
                             MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (ring_memory == MAP_FAILED) Die("mmap");
    buffer_ring_ = static_cast<io_uring_buf_ring*>(ring_memory);
    buffers_.resize(size_t{kBufferCount} * kBufferBytes);
    io_uring_buf_reg registration = {};
    registration.ring_addr = reinterpret_cast<uint64_t>(ring_memory);
    registration.ring_entries = kBufferCount;
    registration.bgid = kGroup;
    const int result = io_uring_register_buf_ring(&ring_, &registration, 0);
    errno = -result;
    Checked(result, "io_uring_register_buf_ring");
    for (unsigned id = 0; id < kBufferCount; ++id) {
      io_uring_buf_ring_add(buffer_ring_, Buffer(id), kBufferBytes, static_cast<uint16_t>(id),
                            io_uring_buf_ring_mask(kBufferCount), static_cast<int>(id));
    }
    io_uring_buf_ring_advance(buffer_ring_, kBufferCount);
  }

  char* Buffer(unsigned id) { return buffers_.data() + size_t{id} * kBufferBytes; }

  io_uring_sqe* Entry(Kind kind, unsigned slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      io_uring_submit(&ring_);
      sqe = io_uring_get_sqe(&ring_);
    }
    sqe->user_data = kind << 32 | slot;
    return sqe;
  }

  void ArmAccept() {
    io_uring_sqe* sqe = Entry(kAccept, 0);
    const uint64_t token = sqe->user_data;
    io_uring_prep_multishot_accept(sqe, listener_, nullptr, nullptr, SOCK_CLOEXEC);
    sqe->user_data = token;
  }

  void ArmReceive(unsigned slot) {
    io_uring_sqe* sqe = Entry(kReceive, slot);
    const uint64_t token = sqe->user_data;
    io_uring_prep_recv_multishot(sqe, connections_[slot].fd, nullptr, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = kGroup;
    sqe->user_data = token;
    connections_[slot].receiving = true;
  }

  void Send(unsigned slot) {
    Connection& c = connections_[slot];
    io_uring_sqe* sqe = Entry(kSend, slot);
    const uint64_t token = sqe->user_data;
    io_uring_prep_send(sqe, c.fd, c.sent.data(), c.sent.size(), MSG_NOSIGNAL | MSG_WAITALL);
    sqe->user_data = token;
    c.sending = true;
  }

  void On(const io_uring_cqe& cqe) {
    const unsigned slot = static_cast<unsigned>(cqe.user_data);
    switch (static_cast<Kind>(cqe.user_data >> 32)) {
      case kAccept:
        OnAccept(cqe);
        return;
      case kReceive:
        OnReceive(slot, cqe);
        break;
      case kSend:
        OnSend(slot, cqe.res);
        break;
    }
    MaybeClose(slot);
  }

  void OnAccept(const io_uring_cqe& cqe) {
    if (cqe.res >= 0) {
      unsigned slot;
      if (free_.empty()) {
        slot = static_cast<unsigned>(connections_.size());
        connections_.emplace_back();
      } else {
        slot = free_.back();
        free_.pop_back();
      }
      connections_[slot].fd = cqe.res;
      ArmReceive(slot);
    }
    if (!(cqe.flags & IORING_CQE_F_MORE)) ArmAccept();
  }

  void OnReceive(unsigned slot, const io_uring_cqe& cqe) {
    Connection& c = connections_[slot];
    if (!(cqe.flags & IORING_CQE_F_MORE)) c.receiving = false;
    if (cqe.res > 0) {
      const unsigned id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
      if (!Take(c, Buffer(id), static_cast<size_t>(cqe.res))) c.closing = true;
      io_uring_buf_ring_add(buffer_ring_, Buffer(id), kBufferBytes, static_cast<uint16_t>(id),
                            io_uring_buf_ring_mask(kBufferCount), 0);
      io_uring_buf_ring_advance(buffer_ring_, 1);
      if (!c.sending && !c.waiting.empty()) {
        c.sent.swap(c.waiting);
        Send(slot);
      }
    } else if (cqe.res != -ENOBUFS) {
      c.closing = true;
    }
    if (c.closing && c.receiving) shutdown(c.fd, SHUT_RD);
    if (!c.closing && !c.receiving) ArmReceive(slot);
  }

  // Moves the whole frames to `waiting`; false on a bad length.
  static bool Take(Connection& c, const char* data, size_t size) {
    if (!c.partial.empty()) {
      c.partial.append(data, size);
      const ssize_t whole = WholeFrames(c.partial.data(), c.partial.size(), kMaxFrameBytes);
      if (whole < 0) return false;
      c.waiting.append(c.partial, 0, static_cast<size_t>(whole));
      c.partial.erase(0, static_cast<size_t>(whole));
      return true;
    }
    const ssize_t whole = WholeFrames(data, size, kMaxFrameBytes);
    if (whole < 0) return false;
    c.waiting.append(data, static_cast<size_t>(whole));
    c.partial.append(data + whole, size - static_cast<size_t>(whole));
    return true;
  }

  void OnSend(unsigned slot, int result) {
    Connection& c = connections_[slot];
    c.sending = false;
    if (result < static_cast<int>(c.sent.size())) {
      c.closing = true;
      shutdown(c.fd, SHUT_RDWR);
      return;
    }
    c.sent.clear();
    if (c.waiting.empty()) return;
    c.sent.swap(c.waiting);
    Send(slot);
  }

  void MaybeClose(unsigned slot) {
    Connection& c = connections_[slot];
    if (!c.closing || c.receiving || c.sending) return;
    close(c.fd);
    c = Connection();
    free_.push_back(slot);
  }

  io_uring ring_ = {};
  unsigned sixteenths_per_wait_ = 0;
  int listener_ = -1;
  io_uring_buf_ring* buffer_ring_ = nullptr;
  std::vector<char> buffers_;
  std::deque<Connection> connections_;  // A deque: what is in flight must not move.
  std::vector<unsigned> free_;
};

}  // namespace
}  // namespace gyre::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  gyre::bench::UringEcho().Run();
}
