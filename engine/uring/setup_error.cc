#include "engine/uring/setup_error.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gyre::uring {
namespace {

int64_t SoftLimit(__rlimit_resource resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_cur);
}

int ReadDisabledSysctl() {
  std::FILE* file = std::fopen("/proc/sys/kernel/io_uring_disabled", "re");
  if (file == nullptr) return -1;
  int value = -1;
  if (std::fscanf(file, "%d", &value) != 1) value = -1;
  std::fclose(file);
  return value;
}

std::string Limit(int64_t value) { return value < 0 ? "unlimited" : absl::StrCat(value); }

absl::Status NotPermitted(const SetupEnvironment& environment) {
  if (environment.io_uring_disabled == 2) {
    return absl::PermissionDeniedError(
        "io_uring is switched off on this host (kernel.io_uring_disabled = 2): set it to 0, or to "
        "1 with kernel.io_uring_group holding a group of this user");
  }
  if (environment.io_uring_disabled == 1) {
    return absl::PermissionDeniedError(
        "io_uring is limited to one group on this host (kernel.io_uring_disabled = 1): run as a "
        "member of the group in kernel.io_uring_group, or set kernel.io_uring_disabled to 0");
  }
  return absl::PermissionDeniedError(
      "io_uring is blocked for this process, most likely by the container runtime's seccomp "
      "profile: start it with a profile that allows io_uring_setup, io_uring_enter and "
      "io_uring_register (docker: --security-opt seccomp=<profile.json>)");
}

}  // namespace

SetupEnvironment ReadSetupEnvironment() {
  SetupEnvironment environment;
  utsname name = {};
  if (uname(&name) == 0) environment.kernel_release = name.release;
  environment.io_uring_disabled = ReadDisabledSysctl();
  environment.memlock_limit_bytes = SoftLimit(RLIMIT_MEMLOCK);
  environment.open_files_limit = SoftLimit(RLIMIT_NOFILE);
  return environment;
}

absl::Status SetupError(int error, const SetupEnvironment& environment) {
  switch (error) {
    case ENOSYS:
      return absl::UnimplementedError(absl::StrCat(
          "no io_uring on kernel ", environment.kernel_release,
          ": it needs Linux 5.19 or newer built with CONFIG_IO_URING; if the kernel is newer, a "
          "container runtime may be hiding it (gVisor, or a seccomp profile that answers ENOSYS)"));
    case EINVAL:
      return absl::UnimplementedError(absl::StrCat(
          "the io_uring of kernel ", environment.kernel_release,
          " is too old: Linux 5.19 or newer is needed (cooperative task running, provided-buffer "
          "rings, multishot accept)"));
    case EPERM:
    case EACCES:
      return NotPermitted(environment);
    case EMFILE:
      return absl::ResourceExhaustedError(absl::StrCat(
          "no file descriptor left for io_uring: raise the limit of open files, now ",
          Limit(environment.open_files_limit),
          " (ulimit -n, systemd LimitNOFILE=), to at least connections + 2 per splice pipe + log "
          "files"));
    case ENFILE:
      return absl::ResourceExhaustedError(
          "no file descriptor left for io_uring on the whole host: raise the sysctl fs.file-max");
    case ENOMEM:
      return absl::ResourceExhaustedError(absl::StrCat(
          "no memory for an io_uring: the locked-memory limit is ",
          Limit(environment.memlock_limit_bytes),
          " bytes; raise it (ulimit -l, systemd LimitMEMLOCK=, docker --ulimit memlock=), or "
          "lower the number of rings (--num_network_threads)"));
    default:
      return absl::InternalError(absl::StrCat("io_uring could not be set up on kernel ",
                                              environment.kernel_release, ": ",
                                              std::strerror(error)));
  }
}

absl::Status RegisterBuffersError(int error, uint64_t size_bytes,
                                  const SetupEnvironment& environment) {
  if (error == ENOMEM || error == EPERM) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "registered buffers refused: ", size_bytes, " bytes exceed the locked-memory limit of ",
        Limit(environment.memlock_limit_bytes),
        " bytes; raise it (ulimit -l, systemd LimitMEMLOCK=, docker --ulimit memlock=) or grant "
        "CAP_IPC_LOCK"));
  }
  return absl::InternalError(
      absl::StrCat("registered buffers refused (", size_bytes, " bytes): ", std::strerror(error)));
}

}  // namespace gyre::uring
