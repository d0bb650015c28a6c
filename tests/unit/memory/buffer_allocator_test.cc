#include "engine/memory/buffer_allocator.h"

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace gyre {
namespace {

std::unique_ptr<SlabPool> SmallSlab() {
  SlabPoolConfig config;
  config.classes = {{4096, 2}};
  config.huge_pages = false;
  return *SlabPool::Create(config);
}

TEST(BufferAllocatorTest, ABufferOfTheSlabKnowsItsRegisteredIndex) {
  const std::unique_ptr<SlabPool> slab = SmallSlab();
  SlabAllocator allocator(slab.get());
  const Buffer buffer = allocator.Allocate(100);
  EXPECT_EQ(buffer.size_bytes(), 100u);
  EXPECT_EQ(buffer.block()->owner, slab.get());
  EXPECT_EQ(buffer.block()->registered_index, 0);
}

TEST(BufferAllocatorTest, TheHeapServesWhenTheSlabIsExhaustedOrTooSmall) {
  const std::unique_ptr<SlabPool> slab = SmallSlab();
  SlabAllocator allocator(slab.get());
  std::vector<Buffer> held;
  for (int i = 0; i < 3; ++i) held.push_back(allocator.Allocate(4096));
  EXPECT_EQ(held[1].block()->owner, slab.get());
  EXPECT_NE(held[2].block()->owner, slab.get());
  EXPECT_EQ(held[2].block()->registered_index, -1);
  EXPECT_EQ(allocator.Allocate(1 << 20).size_bytes(), 1u << 20);
  held.clear();
  EXPECT_EQ(allocator.Allocate(4096).block()->owner, slab.get());
}

TEST(BufferAllocatorTest, WithoutASlabEverythingComesFromTheHeap) {
  SlabAllocator allocator;
  EXPECT_EQ(allocator.Allocate(10).block()->registered_index, -1);
  EXPECT_EQ(BufferAllocator::Heap().Allocate(10).size_bytes(), 10u);
}

struct Refusals final : SlabAllocator::RefusalListener {
  void OnAnswerRefused() override { count.fetch_add(1, std::memory_order_relaxed); }
  std::atomic<int> count{0};
};

TEST(BufferAllocatorTest, WhatIsTriedForIsRefusedBeyondTheLimitUntilSomeIsGivenBack) {
  Refusals refusals;
  SlabAllocator allocator;
  allocator.SetRefusalListener(&refusals);
  allocator.SetHeapLimit(1000);
  std::optional<Buffer> first = allocator.TryAllocate(600);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->size_bytes(), 600u);
  EXPECT_FALSE(allocator.TryAllocate(401).has_value());
  EXPECT_EQ(refusals.count.load(), 1);
  std::optional<Buffer> second = allocator.TryAllocate(400);
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(allocator.TryAllocate(UINT32_MAX).has_value());
  // A part of it holds all of it.
  Buffer part = first->Slice(10, 10);
  first.reset();
  EXPECT_FALSE(allocator.TryAllocate(1).has_value());
  part.Reset();
  EXPECT_EQ(allocator.heap_used_bytes(), 400);
  EXPECT_TRUE(allocator.TryAllocate(600).has_value());
  second.reset();
  EXPECT_EQ(allocator.heap_used_bytes(), 0);
  // The other way in knows no limit and counts nothing.
  EXPECT_EQ(allocator.Allocate(5000).size_bytes(), 5000u);
  EXPECT_EQ(allocator.heap_used_bytes(), 0);
}

TEST(BufferAllocatorTest, TheSlabIsNotCountedAndALoweredLimitHoldsForWhatComes) {
  const std::unique_ptr<SlabPool> slab = SmallSlab();
  SlabAllocator allocator(slab.get());
  allocator.SetHeapLimit(4096);
  std::vector<Buffer> held;
  for (int i = 0; i < 3; ++i) held.push_back(*allocator.TryAllocate(4096));
  EXPECT_EQ(held[1].block()->owner, slab.get());
  EXPECT_EQ(allocator.heap_used_bytes(), 4096);
  EXPECT_FALSE(allocator.TryAllocate(4096).has_value());
  allocator.SetHeapLimit(100);
  held.pop_back();
  EXPECT_FALSE(allocator.TryAllocate(4096).has_value());
  EXPECT_TRUE(allocator.TryAllocate(100).has_value());
}

TEST(BufferAllocatorTest, ThreadsTogetherNeverGetMoreThanTheLimit) {
  constexpr int64_t kLimitBytes = 10'000;
  SlabAllocator allocator;
  allocator.SetHeapLimit(kLimitBytes);
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (uint32_t thread = 1; thread <= 4; ++thread) {
    threads.emplace_back([&allocator, &exceeded, thread] {
      std::vector<Buffer> held;
      for (int i = 0; i < 5'000; ++i) {
        if (std::optional<Buffer> buffer = allocator.TryAllocate(thread * 700)) {
          held.push_back(*std::move(buffer));
        } else {
          held.clear();
        }
        if (allocator.heap_used_bytes() > kLimitBytes) exceeded.store(true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded.load());
  EXPECT_EQ(allocator.heap_used_bytes(), 0);
}

}  // namespace
}  // namespace gyre
