#include "engine/network/processor/control_mailbox.h"

#include <chrono>

namespace gyre {

bool ConnectionList::full() const {
  MutexLock lock(mutex_);
  return connections_.size() >= max_count_;
}

void ConnectionList::Add(ConnectionInfo connection) {
  MutexLock lock(mutex_);
  if (connections_.size() < max_count_) connections_.push_back(std::move(connection));
}

void ConnectionList::AwaitOneMore() {
  MutexLock lock(mutex_);
  ++pending_;
}

void ConnectionList::OnProcessorDone() {
  MutexLock lock(mutex_);
  if (--pending_ == 0) done_.NotifyAll();
}

std::vector<ConnectionInfo> ConnectionList::Await(int64_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  MutexLock lock(mutex_);
  while (pending_ > 0) {
    const int64_t left_ns = (deadline - std::chrono::steady_clock::now()).count();
    if (left_ns <= 0) break;
    done_.WaitFor(mutex_, left_ns);
  }
  return std::move(connections_);
}

void ControlMailbox::PostOptions(const ConnectionOptions& options) {
  MutexLock lock(mutex_);
  posted_.options = options;
  posted_flag_.store(true, std::memory_order_seq_cst);
}

void ControlMailbox::PostList(std::shared_ptr<ConnectionList> list) {
  MutexLock lock(mutex_);
  posted_.lists.push_back(std::move(list));
  posted_flag_.store(true, std::memory_order_seq_cst);
}

ControlMailbox::Posted ControlMailbox::Take() {
  MutexLock lock(mutex_);
  posted_flag_.store(false, std::memory_order_seq_cst);
  return std::exchange(posted_, Posted());
}

}  // namespace gyre
