// The leader's checks on the bytes of a Produce request, with Kafka's rules and
// codes: one pass over the bytes for the CRC, one over the records (decompressed
// through a bounded window) for their structure. Runs on the caller's thread,
// before the append queue.
//
// Threads: any; no state.
#ifndef GYRE_ENGINE_RECORD_VALIDATOR_H_
#define GYRE_ENGINE_RECORD_VALIDATOR_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/record/compression.h"
#include "engine/record/record_batch.h"
#include "proto/wire/error_code.h"

namespace gyre {

enum class AppendOrigin : uint8_t {
  kClient,       // a Produce request
  kCoordinator,  // our own records: control batches are allowed
  kReplication,  // a leader's bytes: offsets and epochs are already in them
};

struct ValidationRules {
  AppendOrigin origin = AppendOrigin::kClient;
  int16_t produce_version = std::numeric_limits<int16_t>::max();
  int32_t max_message_bytes = 1048588;
  int64_t segment_bytes = int64_t{1} << 30;
  int64_t max_decompressed_bytes = kMaxDecompressedBytes;  // of a compressed batch's records
  bool is_compacted = false;     // cleanup.policy has compact: keys are required
  bool log_append_time = false;  // message.timestamp.type=LogAppendTime
  int64_t now_ms = 0;
  // message.timestamp.{before,after}.max.ms: how far from now_ms a create time may be.
  int64_t timestamp_before_max_ms = std::numeric_limits<int64_t>::max();
  int64_t timestamp_after_max_ms = 3'600'000;
};

struct RecordError {
  int32_t batch_index = 0;
  std::string message;
};

inline constexpr int kMaxRecordErrors = 100;

struct ValidationResult {
  ErrorCode error = ErrorCode::kNone;
  std::string message;  // empty when ok
  // The records at fault, at most kMaxRecordErrors of them; empty when the batch
  // as a whole is.
  std::vector<RecordError> record_errors;
  // The largest timestamp of the records, when ok: what the header should say.
  int64_t max_timestamp = kNoTimestamp;

  bool ok() const { return error == ErrorCode::kNone; }
};

// `records` is what a client sent for one partition: it must be exactly one
// batch of magic 2. Nothing is changed. Never allocates when the result is ok,
// except a codec's own fixed-size state.
ValidationResult ValidateBatch(absl::string_view records, const ValidationRules& rules);

// The same for a leader's bytes: one or more whole batches of magic 2 with right
// CRCs and rising offsets; records are not opened.
ValidationResult ValidateReplicated(absl::string_view records);

// `header` is a private copy of a valid batch's 61 header bytes and `payload` the
// rest: turns it into a LogAppendTime batch of `append_time_ms`, CRC included.
void StampLogAppendTime(char* header, absl::string_view payload, int64_t append_time_ms);
// Corrects the max timestamp of a producer that set it wrong, CRC included.
void StampMaxTimestamp(char* header, absl::string_view payload, int64_t max_timestamp);

}  // namespace gyre

#endif  // GYRE_ENGINE_RECORD_VALIDATOR_H_
