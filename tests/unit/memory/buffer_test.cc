#include "engine/memory/buffer.h"

#include <utility>

#include "gtest/gtest.h"

namespace gyre {
namespace {

// Counts returns; its blocks are the test's.
class CountingOwner : public BufferOwner {
 public:
  void Release(BufferBlock* block) override { ++returned; }
  int returned = 0;
};

TEST(BufferTest, AllocatesExactlyTheAskedBytes) {
  Buffer buffer = Buffer::Allocate(10);
  EXPECT_EQ(buffer.size_bytes(), 10u);
  EXPECT_EQ(buffer.block()->capacity_bytes, 10u);
  EXPECT_EQ(buffer.block()->registered_index, -1);
  std::fill_n(buffer.data(), 10, 'x');
  EXPECT_EQ(buffer.view(), "xxxxxxxxxx");
}

TEST(BufferTest, CopiesBytesAlsoNone) {
  EXPECT_EQ(Buffer::CopyOf("hello").view(), "hello");
  EXPECT_TRUE(Buffer::CopyOf("").empty());
}

TEST(BufferTest, TheLastReferenceReturnsTheBlock) {
  CountingOwner owner;
  char bytes[8] = "abcdefg";
  BufferBlock block;
  block.data = bytes;
  block.capacity_bytes = 8;
  block.owner = &owner;
  block.references = 1;
  Buffer first = Buffer::Adopt(&block, bytes, 7);
  Buffer copy = first;
  Buffer slice = first.Slice(2, 3);
  EXPECT_EQ(slice.view(), "cde");
  first.Reset();
  EXPECT_TRUE(first.empty());
  copy = Buffer();
  EXPECT_EQ(owner.returned, 0);
  Buffer moved = std::move(slice);
  EXPECT_EQ(slice.block(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(owner.returned, 0);
  moved.Reset();
  EXPECT_EQ(owner.returned, 1);
}

TEST(BufferTest, TheWindowMovesWithoutTheBlock) {
  Buffer buffer = Buffer::CopyOf("0123456789");
  buffer.RemovePrefix(3);
  buffer.Truncate(4);
  EXPECT_EQ(buffer.view(), "3456");
}

}  // namespace
}  // namespace gyre
