#include "engine/process/start_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;
// Three of them may be missed.
constexpr int64_t kExtendEveryNs = 10'000 * kMs;
constexpr int64_t kExtensionMs = 40'000;

}  // namespace

StartWatch::StartWatch(const StopSignals& signals, const ServiceNotifier& manager,
                       std::string last_words)
    : signals_(signals),
      manager_(manager),
      last_words_(std::move(last_words)),
      signal_fd_(signals.Descriptor()),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      next_extension_ns_(manager.asked() ? INT64_MIN : kNever),
      thread_("start-watch", static_cast<ThreadBody&>(*this), static_cast<ThreadWaiter&>(*this),
              Clock::Real()) {}

StartWatch::~StartWatch() { Stop(); }

bool StartWatch::RunOnce(int64_t now_ns) {
  if (const int signal = signals_.TryTake(); signal != 0) StopSignals::End(signal, last_words_);
  if (now_ns >= next_extension_ns_) {
    // One that does not hear it may kill this process, and cannot be helped.
    (void)manager_.ExtendTimeout(kExtensionMs);
    next_extension_ns_ = now_ns + kExtendEveryNs;
  }
  return false;
}

void StartWatch::Wait(int64_t now_ns, int64_t deadline_ns) {
  pollfd entries[2] = {{wake_fd_.get(), POLLIN, 0}, {signal_fd_.get(), POLLIN, 0}};
  int timeout_ms = -1;
  if (deadline_ns != kNever) {
    timeout_ms = static_cast<int>(std::max<int64_t>(0, (deadline_ns - now_ns) / kMs + 1));
  }
  poll(entries, 2, timeout_ms);
  uint64_t count = 0;
  (void)!read(wake_fd_.get(), &count, sizeof(count));
}

void StartWatch::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_.get(), &one, sizeof(one));
}

}  // namespace gyre
