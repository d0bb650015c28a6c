#include "tests/integration/counting_allocator.h"

#include <execinfo.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/debugging/symbolize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GYRE_REPLACES_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GYRE_REPLACES_MALLOC 0
#endif
#endif
#ifndef GYRE_REPLACES_MALLOC
#define GYRE_REPLACES_MALLOC 1
#endif

namespace gyre::testing {
namespace {

constexpr int kMaxFrames = 40;
constexpr int64_t kMaxFirst = 8;

struct Allocation {
  char thread[16];
  size_t bytes;
  void* frames[kMaxFrames];
  int frame_count;
};

// Odd while a count is under way; each has one of its own.
std::atomic<uint32_t> epoch{0};
std::atomic<int64_t> count{0};
Allocation first_ones[kMaxFirst];

#if GYRE_REPLACES_MALLOC

// What this thread is, as it was when it first allocated in the epoch. In the program's
// own TLS, which is there before anything allocates.
struct ThreadRole {
  uint32_t epoch = 0;
  bool is_io = false;
  bool recording = false;
};
thread_local constinit ThreadRole role;

void Count(size_t bytes) {
  const uint32_t now = epoch.load(std::memory_order_acquire);
  if ((now & 1) == 0 || role.recording) return;
  if (role.epoch != now) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    role.epoch = now;
    role.is_io = absl::StartsWith(name, "processor-") || absl::StartsWith(name, "acceptor-");
  }
  if (!role.is_io) return;
  const int64_t index = count.fetch_add(1, std::memory_order_relaxed);
  if (index >= kMaxFirst) return;
  role.recording = true;
  const int error = errno;
  Allocation& allocation = first_ones[index];
  prctl(PR_GET_NAME, allocation.thread);
  allocation.bytes = bytes;
  allocation.frame_count = backtrace(allocation.frames, kMaxFrames);
  errno = error;
  role.recording = false;
}

#endif

}  // namespace

bool CountsAllocations() { return GYRE_REPLACES_MALLOC != 0; }

AllocationCount::AllocationCount() {
  // Its first use loads a library.
  void* frame = nullptr;
  backtrace(&frame, 1);
  count.store(0, std::memory_order_relaxed);
  epoch.fetch_add(1, std::memory_order_release);
}

int64_t AllocationCount::Stop() {
  if ((epoch.load(std::memory_order_relaxed) & 1) != 0) {
    epoch.fetch_add(1, std::memory_order_release);
  }
  return count.load(std::memory_order_relaxed);
}

std::string AllocationCount::FirstOnes() {
  std::string text;
  const int64_t shown = std::min(count.load(std::memory_order_relaxed), kMaxFirst);
  for (int64_t i = 0; i < shown; ++i) {
    const Allocation& allocation = first_ones[i];
    absl::StrAppend(&text, allocation.thread, ": ", allocation.bytes, " bytes\n");
    // The first is this file's.
    for (int frame = 1; frame < allocation.frame_count; ++frame) {
      char name[256] = "?";
      absl::Symbolize(static_cast<char*>(allocation.frames[frame]) - 1, name, sizeof(name));
      absl::StrAppend(&text, "    ", name, "\n");
    }
  }
  return text;
}

}  // namespace gyre::testing

#if GYRE_REPLACES_MALLOC

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  gyre::testing::Count(bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  gyre::testing::Count(count * bytes);
  return __libc_calloc(count, bytes);
}

void* realloc(void* block, size_t bytes) {
  gyre::testing::Count(bytes);
  return __libc_realloc(block, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  gyre::testing::Count(bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  gyre::testing::Count(bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  gyre::testing::Count(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif
