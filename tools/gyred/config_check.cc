#include "tools/gyred/config_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/network/connection/ip_limits.h"
#include "engine/network/endpoint.h"
#include "engine/network/memory_plan.h"
#include "engine/network/server_options.h"
#include "engine/process/takeover.h"
#include "engine/storage/data_directory.h"

namespace gyre {
namespace {

absl::Status CheckNetwork(SocketServerOptions network) {
  SetDefaultMemoryLimit(&network);
  GYRE_RETURN_IF_ERROR(CheckOptions(network));
  GYRE_RETURN_IF_ERROR(PlanMemory(network).status());
  GYRE_RETURN_IF_ERROR(ParseIpCounts(network.max_connections_per_ip_overrides).status(),
                       "--max_connections_per_ip_overrides");
  GYRE_RETURN_IF_ERROR(ParseIpRates(network.max_connection_creation_rate_per_ip_overrides).status(),
                       "--max_connection_creation_rate_per_ip_overrides");
  return CheckSocketOptions(network.listeners[0].endpoint, network.sockets);
}

absl::Status CheckAdmin(const BrokerServerOptions& options) {
  if (!options.admin.enabled) return absl::OkStatus();
  for (const ListenerOptions& listener : options.network.listeners) {
    if (!WantSameAddress(options.admin.endpoint, listener.endpoint)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--admin_listener: its address is that of ", listener.endpoint.ToString(),
                     " in --listeners; it needs a port of its own, such as 9644"));
  }
  return absl::OkStatus();
}

// As Open would find it out: whether this user may make files in directory `path`, and use
// the lock that is there.
absl::Status CheckWritable(const std::string& log_dir, const std::string& path) {
  const std::string lock = DataDirectory::LockPathOf(path);
  for (const auto& [file, mode] : {std::pair{path, W_OK | X_OK}, std::pair{lock, R_OK | W_OK}}) {
    if (faccessat(AT_FDCWD, file.c_str(), mode, AT_EACCESS) == 0 || errno == ENOENT) continue;
    return absl::PermissionDeniedError(absl::StrCat(
        "data directory ", log_dir, ": ", file, " is not writable (", std::strerror(errno),
        "); give this user write access or another directory with --log_dirs"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::directory) return CheckWritable(path, path);
  if (status.type() == fs::file_type::not_found) {
    // Not "" for "relative", and without the slash of "/data/".
    const fs::path whole = fs::absolute(path, error).lexically_normal();
    const fs::path parent =
        whole.has_filename() ? whole.parent_path() : whole.parent_path().parent_path();
    if (fs::is_directory(parent, error)) return CheckWritable(path, parent.string());
    return absl::InvalidArgumentError(absl::StrCat(
        "data directory ", path, ": there is no directory ", parent.string(),
        " to make it in; only the last level is made (mkdir -p ", parent.string(), ")"));
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("data directory ", path, ": ", error.message()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data directory ", path, ": that is a file; give a directory with --log_dirs"));
}

absl::Status CheckData(const BrokerServerOptions& options) {
  GYRE_RETURN_IF_ERROR(CheckPlace(options.log_dir));
  DataDirectoryOptions directory;
  directory.node_id = options.broker.node_id;
  directory.cluster_id = options.cluster_id;
  return DataDirectory::Check(FileSystem::Real(), options.log_dir, directory);
}

}  // namespace

absl::Status CheckConfig(const BrokerServerOptions& options) {
  GYRE_RETURN_IF_ERROR(CheckNetwork(options.network));
  GYRE_RETURN_IF_ERROR(CheckAdmin(options));
  if (!options.takeover.socket.empty()) {
    GYRE_RETURN_IF_ERROR(CheckTakeoverSocket(options.takeover.socket));
  }
  return CheckData(options);
}

}  // namespace gyre
