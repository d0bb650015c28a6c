#include "engine/broker/topic_name.h"

#include <string>

#include "gtest/gtest.h"

namespace gyre {
namespace {

bool IsValid(absl::string_view name) { return WhyTopicNameIsInvalid(name) == nullptr; }

TEST(TopicNameTest, LettersDigitsDotsUnderscoresAndDashesAreLegal) {
  EXPECT_TRUE(IsValid("a"));
  EXPECT_TRUE(IsValid("Orders.v2_final-1"));
  EXPECT_TRUE(IsValid("..."));
  EXPECT_TRUE(IsValid(std::string(249, 'x')));
}

TEST(TopicNameTest, OtherNamesSayWhyNot) {
  EXPECT_FALSE(IsValid(""));
  EXPECT_FALSE(IsValid("."));
  EXPECT_FALSE(IsValid(".."));
  EXPECT_FALSE(IsValid(std::string(250, 'x')));
  EXPECT_FALSE(IsValid("a/b"));
  EXPECT_FALSE(IsValid("a b"));
  EXPECT_FALSE(IsValid(absl::string_view("a\0b", 3)));
  EXPECT_FALSE(IsValid("\xc3\xa9"));
}

TEST(TopicNameTest, DotAndUnderscoreCollide) {
  EXPECT_EQ(TopicCollisionKey("a.b_c"), TopicCollisionKey("a_b.c"));
  EXPECT_NE(TopicCollisionKey("a.b"), TopicCollisionKey("a-b"));
}

}  // namespace
}  // namespace gyre
