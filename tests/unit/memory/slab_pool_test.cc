#include "engine/memory/slab_pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

std::unique_ptr<SlabPool> MakePool(std::vector<SlabClassConfig> classes, int64_t run_bytes = 0) {
  SlabPoolConfig config;
  config.classes = std::move(classes);
  config.run_bytes = run_bytes;
  return *SlabPool::Create(config);
}

TEST(SlabPoolTest, GivesTheSmallestSlotThatHoldsTheSize) {
  auto pool = MakePool({{65536, 2}, {4096, 2}, {16384, 2}});
  EXPECT_EQ(pool->Allocate(1).block()->capacity_bytes, 4096u);
  EXPECT_EQ(pool->Allocate(4096).block()->capacity_bytes, 4096u);
  const Buffer buffer = pool->Allocate(4097);
  EXPECT_EQ(buffer.block()->capacity_bytes, 16384u);
  EXPECT_EQ(buffer.size_bytes(), 4097u);
}

TEST(SlabPoolTest, AnExhaustedClassBorrowsFromTheNextOneOnly) {
  auto pool = MakePool({{4096, 1}, {16384, 1}, {65536, 1}});
  const Buffer first = pool->Allocate(100);
  const Buffer second = pool->Allocate(100);
  EXPECT_EQ(second.block()->capacity_bytes, 16384u);
  const Buffer third = pool->Allocate(100);
  EXPECT_EQ(third.block(), nullptr);
  EXPECT_EQ(pool->exhausted_count(), 1u);
  EXPECT_NE(pool->Allocate(60'000).block(), nullptr);
}

TEST(SlabPoolTest, RefusesWhatExceedsItsLargestSlot) {
  auto pool = MakePool({{4096, 4}});
  EXPECT_EQ(pool->Allocate(4097).block(), nullptr);
}

TEST(SlabPoolTest, SlotsAreDisjointAndComeBack) {
  auto pool = MakePool({{4096, 64}});
  for (int round = 0; round < 3; ++round) {
    std::vector<Buffer> buffers;
    std::set<char*> addresses;
    for (int i = 0; i < 64; ++i) {
      buffers.push_back(pool->Allocate(4096));
      ASSERT_NE(buffers.back().block(), nullptr);
      std::memset(buffers.back().data(), i, 4096);
      addresses.insert(buffers.back().data());
    }
    EXPECT_EQ(addresses.size(), 64u);
    EXPECT_EQ(pool->Allocate(1).block(), nullptr);
    EXPECT_EQ(pool->Usage()[0].lent_count, 64u);
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(buffers[i].data()[0], i);
      EXPECT_EQ(buffers[i].data()[4095], i);
    }
  }
  EXPECT_EQ(pool->Usage()[0].lent_count, 0u);
}

TEST(SlabPoolTest, WhatAThreadKeptIsFoundAfterItsEnd) {
  auto pool = MakePool({{4096, 1024}});
  std::thread other([&pool] {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 100; ++i) buffers.push_back(pool->Allocate(4096));
    buffers.clear();
    EXPECT_EQ(pool->Usage()[0].lent_count, 0u);
  });
  other.join();
  std::set<char*> addresses;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 1024; ++i) {
    buffers.push_back(pool->Allocate(4096));
    ASSERT_NE(buffers.back().block(), nullptr) << i;
    addresses.insert(buffers.back().data());
  }
  EXPECT_EQ(addresses.size(), 1024u);
  EXPECT_EQ(pool->Usage()[0].lent_count, 1024u);
  EXPECT_EQ(pool->Allocate(1).block(), nullptr);
}

TEST(SlabPoolTest, AThreadMayUseManyPoolsInTurn) {
  std::vector<std::unique_ptr<SlabPool>> pools;
  for (int i = 0; i < 9; ++i) pools.push_back(MakePool({{4096, 256}}));
  std::vector<Buffer> buffers;
  for (int round = 0; round < 3; ++round) {
    for (auto& pool : pools) {
      for (int i = 0; i < 40; ++i) buffers.push_back(pool->Allocate(4096));
      EXPECT_EQ(pool->Usage()[0].lent_count, 40u);
    }
    while (!buffers.empty()) buffers.pop_back();
  }
  for (auto& pool : pools) {
    EXPECT_EQ(pool->Usage()[0].lent_count, 0u);
    for (int i = 0; i < 256; ++i) {
      buffers.push_back(pool->Allocate(4096));
      ASSERT_NE(buffers.back().block(), nullptr) << i;
    }
    EXPECT_EQ(pool->Allocate(4096).block(), nullptr);
    buffers.clear();
  }
}

TEST(SlabPoolTest, MoreThreadsThanCachesLoseNothing) {
  auto pool = MakePool({{4096, 8192}});
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 70; ++t) {
    threads.emplace_back([&] {
      Buffer held = pool->Allocate(4096);
      ready.fetch_add(1);
      while (!go.load()) std::this_thread::yield();
      EXPECT_NE(held.block(), nullptr);
    });
  }
  while (ready.load() < 70) std::this_thread::yield();
  EXPECT_EQ(pool->Usage()[0].lent_count, 70u);
  go.store(true);
  for (std::thread& thread : threads) thread.join();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8192; ++i) {
    buffers.push_back(pool->Allocate(4096));
    ASSERT_NE(buffers.back().block(), nullptr) << i;
  }
}

TEST(SlabPoolTest, ABufferMayBeFreedWhileItsThreadEnds) {
  auto pool = MakePool({{4096, 256}});
  struct Last {
    Buffer buffer;
  };
  std::thread other([&pool] {
    // Made before the thread's cache, so destroyed after it.
    static thread_local Last last;
    last.buffer = Buffer();
    last.buffer = pool->Allocate(4096);
  });
  other.join();
  EXPECT_EQ(pool->Usage()[0].lent_count, 0u);
}

TEST(SlabPoolTest, NeighboursBeginAtDifferentCacheLines) {
  for (const uint32_t size : {2048u, 4096u, 16384u}) {
    auto pool = MakePool({{4096, 32}, {16384, 32}});
    std::vector<Buffer> buffers;
    std::set<uintptr_t> lines;
    for (int i = 0; i < 32; ++i) {
      buffers.push_back(pool->Allocate(size));
      lines.insert(reinterpret_cast<uintptr_t>(buffers.back().data()) % 4096);
    }
    EXPECT_EQ(lines.size(), 32u) << size;
  }
}

TEST(SlabPoolTest, EverySlotLiesInTheRegionAndOverlapsNone) {
  auto pool = MakePool({{4096, 3}, {16384, 3}, {262144, 3}}, 100'000);
  std::vector<Buffer> buffers;
  for (const uint32_t size : {4096u, 16384u, 262144u}) {
    for (int i = 0; i < 3; ++i) buffers.push_back(pool->Allocate(size));
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.data() < b.data(); });
  const char* end = pool->region() + 262144;  // of the runs
  for (const Buffer& buffer : buffers) {
    EXPECT_GE(buffer.data(), end);
    end = buffer.data() + buffer.size_bytes();
    EXPECT_EQ(buffer.block()->registered_index, 0);
  }
  EXPECT_LE(end, pool->region() + pool->region_bytes());
}

TEST(SlabPoolTest, ARegionBeyondOneGibibyteIsSeveralRegisteredBuffers) {
  for (const SlabClassConfig& config :
       {SlabClassConfig{262144, 5000}, SlabClassConfig{16384, 70'000}}) {
    // Address space only: nothing of it is touched.
    auto pool = MakePool({config});
    const std::vector<iovec> pieces = pool->RegisteredBuffers();
    ASSERT_EQ(pieces.size(), 2u);
    EXPECT_EQ(pieces[0].iov_len, size_t{1} << 30);
    EXPECT_EQ(pieces[0].iov_len + pieces[1].iov_len, pool->region_bytes());
    std::vector<Buffer> lent;
    int straddling = 0;
    for (uint32_t i = 0; i < config.slot_count; ++i) {
      lent.push_back(pool->Allocate(config.slot_bytes));
      const char* const data = lent.back().data();
      const int32_t index = lent.back().block()->registered_index;
      ASSERT_EQ(pool->RegisteredIndex(data, config.slot_bytes), index);
      if (index == -1) {
        ++straddling;
        continue;
      }
      const iovec& piece = pieces.at(static_cast<size_t>(index));
      const char* base = static_cast<char*>(piece.iov_base);
      ASSERT_GE(data, base);
      ASSERT_LE(data + config.slot_bytes, base + piece.iov_len);
    }
    EXPECT_LE(straddling, 1);
  }
}

TEST(SlabPoolTest, RunsAreCarvedUntilTheirShareIsUsed) {
  auto pool = MakePool({{4096, 1}}, 1 << 20);
  char* first = pool->CarveRun(16384, 32);
  char* second = pool->CarveRun(8192, 64);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_GE(second, first + 16384 * 32);
  EXPECT_EQ(pool->RegisteredIndex(first, 16384 * 32), 0);
  EXPECT_EQ(pool->CarveRun(4096, 1), nullptr);
  std::memset(first, 1, 16384 * 32);
  std::memset(second, 2, 8192 * 64);
  const Buffer slot = pool->Allocate(4096);
  EXPECT_GE(slot.data(), second + 8192 * 64);
}

TEST(SlabPoolTest, KnowsWhatIsNotItsOwn) {
  auto pool = MakePool({{4096, 1}});
  char other = 0;
  EXPECT_EQ(pool->RegisteredIndex(&other, 1), -1);
}

TEST(SlabPoolTest, RefusesClassesItCannotBuild) {
  const auto code = [](std::vector<SlabClassConfig> classes) {
    SlabPoolConfig config;
    config.classes = std::move(classes);
    return SlabPool::Create(config).status().code();
  };
  EXPECT_EQ(code({}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{5000, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{2048, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{524288, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{4096, 0}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{4096, 1}, {4096, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{262144, 4'000'000'000u}}), absl::StatusCode::kInvalidArgument);
}

TEST(SlabPoolTest, TheEvenConfigHasFourClassesWithinItsBytes) {
  const SlabPoolConfig config = SlabPoolConfig::Evenly(64 << 20, 1 << 20);
  ASSERT_EQ(config.classes.size(), 4u);
  for (const SlabClassConfig& entry : config.classes) {
    const int64_t stride_bytes = entry.slot_bytes + (entry.slot_bytes < 65536 ? 64 : 0);
    EXPECT_LE(stride_bytes * entry.slot_count, 16 << 20);
    EXPECT_GT(stride_bytes * (entry.slot_count + 1), 16 << 20);
  }
  for (const SlabClassConfig& entry : SlabPoolConfig::Evenly(1, 0).classes) {
    EXPECT_EQ(entry.slot_count, 1u);
  }
}

}  // namespace
}  // namespace gyre
