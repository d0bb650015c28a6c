// Group commit. Every log has at most one sync outstanding; whatever is appended
// while it runs is covered by the next one, so that under load one fdatasync
// acknowledges many appends and nobody waits for a timer.
//
// A sync that fails is final for its log: the kernel has dropped the dirty pages
// and a second fdatasync would succeed without them. The log goes offline.
//
// Threads: RequestFlush any; completions run on the thread of the FileIo.
// Owns: nothing.  Borrows: the FileIo, which outlives every log.
#ifndef GYRE_ENGINE_STORAGE_FLUSHER_H_
#define GYRE_ENGINE_STORAGE_FLUSHER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/fs/file.h"
#include "engine/fs/file_io.h"

namespace gyre {

// --log_flush.
enum class FlushMode : uint8_t {
  kGroup,     // acks=all means synced, and readers see synced records only
  kInterval,  // synced now and then by whoever calls RequestFlushAll; Kafka's flush.ms
  kNone,      // left to the kernel, except at a roll and at a clean stop
};

absl::string_view FlushModeName(FlushMode mode);

class Flusher;

// A log as the flusher sees it, and the flusher's state in it.
class Flushable {
 public:
  struct Sync {
    FileRef file;             // null: nothing to sync
    int64_t end_offset = 0;   // durable once the file is synced
    uint64_t generation = 0;  // given back to OnSynced
  };

  virtual ~Flushable() = default;

  // The oldest file that holds unsynced records, if any below `wanted_offset`
  // are. An older segment comes before the next one, so that the durable offset
  // never jumps over a gap. None once the log is offline.
  virtual Sync NextSync(int64_t wanted_offset) = 0;
  virtual void OnSynced(int64_t end_offset, uint64_t generation) = 0;
  virtual void OnSyncFailed(int error) = 0;
  // Keeps the log alive while an operation is outstanding.
  virtual std::shared_ptr<Flushable> KeepAlive() = 0;

  bool sync_in_flight() const { return in_flight_.load(std::memory_order_acquire); }

 private:
  friend class Flusher;

  // seq_cst on both: RequestFlush stores wanted_offset_ and then tries to take
  // in_flight_; a completion clears in_flight_ and then reads wanted_offset_.
  std::atomic<int64_t> wanted_offset_{0};
  std::atomic<bool> in_flight_{false};

  // The holder of in_flight_'s.
  FileOperation operation_;
  int64_t end_offset_ = 0;
  uint64_t generation_ = 0;
  Flusher* flusher_ = nullptr;
  std::shared_ptr<Flushable> keep_alive_;
};

class Flusher {
 public:
  Flusher(FileIo& file_io, FlushMode mode) : file_io_(file_io), mode_(mode) {}
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  FlushMode mode() const { return mode_; }

  // Makes `log` durable up to `offset` soon; OnSynced tells. Does not wait.
  void RequestFlush(Flushable& log, int64_t offset);

  uint64_t sync_count() const { return sync_count_.load(std::memory_order_relaxed); }
  uint64_t sync_error_count() const { return sync_error_count_.load(std::memory_order_relaxed); }

 private:
  // Precondition: the caller holds log.in_flight_. Submits the next sync, or
  // gives in_flight_ back when there is nothing to do.
  void Continue(Flushable& log);
  static void OnDone(FileOperation* operation);

  FileIo& file_io_;
  const FlushMode mode_;
  std::atomic<uint64_t> sync_count_{0};
  std::atomic<uint64_t> sync_error_count_{0};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_STORAGE_FLUSHER_H_
