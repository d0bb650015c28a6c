#include "engine/memory/slab_caches.h"

#include <utility>

namespace gyre {

namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> last_id{0};
  return last_id.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

SlabCaches::Stack SlabCaches::none_[kMaxClasses + 1];
thread_local constinit SlabCaches::Current SlabCaches::current_;

// What a thread has claimed, of the few pools it uses. Lets go of it when the
// thread ends, or when it turns to yet another pool.
class SlabCaches::ThreadClaims {
 public:
  ~ThreadClaims() {
    current_ = Current();
    ended_ = true;
    for (Claim& claim : claims_) Drop(&claim);
  }

  static bool ended() { return ended_; }

  Cache* Find(uint64_t id) const {
    for (const Claim& claim : claims_) {
      if (claim.shared != nullptr && claim.shared->id == id) return claim.cache;
    }
    return nullptr;
  }
  void Add(std::shared_ptr<Shared> shared, Cache* cache) {
    Drop(&claims_[next_]);
    claims_[next_] = {std::move(shared), cache};
    next_ = (next_ + 1) % kClaims;
  }

 private:
  static constexpr size_t kClaims = 4;
  struct Claim {
    std::shared_ptr<Shared> shared;
    Cache* cache = nullptr;
  };

  static void Drop(Claim* claim) {
    if (claim->shared == nullptr) return;
    LetGo(claim->shared.get(), claim->cache);
    claim->shared.reset();
  }

  // Buffers may still be freed by what is destroyed later.
  static thread_local constinit bool ended_;
  Claim claims_[kClaims];
  size_t next_ = 0;
};

thread_local constinit bool SlabCaches::ThreadClaims::ended_ = false;

SlabCaches::SlabCaches(const std::vector<uint32_t>& capacities)
    : id_(NextId()), shared_(std::make_shared<Shared>()) {
  shared_->id = id_;
  shared_->class_count = capacities.size();
  for (Cache& cache : shared_->caches) {
    cache.stacks = std::make_unique<Stack[]>(capacities.size() + 1);
    for (size_t i = 0; i < capacities.size(); ++i) cache.stacks[i].capacity = capacities[i];
  }
}

bool SlabCaches::HasSlots(const Shared& shared, const Cache& cache) {
  for (size_t i = 0; i < shared.class_count; ++i) {
    if (cache.stacks[i].count.load(std::memory_order_relaxed) > 0) return true;
  }
  return false;
}

bool SlabCaches::TryTake(Cache* cache) {
  bool claimed = false;
  if (!cache->claimed.compare_exchange_strong(claimed, true, std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
    return false;
  }
  if (HasSlots(*shared_, *cache)) shared_->abandoned.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void SlabCaches::LetGo(Shared* shared, Cache* cache) {
  if (HasSlots(*shared, *cache)) shared->abandoned.fetch_add(1, std::memory_order_release);
  cache->claimed.store(false, std::memory_order_release);
}

SlabCaches::Stack* SlabCaches::Claim() {
  if (current_.id == id_) return current_.stacks;
  if (ThreadClaims::ended()) return none_;
  static thread_local ThreadClaims claims;
  Cache* found = claims.Find(id_);
  if (found == nullptr) {
    for (Cache& cache : shared_->caches) {
      if (cache.claimed.load(std::memory_order_relaxed) || !TryTake(&cache)) continue;
      found = &cache;
      claims.Add(shared_, found);
      break;
    }
    // None is left: looked for again each time, as many threads are no hurry.
    if (found == nullptr) return none_;
  }
  current_ = {id_, found->stacks.get()};
  return current_.stacks;
}

int64_t SlabCaches::CachedCount(size_t class_index) const {
  int64_t count = 0;
  for (const Cache& cache : shared_->caches) {
    count += cache.stacks[class_index].count.load(std::memory_order_relaxed);
  }
  return count;
}

}  // namespace gyre
