#include "engine/network/processor/processor_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/concurrent/poll_until.h"
#include "engine/network/request/resize_rule.h"
#include "glog/logging.h"

namespace gyre {

ProcessorPool::ProcessorPool(Config config, const Processor::Shared& shared, const Clock& clock)
    : config_(std::move(config)),
      shared_(shared),
      clock_(clock),
      connection_options_(config_.options.connection) {}

ProcessorPool::~ProcessorPool() { Stop(); }

absl::Status ProcessorPool::Open(int32_t count) {
  MutexLock turn(turn_);
  for (int32_t i = 0; i < count; ++i) GYRE_RETURN_IF_ERROR(Add());
  return absl::OkStatus();
}

absl::Status ProcessorPool::Add() {
  Member member;
  if (free_seats_.empty()) {
    char* const receive_base = shared_.slab.CarveRun(config_.options.receive_buffer_bytes,
                                                     config_.options.receive_buffer_count);
    member.seat = std::make_unique<ProcessorSeat>(config_.next_index->fetch_add(1), config_.options,
                                                  receive_base);
  } else {
    member.seat = std::move(free_seats_.back());
    free_seats_.pop_back();
  }
  const std::string name =
      absl::StrCat(config_.thread_name_prefix, "processor-", member.seat->index());
  absl::StatusOr<std::unique_ptr<uring::Ring>> ring = config_.ring_factory(name);
  absl::Status status = ring.status();
  if (status.ok()) {
    member.processor =
        std::make_unique<Processor>(*member.seat, config_.options, shared_, *std::move(ring));
    member.thread =
        std::make_unique<ThreadRunner>(name, *member.processor, *member.processor, clock_);
    if (started()) status = StartMember(member);
  }
  if (!status.ok()) {
    if (member.thread != nullptr) member.thread->Stop();
    member.thread.reset();
    member.processor.reset();
    free_seats_.push_back(std::move(member.seat));
    return Annotate(status, name);
  }
  MutexLock lock(mutex_);
  member.processor->EnqueueOptions(connection_options_);
  if (draining_) member.processor->BeginDrain();
  if (closing_) member.processor->CloseAll();
  set_.Add(member.seat.get());
  active_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ProcessorPool::StartMember(const Member& member) {
  GYRE_RETURN_IF_ERROR(member.thread->Start());
  return member.processor->AwaitStart();
}

absl::Status ProcessorPool::Start() {
  MutexLock turn(turn_);
  // Only those who have the turn change the lists.
  std::vector<const Member*> members;
  {
    MutexLock lock(mutex_);
    started_ = true;
    for (const Member& member : active_) members.push_back(&member);
  }
  for (const Member* member : members) GYRE_RETURN_IF_ERROR(member->thread->Start());
  absl::Status registered;
  for (const Member* member : members) {
    GYRE_RETURN_IF_ERROR(member->processor->AwaitStart(), member->thread->name());
    registered.Update(member->processor->registered_buffers());
  }
  MutexLock lock(mutex_);
  registered_buffers_ = registered;
  return absl::OkStatus();
}

absl::Status ProcessorPool::registered_buffers() const {
  MutexLock lock(mutex_);
  return registered_buffers_;
}

int32_t ProcessorPool::size() const {
  MutexLock lock(mutex_);
  return static_cast<int32_t>(active_.size());
}

bool ProcessorPool::running() const {
  MutexLock lock(mutex_);
  return std::all_of(active_.begin(), active_.end(),
                     [](const Member& member) { return member.thread->running(); });
}

bool ProcessorPool::runs_here() const {
  MutexLock lock(mutex_);
  const auto is_here = [](const Member& member) { return member.thread->runs_here(); };
  return std::any_of(active_.begin(), active_.end(), is_here) ||
         std::any_of(retiring_.begin(), retiring_.end(), is_here);
}

bool ProcessorPool::started() const {
  MutexLock lock(mutex_);
  return started_;
}

bool ProcessorPool::closing() const {
  MutexLock lock(mutex_);
  return closing_;
}

absl::Status ProcessorPool::CheckResize(int32_t count) const {
  MutexLock lock(mutex_);
  if (!started_ || draining_ || closing_) {
    return absl::FailedPreconditionError("network threads change only while the server serves");
  }
  return gyre::CheckResize("num_network_threads", static_cast<int32_t>(active_.size()), count);
}

absl::Status ProcessorPool::Resize(int32_t count) {
  MutexLock turn(turn_);
  ReapRetired();
  GYRE_RETURN_IF_ERROR(CheckResize(count));
  const int32_t from = size();
  if (count == from) return absl::OkStatus();
  LOG(INFO) << "network threads: from " << from << " to " << count;
  if (count < from) {
    Shrink(static_cast<size_t>(count));
    return absl::OkStatus();
  }
  absl::Status status;
  for (int32_t i = from; i < count && status.ok(); ++i) status = Add();
  if (!status.ok()) {
    Shrink(static_cast<size_t>(from));
    return status;
  }
  // The others hand over what they have too much of, those without anything under
  // way first and only.
  MutexLock lock(mutex_);
  for (const Member& member : active_) member.processor->Rebalance(&set_);
  return absl::OkStatus();
}

void ProcessorPool::Shrink(size_t count) {
  {
    MutexLock lock(mutex_);
    const size_t first = retiring_.size();
    while (active_.size() > count) {
      set_.Remove(active_.back().seat.get());
      retiring_.push_back(std::move(active_.back()));
      active_.pop_back();
    }
    for (size_t i = first; i < retiring_.size(); ++i) retiring_[i].processor->Retire(&set_);
  }
  const auto retired_or_closing = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_) {
    return ReapRetired() || closing();
  };
  if (!PollUntil(retired_or_closing, config_.retire_wait_ms)) {
    LOG(INFO) << "network threads that end still have requests under way; they end with those";
  }
}

bool ProcessorPool::ReapRetired() {
  std::vector<Member> ended;
  bool none_left = false;
  {
    MutexLock lock(mutex_);
    const auto retired =
        std::stable_partition(retiring_.begin(), retiring_.end(),
                              [](const Member& member) { return !member.processor->retired(); });
    std::move(retired, retiring_.end(), std::back_inserter(ended));
    retiring_.erase(retired, retiring_.end());
    none_left = retiring_.empty();
  }
  for (Member& member : ended) {
    member.thread->Stop();
    member.thread.reset();
    member.processor.reset();
    set_.Forget(member.seat.get());
    free_seats_.push_back(std::move(member.seat));
  }
  return none_left;
}

void ProcessorPool::Reap() {
  MutexLock turn(turn_);
  ReapRetired();
}

void ProcessorPool::StopAccepting() {
  MutexLock lock(mutex_);
  for (const Member& member : active_) member.processor->StopAccepting();
  for (const Member& member : retiring_) member.processor->StopAccepting();
}

bool ProcessorPool::accepting() const {
  MutexLock lock(mutex_);
  const auto accepts = [](const Member& member) { return member.seat->listening_sockets() > 0; };
  return std::any_of(active_.begin(), active_.end(), accepts) ||
         std::any_of(retiring_.begin(), retiring_.end(), accepts);
}

void ProcessorPool::SetConnectionOptions(const ConnectionOptions& options) {
  MutexLock lock(mutex_);
  connection_options_ = options;
  for (const Member& member : active_) member.processor->EnqueueOptions(options);
  for (const Member& member : retiring_) member.processor->EnqueueOptions(options);
}

void ProcessorPool::AddTo(const std::shared_ptr<ConnectionList>& list) {
  MutexLock lock(mutex_);
  for (const std::vector<Member>* members : {&active_, &retiring_}) {
    for (const Member& member : *members) {
      list->AwaitOneMore();
      member.processor->EnqueueList(list);
    }
  }
}

void ProcessorPool::BeginDrain() {
  MutexLock lock(mutex_);
  draining_ = true;
  for (const Member& member : active_) member.processor->BeginDrain();
  for (const Member& member : retiring_) member.processor->BeginDrain();
}

void ProcessorPool::CloseAll() {
  MutexLock lock(mutex_);
  closing_ = true;
  for (const Member& member : active_) member.processor->CloseAll();
  for (const Member& member : retiring_) member.processor->CloseAll();
}

int64_t ProcessorPool::HeldByHandlers() const {
  MutexLock turn(turn_);
  MutexLock lock(mutex_);
  int64_t count = 0;
  for (const std::vector<Member>* members : {&active_, &retiring_}) {
    for (const Member& member : *members) {
      count += member.processor->requests_awaiting_answer();
      count += member.seat->throttle_tokens.load(std::memory_order_acquire);
    }
  }
  for (const auto& seat : free_seats_) {
    count += seat->throttle_tokens.load(std::memory_order_acquire);
  }
  return count;
}

void ProcessorPool::Stop() {
  CloseAll();
  MutexLock turn(turn_);
  MutexLock lock(mutex_);
  for (const std::vector<Member>* members : {&active_, &retiring_}) {
    for (const Member& member : *members) member.thread->RequestStop();
    for (const Member& member : *members) member.thread->Join();
  }
}

}  // namespace gyre
