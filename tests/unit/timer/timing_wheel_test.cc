#include "engine/timer/timing_wheel.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;

struct Entry : TimerEntry {
  explicit Entry(int64_t deadline) { deadline_ns = deadline; }
};

std::vector<TimerEntry*> Advance(TimingWheel& wheel, int64_t now_ns) {
  TimerList expired;
  wheel.AdvanceTo(now_ns, &expired);
  std::vector<TimerEntry*> entries;
  while (TimerEntry* entry = expired.PopFront()) entries.push_back(entry);
  return entries;
}

TEST(TimingWheelTest, AnEntryExpiresAtItsDeadlineAndNotBefore) {
  TimingWheel wheel(0);
  Entry entry(5 * kMs);
  wheel.Add(&entry);
  EXPECT_TRUE(Advance(wheel, 5 * kMs - 1).empty());
  EXPECT_EQ(Advance(wheel, 5 * kMs), std::vector<TimerEntry*>{&entry});
  EXPECT_EQ(wheel.size(), 0u);
  EXPECT_TRUE(Advance(wheel, 100 * kMs).empty());
}

TEST(TimingWheelTest, ADeadlineBetweenTicksIsNotEarly) {
  TimingWheel wheel(0);
  Entry entry(5 * kMs + 1);
  wheel.Add(&entry);
  EXPECT_TRUE(Advance(wheel, 5 * kMs + 2).empty());
  EXPECT_EQ(Advance(wheel, 6 * kMs).size(), 1u);
}

TEST(TimingWheelTest, APassedDeadlineIsCollectedNext) {
  TimingWheel wheel(100 * kMs);
  Entry past(1 * kMs), now(100 * kMs), negative(-7);
  wheel.Add(&past);
  wheel.Add(&now);
  wheel.Add(&negative);
  EXPECT_LE(wheel.NextExpiryNs(), 100 * kMs);
  EXPECT_EQ(Advance(wheel, 100 * kMs).size(), 3u);
}

TEST(TimingWheelTest, EntriesOfManyLevelsExpireInOrder) {
  TimingWheel wheel(0);
  const std::vector<int64_t> deadlines_ms = {1,   19,  20,   21,      399,
                                             400, 401, 8000, 160'000, 3'200'001};
  std::vector<std::unique_ptr<Entry>> entries;
  for (const int64_t ms : deadlines_ms) {
    entries.push_back(std::make_unique<Entry>(ms * kMs));
    wheel.Add(entries.back().get());
    entries.push_back(std::make_unique<Entry>(ms * kMs));
    wheel.Add(entries.back().get());
  }
  const std::vector<TimerEntry*> expired = Advance(wheel, 4'000'000 * kMs);
  ASSERT_EQ(expired.size(), entries.size());
  for (size_t i = 1; i < expired.size(); ++i) {
    EXPECT_LE(expired[i - 1]->deadline_ns, expired[i]->deadline_ns);
  }
}

TEST(TimingWheelTest, LevelsAreMadeOnDemand) {
  TimingWheel wheel(0);
  Entry near(10 * kMs), far(1000 * kMs);
  wheel.Add(&near);
  EXPECT_EQ(wheel.level_count(), 1);
  wheel.Add(&far);
  EXPECT_EQ(wheel.level_count(), 3);
  Advance(wheel, 2000 * kMs);
}

TEST(TimingWheelTest, HoldsAnyDeadlineOfTheClock) {
  TimingWheel wheel(0, 1);
  Entry last(INT64_MAX - 1);
  wheel.Add(&last);
  EXPECT_TRUE(Advance(wheel, int64_t{1} << 62).empty());
  EXPECT_TRUE(wheel.Cancel(&last));
}

TEST(TimingWheelTest, ACancelledEntryNeverExpires) {
  TimingWheel wheel(0);
  Entry kept(50 * kMs), cancelled(50 * kMs);
  wheel.Add(&kept);
  wheel.Add(&cancelled);
  EXPECT_TRUE(wheel.Cancel(&cancelled));
  EXPECT_FALSE(wheel.Cancel(&cancelled));
  EXPECT_EQ(Advance(wheel, 1000 * kMs), std::vector<TimerEntry*>{&kept});
  EXPECT_FALSE(wheel.Cancel(&kept));
}

TEST(TimingWheelTest, CancellingOneOfManyLosesNoOther) {
  // More than one chunk of one slot, taken out from the front, the back and between.
  TimingWheel wheel(0);
  std::vector<std::unique_ptr<Entry>> entries;
  for (int i = 0; i < 200; ++i) {
    entries.push_back(std::make_unique<Entry>(700 * kMs));
    wheel.Add(entries.back().get());
  }
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 0 || i > 180) EXPECT_TRUE(wheel.Cancel(entries[i].get())) << i;
  }
  const std::vector<TimerEntry*> left = Advance(wheel, 700 * kMs);
  const std::set<TimerEntry*> expired(left.begin(), left.end());
  EXPECT_EQ(expired.size(), left.size());
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(expired.count(entries[i].get()), i % 3 == 0 || i > 180 ? 0u : 1u) << i;
  }
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(TimingWheelTest, AnEntryCanBeAddedAgain) {
  TimingWheel wheel(0);
  Entry entry(5 * kMs);
  wheel.Add(&entry);
  EXPECT_EQ(Advance(wheel, 5 * kMs).size(), 1u);
  entry.deadline_ns = 9 * kMs;
  wheel.Add(&entry);
  EXPECT_TRUE(Advance(wheel, 8 * kMs).empty());
  EXPECT_EQ(Advance(wheel, 9 * kMs).size(), 1u);
}

TEST(TimingWheelTest, AnEmptyWheelHasNothingToWaitFor) {
  TimingWheel wheel(0);
  EXPECT_EQ(wheel.NextExpiryNs(), TimingWheel::kNever);
  Entry entry(700 * kMs);
  wheel.Add(&entry);
  EXPECT_LE(wheel.NextExpiryNs(), 700 * kMs);
  wheel.Cancel(&entry);
  EXPECT_EQ(wheel.NextExpiryNs(), TimingWheel::kNever);
}

TEST(TimingWheelTest, WaitingForNextExpiryTakesOneStepPerLevelAtMost) {
  TimingWheel wheel(0);
  Entry entry(3'599'999 * kMs);
  wheel.Add(&entry);
  int steps = 0;
  for (int64_t now_ns = 0; wheel.size() > 0; ++steps) {
    const int64_t next_ns = wheel.NextExpiryNs();
    ASSERT_GE(next_ns, now_ns);
    now_ns = next_ns;
    Advance(wheel, now_ns);
  }
  EXPECT_LE(steps, wheel.level_count());
}

// Random adds, cancels and advances against a multimap by deadline tick.
TEST(TimingWheelTest, BehavesAsASortedMap) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    int64_t now_ns = random.Between(-1000, 1'000'000) * kMs + random.Between(0, kMs - 1);
    std::vector<std::unique_ptr<Entry>> entries;  // outlives the wheel
    TimingWheel wheel(now_ns);
    std::multimap<int64_t, TimerEntry*> oracle;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t action = random.Below(10);
      if (action < 6) {
        const int64_t span = int64_t{1} << random.Below(43);
        entries.push_back(std::make_unique<Entry>(now_ns + random.Between(-span / 16, span)));
        wheel.Add(entries.back().get());
        oracle.emplace(entries.back()->deadline_ns, entries.back().get());
      } else if (action < 8 && !oracle.empty()) {
        auto victim = oracle.begin();
        std::advance(victim, random.Below(std::min<size_t>(oracle.size(), 50)));
        ASSERT_TRUE(wheel.Cancel(victim->second));
        oracle.erase(victim);
      } else {
        if (random.OneIn(2)) {
          const int64_t next_ns = wheel.NextExpiryNs();
          if (next_ns == TimingWheel::kNever) {
            ASSERT_TRUE(oracle.empty());
            continue;
          }
          // Never sleeps past a deadline by a tick or more.
          ASSERT_FALSE(oracle.empty());
          ASSERT_LT(next_ns, std::max(oracle.begin()->first, now_ns) + kMs);
          now_ns = std::max(now_ns, next_ns);
        } else {
          now_ns += random.Between(0, int64_t{1} << random.Below(38));
        }
        std::set<TimerEntry*> expired;
        for (TimerEntry* entry : Advance(wheel, now_ns)) {
          ASSERT_LE(entry->deadline_ns, now_ns) << "early";
          ASSERT_TRUE(expired.insert(entry).second) << "twice";
        }
        for (auto it = oracle.begin(); it != oracle.end() && it->first <= now_ns;) {
          const bool collected = expired.erase(it->second) == 1;
          // A deadline inside the current tick may be up to a tick late.
          ASSERT_TRUE(collected || it->first > now_ns - kMs) << "late";
          it = collected ? oracle.erase(it) : std::next(it);
        }
        ASSERT_TRUE(expired.empty()) << "not in the wheel";
      }
      ASSERT_EQ(wheel.size(), oracle.size());
    }
  }
}

}  // namespace
}  // namespace gyre
