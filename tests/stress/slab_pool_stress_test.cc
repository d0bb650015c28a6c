// Buffers are allocated by some threads, written, handed to others, checked and
// freed there: no slot is lent twice at a time, none is lost.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/base/random.h"
#include "engine/concurrent/mpmc_queue.h"
#include "engine/memory/slab_pool.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

TEST(SlabPoolStressTest, SlotsPassBetweenThreadsWithoutOverlapOrLoss) {
  SlabPoolConfig config;
  config.classes = {{4096, 64}, {16384, 16}};
  auto pool = *SlabPool::Create(config);
  constexpr int kAllocators = 3;
  constexpr int kFreers = 2;
  constexpr int kPerAllocator = 20'000;
  MpmcQueue<Buffer> handover(32);
  std::atomic<int> freed{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int a = 0; a < kAllocators; ++a) {
    threads.emplace_back([&, a] {
      Random random(a + 1);
      for (int i = 0; i < kPerAllocator; ++i) {
        Buffer buffer = pool->Allocate(static_cast<uint32_t>(random.Between(64, 9000)));
        if (buffer.block() == nullptr) {
          refused.fetch_add(1);
          --i;
          std::this_thread::yield();
          continue;
        }
        // Both ends carry the same stamp; another holder would break it.
        const uint64_t stamp = random.Next();
        std::memcpy(buffer.data(), &stamp, 8);
        std::memcpy(buffer.data() + buffer.size_bytes() - 8, &stamp, 8);
        if (random.OneIn(4)) continue;  // freed where it was allocated
        while (!handover.TryPush(std::move(buffer))) std::this_thread::yield();
        freed.fetch_sub(1);
      }
    });
  }
  std::atomic<bool> done{false};
  for (int f = 0; f < kFreers; ++f) {
    threads.emplace_back([&] {
      for (;;) {
        const bool last_look = done.load();
        Buffer buffer;
        if (!handover.TryPop(buffer)) {
          if (last_look) return;
          std::this_thread::yield();
          continue;
        }
        Buffer copy = buffer;
        buffer.Reset();
        ASSERT_EQ(std::memcmp(copy.data(), copy.data() + copy.size_bytes() - 8, 8), 0);
        freed.fetch_add(1);
      }
    });
  }
  for (int a = 0; a < kAllocators; ++a) threads[a].join();
  done.store(true);
  for (int f = 0; f < kFreers; ++f) threads[kAllocators + f].join();
  EXPECT_EQ(freed.load(), 0);
  for (const SlabPool::ClassUsage& usage : pool->Usage()) EXPECT_EQ(usage.lent_count, 0u);
  // Every slot is in a free list.
  std::vector<Buffer> all;
  for (int i = 0; i < 16; ++i) all.push_back(pool->Allocate(16384));
  for (int i = 0; i < 64; ++i) all.push_back(pool->Allocate(4096));
  for (const Buffer& buffer : all) EXPECT_NE(buffer.block(), nullptr);
  EXPECT_EQ(pool->Allocate(1).block(), nullptr);
}

}  // namespace
}  // namespace gyre
