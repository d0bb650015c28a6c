#include "engine/base/ref_ptr.h"

#include <utility>

#include "gtest/gtest.h"

namespace gyre {
namespace {

class Counted : public RefCounted {
 public:
  explicit Counted(int* deaths) : deaths_(deaths) {}

 protected:
  ~Counted() override { ++*deaths_; }

 private:
  int* deaths_;
};

class Derived final : public Counted {
 public:
  using Counted::Counted;
};

TEST(RefPtrTest, TheLastReferenceDeletes) {
  int deaths = 0;
  auto first = MakeRef<Counted>(&deaths);
  auto second = first;
  first = nullptr;
  EXPECT_EQ(deaths, 0);
  second = nullptr;
  EXPECT_EQ(deaths, 1);
}

TEST(RefPtrTest, MovesAndUpcastsWithoutCounting) {
  int deaths = 0;
  {
    RefPtr<Counted> base = MakeRef<Derived>(&deaths);
    RefPtr<Counted> moved(std::move(base));
    EXPECT_FALSE(base);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(moved);
    EXPECT_EQ(deaths, 0);
  }
  EXPECT_EQ(deaths, 1);
}

TEST(RefPtrTest, LeakAndAdoptAreEachOthersInverse) {
  int deaths = 0;
  Counted* plain = MakeRef<Counted>(&deaths).Leak();
  EXPECT_EQ(deaths, 0);
  RefPtr<Counted>::Adopt(plain);
  EXPECT_EQ(deaths, 1);
}

TEST(RefPtrTest, AReferenceCanBeMadeFromThePlainPointer) {
  int deaths = 0;
  auto first = MakeRef<Counted>(&deaths);
  {
    RefPtr<Counted> second(first.get());
    EXPECT_TRUE(second == first);
  }
  EXPECT_EQ(deaths, 0);
  first = nullptr;
  EXPECT_EQ(deaths, 1);
}

}  // namespace
}  // namespace gyre
