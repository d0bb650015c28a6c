#include "engine/record/compression.h"

#include <lz4frame.h>
#include <zlib.h>

#include <string>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

constexpr Codec kCodecs[] = {Codec::kNone, Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd};

std::string Compressible(size_t size_bytes) {
  Random random(7);
  std::string bytes;
  while (bytes.size() < size_bytes) {
    bytes.append(random.Below(40), static_cast<char>('a' + random.Below(8)));
  }
  bytes.resize(size_bytes);
  return bytes;
}

TEST(CompressionTest, EveryCodecGivesBackWhatWentIn) {
  for (const Codec codec : kCodecs) {
    for (const size_t size : {size_t{1}, size_t{100}, size_t{65536}, size_t{1000000}}) {
      const std::string bytes = Compressible(size);
      const absl::StatusOr<std::string> back = Decompress(codec, Compress(codec, bytes));
      ASSERT_TRUE(back.ok()) << CodecName(codec) << back.status();
      EXPECT_EQ(*back, bytes) << CodecName(codec) << " " << size;
    }
  }
}

TEST(CompressionTest, BothSnappyFramingsAreRead) {
  const std::string bytes = Compressible(100000);
  const std::string xerial = Compress(Codec::kSnappy, bytes, SnappyFraming::kXerial);
  const std::string raw = Compress(Codec::kSnappy, bytes, SnappyFraming::kRaw);
  EXPECT_NE(xerial, raw);
  EXPECT_EQ(*Decompress(Codec::kSnappy, xerial), bytes);
  EXPECT_EQ(*Decompress(Codec::kSnappy, raw), bytes);
}

TEST(CompressionTest, GzipMembersMayFollowEachOther) {
  const std::string both = Compress(Codec::kGzip, "one ") + Compress(Codec::kGzip, "two");
  EXPECT_EQ(*Decompress(Codec::kGzip, both), "one two");
}

TEST(CompressionTest, FramesMayFollowEachOther) {
  for (const Codec codec : {Codec::kLz4, Codec::kZstd}) {
    const std::string both = Compress(codec, "one ") + Compress(codec, "two");
    EXPECT_EQ(*Decompress(codec, both), "one two") << CodecName(codec);
  }
}

std::string Lz4Frame(absl::string_view bytes, LZ4F_blockMode_t mode) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.blockMode = mode;
  std::string frame(LZ4F_compressFrameBound(bytes.size(), &preferences), '\0');
  frame.resize(
      LZ4F_compressFrame(frame.data(), frame.size(), bytes.data(), bytes.size(), &preferences));
  return frame;
}

TEST(CompressionTest, Lz4BlocksThatDependOnEachOtherAreRefusedInAnyFrame) {
  const std::string bytes = Compressible(200000);
  const std::string alone = Lz4Frame(bytes, LZ4F_blockIndependent);
  const std::string linked = Lz4Frame(bytes, LZ4F_blockLinked);
  EXPECT_TRUE(Decompress(Codec::kLz4, alone).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Decompress(Codec::kLz4, linked).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Decompress(Codec::kLz4, alone + linked).status()));
}

TEST(CompressionTest, APayloadCutShortIsAnError) {
  for (const Codec codec : {Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    const std::string whole = Compress(codec, Compressible(5000));
    for (size_t size = 17; size < whole.size(); size += 7) {
      const std::string cut = whole.substr(0, size);
      EXPECT_FALSE(Decompress(codec, cut).ok()) << CodecName(codec) << " " << size;
    }
  }
}

TEST(CompressionTest, RandomBytesNeverCrash) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random.Below(200), '\0');
    random.Fill(bytes.data(), bytes.size());
    for (const Codec codec : {Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
      (void)Decompress(codec, bytes, 1 << 20);
      // The same behind a valid beginning.
      (void)Decompress(codec, Compress(codec, "x").substr(0, 10) + bytes, 1 << 20);
    }
  }
}

TEST(CompressionTest, ABombStopsAtTheLimitAndInASmallWindow) {
  const std::string zeros(64 << 20, '\0');
  for (const Codec codec : {Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    const std::string bomb = Compress(codec, zeros);
    Decompressor decompressor;
    decompressor.Start(codec, bomb, 1 << 20);
    absl::StatusOr<absl::string_view> chunk;
    int64_t total_bytes = 0;
    do {
      chunk = decompressor.NextChunk();
      if (!chunk.ok()) break;
      EXPECT_LE(chunk->size(), 65536u);
      total_bytes += static_cast<int64_t>(chunk->size());
    } while (!chunk->empty());
    EXPECT_TRUE(absl::IsResourceExhausted(chunk.status())) << CodecName(codec);
    EXPECT_LE(total_bytes, 1 << 20);
  }
}

TEST(CompressionTest, ASnappyBlockCannotClaimMoreThanItCanHold) {
  // Length 2^31 in front of nothing.
  const std::string claim("\x80\x80\x80\x80\x08", 5);
  EXPECT_TRUE(absl::IsInvalidArgument(Decompress(Codec::kSnappy, claim).status()));
}

TEST(CompressionTest, ErrorsAreSticky) {
  Decompressor decompressor;
  decompressor.Start(Codec::kZstd, "nonsense");
  EXPECT_FALSE(decompressor.NextChunk().ok());
  EXPECT_FALSE(decompressor.NextChunk().ok());
  const std::string good = Compress(Codec::kZstd, "fine");
  decompressor.Start(Codec::kZstd, good);
  EXPECT_EQ(*decompressor.NextChunk(), "fine");
}

}  // namespace
}  // namespace gyre
