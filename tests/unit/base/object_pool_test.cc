#include "engine/base/object_pool.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Thing {
  int value = 7;
};

TEST(ObjectPoolTest, WhatIsLentIsLentOnce) {
  ObjectPool<Thing, 4> pool;
  std::set<Thing*> lent;
  for (int i = 0; i < 10; ++i) {
    Thing* const thing = pool.Acquire();
    EXPECT_EQ(thing->value, 7);
    EXPECT_TRUE(lent.insert(thing).second);
  }
  EXPECT_EQ(pool.made(), 12u);
}

TEST(ObjectPoolTest, TheLastToComeBackIsTheFirstToGo) {
  ObjectPool<Thing, 4> pool;
  std::vector<Thing*> lent;
  for (int i = 0; i < 8; ++i) lent.push_back(pool.Acquire());
  for (Thing* thing : lent) pool.Release(thing);
  for (int i = 7; i >= 0; --i) EXPECT_EQ(pool.Acquire(), lent[i]);
  EXPECT_EQ(pool.made(), 8u) << "made more than were ever out";
}

TEST(ObjectPoolTest, ObjectsComeBackAsTheyWere) {
  ObjectPool<Thing, 1> pool;
  Thing* const thing = pool.Acquire();
  thing->value = 3;
  pool.Release(thing);
  EXPECT_EQ(pool.Acquire()->value, 3);
}

}  // namespace
}  // namespace gyre
