#include "engine/base/uuid.h"

#include <random>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(UuidTest, DefaultIsZero) {
  EXPECT_TRUE(Uuid().is_zero());
  EXPECT_EQ(Uuid(), Uuid::kZero);
  EXPECT_FALSE((Uuid{0, 1}).is_zero());
}

// The first two are Kafka's names for the zero id and for the metadata topic.
TEST(UuidTest, TextExamples) {
  EXPECT_EQ(Uuid::kZero.ToString(), "AAAAAAAAAAAAAAAAAAAAAA");
  EXPECT_EQ((Uuid{0, 1}).ToString(), "AAAAAAAAAAAAAAAAAAAAAQ");
  EXPECT_EQ((Uuid{UINT64_MAX, UINT64_MAX}).ToString(), "_____________________w");
  EXPECT_EQ((Uuid{0x0011223344556677, 0x8899aabbccddeeff}).ToString(), "ABEiM0RVZneImaq7zN3u_w");
}

TEST(UuidTest, TextIsParsedBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const Uuid uuid{random(), random()};
    EXPECT_EQ(Uuid::Parse(uuid.ToString()), uuid);
  }
}

TEST(UuidTest, MalformedTextIsRefused) {
  EXPECT_EQ(Uuid::Parse(""), std::nullopt);
  EXPECT_EQ(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAA"), std::nullopt);
  EXPECT_EQ(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAAAA"), std::nullopt);
  EXPECT_EQ(Uuid::Parse("AAAAAAAAAAAAAAAAAAAA=="), std::nullopt);
  EXPECT_EQ(Uuid::Parse("AAAAAAAAAA+AAAAAAAAAAA"), std::nullopt);
  EXPECT_EQ(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAAB"), std::nullopt);  // more than 128 bits
}

TEST(UuidTest, OrderIsThatOfTheBytes) {
  EXPECT_LT((Uuid{0, UINT64_MAX}), (Uuid{1, 0}));
  EXPECT_LT((Uuid{1, 0}), (Uuid{1, 1}));
}

TEST(UuidTest, IsAHashKey) {
  absl::flat_hash_set<Uuid> set;
  set.insert(Uuid{1, 2});
  set.insert(Uuid{2, 1});
  set.insert(Uuid{1, 2});
  EXPECT_EQ(set.size(), 2u);
}

}  // namespace
}  // namespace gyre
