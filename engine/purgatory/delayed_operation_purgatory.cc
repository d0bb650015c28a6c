#include "engine/purgatory/delayed_operation_purgatory.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "glog/logging.h"

namespace gyre {

DelayedOperationPurgatory::DelayedOperationPurgatory(const Clock& clock, Timer& timer,
                                                     ContinuationLane& lane)
    : clock_(clock), timer_(timer), lane_(lane), shards_(std::make_unique<Shard[]>(kShardCount)) {}

DelayedOperationPurgatory::~DelayedOperationPurgatory() { Shutdown(); }

DelayedOperationPurgatory::Shard& DelayedOperationPurgatory::ShardOf(const WatchKey& key) {
  // The high bits: the low ones place the key in the shard's own table.
  return shards_[(absl::Hash<WatchKey>()(key) >> 48) % kShardCount];
}

bool DelayedOperationPurgatory::Shard::Link(WatchLink* link) {
  MutexLock lock(mutex);
  if (closed) return false;
  std::unique_ptr<WatchList>& list = lists[link->key];
  if (list == nullptr) {
    if (spare.empty()) {
      list = std::make_unique<WatchList>();
    } else {
      list = std::move(spare.back());
      spare.pop_back();
    }
  }
  list->PushBack(link);
  ++link_count;
  return true;
}

void DelayedOperationPurgatory::Shard::Unlink(WatchLink* link) {
  MutexLock lock(mutex);
  if (!link->linked()) return;
  link->Unlink();
  --link_count;
  const auto entry = lists.find(link->key);
  if (!entry->second->empty()) return;
  if (spare.size() < kMaxSpareLists) spare.push_back(std::move(entry->second));
  lists.erase(entry);
}

bool DelayedOperationPurgatory::TryCompleteElseWatch(RefPtr<DelayedOperation> operation,
                                                     absl::Span<const WatchKey> keys) {
  DCHECK(operation->purgatory_ == nullptr) << "a delayed operation waits once";
  if (operation->purgatory_ != nullptr) [[unlikely]] {
    LOG_EVERY_N(ERROR, 1000) << "a delayed operation was to wait for a second time";
    return operation->completed();
  }
  operation->purgatory_ = this;
  // A check that was asked for before is this one.
  operation->state_.fetch_and(~DelayedOperation::kCheck, std::memory_order_acq_rel);
  operation->TryComplete();
  if (operation->completed()) return operation->RunTurns();
  if (!Watch(operation.get(), keys)) {
    Drop(operation.get());
    return operation->RunTurns();
  }
  if (!operation->TryComplete()) {
    StartDeadline(operation.get());
    // A shutdown may have dropped it while it was being linked.
    if (operation->completed()) Retire(operation.get());
  }
  return operation->RunTurns();
}

bool DelayedOperationPurgatory::Watch(DelayedOperation* operation,
                                      absl::Span<const WatchKey> keys) {
  operation->AddReference();
  operation->watch_reference_.store(true, std::memory_order_release);
  pending_count_.fetch_add(1, std::memory_order_relaxed);
  // One that waits for its deadline only is in the lists as well, so that a
  // shutdown finds it.
  const WatchKey no_key = {kNoKeyKind, reinterpret_cast<uint64_t>(operation)};
  if (keys.empty()) keys = {&no_key, 1};
  for (WatchLink& link : operation->MakeLinks(keys)) {
    if (!ShardOf(link.key).Link(&link)) return false;
  }
  return true;
}

void DelayedOperationPurgatory::StartDeadline(DelayedOperation* operation) {
  if (operation->timeout_ms_ < 0) return;
  operation->AddReference();
  operation->on_expire = &DelayedOperationPurgatory::OnTimer;
  // What ends beyond the clock's last second ends with it.
  const int64_t now_ns = clock_.NowNs();
  const int64_t longest_ms = (INT64_MAX - now_ns) / 1'000'000;
  timer_.Add(operation, now_ns + std::min(operation->timeout_ms_, longest_ms) * 1'000'000);
}

void DelayedOperationPurgatory::OnTimer(TimerEntry* entry) {
  // The timer's reference becomes the lane's, or goes.
  auto operation = RefPtr<DelayedOperation>::Adopt(static_cast<DelayedOperation*>(entry));
  if (operation->Want(DelayedOperation::kExpired)) operation.Leak()->PostAdopted();
}

size_t DelayedOperationPurgatory::CheckAndComplete(WatchKey key) {
  return RequestForKey(key, DelayedOperation::kCheck);
}

size_t DelayedOperationPurgatory::CompleteAll(WatchKey key) {
  return RequestForKey(key, DelayedOperation::kForced);
}

size_t DelayedOperationPurgatory::RequestForKey(const WatchKey& key, uint32_t flag) {
  size_t watching = 0;
  DelayedOperation* first = nullptr;
  DelayedOperation** last = &first;
  Shard& shard = ShardOf(key);
  {
    MutexLock lock(shard.mutex);
    const auto entry = shard.lists.find(key);
    if (entry == shard.lists.end()) return 0;
    WatchList& list = *entry->second;
    for (WatchLink* link = list.front(); link != nullptr; link = list.Next(link)) {
      ++watching;
      DelayedOperation* operation = link->operation;
      if (!operation->Want(flag)) continue;
      operation->AddReference();
      operation->next_to_post_ = nullptr;
      *last = operation;
      last = &operation->next_to_post_;
    }
  }
  // Posting may wake a thread: not under the lock.
  while (first != nullptr) {
    DelayedOperation* next = first->next_to_post_;
    first->PostAdopted();
    first = next;
  }
  return watching;
}

void DelayedOperationPurgatory::Retire(DelayedOperation* operation) {
  if (operation->timeout_ms_ >= 0 && timer_.Cancel(operation)) operation->ReleaseReference();
  if (!operation->watch_reference_.load(std::memory_order_acquire) && operation->link_count_ == 0) {
    return;
  }
  for (WatchLink& link : operation->links()) ShardOf(link.key).Unlink(&link);
  if (operation->watch_reference_.exchange(false, std::memory_order_acq_rel)) {
    pending_count_.fetch_sub(1, std::memory_order_relaxed);
    operation->ReleaseReference();
  }
}

void DelayedOperationPurgatory::Drop(DelayedOperation* operation) {
  const uint32_t before =
      operation->state_.fetch_or(DelayedOperation::kCompleted, std::memory_order_acq_rel);
  if ((before & DelayedOperation::kCompleted) != 0) {
    // A shutdown was first; what was linked since has to leave, too.
    Retire(operation);
    return;
  }
  Retire(operation);
  operation->OnDrop();
}

void DelayedOperationPurgatory::Shutdown() {
  std::vector<RefPtr<DelayedOperation>> waiting;
  for (size_t i = 0; i < kShardCount; ++i) {
    Shard& shard = shards_[i];
    MutexLock lock(shard.mutex);
    shard.closed = true;
    for (const auto& [key, list] : shard.lists) {
      for (WatchLink* link = list->front(); link != nullptr; link = list->Next(link)) {
        waiting.emplace_back(link->operation);
      }
    }
  }
  for (const RefPtr<DelayedOperation>& operation : waiting) Drop(operation.get());
}

int64_t DelayedOperationPurgatory::watched_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < kShardCount; ++i) {
    MutexLock lock(shards_[i].mutex);
    count += shards_[i].link_count;
  }
  return count;
}

int64_t DelayedOperationPurgatory::key_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < kShardCount; ++i) {
    MutexLock lock(shards_[i].mutex);
    count += static_cast<int64_t>(shards_[i].lists.size());
  }
  return count;
}

}  // namespace gyre
