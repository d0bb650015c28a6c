#include "engine/network/connection/network_receive.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/base/limits.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

using Status = NetworkReceive::Status;

class TestMemory final : public ReceiveMemory {
 public:
  bool TryCharge(int64_t bytes, MemoryUse use) override {
    if (used + bytes > capacity) return false;
    if (use == MemoryUse::kPartial && partial + bytes > partial_capacity) return false;
    used += bytes;
    if (use == MemoryUse::kPartial) partial += bytes;
    return true;
  }
  void Uncharge(int64_t bytes, MemoryUse use) override {
    used -= bytes;
    if (use == MemoryUse::kPartial) partial -= bytes;
  }
  void MakeWhole(int64_t bytes) override { partial -= bytes; }
  Buffer Allocate(uint32_t size_bytes) override {
    allocated += size_bytes;
    return Buffer::Allocate(size_bytes);
  }
  Buffer TryAllocateLarge(uint32_t size_bytes) override {
    if (no_large) return Buffer();
    large += size_bytes;
    return Buffer::Allocate(size_bytes);
  }
  bool lent_too_many() const override { return lent; }

  int64_t capacity = INT64_MAX;
  int64_t partial_capacity = INT64_MAX;
  int64_t used = 0;
  int64_t partial = 0;  // of these
  int64_t allocated = 0;
  int64_t large = 0;
  bool no_large = false;
  bool lent = false;
};

std::string Framed(const std::string& payload) {
  std::string bytes(4, '\0');
  StoreBigEndian<int32_t>(bytes.data(), static_cast<int32_t>(payload.size()));
  return bytes + payload;
}

std::string RandomBytes(size_t size, uint32_t seed) {
  // One word per 61 bytes: enough to tell any two places apart, and quick unoptimised.
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (size_t at = 0; at + 4 <= size; at += 61) {
    StoreBigEndian<uint32_t>(bytes.data() + at, static_cast<uint32_t>(random()));
  }
  return bytes;
}

class NetworkReceiveTest : public ::testing::Test {
 protected:
  ~NetworkReceiveTest() override {
    receive_.Clear(memory_);
    EXPECT_EQ(memory_.used, 0);
  }

  void Append(absl::string_view bytes) { receive_.Append(Buffer::CopyOf(bytes), memory_); }

  // Takes every whole frame; feeds direct receives from `rest`.
  Status TakeAll(std::vector<std::string>* frames) {
    for (;;) {
      NetworkReceive::Frame frame;
      const Status status = receive_.Next(*decoder_, memory_, &frame, &reason_);
      if (status != Status::kFrame) return status;
      frames->emplace_back(frame.payload.view());
      memory_.Uncharge(frame.charged_bytes, MemoryUse::kWhole);
    }
  }

  const FrameDecoder* decoder_ = &int32_;
  const Int32LengthPrefixed int32_{64 << 20};
  TestMemory memory_;
  NetworkReceive receive_;
  const char* reason_ = nullptr;
};

TEST_F(NetworkReceiveTest, AFrameWithinOneBufferIsASliceOfIt) {
  Buffer buffer = Buffer::CopyOf(Framed("hello") + Framed("world!"));
  const char* at = buffer.data();
  receive_.Append(std::move(buffer), memory_);
  NetworkReceive::Frame frame;
  ASSERT_EQ(receive_.Next(int32_, memory_, &frame, &reason_), Status::kFrame);
  EXPECT_EQ(frame.payload.view(), "hello");
  EXPECT_EQ(frame.payload.data(), at + 4);
  EXPECT_EQ(frame.charged_bytes, 9);
  memory_.Uncharge(9, MemoryUse::kWhole);
  ASSERT_EQ(receive_.Next(int32_, memory_, &frame, &reason_), Status::kFrame);
  EXPECT_EQ(frame.payload.view(), "world!");
  memory_.Uncharge(frame.charged_bytes, MemoryUse::kWhole);
  EXPECT_EQ(memory_.allocated, 0);
  EXPECT_FALSE(receive_.mid_frame());
}

TEST_F(NetworkReceiveTest, WithTooManyBuffersLentAFrameIsCopied) {
  memory_.lent = true;
  Buffer buffer = Buffer::CopyOf(Framed("hello"));
  const BufferBlock* block = buffer.block();
  receive_.Append(std::move(buffer), memory_);
  NetworkReceive::Frame frame;
  ASSERT_EQ(receive_.Next(int32_, memory_, &frame, &reason_), Status::kFrame);
  EXPECT_EQ(frame.payload.view(), "hello");
  EXPECT_NE(frame.payload.block(), block);
  memory_.Uncharge(frame.charged_bytes, MemoryUse::kWhole);
}

TEST_F(NetworkReceiveTest, EverySplitOfAStreamGivesTheSameFrames) {
  const std::vector<std::string> expected = {"", "a", "bc", RandomBytes(37, 1), "", "end"};
  std::string stream;
  for (const std::string& payload : expected) stream += Framed(payload);
  for (size_t first = 0; first <= stream.size(); ++first) {
    for (size_t second = first; second <= stream.size(); ++second) {
      std::vector<std::string> frames;
      for (const auto& piece :
           {stream.substr(0, first), stream.substr(first, second - first), stream.substr(second)}) {
        Append(piece);
        ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
      }
      ASSERT_EQ(frames, expected) << first << " " << second;
      ASSERT_EQ(memory_.used, 0);
      ASSERT_FALSE(receive_.mid_frame());
    }
  }
}

TEST_F(NetworkReceiveTest, RandomPiecesOfRandomFramesComeOutWhole) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<std::string> expected;
    std::string stream;
    for (int i = 0; i < 20; ++i) {
      const size_t limits[] = {10, 5000, 70'000, 300'000, 700'000};
      expected.push_back(RandomBytes(random() % limits[random() % 5], random()));
      stream += Framed(expected.back());
    }
    std::vector<std::string> frames;
    size_t at = 0;
    const bool look_late = random() % 2 == 0;
    while (at < stream.size()) {
      if (receive_.wants_direct() && random() % 4 != 0) {
        const int64_t charged = receive_.TryChargeDirect(1 + random() % 100'000, memory_);
        const NetworkReceive::Target target = receive_.direct_target(static_cast<size_t>(charged));
        const size_t got = std::min(
            {size_t{1} + random() % target.size_bytes, target.size_bytes, stream.size() - at});
        std::copy_n(stream.data() + at, got, target.to);
        at += got;
        receive_.OnDirectDone(static_cast<int64_t>(got), memory_);
      } else {
        const size_t got = std::min<size_t>(1 + random() % 16'384, stream.size() - at);
        Append(absl::string_view(stream).substr(at, got));
        at += got;
      }
      if (!look_late || random() % 3 == 0) ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
    }
    ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
    ASSERT_TRUE(frames == expected);
    ASSERT_EQ(memory_.used, 0);
  }
}

TEST_F(NetworkReceiveTest, MovedAnywhereTheFramesAreTheSameAndNoReceivedBufferIsKept) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<std::string> expected;
    std::string stream;
    for (int i = 0; i < 12; ++i) {
      const size_t limits[] = {3, 10, 5000, 70'000, 300'000};
      expected.push_back(RandomBytes(random() % limits[random() % 5], random()));
      stream += Framed(expected.back());
    }
    std::vector<std::string> frames;
    std::vector<Buffer> received;
    for (size_t at = 0; at < stream.size();) {
      const size_t got =
          std::min<size_t>(1 + random() % (random() % 2 == 0 ? 8 : 16'384), stream.size() - at);
      received.push_back(Buffer::CopyOf(absl::string_view(stream).substr(at, got)));
      receive_.Append(received.back(), memory_);
      at += got;
      if (random() % 2 == 0) ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
      if (random() % 3 != 0) continue;
      const int64_t unparsed = receive_.unparsed_bytes();
      const bool mid_frame = receive_.mid_frame();
      NetworkReceive moved;
      receive_.MoveTo(&moved, memory_);
      EXPECT_EQ(receive_.unparsed_bytes(), 0);
      EXPECT_FALSE(receive_.mid_frame());
      EXPECT_EQ(moved.unparsed_bytes(), unparsed);
      EXPECT_EQ(moved.mid_frame(), mid_frame);
      for (const Buffer& buffer : received) EXPECT_EQ(buffer.block()->references.load(), 1u);
      received.clear();
      moved.MoveTo(&receive_, memory_);
    }
    ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
    ASSERT_TRUE(frames == expected);
    ASSERT_EQ(memory_.used, 0);
  }
}

TEST_F(NetworkReceiveTest, AnAnnouncedSizeChargesAndAllocatesWhatCameOfItAlone) {
  std::string prefix(4, '\0');
  StoreBigEndian<int32_t>(prefix.data(), 50 << 20);
  Append(prefix + "0123456789");
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(memory_.used, kPageBytes);  // of the range
  EXPECT_EQ(memory_.partial, memory_.used);
  EXPECT_EQ(memory_.allocated, 0);
  EXPECT_EQ(receive_.missing_bytes(), (50 << 20) + 4 - 14);
  EXPECT_TRUE(receive_.wants_direct());

  receive_.Clear(memory_);
  StoreBigEndian<int32_t>(prefix.data(), 200'000);
  Append(prefix + "0123456789");
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(memory_.used, memory_.allocated);
  EXPECT_LE(memory_.allocated, 4096);
  EXPECT_FALSE(receive_.wants_direct());
}

TEST_F(NetworkReceiveTest, ARefusedChargeIsResumedWhereItStopped) {
  const std::string payload = RandomBytes(100'000, 7);
  memory_.capacity = 50'000;
  for (size_t at = 0; at < payload.size() + 4; at += 10'000) {
    Append(absl::string_view(Framed(payload)).substr(at, 10'000));
  }
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  EXPECT_LE(memory_.used, 50'000);
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  memory_.capacity = 200'000;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0] == payload);
}

TEST_F(NetworkReceiveTest, AWholeFrameIsNotHeldBackByTheShareOfPartialOnes) {
  const std::string frame = Framed(RandomBytes(60'000, 5));
  Append(absl::string_view(frame).substr(0, 20'000));
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(memory_.partial, memory_.used);
  memory_.partial_capacity = memory_.partial;
  Append(absl::string_view(frame).substr(20'000, 30'000));
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  EXPECT_EQ(receive_.missing_bytes(), 10'004);
  Append(absl::string_view(frame).substr(50'000));
  NetworkReceive::Frame whole;
  ASSERT_EQ(receive_.Next(int32_, memory_, &whole, &reason_), Status::kFrame);
  EXPECT_EQ(whole.charged_bytes, 60'004);
  EXPECT_EQ(memory_.used, 60'004);
  EXPECT_EQ(memory_.partial, 0);
  memory_.Uncharge(whole.charged_bytes, MemoryUse::kWhole);
  // Nor one whose length prefix came in two pieces.
  memory_.partial_capacity = 0;
  Append(absl::string_view(frame).substr(0, 2));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append(absl::string_view(frame).substr(2));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(frames.size(), 1u);
}

TEST_F(NetworkReceiveTest, WhatAWholeFrameLacksIsChargedAtOnceOrNotAtAll) {
  const std::string frame = Framed(RandomBytes(50'000, 5));
  memory_.capacity = 40'000;
  for (size_t at = 0; at < frame.size(); at += 10'000) {
    Append(absl::string_view(frame).substr(at, 10'000));
  }
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  EXPECT_EQ(memory_.used, 0);
}

TEST_F(NetworkReceiveTest, ADirectReceiveThatStoppedShortGivesBackWhatItDidNotFill) {
  const std::string frame = Framed(RandomBytes(1 << 20, 5));
  Append(absl::string_view(frame).substr(0, 1'000));
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  ASSERT_TRUE(receive_.wants_direct());
  memory_.capacity = 200'000;
  EXPECT_EQ(receive_.TryChargeDirect(256 * 1024, memory_), kPageBytes - 1'000);
  EXPECT_EQ(receive_.TryChargeDirect(100'000, memory_), 100'000);
  EXPECT_GE(memory_.used, 101'000);
  receive_.OnDirectDone(10'000, memory_);
  EXPECT_EQ(memory_.used, 3 * kPageBytes);  // of 11,000 bytes
  // The rest of the last page is there, whoever waits.
  memory_.capacity = memory_.used;
  EXPECT_EQ(receive_.TryChargeDirect(256 * 1024, memory_), 3 * kPageBytes - 11'000);
  receive_.OnDirectDone(3 * kPageBytes - 11'000, memory_);
  EXPECT_EQ(receive_.TryChargeDirect(256 * 1024, memory_), 0);
}

TEST_F(NetworkReceiveTest, WithoutALargeRangeItIsAskedForAgain) {
  const std::string payload = RandomBytes(kSlabMaxBytes + 1, 9);
  const std::string bytes = Framed(payload);
  memory_.no_large = true;
  // The prefix straddles, so the decision was made from gathered bytes.
  Append(absl::string_view(bytes).substr(0, 2));
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append(absl::string_view(bytes).substr(2));
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  EXPECT_EQ(TakeAll(&frames), Status::kNoMemory);
  memory_.no_large = false;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0] == payload);
}

TEST_F(NetworkReceiveTest, ManySmallPiecesThatWaitArePackedTogether) {
  for (int i = 0; i < 1000; ++i) Append(Framed("x"));
  EXPECT_EQ(receive_.unparsed_bytes(), 5000);
  EXPECT_LE(memory_.allocated, 2 * 16'384);
  std::vector<std::string> frames;
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(frames.size(), 1000u);
}

// A protocol without a length in front: a frame ends with a newline, which is part
// of the framing of none: skip 0, payload with the newline.
class Lines final : public FrameDecoder {
 public:
  Verdict Inspect(absl::string_view bytes, size_t seen_bytes) const override {
    for (size_t i = seen_bytes; i < bytes.size(); ++i) {
      if (bytes[i] == '\n') return Verdict::Frame(0, static_cast<int64_t>(i) + 1);
    }
    return Verdict::NeedMore();
  }
  uint32_t max_undecided_bytes() const override { return 100; }
};

TEST_F(NetworkReceiveTest, ADecoderThatSearchesForTheEndWorksOverEverySplit) {
  const Lines lines;
  decoder_ = &lines;
  const std::string stream = "one\n\nthree three three\nfour\n";
  const std::vector<std::string> expected = {"one\n", "\n", "three three three\n", "four\n"};
  for (size_t first = 0; first <= stream.size(); ++first) {
    for (size_t second = first; second <= stream.size(); ++second) {
      std::vector<std::string> frames;
      Append(stream.substr(0, first));
      ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
      Append(stream.substr(first, second - first));
      Append(stream.substr(second));
      ASSERT_EQ(TakeAll(&frames), Status::kNeedMore);
      ASSERT_EQ(frames, expected) << first << " " << second;
    }
  }
}

TEST_F(NetworkReceiveTest, AHeadWithoutEndIsInvalidAtTheBound) {
  const Lines lines;
  decoder_ = &lines;
  std::vector<std::string> frames;
  Append(std::string(60, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append(std::string(60, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kInvalid);
  EXPECT_NE(reason_, nullptr);
}

// Answers with what it was made of, whatever it is shown.
class Fixed final : public FrameDecoder {
 public:
  explicit Fixed(Verdict verdict) : verdict_(verdict) {}
  Verdict Inspect(absl::string_view, size_t) const override { return verdict_; }
  uint32_t max_undecided_bytes() const override { return 100; }

 private:
  const Verdict verdict_;
};

TEST_F(NetworkReceiveTest, AFrameThatCannotBeIsInvalid) {
  using Verdict = FrameDecoder::Verdict;
  for (const Verdict verdict :
       {Verdict::Frame(0, 0), Verdict::Frame(4, -1), Verdict::Frame(4, INT64_MIN),
        Verdict::Frame(4, INT64_MAX), Verdict::Frame(4, (int64_t{1} << 32) + 16),
        Verdict::Frame(UINT32_MAX, 1), Verdict::Frame(0, (int64_t{1} << 30) + 1)}) {
    const Fixed fixed(verdict);
    decoder_ = &fixed;
    std::vector<std::string> frames;
    Append("some bytes");
    EXPECT_EQ(TakeAll(&frames), Status::kInvalid)
        << verdict.skip_bytes << " " << verdict.payload_bytes;
    EXPECT_NE(reason_, nullptr);
    EXPECT_TRUE(frames.empty());
    receive_.Clear(memory_);
    EXPECT_EQ(memory_.large, 0);
  }
}

TEST_F(NetworkReceiveTest, AFrameBeyondTheLimitIsInvalidWhoeverDecodes) {
  using Verdict = FrameDecoder::Verdict;
  memory_.max_frame_bytes = 1000;
  for (const Verdict verdict :
       {Verdict::Frame(0, 1001), Verdict::Frame(1000, 1), Verdict::Frame(4, 65 << 20)}) {
    const Fixed fixed(verdict);
    decoder_ = &fixed;
    std::vector<std::string> frames;
    // In one buffer, and behind one.
    for (const size_t here : {size_t{10}, size_t{2000}}) {
      Append(std::string(here, 'x'));
      EXPECT_EQ(TakeAll(&frames), Status::kInvalid) << verdict.payload_bytes;
      EXPECT_STREQ(reason_, "a request larger than the limit");
      receive_.Clear(memory_);
    }
    EXPECT_EQ(memory_.large, 0);
  }
  const Fixed largest(Verdict::Frame(4, 996));
  decoder_ = &largest;
  std::vector<std::string> frames;
  Append(std::string(1000, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  EXPECT_EQ(frames, std::vector<std::string>{std::string(996, 'x')});
}

// Never decides.
class Undecided final : public FrameDecoder {
 public:
  Verdict Inspect(absl::string_view, size_t) const override { return Verdict::NeedMore(); }
  uint32_t max_undecided_bytes() const override { return 1 << 20; }
};

TEST_F(NetworkReceiveTest, AHeadThatCouldNeverFitDoesNotWaitForMemory) {
  const Undecided undecided;
  decoder_ = &undecided;
  memory_.max_frame_bytes = 1000;
  memory_.partial_capacity = 1000;
  std::vector<std::string> frames;
  Append(std::string(700, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append(std::string(300, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append("x");
  EXPECT_EQ(TakeAll(&frames), Status::kInvalid);
  EXPECT_STREQ(reason_, "no end of the request's head within 256 KiB and the largest request");
}

TEST_F(NetworkReceiveTest, AHeadOfMoreThanCanBeGatheredSaysWhy) {
  const Undecided undecided;
  decoder_ = &undecided;
  std::vector<std::string> frames;
  Append(std::string(FrameDecoder::kMostUndecidedBytes, 'x'));
  EXPECT_EQ(TakeAll(&frames), Status::kNeedMore);
  Append("x");
  EXPECT_EQ(TakeAll(&frames), Status::kInvalid);
  EXPECT_STREQ(reason_, "no end of the request's head within 256 KiB and the largest request");
}

TEST_F(NetworkReceiveTest, FewBytesThatWaitTakeLittleMemory) {
  for (int i = 0; i < 3; ++i) Append("x");
  EXPECT_EQ(receive_.unparsed_bytes(), 3);
  EXPECT_LE(memory_.allocated, 1024);
}

}  // namespace
}  // namespace gyre
