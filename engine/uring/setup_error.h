// Why a ring could not be made, in one line that says what to do about it.
//
// Threads: any.
#ifndef GYRE_ENGINE_URING_SETUP_ERROR_H_
#define GYRE_ENGINE_URING_SETUP_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gyre::uring {

// What decides between the causes of one errno.
struct SetupEnvironment {
  std::string kernel_release;        // uname -r
  int io_uring_disabled = -1;        // sysctl kernel.io_uring_disabled; -1: there is none
  int64_t memlock_limit_bytes = -1;  // RLIMIT_MEMLOCK, soft; -1: unlimited
  int64_t open_files_limit = -1;     // RLIMIT_NOFILE, soft; -1: unlimited
};

SetupEnvironment ReadSetupEnvironment();

// For io_uring_setup(2) and for the registrations without which the engine
// cannot run; `error` is a positive errno. EINVAL means that even the lowest
// rung of flags was refused. Pure: the same arguments give the same text.
// UNIMPLEMENTED (no io_uring, or too old), PERMISSION_DENIED,
// RESOURCE_EXHAUSTED (memory, descriptors), else INTERNAL.
absl::Status SetupError(int error, const SetupEnvironment& environment);

// For IORING_REGISTER_BUFFERS of `size_bytes` in all. Not fatal: sends from
// unregistered memory work.
absl::Status RegisterBuffersError(int error, uint64_t size_bytes,
                                  const SetupEnvironment& environment);

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_SETUP_ERROR_H_
