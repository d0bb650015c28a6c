#include "engine/broker/storage_health.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gyre {

namespace {

// Whoever retries does so more often; where nobody does, nobody is refused.
constexpr int64_t kRefusalIsRecentMs = 60'000;

absl::Status OfflineLogs(const std::vector<LogRef>& logs) {
  int64_t count = 0;
  std::string first;
  for (const LogRef& log : logs) {
    if (!log->is_offline()) continue;
    if (count++ == 0) first = std::string(log->offline_reason().message());
  }
  if (count == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("offline partitions: ", count, "; the first: ", first));
}

// A full disk: producers are refused, and nobody else would know.
absl::Status RefusedAppends(const std::vector<LogRef>& logs) {
  int64_t count = 0;
  std::string first;
  for (const LogRef& log : logs) {
    const absl::Status refusal = log->RecentRefusal(kRefusalIsRecentMs);
    if (refusal.ok()) continue;
    if (count++ == 0) {
      first = absl::StrCat(log->topic_partition().ToString(), ": ", refusal.message());
    }
  }
  if (count == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("partitions that refuse appends: ", count, "; the first: ", first));
}

}  // namespace

absl::Status StorageHealth(const DataDirectory& directory, const LogManager& logs,
                           const ReplicaManager& replicas) {
  const std::vector<LogRef> all = logs.All();
  std::vector<std::string> wrong;
  for (const absl::Status& status :
       {directory.CheckStillThere(), OfflineLogs(all), RefusedAppends(all), replicas.Unmade()}) {
    if (!status.ok()) wrong.emplace_back(status.message());
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrJoin(wrong, "; "));
}

int64_t OfflineReplicaCount(const LogManager& logs, const ReplicaManager& replicas) {
  int64_t count = replicas.unmade_count();
  for (const LogRef& log : logs.All()) {
    if (log->is_offline()) ++count;
  }
  return count;
}

}  // namespace gyre
