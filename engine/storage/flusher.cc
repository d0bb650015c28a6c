#include "engine/storage/flusher.h"

#include <utility>

namespace gyre {

absl::string_view FlushModeName(FlushMode mode) {
  switch (mode) {
    case FlushMode::kGroup:
      return "group";
    case FlushMode::kInterval:
      return "interval";
    case FlushMode::kNone:
      return "none";
  }
  return "unknown";
}

void Flusher::RequestFlush(Flushable& log, int64_t offset) {
  int64_t wanted = log.wanted_offset_.load(std::memory_order_relaxed);
  while (wanted < offset &&
         !log.wanted_offset_.compare_exchange_weak(wanted, offset, std::memory_order_seq_cst)) {
  }
  if (log.in_flight_.exchange(true, std::memory_order_seq_cst)) return;
  Continue(log);
}

void Flusher::Continue(Flushable& log) {
  while (true) {
    const int64_t wanted = log.wanted_offset_.load(std::memory_order_seq_cst);
    Flushable::Sync sync = log.NextSync(wanted);
    if (sync.file) {
      log.end_offset_ = sync.end_offset;
      log.generation_ = sync.generation;
      log.keep_alive_ = log.KeepAlive();
      log.operation_.kind = FileOperation::Kind::kSync;
      log.operation_.file = std::move(sync.file);
      log.operation_.result = IoResult();
      log.operation_.on_done = &Flusher::OnDone;
      log.operation_.context = &log;
      log.flusher_ = this;
      sync_count_.fetch_add(1, std::memory_order_relaxed);
      file_io_.Submit(&log.operation_);
      return;
    }
    log.in_flight_.store(false, std::memory_order_seq_cst);
    // A request that came in between saw in_flight_ and left it to us.
    if (log.wanted_offset_.load(std::memory_order_seq_cst) == wanted) return;
    if (log.in_flight_.exchange(true, std::memory_order_seq_cst)) return;
  }
}

void Flusher::OnDone(FileOperation* operation) {
  Flushable& log = *static_cast<Flushable*>(operation->context);
  Flusher& flusher = *log.flusher_;
  // Until the end of this call; Continue may take a new one.
  const std::shared_ptr<Flushable> keep_alive = std::move(log.keep_alive_);
  operation->file = FileRef();
  if (operation->result.ok()) {
    log.OnSynced(log.end_offset_, log.generation_);
  } else {
    flusher.sync_error_count_.fetch_add(1, std::memory_order_relaxed);
    log.OnSyncFailed(operation->result.error());
  }
  flusher.Continue(log);
}

}  // namespace gyre
