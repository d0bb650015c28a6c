// One append to one partition: the node of the append queue, so that queueing
// cannot fail and allocates nothing. The caller fills the first block, keeps the
// object and the bytes of `records` alive until on_done, and then reads the
// second.
//
// Threads: one holder at a time: the caller until Append, the log until on_done
// begins, which may reuse or free it.
#ifndef GYRE_ENGINE_STORAGE_APPEND_REQUEST_H_
#define GYRE_ENGINE_STORAGE_APPEND_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/record/record_batch.h"
#include "engine/record/validator.h"
#include "proto/wire/error_code.h"

namespace gyre {

struct AppendRequest {
  // --- Filled by the caller.
  AppendOrigin origin = AppendOrigin::kClient;
  // Of the Produce request; decides which codecs are allowed.
  int16_t produce_version = INT16_MAX;
  // kClient, kCoordinator: exactly one batch, whose offsets and epoch the log
  // overwrites (in a copy of its header; these bytes are never changed).
  // kReplication: one or more whole batches that already carry them.
  absl::string_view records;
  // Written into the batch. Above the log's last epoch: starts a new one.
  int32_t leader_epoch = 0;
  // Runs exactly once, on the thread that called Append or on the one that wrote
  // the batch, holding no lock. Must not block; may Append again (to any log).
  void (*on_done)(AppendRequest* request) = nullptr;
  void* context = nullptr;

  // --- Filled by the log before on_done.
  ErrorCode error = ErrorCode::kNone;
  std::string message;                     // for people; empty when ok
  std::vector<RecordError> record_errors;  // with kInvalidRecord
  int64_t base_offset = -1;
  int64_t last_offset = -1;
  int64_t log_append_time_ms = -1;  // -1 unless the topic uses LogAppendTime
  int64_t log_start_offset = -1;

  // --- The log's own, from Append to on_done.
  AppendRequest* next = nullptr;
  char header[batch::kHeaderBytes];
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_APPEND_REQUEST_H_
