#include "engine/base/intrusive_list.h"

#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

struct ByName;
struct Item : IntrusiveListNode<>, IntrusiveListNode<ByName> {
  explicit Item(int number) : number(number) {}
  int number;
};
using List = IntrusiveList<Item>;

std::vector<int> Drain(List& list) {
  std::vector<int> numbers;
  while (Item* item = list.PopFront()) numbers.push_back(item->number);
  return numbers;
}

TEST(IntrusiveListTest, KeepsTheOrderOfPushes) {
  Item one(1), two(2), three(3);
  List list;
  list.PushBack(&two);
  list.PushBack(&three);
  list.PushFront(&one);
  EXPECT_EQ(list.front(), &one);
  EXPECT_EQ(list.back(), &three);
  EXPECT_EQ(list.Next(&one), &two);
  EXPECT_EQ(list.Next(&three), nullptr);
  EXPECT_EQ(Drain(list), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(list.PopFront(), nullptr);
}

TEST(IntrusiveListTest, AnElementUnlinksItselfFromTheMiddle) {
  Item one(1), two(2), three(3);
  List list;
  for (Item* item : {&one, &two, &three}) list.PushBack(item);
  two.IntrusiveListNode<>::Unlink();
  EXPECT_FALSE(two.IntrusiveListNode<>::linked());
  two.IntrusiveListNode<>::Unlink();
  EXPECT_EQ(list.CountSlow(), 2u);
  EXPECT_EQ(Drain(list), (std::vector<int>{1, 3}));
}

TEST(IntrusiveListTest, AnElementCanBeInOneListPerTag) {
  Item one(1), two(2);
  List list;
  IntrusiveList<Item, ByName> other;
  list.PushBack(&one);
  list.PushBack(&two);
  other.PushBack(&two);
  other.PushBack(&one);
  EXPECT_EQ(Drain(list), (std::vector<int>{1, 2}));
  EXPECT_EQ(other.PopFront(), &two);
  EXPECT_EQ(other.PopFront(), &one);
}

TEST(IntrusiveListTest, TakeAllAppendsAndLeavesTheOtherEmpty) {
  Item one(1), two(2), three(3);
  List list;
  List other;
  list.PushBack(&one);
  list.TakeAll(&other);
  EXPECT_EQ(list.CountSlow(), 1u);
  other.PushBack(&two);
  other.PushBack(&three);
  list.TakeAll(&other);
  EXPECT_TRUE(other.empty());
  EXPECT_EQ(Drain(list), (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace gyre
