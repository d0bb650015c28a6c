// A text file of one offset per partition, in Kafka's form: "0", the number of
// entries, then "topic partition offset" per line.
//
// Threads: any; no state. Writing is atomic and durable.
#ifndef GYRE_ENGINE_STORAGE_OFFSET_CHECKPOINT_H_
#define GYRE_ENGINE_STORAGE_OFFSET_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/fs/file_system.h"
#include "engine/storage/topic_partition.h"

namespace gyre {

using OffsetMap = std::map<TopicPartition, int64_t>;

// Empty when there is no file; DATA_LOSS, with the line, when it is damaged.
absl::StatusOr<OffsetMap> ReadOffsetCheckpoint(FileSystem& file_system, const std::string& path);
absl::Status WriteOffsetCheckpoint(FileSystem& file_system, const std::string& path,
                                   const OffsetMap& offsets);

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_OFFSET_CHECKPOINT_H_
