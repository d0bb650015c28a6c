#include "tools/load/checks.h"

#include <set>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre::load {
namespace {

StreamSent Sent(int64_t count, int64_t acknowledged) {
  StreamSent sent;
  sent.sent_count = count;
  sent.acknowledged.Add(0, acknowledged);
  return sent;
}

StreamCheck Saw(const std::vector<int64_t>& numbers) {
  StreamCheck check;
  for (const int64_t number : numbers) check.OnRecord(number);
  return check;
}

TEST(NumberSetTest, IsASet) {
  Random random(3);
  NumberSet set;
  std::set<int64_t> model;
  for (int i = 0; i < 20'000; ++i) {
    const int64_t at = random.Between(0, 300);
    if (random.OneIn(3)) {
      EXPECT_EQ(set.Remove(at), model.erase(at) == 1);
    } else {
      const int64_t end = at + random.Between(0, 5);
      set.Add(at, end);
      for (int64_t n = at; n < end; ++n) model.insert(n);
    }
    ASSERT_EQ(set.size(), static_cast<int64_t>(model.size()));
    ASSERT_EQ(set.Contains(at), model.contains(at));
    ASSERT_EQ(set.CountWithin(at, at + 40),
              std::distance(model.lower_bound(at), model.lower_bound(at + 40)));
  }
}

TEST(StreamCheckTest, AStreamInOrderIsClean) {
  const CheckCounts counts = Saw({0, 1, 2, 3}).Settle(Sent(4, 4), false);
  EXPECT_TRUE(counts.clean());
  EXPECT_EQ(counts.checked, 4);
  EXPECT_EQ(counts.never_written, 0);
}

TEST(StreamCheckTest, AnAcknowledgedRecordThatIsNotThereIsLost) {
  EXPECT_EQ(Saw({0, 2, 3}).Settle(Sent(4, 4), false).lost, 1);
  EXPECT_EQ(Saw({0, 1}).Settle(Sent(4, 4), false).lost, 2) << "at the end, too";
  EXPECT_EQ(StreamCheck().Settle(Sent(4, 4), false).lost, 4) << "and all of it";
}

TEST(StreamCheckTest, WhatWasNotAcknowledgedMayBeMissing) {
  const CheckCounts counts = Saw({0, 1, 3}).Settle(Sent(6, 2), false);
  EXPECT_EQ(counts.lost, 0);
  EXPECT_EQ(counts.never_written, 3);  // 2, 4 and 5
}

TEST(StreamCheckTest, EveryFurtherAppearanceIsADuplicate) {
  EXPECT_EQ(Saw({0, 1, 1, 1, 0, 2}).Settle(Sent(3, 3), false).duplicated, 3);
}

TEST(StreamCheckTest, ARecordAfterALaterOneIsReordered) {
  const CheckCounts counts = Saw({0, 3, 1, 2, 4}).Settle(Sent(5, 5), false);
  EXPECT_EQ(counts.reordered, 2);
  EXPECT_EQ(counts.lost, 0);
  EXPECT_EQ(counts.duplicated, 0);
}

TEST(StreamCheckTest, ARetryExplainsADuplicateUnlessTheProducerIsIdempotent) {
  StreamSent sent = Sent(5, 5);
  sent.retried.Add(1, 4);
  const StreamCheck check = Saw({0, 1, 2, 1, 2, 3, 4, 4});
  const CheckCounts plain = check.Settle(sent, false);
  EXPECT_EQ(plain.duplicated_by_retry, 2);
  EXPECT_EQ(plain.duplicated, 1);
  const CheckCounts idempotent = check.Settle(sent, true);
  EXPECT_EQ(idempotent.duplicated, 3);
}

TEST(StreamCheckTest, AStreamOfAnotherRunMayStartAnywhere) {
  StreamCheck check(17);
  for (const int64_t number : {17, 18, 21}) check.OnRecord(number);
  EXPECT_EQ(check.SettleAlone().lost, 2);
  EXPECT_EQ(check.SettleAlone().checked, 3);
}

}  // namespace
}  // namespace gyre::load
