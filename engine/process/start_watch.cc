#include "engine/process/start_watch.h"

#include <utility>

#include "engine/base/clock.h"

namespace gyre {
namespace {

// Three of them may be missed.
constexpr int64_t kExtendEveryNs = 10'000'000'000;
constexpr int64_t kExtensionMs = 40'000;

}  // namespace

StartWatch::StartWatch(const StopSignals& signals, const ServiceNotifier& manager,
                       std::string last_words)
    : signals_(signals),
      manager_(manager),
      last_words_(std::move(last_words)),
      signal_fd_(signals.Descriptor()),
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
  wake_.Wait(signal_fd_.get(), now_ns, deadline_ns);
}

void StartWatch::Wake() { wake_.Wake(); }

}  // namespace gyre
