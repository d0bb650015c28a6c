#include "engine/network/accept/processor_set.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

class FakeTarget final : public ConnectionTarget {
 public:
  void EnqueueConnection(NewConnection) override {
    open.fetch_add(1);
    EXPECT_FALSE(removed.load()) << "a connection for a processor that was taken out";
  }
  int64_t open_connections() const override { return open.load(); }
  void EnqueueShed() override { ++sheds; }
  void EnqueueStallCheck() override {}
  void EnqueueListenSocket(std::unique_ptr<ListenSocketHandover>) override { ++listening; }
  int32_t listening_sockets() const override { return listening; }

  std::atomic<int64_t> open{0};
  std::atomic<bool> removed{false};
  int sheds = 0;
  int32_t listening = 0;
};

void Place(ProcessorSet& set, int count) {
  for (int i = 0; i < count; ++i) set.Place(NewConnection());
}

TEST(ProcessorSetTest, EqualsTakeTurns) {
  FakeTarget a, b, c;
  ProcessorSet set;
  for (FakeTarget* target : {&a, &b, &c}) set.Add(target);
  Place(set, 9);
  EXPECT_EQ(a.open, 3);
  EXPECT_EQ(b.open, 3);
  EXPECT_EQ(c.open, 3);
}

TEST(ProcessorSetTest, TheOneWithTheFewestIsServedFirst) {
  FakeTarget old_one, new_one;
  old_one.open = 10;
  ProcessorSet set;
  set.Add(&old_one);
  set.Add(&new_one);
  Place(set, 8);
  EXPECT_EQ(old_one.open, 10);
  EXPECT_EQ(new_one.open, 8);
  Place(set, 6);
  EXPECT_EQ(old_one.open + new_one.open, 24);
  EXPECT_EQ(old_one.open, 12);
}

TEST(ProcessorSetTest, ListeningSocketsAreSpreadAndTheSurplusIsKnown) {
  FakeTarget a, b;
  ProcessorSet set;
  set.Add(&a);
  set.Add(&b);
  for (int i = 0; i < 5; ++i) set.PlaceListenSocket(std::make_unique<ListenSocketHandover>());
  EXPECT_EQ(a.listening + b.listening, 5);
  EXPECT_EQ(set.ListenSurplus(a), 0);
  FakeTarget c;
  set.Add(&c);
  EXPECT_EQ(set.ListenSurplus(a) + set.ListenSurplus(b), 1);
  EXPECT_EQ(set.ListenSurplus(c), 0);
  set.PlaceListenSocket(std::make_unique<ListenSocketHandover>());
  EXPECT_EQ(c.listening, 1);
}

TEST(ProcessorSetTest, EveryTargetIsToldOfExcess) {
  FakeTarget a, b;
  ProcessorSet set;
  set.Add(&a);
  set.Add(&b);
  set.Shed();
  EXPECT_EQ(a.sheds, 1);
  EXPECT_EQ(b.sheds, 1);
}

TEST(ProcessorSetTest, ARemovedOneGetsNoneAnyMoreWhileOthersPlace) {
  FakeTarget stays, comes_and_goes;
  ProcessorSet set;
  set.Add(&stays);
  std::atomic<bool> done{false};
  std::vector<std::thread> acceptors;
  for (int i = 0; i < 2; ++i) {
    acceptors.emplace_back([&] {
      while (!done.load()) Place(set, 1);
    });
  }
  for (int i = 0; i < 200; ++i) {
    comes_and_goes.removed.store(false);
    set.Add(&comes_and_goes);
    std::this_thread::yield();
    set.Remove(&comes_and_goes);
    comes_and_goes.removed.store(true);
  }
  done.store(true);
  for (std::thread& acceptor : acceptors) acceptor.join();
  EXPECT_EQ(set.size(), 1u);
}

}  // namespace
}  // namespace gyre
