// What is wrong with the data of a broker that runs, for /health: what nobody sees who
// does not happen to use the partition.
//
// Threads: any.
#ifndef GYRE_ENGINE_BROKER_STORAGE_HEALTH_H_
#define GYRE_ENGINE_BROKER_STORAGE_HEALTH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/broker/replica_manager.h"
#include "engine/storage/data_directory.h"
#include "engine/storage/log_manager.h"

namespace gyre {

// Everything that is wrong, in one line.
absl::Status StorageHealth(const DataDirectory& directory, const LogManager& logs,
                           const ReplicaManager& replicas);

// Partitions of this broker that do not serve: their log is offline, or could not be made.
int64_t OfflineReplicaCount(const LogManager& logs, const ReplicaManager& replicas);

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_STORAGE_HEALTH_H_
