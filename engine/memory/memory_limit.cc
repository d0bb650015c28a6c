#include "engine/memory/memory_limit.h"

#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gyre {
namespace {

// What stands for "no limit" in cgroup v1 is a number near 2^63.
constexpr int64_t kNoLimit = int64_t{1} << 60;
constexpr int64_t kFallbackBytes = int64_t{1} << 30;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadLimit(const std::string& path) {
  int64_t bytes = 0;
  // "max" is none.
  if (!absl::SimpleAtoi(Read(path), &bytes) || bytes <= 0 || bytes >= kNoLimit) {
    return std::nullopt;
  }
  return bytes;
}

// The least of the limits of `group` and its parents under `mount`. In a container
// the group's own path is often not there, and its limits are at the mount.
std::optional<int64_t> LeastOf(const std::string& mount, std::string group,
                               const std::string& file) {
  std::optional<int64_t> least;
  for (;;) {
    const std::optional<int64_t> limit = ReadLimit(absl::StrCat(mount, group, "/", file));
    if (limit.has_value() && (!least.has_value() || *limit < *least)) least = limit;
    if (group.empty()) return least;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

std::optional<int64_t> CgroupLimit(const std::string& root) {
  std::optional<int64_t> least;
  // Lines of "id:controllers:path"; v2 has no controllers.
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(Read(root + "/proc/self/cgroup"), '\n'))) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::string group = fields[2] == "/" ? "" : fields[2];
    std::optional<int64_t> limit;
    if (fields[1].empty()) {
      limit = LeastOf(root + "/sys/fs/cgroup", group, "memory.max");
    } else if (absl::StrContains(absl::StrCat(",", fields[1], ","), ",memory,")) {
      limit = LeastOf(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
    if (limit.has_value() && (!least.has_value() || *limit < *least)) least = limit;
  }
  return least;
}

std::optional<int64_t> MachineBytes(const std::string& root) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(Read(root + "/proc/meminfo"), '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (words.size() >= 2 && words[0] == "MemTotal:" && absl::SimpleAtoi(words[1], &kilobytes)) {
      return kilobytes * 1024;
    }
  }
  return std::nullopt;
}

}  // namespace

MemoryLimit DefaultMemoryLimit(const std::string& root) {
  const std::optional<int64_t> cgroup = CgroupLimit(root);
  const std::optional<int64_t> machine = MachineBytes(root);
  if (cgroup.has_value() && (!machine.has_value() || *cgroup < *machine)) {
    return {*cgroup / 2, absl::StrCat("half of the cgroup's ", *cgroup)};
  }
  if (machine.has_value()) {
    return {*machine / 2, absl::StrCat("half of the machine's ", *machine)};
  }
  return {kFallbackBytes, "neither a cgroup nor /proc/meminfo says more"};
}

}  // namespace gyre
