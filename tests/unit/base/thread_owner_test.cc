#include "engine/base/thread_owner.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class Owned {
 public:
  void Bind() { owner_.Bind(); }
  void Unbind() { owner_.Unbind(); }
  bool IsMine() const { return owner_.IsCurrent(); }
  int Increment() {
    owner_.Assert();
    return ++value_;
  }

 private:
  ThreadOwner owner_;
  int value_ ABSL_GUARDED_BY(owner_) = 0;
};

TEST(ThreadOwnerTest, BelongsToTheThreadThatBoundIt) {
  Owned owned;
  EXPECT_EQ(owned.Increment(), 1);  // nobody's yet
  owned.Bind();
  EXPECT_TRUE(owned.IsMine());
  EXPECT_EQ(owned.Increment(), 2);
  std::thread([&] { EXPECT_FALSE(owned.IsMine()); }).join();
}

TEST(ThreadOwnerTest, CanBeHandedToAnotherThread) {
  Owned owned;
  owned.Bind();
  owned.Unbind();
  std::thread([&] {
    owned.Bind();
    EXPECT_EQ(owned.Increment(), 1);
  }).join();
  EXPECT_FALSE(owned.IsMine());
}

#if !defined(NDEBUG)
TEST(ThreadOwnerDeathTest, AssertStopsAnotherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Owned owned;
  owned.Bind();
  EXPECT_DEATH(std::thread([&] { owned.Increment(); }).join(), "IsCurrent");
}
#endif

}  // namespace
}  // namespace gyre
