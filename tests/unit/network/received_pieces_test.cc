#include "engine/network/connection/received_pieces.h"

#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/network/connection/network_receive.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

class HeapMemory final : public ReceiveMemory {
 public:
  bool TryCharge(int64_t, MemoryUse) override { return true; }
  void Uncharge(int64_t, MemoryUse) override {}
  void MakeWhole(int64_t) override {}
  Buffer Allocate(uint32_t size_bytes) override {
    ++allocations;
    return Buffer::Allocate(size_bytes);
  }
  Buffer TryAllocateLarge(uint32_t) override { return Buffer(); }
  bool lent_too_many() const override { return false; }

  int allocations = 0;
};

ReceivedPieces::Piece Piece(int number) {
  return {Buffer::CopyOf(absl::StrCat("piece ", number)), static_cast<uint32_t>(number)};
}

TEST(ReceivedPiecesTest, OnePieceAtATimeTakesNoMemory) {
  HeapMemory memory;
  ReceivedPieces pieces;
  for (int i = 0; i < 100; ++i) {
    pieces.PushBack(Piece(i), memory);
    EXPECT_EQ(pieces.back().bytes.view(), absl::StrCat("piece ", i));
    pieces.PopFront();
    EXPECT_TRUE(pieces.empty());
  }
  EXPECT_EQ(memory.allocations, 0);
}

TEST(ReceivedPiecesTest, TheyComeOutInOrderFromBothEnds) {
  HeapMemory memory;
  ReceivedPieces pieces;
  std::deque<int> oracle;
  Random random(7);
  for (int step = 0; step < 50'000; ++step) {
    // Long enough now and then for several pages.
    const bool grows = step / 2'000 % 2 == 0;
    if (oracle.empty() || random.Below(10) < (grows ? 8 : 2)) {
      if (random.OneIn(4)) {
        pieces.PushFront(Piece(step), memory);
        oracle.push_front(step);
      } else {
        pieces.PushBack(Piece(step), memory);
        oracle.push_back(step);
      }
    } else {
      pieces.PopFront();
      oracle.pop_front();
    }
    ASSERT_EQ(pieces.empty(), oracle.empty());
    if (oracle.empty()) continue;
    ASSERT_EQ(pieces.front().bytes.view(), absl::StrCat("piece ", oracle.front()));
    ASSERT_EQ(pieces.back().spare_bytes, static_cast<uint32_t>(oracle.back()));
  }
  EXPECT_LT(memory.allocations, 2'000) << "made room for a few pieces only";
}

TEST(ReceivedPiecesTest, ClearingLetsGoOfAll) {
  HeapMemory memory;
  Buffer watched = Buffer::CopyOf("watched");
  ReceivedPieces pieces;
  for (int i = 0; i < 500; ++i) pieces.PushBack({watched, 0}, memory);
  EXPECT_EQ(watched.block()->references.load(), 501u);
  pieces.Clear();
  EXPECT_EQ(watched.block()->references.load(), 1u);
  EXPECT_TRUE(pieces.empty());
}

}  // namespace
}  // namespace gyre
