// What a log file really holds: reads it from the start, checks every batch's
// structure and CRC, and finds the last whole one. For logs that were not closed.
//
// Threads: one at a time; no state.
#ifndef GYRE_ENGINE_STORAGE_LOG_RECOVERY_H_
#define GYRE_ENGINE_STORAGE_LOG_RECOVERY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/record/record_batch.h"
#include "engine/storage/leader_epoch_cache.h"
#include "engine/storage/log_segment.h"

namespace gyre {

struct SegmentScan {
  int64_t valid_bytes = 0;
  int64_t end_offset = 0;  // after the last whole batch; the base when empty
  int64_t file_bytes = 0;
  // What follows valid_bytes, with its position; empty when nothing does.
  std::string damage;
};

// Scans `segment`, whose indexes must be reset, fills them, and adds to `epochs`
// the epochs it meets. Errors are the disk's; damage is a result.
absl::StatusOr<SegmentScan> ScanAndIndexSegment(LogSegment& segment, int32_t index_interval_bytes,
                                                LeaderEpochCache& epochs);

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_LOG_RECOVERY_H_
