// The four codecs of record batches, as streams: decompression hands out one
// bounded chunk at a time, so that checking a batch never holds all of what it
// expands to, and a decompression bomb costs a window, not its size.
//
// Framings: gzip is RFC 1952, members may follow each other; snappy is either
// xerial blocks or one raw block, told apart by the first 8 bytes; lz4 is the
// LZ4 frame format with independent blocks; zstd is zstd frames.
#ifndef GYRE_ENGINE_RECORD_COMPRESSION_H_
#define GYRE_ENGINE_RECORD_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/record/record_batch.h"

namespace gyre {

// "none", "gzip", "snappy", "lz4", "zstd".
absl::string_view CodecName(Codec codec);

// No batch may expand to more than this, whatever the topic allows compressed.
inline constexpr int64_t kMaxDecompressedBytes = int64_t{1} << 30;

// Decompresses one payload after another; the codecs' contexts and the window
// are made at first use and kept.
//
// Threads: one at a time.
// Owns: its window and contexts.  Borrows: the payload, from Start to the end.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Forgets what came before. `limit_bytes` bounds the sum of the chunks.
  void Start(Codec codec, absl::string_view payload, int64_t limit_bytes = kMaxDecompressedBytes);

  // The next piece, valid until the next call; empty at the clean end of the
  // payload. INVALID_ARGUMENT: damaged or cut short. RESOURCE_EXHAUSTED: more
  // than the limit. Errors are sticky.
  absl::StatusOr<absl::string_view> NextChunk();

 private:
  struct Contexts;

  absl::StatusOr<absl::string_view> NextGzip();
  absl::StatusOr<absl::string_view> NextSnappy();
  absl::StatusOr<absl::string_view> NextLz4();
  absl::StatusOr<absl::string_view> NextZstd();
  absl::StatusOr<absl::string_view> UncompressSnappyBlock(absl::string_view block);
  // At least `size_bytes` of window; contents are not kept.
  char* Window(size_t size_bytes);

  std::unique_ptr<Contexts> contexts_;
  std::unique_ptr<char[]> window_;
  size_t window_bytes_ = 0;

  Codec codec_ = Codec::kNone;
  absl::string_view input_;
  int64_t left_bytes_ = 0;
  bool started_ = false;
  bool frame_open_ = false;
  bool snappy_is_xerial_ = false;
  absl::Status status_;
};

// All of it, for a payload that is needed in one piece.
absl::StatusOr<std::string> Decompress(Codec codec, absl::string_view payload,
                                       int64_t limit_bytes = kMaxDecompressedBytes);

enum class SnappyFraming : uint8_t { kXerial, kRaw };

// As Kafka's own clients write it (snappy: xerial unless asked otherwise; lz4:
// independent 64 KiB blocks).
std::string Compress(Codec codec, absl::string_view bytes,
                     SnappyFraming framing = SnappyFraming::kXerial);

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_COMPRESSION_H_
