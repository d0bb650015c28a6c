#include "tools/load/worker.h"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gyre::load {
namespace {

constexpr int64_t kMaxWaitNs = 50'000'000;
// An answer larger than this is none.
constexpr int64_t kMaxFrameBytes = 128 << 20;

}  // namespace

std::optional<int64_t> StartGate::Arrive(const absl::Status& status) {
  MutexLock lock(mutex_);
  --missing_;
  if (status_.ok()) status_ = status;
  changed_.NotifyAll();
  while (!decided_) changed_.Wait(mutex_);
  return start_ns_;
}

bool StartGate::AwaitAll(int64_t timeout_ns, absl::Status* status) {
  MutexLock lock(mutex_);
  if (missing_ > 0 && status_.ok()) changed_.WaitFor(mutex_, timeout_ns);
  *status = status_;
  return missing_ == 0 || !status_.ok();
}

void StartGate::Open(int64_t start_ns) {
  MutexLock lock(mutex_);
  start_ns_ = start_ns;
  decided_ = true;
  changed_.NotifyAll();
}

void StartGate::Abandon() {
  MutexLock lock(mutex_);
  decided_ = true;
  changed_.NotifyAll();
}

void Worker::Start() {
  thread_ = std::thread([this] {
    Run();
    finished_.store(true, std::memory_order_release);
  });
}

void Worker::Run() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // Arrivals to the microsecond, not to the fifty.
  const Int32LengthPrefixed decoder(kMaxFrameBytes);
  ConnectorOptions connector_options;
  connector_options.connect_timeout_ns = part_.options.timeout_ns;
  Connector connector(*ring_, *part_.clock, decoder, *load_, connector_options);
  absl::Status status = connector.Attach();
  if (status.ok()) status = OpenAll(connector);
  const std::optional<int64_t> start_ns = gate_.Arrive(status);
  if (start_ns.has_value()) {
    const int64_t warm_end_ns = *start_ns + part_.options.warmup_ns;
    RunWindow(connector, {.start_ns = *start_ns,
                          .warm_end_ns = warm_end_ns,
                          .end_ns = warm_end_ns + part_.options.duration_ns});
  }
  load_->LetGo();
}

absl::Status Worker::OpenAll(Connector& connector) {
  GYRE_RETURN_IF_ERROR(load_->Open(connector));
  while (!load_->ready()) {
    GYRE_RETURN_IF_ERROR(load_->failure());
    if (interrupted_.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    connector.RunOnce(kMaxWaitNs);
  }
  return load_->failure();
}

void Worker::RunWindow(Connector& connector, const Window& window) {
  recorder_.emplace(window, part_.board);
  load_->Start(*recorder_);
  const int64_t give_up_ns = window.end_ns + part_.options.drain_ns;
  for (;;) {
    const int64_t now_ns = part_.clock->NowNs();
    recorder_->Turn(now_ns);
    const int64_t next_ns = load_->Turn(now_ns);
    if (load_->Done(now_ns) || now_ns >= give_up_ns ||
        interrupted_.load(std::memory_order_relaxed)) {
      ended_ns_ = now_ns;
      break;
    }
    connector.RunOnce(std::clamp<int64_t>(next_ns - now_ns, 0, kMaxWaitNs));
  }
  recorder_->Finish();
}

void Worker::Collect(PartResult* result) {
  if (recorder_.has_value()) result->totals.Merge(recorder_->totals());
  load_->Collect(result);
}

}  // namespace gyre::load
