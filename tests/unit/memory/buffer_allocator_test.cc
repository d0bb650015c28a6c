#include "engine/memory/buffer_allocator.h"

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

}  // namespace
}  // namespace gyre
