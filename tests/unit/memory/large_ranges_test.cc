#include "engine/memory/large_ranges.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/limits.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

// Backed pages of [from, from + size).
size_t ResidentPages(char* from, size_t size_bytes) {
  std::vector<unsigned char> pages((size_bytes + kPageBytes - 1) / kPageBytes);
  EXPECT_EQ(mincore(from, size_bytes, pages.data()), 0);
  size_t resident = 0;
  for (const unsigned char page : pages) resident += page & 1;
  return resident;
}

TEST(LargeRangesTest, GivesExactlyTheAskedBytes) {
  LargeRanges ranges({.capacity_bytes = 16 << 20});
  Buffer buffer = ranges.Acquire(300'001);
  ASSERT_NE(buffer.block(), nullptr);
  EXPECT_EQ(buffer.size_bytes(), 300'001u);
  std::memset(buffer.data(), 'x', buffer.size_bytes());
  EXPECT_EQ(buffer.block()->registered_index, -1);
  EXPECT_EQ(ranges.lent_bytes(), 74 * 4096);
  buffer.Reset();
  EXPECT_EQ(ranges.lent_bytes(), 0);
}

TEST(LargeRangesTest, PagesAreBackedOnlyAsTheyAreWritten) {
  LargeRanges ranges({.capacity_bytes = 200 << 20});
  Buffer buffer = ranges.Acquire(100 << 20);
  EXPECT_EQ(ResidentPages(buffer.data(), buffer.size_bytes()), 0u);
  buffer.data()[0] = 'x';
  EXPECT_EQ(ResidentPages(buffer.data(), buffer.size_bytes()), 1u);
}

// Where the kernel makes huge pages unasked, a byte would cost 2 MiB.
TEST(LargeRangesTest, NoHugePagesAreMadeForASmallPart) {
  LargeRanges ranges({.capacity_bytes = 200 << 20});
  const Buffer buffer = ranges.Acquire(100 << 20);
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool found = false;
  while (std::getline(maps, line)) {
    uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      const auto data = reinterpret_cast<uintptr_t>(buffer.data());
      found = from <= data && data < to;
    } else if (found && line.rfind("VmFlags:", 0) == 0) {
      EXPECT_NE(line.find(" nh"), std::string::npos) << line;
      return;
    }
  }
  GTEST_SKIP() << "the kernel does not tell";
}

TEST(LargeRangesTest, TheCapacityIsAStrictBound) {
  LargeRanges ranges({.capacity_bytes = 1 << 20});
  Buffer first = ranges.Acquire(600'000);
  EXPECT_NE(first.block(), nullptr);
  EXPECT_EQ(ranges.Acquire(600'000).block(), nullptr);
  EXPECT_EQ(ranges.Acquire(1 << 20).block(), nullptr);
  first.Reset();
  EXPECT_NE(ranges.Acquire(1 << 20).block(), nullptr);
  EXPECT_EQ(ranges.Acquire((1 << 20) + 1).block(), nullptr);
}

TEST(LargeRangesTest, RefusesNothingAndTooMuch) {
  LargeRanges ranges({.capacity_bytes = int64_t{8} << 30});
  EXPECT_EQ(ranges.Acquire(0).block(), nullptr);
  EXPECT_EQ(ranges.Acquire(LargeRanges::kMaxRangeBytes + 1).block(), nullptr);
  EXPECT_NE(ranges.Acquire(LargeRanges::kMaxRangeBytes).block(), nullptr);
}

TEST(LargeRangesTest, PagesBeyondTheCacheGoBackToTheKernel) {
  LargeRanges ranges({.capacity_bytes = 64 << 20, .cache_bytes = 1 << 20});
  Buffer buffer = ranges.Acquire(2 << 20);
  char* data = buffer.data();
  std::memset(data, 'x', 2 << 20);
  buffer.Reset();
  EXPECT_EQ(ranges.cached_bytes(), 0);
  // The address space is kept for the next frame of this class.
  Buffer again = ranges.Acquire(2 << 20);
  ASSERT_EQ(again.data(), data);
  EXPECT_EQ(ResidentPages(data, 2 << 20), 0u);
  EXPECT_EQ(data[0], 0);
}

TEST(LargeRangesTest, PagesWithinTheCacheAreKept) {
  LargeRanges ranges({.capacity_bytes = 64 << 20, .cache_bytes = 4 << 20});
  Buffer first = ranges.Acquire(3 << 20);
  Buffer second = ranges.Acquire(3 << 20);
  char* first_data = first.data();
  std::memset(first_data, 'x', 3 << 20);
  std::memset(second.data(), 'y', 3 << 20);
  first.Reset();
  EXPECT_EQ(ranges.cached_bytes(), 3 << 20);
  second.Reset();  // does not fit beside it
  EXPECT_EQ(ranges.cached_bytes(), 3 << 20);
  Buffer again = ranges.Acquire(3 << 20);
  EXPECT_EQ(again.data(), first_data);
  EXPECT_EQ(again.data()[0], 'x');
}

// As when large requests alternate with such as are announced and never come.
TEST(LargeRangesTest, WhoSendsLittleHoldsFewOfThePagesThatWereKept) {
  LargeRanges ranges({.capacity_bytes = 256 << 20, .cache_bytes = 4 << 20});
  std::vector<Buffer> slow;
  size_t resident = 0;
  for (int i = 0; i < 10; ++i) {
    Buffer quick = ranges.Acquire(4 << 20);
    std::memset(quick.data(), 'x', quick.size_bytes());
    quick.Reset();
    slow.push_back(ranges.Acquire(4 << 20));
    resident += ResidentPages(slow.back().data(), slow.back().size_bytes());
  }
  EXPECT_LE(resident * kPageBytes, size_t{4} << 20);
  EXPECT_EQ(ranges.cached_bytes(), 4 << 20);
  slow.clear();
  EXPECT_EQ(ranges.cached_bytes(), 4 << 20);
}

TEST(LargeRangesTest, APageBackedByAnEarlierUseStillCountsAfterASmallerOne) {
  LargeRanges ranges({.capacity_bytes = 64 << 20, .cache_bytes = 1 << 20});
  // Same class of address space: 512 KiB + 1 … 1 MiB.
  Buffer large = ranges.Acquire(1 << 20);
  std::memset(large.data(), 'x', 1 << 20);
  large.Reset();
  Buffer small = ranges.Acquire(600'000);
  small.Reset();
  EXPECT_EQ(ranges.cached_bytes(), 1 << 20);
}

}  // namespace
}  // namespace gyre
