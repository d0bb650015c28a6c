#include "engine/record/compression.h"

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"

namespace gyre {
namespace {

constexpr size_t kWindowBytes = 64 * 1024;
constexpr int kGzipWindowBits = 15 + 16;  // zlib's way to ask for the gzip wrapper
// A three-byte snappy copy yields at most 64 bytes, so no block expands more.
constexpr size_t kSnappyMaxExpansion = 22;
constexpr size_t kXerialBlockBytes = 32 * 1024;
constexpr size_t kXerialHeaderBytes = 16;
constexpr char kLz4Magic[4] = {'\x04', '\x22', '\x4d', '\x18'};
constexpr size_t kLz4FlagsAt = 4;
constexpr uint8_t kLz4IndependentBlocks = 1 << 5;
constexpr char kLinkedBlocks[] = "blocks that depend on each other";
constexpr char kXerialMagic[8] = {'\x82', 'S', 'N', 'A', 'P', 'P', 'Y', '\0'};

absl::Status Damaged(Codec codec, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(CodecName(codec), ": ", why));
}

// Kafka's consumers read independent blocks only: a frame that links its blocks
// must not get into a log.
bool HasLinkedBlocks(absl::string_view frame) {
  return frame.size() > kLz4FlagsAt &&
         std::memcmp(frame.data(), kLz4Magic, sizeof kLz4Magic) == 0 &&
         (static_cast<uint8_t>(frame[kLz4FlagsAt]) & kLz4IndependentBlocks) == 0;
}

absl::Status BeyondLimit(Codec codec) {
  return absl::ResourceExhaustedError(absl::StrCat(CodecName(codec), ": expands beyond the limit"));
}

}  // namespace

absl::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kGzip:
      return "gzip";
    case Codec::kSnappy:
      return "snappy";
    case Codec::kLz4:
      return "lz4";
    case Codec::kZstd:
      return "zstd";
  }
  return "unknown codec";
}

struct Decompressor::Contexts {
  z_stream gzip{};
  bool gzip_ready = false;
  LZ4F_dctx* lz4 = nullptr;
  ZSTD_DCtx* zstd = nullptr;

  ~Contexts() {
    if (gzip_ready) inflateEnd(&gzip);
    if (lz4 != nullptr) LZ4F_freeDecompressionContext(lz4);
    if (zstd != nullptr) ZSTD_freeDCtx(zstd);
  }
};

Decompressor::Decompressor() : contexts_(std::make_unique<Contexts>()) {}
Decompressor::~Decompressor() = default;

char* Decompressor::Window(size_t size_bytes) {
  if (window_bytes_ < size_bytes) {
    window_.reset(new char[size_bytes]);
    window_bytes_ = size_bytes;
  }
  return window_.get();
}

void Decompressor::Start(Codec codec, absl::string_view payload, int64_t limit_bytes) {
  codec_ = codec;
  input_ = payload;
  left_bytes_ = limit_bytes;
  started_ = false;
  frame_open_ = false;
  snappy_is_xerial_ = false;
  status_ = absl::OkStatus();
  // One huge snappy block must not be kept for the life of a handler.
  if (window_bytes_ > 16 * kWindowBytes) {
    window_.reset();
    window_bytes_ = 0;
  }
}

absl::StatusOr<absl::string_view> Decompressor::NextChunk() {
  if (!status_.ok()) return status_;
  absl::StatusOr<absl::string_view> chunk = absl::string_view();
  switch (codec_) {
    case Codec::kNone:
      chunk = std::exchange(input_, absl::string_view());
      break;
    case Codec::kGzip:
      chunk = NextGzip();
      break;
    case Codec::kSnappy:
      chunk = NextSnappy();
      break;
    case Codec::kLz4:
      chunk = NextLz4();
      break;
    case Codec::kZstd:
      chunk = NextZstd();
      break;
  }
  started_ = true;
  if (!chunk.ok()) {
    status_ = chunk.status();
    return chunk;
  }
  left_bytes_ -= static_cast<int64_t>(chunk->size());
  if (left_bytes_ < 0) {
    status_ = BeyondLimit(codec_);
    return status_;
  }
  return chunk;
}

absl::StatusOr<absl::string_view> Decompressor::NextGzip() {
  z_stream& stream = contexts_->gzip;
  if (!started_) {
    const int result = contexts_->gzip_ready ? inflateReset2(&stream, kGzipWindowBits)
                                             : inflateInit2(&stream, kGzipWindowBits);
    if (result != Z_OK) return absl::ResourceExhaustedError("gzip: no memory");
    contexts_->gzip_ready = true;
    frame_open_ = true;
  }
  char* window = Window(kWindowBytes);
  while (true) {
    if (!frame_open_) {
      if (input_.empty()) return absl::string_view();
      if (inflateReset2(&stream, kGzipWindowBits) != Z_OK) return Damaged(codec_, "bad state");
      frame_open_ = true;
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input_.data()));
    stream.avail_in = static_cast<uInt>(input_.size());
    stream.next_out = reinterpret_cast<Bytef*>(window);
    stream.avail_out = kWindowBytes;
    const int result = inflate(&stream, Z_NO_FLUSH);
    input_.remove_prefix(input_.size() - stream.avail_in);
    const size_t produced = kWindowBytes - stream.avail_out;
    if (result == Z_STREAM_END) frame_open_ = false;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return Damaged(codec_, stream.msg != nullptr ? stream.msg : "damaged stream");
    }
    if (produced > 0) return absl::string_view(window, produced);
    if (frame_open_ && input_.empty()) return Damaged(codec_, "cut short");
    if (result == Z_BUF_ERROR) return Damaged(codec_, "no progress");
  }
}

absl::StatusOr<absl::string_view> Decompressor::UncompressSnappyBlock(absl::string_view block) {
  size_t size_bytes = 0;
  if (!snappy::GetUncompressedLength(block.data(), block.size(), &size_bytes)) {
    return Damaged(codec_, "bad block length");
  }
  if (size_bytes > block.size() * kSnappyMaxExpansion) {
    return Damaged(codec_, "block claims more than it can hold");
  }
  if (static_cast<int64_t>(size_bytes) > left_bytes_) return BeyondLimit(codec_);
  char* window = Window(std::max(size_bytes, kWindowBytes));
  if (!snappy::RawUncompress(block.data(), block.size(), window)) {
    return Damaged(codec_, "damaged block");
  }
  return absl::string_view(window, size_bytes);
}

absl::StatusOr<absl::string_view> Decompressor::NextSnappy() {
  if (!started_) {
    snappy_is_xerial_ = input_.size() >= kXerialHeaderBytes &&
                        std::memcmp(input_.data(), kXerialMagic, sizeof kXerialMagic) == 0;
    if (!snappy_is_xerial_) {
      const absl::string_view block = std::exchange(input_, absl::string_view());
      if (block.empty()) return Damaged(codec_, "empty");
      return UncompressSnappyBlock(block);
    }
    input_.remove_prefix(kXerialHeaderBytes);
  }
  while (!input_.empty()) {
    if (input_.size() < 4) return Damaged(codec_, "cut short in a block length");
    const uint32_t block_bytes = LoadBigEndian<uint32_t>(input_.data());
    input_.remove_prefix(4);
    if (block_bytes > input_.size()) return Damaged(codec_, "block beyond the end");
    const absl::string_view block = input_.substr(0, block_bytes);
    input_.remove_prefix(block_bytes);
    absl::StatusOr<absl::string_view> chunk = UncompressSnappyBlock(block);
    if (!chunk.ok() || !chunk->empty()) return chunk;
  }
  return absl::string_view();
}

absl::StatusOr<absl::string_view> Decompressor::NextLz4() {
  if (contexts_->lz4 == nullptr &&
      LZ4F_isError(LZ4F_createDecompressionContext(&contexts_->lz4, LZ4F_VERSION))) {
    return absl::ResourceExhaustedError("lz4: no memory");
  }
  if (!started_) {
    LZ4F_resetDecompressionContext(contexts_->lz4);
    frame_open_ = true;
    if (HasLinkedBlocks(input_)) return Damaged(codec_, kLinkedBlocks);
  }
  char* window = Window(kWindowBytes);
  while (true) {
    if (!frame_open_) {
      if (input_.empty()) return absl::string_view();
      if (HasLinkedBlocks(input_)) return Damaged(codec_, kLinkedBlocks);
      frame_open_ = true;
    }
    size_t produced = kWindowBytes;
    size_t consumed = input_.size();
    const size_t result = LZ4F_decompress(contexts_->lz4, window, &produced, input_.data(),
                                          &consumed, /*dOptPtr=*/nullptr);
    if (LZ4F_isError(result)) return Damaged(codec_, LZ4F_getErrorName(result));
    input_.remove_prefix(consumed);
    if (result == 0) frame_open_ = false;
    if (produced > 0) return absl::string_view(window, produced);
    if (frame_open_ && consumed == 0) return Damaged(codec_, "cut short");
  }
}

absl::StatusOr<absl::string_view> Decompressor::NextZstd() {
  if (contexts_->zstd == nullptr) {
    contexts_->zstd = ZSTD_createDCtx();
    if (contexts_->zstd == nullptr) return absl::ResourceExhaustedError("zstd: no memory");
  }
  if (!started_) {
    ZSTD_DCtx_reset(contexts_->zstd, ZSTD_reset_session_only);
    frame_open_ = true;
  }
  char* window = Window(kWindowBytes);
  while (true) {
    if (!frame_open_ && input_.empty()) return absl::string_view();
    frame_open_ = true;
    ZSTD_inBuffer in{input_.data(), input_.size(), 0};
    ZSTD_outBuffer out{window, kWindowBytes, 0};
    const size_t result = ZSTD_decompressStream(contexts_->zstd, &out, &in);
    if (ZSTD_isError(result)) return Damaged(codec_, ZSTD_getErrorName(result));
    input_.remove_prefix(in.pos);
    if (result == 0) frame_open_ = false;
    if (out.pos > 0) return absl::string_view(window, out.pos);
    if (frame_open_ && in.pos == 0) return Damaged(codec_, "cut short");
  }
}

absl::StatusOr<std::string> Decompress(Codec codec, absl::string_view payload,
                                       int64_t limit_bytes) {
  Decompressor decompressor;
  decompressor.Start(codec, payload, limit_bytes);
  std::string all;
  while (true) {
    const absl::StatusOr<absl::string_view> chunk = decompressor.NextChunk();
    if (!chunk.ok()) return chunk.status();
    if (chunk->empty()) return all;
    all.append(chunk->data(), chunk->size());
  }
}

namespace {

std::string CompressGzip(absl::string_view bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindowBits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string CompressXerial(absl::string_view bytes) {
  std::string out(kXerialMagic, sizeof kXerialMagic);
  out.resize(kXerialHeaderBytes);
  StoreBigEndian<int32_t>(out.data() + 8, 1);
  StoreBigEndian<int32_t>(out.data() + 12, 1);
  while (!bytes.empty()) {
    const absl::string_view block = bytes.substr(0, kXerialBlockBytes);
    bytes.remove_prefix(block.size());
    std::string compressed;
    snappy::Compress(block.data(), block.size(), &compressed);
    char length[4];
    StoreBigEndian<int32_t>(length, static_cast<int32_t>(compressed.size()));
    out.append(length, sizeof length);
    out += compressed;
  }
  return out;
}

std::string CompressLz4(absl::string_view bytes) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.blockSizeID = LZ4F_max64KB;
  preferences.frameInfo.blockMode = LZ4F_blockIndependent;
  std::string out(LZ4F_compressFrameBound(bytes.size(), &preferences), '\0');
  out.resize(LZ4F_compressFrame(out.data(), out.size(), bytes.data(), bytes.size(), &preferences));
  return out;
}

std::string CompressZstd(absl::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

}  // namespace

std::string Compress(Codec codec, absl::string_view bytes, SnappyFraming framing) {
  switch (codec) {
    case Codec::kNone:
      return std::string(bytes);
    case Codec::kGzip:
      return CompressGzip(bytes);
    case Codec::kSnappy: {
      if (framing == SnappyFraming::kXerial) return CompressXerial(bytes);
      std::string out;
      snappy::Compress(bytes.data(), bytes.size(), &out);
      return out;
    }
    case Codec::kLz4:
      return CompressLz4(bytes);
    case Codec::kZstd:
      return CompressZstd(bytes);
  }
  return std::string(bytes);
}

}  // namespace gyre
