#include "engine/network/processor/processor_seat.h"

#include <sys/mman.h>

#include <thread>
#include <utility>

#include "glog/logging.h"

namespace gyre {
namespace {

size_t ReceiveBytes(const ProcessorOptions& options) {
  return size_t{options.receive_buffer_bytes} * options.receive_buffer_count;
}

char* Map(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* const base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(base != MAP_FAILED) << "no address space for " << bytes << " bytes of receive buffers";
  return static_cast<char*>(base);
}

}  // namespace

ProcessorSeat::ProcessorSeat(int index, const ProcessorOptions& options, char* receive_base)
    : index_(index),
      own_bytes_(receive_base == nullptr ? ReceiveBytes(options) : 0),
      own_base_(Map(own_bytes_)),
      receive_buffers_(std::make_unique<ReceiveBuffers>(
          *this, receive_base != nullptr ? receive_base : own_base_, options.receive_buffer_bytes,
          options.receive_buffer_count)) {}

ProcessorSeat::~ProcessorSeat() {
  DropResponses();
  while (PopListenSocket() != nullptr) {
  }
  if (own_base_ != nullptr) munmap(own_base_, own_bytes_);
}

void ProcessorSeat::WakeIfParked() {
  // Only the first of several producers wakes.
  if (!parked_.load(std::memory_order_seq_cst)) return;
  wakers_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.exchange(false, std::memory_order_seq_cst)) {
    ring_.load(std::memory_order_relaxed)->Wake();
  }
  wakers_.fetch_sub(1, std::memory_order_seq_cst);
}

void ProcessorSeat::EnqueueConnection(NewConnection connection) {
  open_connections_.fetch_add(1, std::memory_order_acq_rel);
  new_connections_.Push(std::move(connection));
  WakeIfParked();
}

void ProcessorSeat::EnqueueResponse(ConnectionRequest* request) {
  responses_queued_.Increment();
  responses_.Push(request);
  WakeIfParked();
}

void ProcessorSeat::EnqueueThrottle(ThrottleSignal* signal) {
  responses_queued_.Increment();
  responses_.Push(signal);
  WakeIfParked();
}

void ProcessorSeat::EnqueueRunStarted(RequestRun* run) {
  started_runs_.Push(run);
  WakeIfParked();
}

void ProcessorSeat::EnqueueShed() {
  WantShed();
  WakeIfParked();
}

void ProcessorSeat::EnqueueStallCheck() {
  stall_check_.store(true, std::memory_order_seq_cst);
  WakeIfParked();
}

void ProcessorSeat::EnqueueListenSocket(std::unique_ptr<ListenSocketHandover> socket) {
  listening_sockets_.fetch_add(1, std::memory_order_acq_rel);
  listen_sockets_.Push(socket.release());
  WakeIfParked();
}

void ProcessorSeat::EnqueueRoom(int lane) {
  room_.fetch_or(1u << lane, std::memory_order_seq_cst);
  WakeIfParked();
}

void ProcessorSeat::EnqueueGranted(MpscNode* wait) {
  granted_.Push(wait);
  WakeIfParked();
}

ResponseNode* ProcessorSeat::PopResponse() {
  auto* const response = static_cast<ResponseNode*>(responses_.Pop());
  if (response != nullptr) responses_queued_.Decrement();
  return response;
}

void ProcessorSeat::Take(uring::Ring& ring, NetworkMetrics& metrics) {
  if (!std::exchange(is_counted_, true)) responses_queued_ = metrics.MakeResponseQueueSize();
  DCHECK(ring_.load(std::memory_order_relaxed) == nullptr);
  ring_.store(&ring, std::memory_order_relaxed);
}

// Ends of throttlings that nobody is there to hear are ours; the rest belongs to the
// processor that leaves, whose requests are still there.
void ProcessorSeat::DropResponses() {
  while (ResponseNode* response = PopResponse()) {
    if (response->kind == ResponseKind::kEndThrottling) {
      delete static_cast<ThrottleSignal*>(response);
    }
  }
}

void ProcessorSeat::Leave(uint32_t generation) {
  DropResponses();
  first_generation_ = generation;
  Unpark();
  // One that saw `parked_` before is at most a system call away from its end.
  while (wakers_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  ring_.store(nullptr, std::memory_order_relaxed);
  if (own_base_ != nullptr && receive_buffers_->lent_count() == 0) {
    madvise(own_base_, own_bytes_, MADV_DONTNEED);
  }
}

bool ProcessorSeat::HasMail() const {
  return !responses_.Empty() || !started_runs_.Empty() || !new_connections_.Empty() ||
         !granted_.Empty() || !listen_sockets_.Empty() ||
         room_.load(std::memory_order_seq_cst) != 0 || shed_.load(std::memory_order_seq_cst) ||
         stall_check_.load(std::memory_order_seq_cst);
}

RequestRun* ProcessorSeat::PopRunStarted() { return static_cast<RequestRun*>(started_runs_.Pop()); }

std::unique_ptr<ListenSocketHandover> ProcessorSeat::PopListenSocket() {
  return std::unique_ptr<ListenSocketHandover>(
      static_cast<ListenSocketHandover*>(listen_sockets_.Pop()));
}

}  // namespace gyre
