// Intrusive multi-producer single-consumer queue: the node is in the element,
// so Push cannot fail and allocates nothing. Vyukov's non-intrusive-stub
// design: a producer is one exchange and one store.
//
// Threads: Push any; Pop and Empty the consumer.
// Owns: nothing; an element stays its producer's business until popped.
// Invariant: elements of one producer come out in the order it pushed them.
#ifndef GYRE_ENGINE_CONCURRENT_MPSC_QUEUE_H_
#define GYRE_ENGINE_CONCURRENT_MPSC_QUEUE_H_

#include <atomic>

namespace gyre {

struct MpscNode {
  std::atomic<MpscNode*> mpsc_next{nullptr};
};

class MpscQueue {
 public:
  MpscQueue() : head_(&stub_), tail_(&stub_) {}
  MpscQueue(const MpscQueue&) = delete;
  MpscQueue& operator=(const MpscQueue&) = delete;

  void Push(MpscNode* node) {
    node->mpsc_next.store(nullptr, std::memory_order_relaxed);
    // seq_cst: pairs with the consumer's parked-flag fence (see EventCount and
    // Processor::Park), so that a push before the flag is read is never missed.
    MpscNode* previous = head_.exchange(node, std::memory_order_seq_cst);
    previous->mpsc_next.store(node, std::memory_order_release);
  }

  // Null when empty, or when the next producer is between its exchange and its
  // store; Empty() tells the two apart.
  MpscNode* Pop() {
    MpscNode* tail = tail_;
    MpscNode* next = tail->mpsc_next.load(std::memory_order_acquire);
    if (tail == &stub_) {
      if (next == nullptr) return nullptr;
      tail_ = next;
      tail = next;
      next = next->mpsc_next.load(std::memory_order_acquire);
    }
    if (next != nullptr) {
      tail_ = next;
      return tail;
    }
    if (tail != head_.load(std::memory_order_acquire)) return nullptr;
    Push(&stub_);
    next = tail->mpsc_next.load(std::memory_order_acquire);
    if (next != nullptr) {
      tail_ = next;
      return tail;
    }
    return nullptr;
  }

  // False while any element is in the queue, a half-pushed one included.
  bool Empty() const { return tail_ == &stub_ && head_.load(std::memory_order_seq_cst) == &stub_; }

 private:
  alignas(64) std::atomic<MpscNode*> head_;
  alignas(64) MpscNode* tail_;
  MpscNode stub_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_CONCURRENT_MPSC_QUEUE_H_
