// The machine and its processes, as far as a result should tell of them.
#ifndef GYRE_TOOLS_LOAD_ENVIRONMENT_H_
#define GYRE_TOOLS_LOAD_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/load/result.h"

namespace gyre::load {

// "2 x Intel(R) …, Linux 6.18.0"
std::string DescribeMachine();
// `server_pid` 0: not asked for.
Memory SampleMemory(int32_t server_pid);
// Of this process, user and system.
double CpuSeconds();
// Makes room for `connections` descriptors, within the hard limit.
absl::Status RaiseDescriptorLimit(int64_t connections);
absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_ENVIRONMENT_H_
