// The purgatory against a sequential model, in an order drawn from a seed: operations come,
// events are reported (also in the middle of an operation's turn), time passes, turns run one
// at a time. After each step the model knows who waits, who wants a turn and why; whoever
// completes too early, late, twice or not at all differs from it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/purgatory/delayed_operation_purgatory.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int kKeys = 5;

class OneAtATimeLane : public ContinuationLane {
 public:
  void Post(Continuation* continuation) override {
    queue_.Push(continuation);
    ++size_;
  }
  void DropAll() override {
    while (MpscNode* node = Pop()) {
      auto* continuation = static_cast<Continuation*>(node);
      continuation->drop(continuation);
    }
  }
  void RunOne() {
    auto* continuation = static_cast<Continuation*>(Pop());
    continuation->run(continuation);
  }
  size_t size() const { return size_; }

 private:
  MpscNode* Pop() {
    MpscNode* node = queue_.Pop();
    if (node != nullptr) --size_;
    return node;
  }

  MpscQueue queue_;
  size_t size_ = 0;
};

enum class End { kNone, kCompleted, kExpired, kDropped };

class World;

// Waits until `need` events of its keys have come since it was made.
class Operation : public DelayedOperation {
 public:
  Operation(World* world, int id, int64_t timeout_ms)
      : DelayedOperation(timeout_ms), world_(world), id_(id) {}

 protected:
  ~Operation() override;
  bool TryComplete() override;
  void OnComplete() override;
  void OnExpiration() override;
  void OnDrop() override;

 private:
  World* const world_;
  const int id_;
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}
  ~World() { EXPECT_EQ(alive_, 0); }

  void Run() {
    const int steps = static_cast<int>(random_.Between(50, 400));
    for (int i = 0; i < steps; ++i) {
      switch (random_.Below(8)) {
        case 0:
        case 1:
          Submit();
          break;
        case 2:
        case 3:
          Report(static_cast<int>(random_.Below(kKeys)));
          break;
        case 4:
          PassMs(random_.Between(0, 30));
          break;
        case 5:
          if (random_.OneIn(10)) Force(static_cast<int>(random_.Below(kKeys)));
          break;
        default:
          if (lane_.size() > 0) RunTurn();
      }
      ExpectAsTheModelHasIt();
      if (testing::Test::HasFailure()) break;
    }
    if (random_.OneIn(3)) {
      ShutDown();
    } else {
      EndAll();
    }
    while (lane_.size() > 0) lane_.RunOne();
    for (const auto& [id, model] : models_) EXPECT_NE(model.end, End::kNone) << id;
    EXPECT_EQ(purgatory_.pending_count(), 0);
    EXPECT_EQ(purgatory_.watched_count(), 0);
    EXPECT_EQ(purgatory_.key_count(), 0);
    EXPECT_EQ(timer_.size(), 0u);
  }

  // --- told by operations ---------------------------------------------------------------
  bool OnTry(int id) {
    Model& model = models_[id];
    EXPECT_EQ(model.end, End::kNone) << id << " is asked after its end";
    EXPECT_EQ(id, in_turn_) << id << " has its turn inside another's";
    EXPECT_FALSE(model.expired || model.forced) << id << " is asked past its deadline";
    EXPECT_TRUE(model.check || model.submitting) << id << " is asked without a reason";
    model.check = false;
    ++model.tries;
    // An event that comes now is not in what it sees, and makes it look again.
    const bool holds = Holds(model);
    if (random_.OneIn(6)) Report(static_cast<int>(random_.Below(kKeys)));
    return holds;
  }
  void OnEnd(int id, End end) {
    Model& model = models_[id];
    if (in_turn_ == kAnyExpired && model.expired) in_turn_ = id;
    if (end == End::kExpired) {
      EXPECT_TRUE(model.expired && !model.forced) << id << " expires";
      EXPECT_EQ(model.end, End::kCompleted) << id << " expires without its completion";
    } else {
      EXPECT_EQ(model.end, End::kNone) << id << " ends twice";
    }
    if (end == End::kCompleted) {
      EXPECT_EQ(id, in_turn_);
      EXPECT_TRUE(model.expired || model.forced || Holds(model)) << id << " completes too early";
      // It is out of all lists, and its answer may start another operation.
      model.end = end;
      ExpectAsTheModelHasIt();
    }
    model.end = end;
  }
  void OnGone() { --alive_; }

 private:
  struct Model {
    std::vector<int> keys;
    int64_t deadline_ns = INT64_MAX;
    int64_t events_wanted = 0;  // of its keys, counted over all time
    bool submitting = false;
    bool watched = false;
    bool in_lane = false;
    bool check = false, expired = false, forced = false;
    int tries = 0;
    End end = End::kNone;
    bool waits() const { return end == End::kNone && watched; }
  };

  int64_t EventsOf(const std::vector<int>& keys) const {
    int64_t count = 0;
    for (const int key : keys) count += events_[key];
    return count;
  }
  bool Holds(const Model& model) const { return EventsOf(model.keys) >= model.events_wanted; }
  static WatchKey KeyOf(int key) { return {1, static_cast<uint64_t>(key)}; }

  void Submit() {
    const int id = next_id_++;
    Model& model = models_[id];
    std::vector<WatchKey> watch;
    for (int key = 0; key < kKeys; ++key) {
      if (!random_.OneIn(3)) continue;
      model.keys.push_back(key);
      watch.push_back(KeyOf(key));
    }
    const int64_t timeout_ms = model.keys.empty() || random_.OneIn(2) ? random_.Between(0, 50) : -1;
    if (timeout_ms >= 0) model.deadline_ns = clock_.NowNs() + timeout_ms * 1'000'000;
    model.events_wanted =
        model.keys.empty() ? INT64_MAX : EventsOf(model.keys) + random_.Between(0, 4);
    ++alive_;
    const RefPtr<Operation> operation = MakeRef<Operation>(this, id, timeout_ms);
    model.submitting = true;
    in_turn_ = id;
    // Between the two looks it is watched: the model learns of that with the second.
    const bool ended = purgatory_.TryCompleteElseWatch(operation, watch);
    in_turn_ = -1;
    model.submitting = false;
    EXPECT_EQ(ended, model.end != End::kNone) << id;
    if (model.end != End::kNone) return;
    EXPECT_GE(model.tries, 2) << id << " is not tried again after it is watched";
    EXPECT_FALSE(model.check) << id << " forgot an event that came while it was submitted";
    model.watched = true;
  }

  void Report(int key) {
    ++events_[key];
    const size_t lane_before = lane_.size();
    const size_t watching = purgatory_.CheckAndComplete(KeyOf(key));
    size_t expected = 0, posted = 0;
    for (auto& [id, model] : models_) {
      if (!Watches(id, model, key)) continue;
      ++expected;
      model.check = true;
      posted += Post(id, model);
    }
    EXPECT_EQ(watching, expected);
    EXPECT_EQ(lane_.size() - lane_before, posted) << "an event only posts";
  }
  void Force(int key) {
    const size_t watching = purgatory_.CompleteAll(KeyOf(key));
    size_t expected = 0;
    for (auto& [id, model] : models_) {
      if (!Watches(id, model, key)) continue;
      ++expected;
      model.forced = true;
      Post(id, model);
    }
    EXPECT_EQ(watching, expected);
  }
  bool Watches(int id, const Model& model, int key) const {
    // Who is being submitted is watched from its second look on.
    const bool watched = model.watched || (id == in_turn_ && model.submitting && model.tries >= 2);
    return model.end == End::kNone && watched &&
           std::find(model.keys.begin(), model.keys.end(), key) != model.keys.end();
  }
  // Whether it was not there, nor in its turn.
  bool Post(int id, Model& model) {
    if (model.in_lane || id == in_turn_) return false;
    in_order_.push_back(id);
    return model.in_lane = true;
  }

  void PassMs(int64_t ms) {
    clock_.AdvanceMs(ms);
    const size_t lane_before = lane_.size();
    while (timer_.RunOnce(clock_.NowNs())) {
    }
    // In the order of their deadlines; the model leaves open who of one millisecond is first.
    std::vector<std::pair<int64_t, int>> due;
    for (auto& [id, model] : models_) {
      if (model.waits() && !model.expired && model.deadline_ns <= clock_.NowNs()) {
        due.emplace_back(model.deadline_ns, id);
      }
    }
    std::sort(due.begin(), due.end());
    size_t posted = 0;
    for (const auto& [deadline_ns, id] : due) {
      models_[id].expired = true;
      posted += Post(id, models_[id]);
    }
    EXPECT_EQ(lane_.size() - lane_before, posted) << "early, late or twice";
  }

  void RunTurn() {
    const int first = in_order_.front();
    in_turn_ = models_[first].expired ? kAnyExpired : first;
    lane_.RunOne();
    const int id = in_turn_ == kAnyExpired ? first : in_turn_;
    in_turn_ = -1;
    in_order_.erase(std::find(in_order_.begin(), in_order_.end(), id));
    Model& model = models_[id];
    model.in_lane = false;
    if (model.end == End::kNone) {
      EXPECT_FALSE(model.check || model.expired || model.forced) << id << " lost an event";
      EXPECT_FALSE(Holds(model)) << id << " waits for what is there";
    }
  }

  void ExpectAsTheModelHasIt() {
    int64_t pending = 0, watched = 0;
    size_t timed = 0;
    bool keys[kKeys] = {};
    int64_t without_keys = 0;
    for (const auto& [id, model] : models_) {
      const bool waits =
          model.waits() || (model.end == End::kNone && model.submitting && model.tries >= 2);
      if (!waits) continue;
      ++pending;
      watched += std::max<int64_t>(1, static_cast<int64_t>(model.keys.size()));
      without_keys += model.keys.empty();
      for (const int key : model.keys) keys[key] = true;
      timed += model.watched && !model.expired && model.deadline_ns != INT64_MAX;
    }
    EXPECT_EQ(purgatory_.pending_count(), pending);
    EXPECT_EQ(purgatory_.watched_count(), watched);
    EXPECT_EQ(purgatory_.key_count(), without_keys + std::count(keys, keys + kKeys, true));
    EXPECT_EQ(timer_.size(), timed);
  }

  void EndAll() {
    for (int round = 0; round < 5; ++round) {
      for (int key = 0; key < kKeys; ++key) Report(key);
    }
    PassMs(60);
    while (lane_.size() > 0) RunTurn();
    ExpectAsTheModelHasIt();
  }
  void ShutDown() {
    purgatory_.Shutdown();
    for (auto& [id, model] : models_) {
      if (model.watched && model.end == End::kNone) {
        ADD_FAILURE() << id << " is neither dropped nor completed";
      }
    }
  }

  // Those that expired at one time may come in any order: the first says who it is.
  static constexpr int kAnyExpired = -2;

  Random random_;
  ManualClock clock_{5'000'000'000};
  Timer timer_{clock_};
  OneAtATimeLane lane_;
  std::map<int, Model> models_;
  std::vector<int> in_order_;  // what the lane holds
  int64_t events_[kKeys] = {};
  int next_id_ = 0;
  int in_turn_ = -1;
  int alive_ = 0;
  DelayedOperationPurgatory purgatory_{clock_, timer_, lane_};
};

Operation::~Operation() { world_->OnGone(); }
bool Operation::TryComplete() { return world_->OnTry(id_) && ForceComplete(); }
void Operation::OnComplete() { world_->OnEnd(id_, End::kCompleted); }
void Operation::OnExpiration() { world_->OnEnd(id_, End::kExpired); }
void Operation::OnDrop() { world_->OnEnd(id_, End::kDropped); }

TEST(PurgatoryModelTest, WhoCompletesWhenAndWhyIsAsTheSequentialModelHasIt) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto world = std::make_unique<World>(seed);
    world->Run();
    world.reset();
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace gyre
