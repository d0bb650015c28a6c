#include "engine/process/wake_fd.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "engine/concurrent/thread_runner.h"

namespace gyre {

WakeFd::WakeFd() : event_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void WakeFd::Wake() const {
  const uint64_t one = 1;
  (void)!write(event_fd_.get(), &one, sizeof(one));
}

void WakeFd::Wait(int fd, int64_t now_ns, int64_t deadline_ns) const {
  constexpr int64_t kMs = 1'000'000;
  pollfd entries[2] = {{event_fd_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
  int timeout_ms = -1;
  if (deadline_ns != ThreadBody::kNever) {
    timeout_ms = static_cast<int>(std::max<int64_t>(0, (deadline_ns - now_ns + kMs - 1) / kMs));
  }
  poll(entries, 2, timeout_ms);
  uint64_t count = 0;
  (void)!read(event_fd_.get(), &count, sizeof(count));
}

}  // namespace gyre
