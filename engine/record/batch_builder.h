// Makes a record batch: for our own records (group and metadata logs) and for
// tests.
//
// Threads: one at a time.
// Owns: the bytes until Build.
#ifndef GYRE_ENGINE_RECORD_BATCH_BUILDER_H_
#define GYRE_ENGINE_RECORD_BATCH_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/record/compression.h"
#include "engine/record/record.h"
#include "engine/record/record_batch.h"

namespace gyre {

struct BatchOptions {
  int64_t base_offset = 0;
  int32_t leader_epoch = kNoLeaderEpoch;
  Codec codec = Codec::kNone;
  SnappyFraming snappy_framing = SnappyFraming::kXerial;
  bool is_transactional = false;
  bool is_control = false;
  int64_t producer_id = kNoProducerId;
  int16_t producer_epoch = kNoProducerEpoch;
  int32_t base_sequence = kNoSequence;
};

class BatchBuilder {
 public:
  explicit BatchBuilder(const BatchOptions& options = {}) : options_(options) {}

  // The offset delta is the number of records added before.
  BatchBuilder& Add(int64_t timestamp, std::optional<absl::string_view> key,
                    std::optional<absl::string_view> value,
                    absl::Span<const RecordHeader> headers = {});

  int32_t record_count() const { return record_count_; }
  // Of the batch if it were built uncompressed now.
  int64_t size_bytes() const { return static_cast<int64_t>(batch::kHeaderBytes + records_.size()); }

  // The whole batch, CRC included. The builder is empty afterwards, with the
  // same options.
  std::string Build();

 private:
  const BatchOptions options_;
  std::string records_;
  int32_t record_count_ = 0;
  int64_t base_timestamp_ = kNoTimestamp;
  int64_t max_timestamp_ = kNoTimestamp;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_BATCH_BUILDER_H_
