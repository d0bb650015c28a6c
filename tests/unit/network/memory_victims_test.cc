#include "engine/network/processor/memory_victims.h"

#include <utility>
#include <vector>

#include "engine/network/connection/pace.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(PaceTest, TimePutsAPeerBehindAndBytesBringItBack) {
  Pace pace;
  pace.Begin(100 * kSecond);
  EXPECT_EQ(pace.BehindNs(100 * kSecond), 0);
  EXPECT_EQ(pace.BehindNs(102 * kSecond), 2 * kSecond);
  pace.Move(102 * kSecond, Pace::kLeastBytesPerSecond);
  EXPECT_NEAR(static_cast<double>(pace.BehindNs(102 * kSecond)), kSecond, kSecond * 0.001);
}

TEST(PaceTest, ABurstBuysNoTime) {
  Pace pace;
  pace.Begin(0);
  pace.Move(kSecond, 1 << 30);
  EXPECT_EQ(pace.BehindNs(kSecond), 0);
  EXPECT_EQ(pace.BehindNs(3 * kSecond), 2 * kSecond);
}

TEST(PaceTest, WhatIsMovedWhileOneNeedNotBuysNoTime) {
  Pace pace;
  pace.Begin(0);
  pace.Move(10 * kSecond, 1 << 30);
  pace.Forgive(10 * kSecond, 8 * kSecond);
  EXPECT_EQ(pace.BehindNs(10 * kSecond), 0);
  EXPECT_EQ(pace.BehindNs(13 * kSecond), 3 * kSecond);
}

TEST(PaceTest, ADripIsHardlyBetterThanSilence) {
  Pace drip;
  drip.Begin(0);
  Pace steady;
  steady.Begin(0);
  for (int64_t second = 1; second <= 60; ++second) {
    drip.Move(second * kSecond, 1);
    steady.Move(second * kSecond, Pace::kLeastBytesPerSecond + 1);
  }
  EXPECT_GT(drip.BehindNs(60 * kSecond), 59 * kSecond);
  EXPECT_LT(steady.BehindNs(60 * kSecond), kSecond / 100);
}

// The order of those chosen, by what they hold, which differs for all.
std::vector<int64_t> Partials(int64_t wanted_bytes, std::vector<PartialHolder> holders) {
  const size_t count = ChooseVictims(wanted_bytes, &holders);
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(holders[i].held_bytes);
  return chosen;
}
std::vector<int64_t> Readers(int64_t excess_bytes, std::vector<ReaderHolder> holders,
                             int64_t slack_bytes = 0) {
  const size_t count = ChooseVictims(excess_bytes, slack_bytes, &holders);
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(holders[i].held_bytes());
  return chosen;
}

PartialHolder Partial(int64_t held, int64_t missing, int64_t behind, bool waits) {
  return {nullptr, held, missing, behind, waits};
}

TEST(MemoryVictimsTest, ManyAreClosedAtOnceUntilEnoughComesBack) {
  std::vector<PartialHolder> holders;
  for (int i = 1; i <= 10; ++i) holders.push_back(Partial(100 + i, 1000 - i, kSecond, false));
  EXPECT_EQ(Partials(300, holders), (std::vector<int64_t>{101, 102, 103}));
  EXPECT_EQ(Partials(100'000, holders).size(), 10u);
  EXPECT_TRUE(Partials(0, holders).empty());
  EXPECT_TRUE(Partials(100, {}).empty());
}

TEST(MemoryVictimsTest, WhoNeedsMostToFinishGoesFirstAndThenWhoIsLongestBehind) {
  EXPECT_EQ(Partials(4, {Partial(1, 50, 9 * kSecond, false), Partial(2, 100'000, kSecond, false),
                         Partial(3, 100'000, 2 * kSecond, false)}),
            (std::vector<int64_t>{3, 2}));
}

TEST(MemoryVictimsTest, WhoWaitsForMemoryIsSparedWhileOthersDoNotSend) {
  // Though the silent ones say that they need next to nothing more.
  EXPECT_EQ(Partials(1000, {Partial(600, 900'000, 9 * kSecond, true),
                            Partial(601, 10, kSecond, false), Partial(10, 5, kSecond, false)}),
            (std::vector<int64_t>{601, 10}));
  EXPECT_EQ(
      Partials(1000, {Partial(600, 900'000, kSecond, true), Partial(500, 90'000, kSecond, true),
                      Partial(700, 10'000, kSecond, true)}),
      (std::vector<int64_t>{600, 500}));
}

TEST(MemoryVictimsTest, ReadersThatAreLongestBehindPay) {
  EXPECT_EQ(Readers(25, {{nullptr, 10, 0, 1 * kSecond},
                         {nullptr, 20, 0, 30 * kSecond},
                         {nullptr, 30, 0, 0},
                         {nullptr, 15, 0, 2 * kSecond}}),
            (std::vector<int64_t>{20, 15}));
}

TEST(MemoryVictimsTest, TheReaderThatIsLeastBehindStays) {
  EXPECT_TRUE(Readers(1000, {{nullptr, 5'000, 0, kSecond}}).empty());
  EXPECT_EQ(Readers(10'000, {{nullptr, 5'000, 0, kSecond}, {nullptr, 6'000, 0, 0}}),
            (std::vector<int64_t>{5'000}));
  EXPECT_EQ(Readers(10'000, {{nullptr, 5'000, 0, kSecond}, {nullptr, 6'000, 0, 2 * kSecond}}),
            (std::vector<int64_t>{6'000}));
}

TEST(MemoryVictimsTest, AReaderOfALargeAnswerStaysBesideOneOfASmallOne) {
  // Else nobody had an answer larger than the capacity while others have small ones.
  EXPECT_TRUE(
      Readers(9'000, {{nullptr, 10'000, 0, kSecond / 100}, {nullptr, 50, 0, 0}}, 100).empty());
  EXPECT_EQ(Readers(9'000, {{nullptr, 10'000, 0, kSecond}, {nullptr, 50, 0, 0}}, 100),
            (std::vector<int64_t>{10'000}));
  // Of two the one that is less behind, though it may have the less left for that.
  EXPECT_EQ(Readers(9'000, {{nullptr, 10'000, 0, kSecond / 10}, {nullptr, 9'900, 0, 0}}, 100),
            (std::vector<int64_t>{10'000}));
}

TEST(MemoryVictimsTest, WhoIsNotBehindDoesNotPayForTheSlack) {
  EXPECT_EQ(Readers(1'000,
                    {{nullptr, 1'001, 0, kSecond},
                     {nullptr, 1'002, 0, 0},
                     {nullptr, 50, 0, 0},
                     {nullptr, 60, 0, 0}},
                    100),
            (std::vector<int64_t>{1'001}));
  EXPECT_EQ(Readers(1'000,
                    {{nullptr, 1'001, 0, kSecond},
                     {nullptr, 1'002, 0, 0},
                     {nullptr, 50, 0, 2 * kSecond},
                     {nullptr, 60, 0, 0}},
                    100),
            (std::vector<int64_t>{50, 1'001}));
}

TEST(MemoryVictimsTest, WhoseBytesMakeNoDifferenceStays) {
  EXPECT_EQ(Readers(1'000, {{nullptr, 50, 0, kSecond / 5},
                            {nullptr, 1'001, 0, kSecond / 10},
                            {nullptr, 1'002, 0, 0}}),
            (std::vector<int64_t>{1'001}));
  // Though small ones pay when there are many of them,
  std::vector<ReaderHolder> holders(1'000, {nullptr, 60, 0, 0});
  EXPECT_EQ(Readers(30'000, holders, 600).size(), 490u);
  // even for one that stays: it is they who are too many beside it.
  holders.push_back({nullptr, 1'000'000, 0, 0});
  EXPECT_EQ(Readers(900'000, holders, 600).size(), 990u);
}

TEST(MemoryVictimsTest, WhoSentAheadPaysBeforeReadersThatRead) {
  const std::vector<ReaderHolder> holders = {{nullptr, 0, 300, 0},
                                             {nullptr, 500, 1, kSecond},
                                             {nullptr, 0, 700, 9 * kSecond},
                                             {nullptr, 400, 0, kSecond / 1000},
                                             {nullptr, 450, 0, 0}};
  EXPECT_EQ(Readers(1'500, holders), (std::vector<int64_t>{501, 700, 300}));
  EXPECT_EQ(Readers(100'000, holders).size(), 4u);
}

TEST(MemoryVictimsTest, WhoSentAheadDoesNotPayForWhatAnswersHold) {
  const std::vector<ReaderHolder> holders = {{nullptr, 0, 80, 0},
                                             {nullptr, 1'000, 0, kSecond / 100},
                                             {nullptr, 0, 20, 0},
                                             {nullptr, 900, 0, kSecond / 50},
                                             {nullptr, 800, 0, 0}};
  EXPECT_EQ(Readers(300, holders), (std::vector<int64_t>{900}));
  // Who takes answers does not pay for what was sent ahead, either.
  EXPECT_EQ(Readers(90, holders), (std::vector<int64_t>{80, 20}));
}

}  // namespace
}  // namespace gyre
