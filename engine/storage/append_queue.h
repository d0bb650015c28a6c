// The queue in front of one partition's log. Whoever pushes into an idle queue
// becomes the writer and owes the queue its work; everyone else leaves. Pushing
// is one compare-and-swap; the writer takes everything with one exchange.
//
// Threads: Push any; TakeAll the writer.
// Owns: nothing; the nodes are the requests.
// Invariant: at most one writer at a time; requests come out in push order.
#ifndef GYRE_ENGINE_STORAGE_APPEND_QUEUE_H_
#define GYRE_ENGINE_STORAGE_APPEND_QUEUE_H_

#include <atomic>
#include <utility>

#include "engine/storage/append_request.h"

namespace gyre {

class AppendQueue {
 public:
  AppendQueue() = default;
  AppendQueue(const AppendQueue&) = delete;
  AppendQueue& operator=(const AppendQueue&) = delete;

  // True: the caller is now the writer and must call TakeAll until it is null.
  bool Push(AppendRequest* request) {
    AppendRequest* head = head_.load(std::memory_order_relaxed);
    do {
      request->next = head == Busy() ? nullptr : head;
      // Release: the writer's acquire in TakeAll sees the request filled in.
      // Acquire: a new writer sees what the last one left behind.
    } while (!head_.compare_exchange_weak(head, request, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return head == nullptr;
  }

  // Everything queued, linked by `next`, oldest first. Null: the queue is idle
  // and the caller no longer the writer.
  AppendRequest* TakeAll() {
    AppendRequest* newest = Busy();
    if (head_.compare_exchange_strong(newest, nullptr, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
      return nullptr;
    }
    newest = head_.exchange(Busy(), std::memory_order_acq_rel);
    AppendRequest* oldest = nullptr;
    while (newest != nullptr) {
      AppendRequest* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  // Marks a queue that is empty but has a writer; never dereferenced.
  AppendRequest* Busy() { return reinterpret_cast<AppendRequest*>(&head_); }

  // Null: idle. Busy(): a writer is at work, nothing is queued. Else the newest
  // request.
  std::atomic<AppendRequest*> head_{nullptr};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_APPEND_QUEUE_H_
