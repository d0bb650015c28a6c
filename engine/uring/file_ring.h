// FileIo on a ring of its own: operations come from any thread through a
// queue, leave together with one enter, and are answered on this thread. The
// body of the log-io thread, and its waiting place.
//
// Threads: Submit and Wake any; the rest the owner (OnThreadStart's thread).
// Owns: the ring.  Borrows: each operation, from Submit to its on_done.
// Invariant: every submitted operation gets exactly one on_done; those that are
// still outstanding at OnThreadStop are waited for.
#ifndef GYRE_ENGINE_URING_FILE_RING_H_
#define GYRE_ENGINE_URING_FILE_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/concurrent/mpsc_queue.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/fs/file_io.h"
#include "engine/uring/ring.h"

namespace gyre::uring {

class FileRing final : public FileIo, public ThreadBody, public ThreadWaiter {
 public:
  // At most `max_in_flight` operations are with the kernel at once; the rest
  // wait in the queue.
  FileRing(std::unique_ptr<Ring> ring, size_t max_in_flight);
  ~FileRing() override;

  void Submit(FileOperation* operation) override;

  bool RunOnce(int64_t now_ns) override;
  void OnThreadStart() override;
  void OnThreadStop() override;
  void Wait(int64_t now_ns, int64_t deadline_ns) override;
  void Wake() override;

  size_t in_flight() const { return slots_.size() - free_slots_.size(); }
  RingStats ring_stats() const { return ring_->stats(); }

 private:
  struct Slot {
    FileOperation* operation = nullptr;
    uint32_t generation = 0;
  };

  bool SubmitQueued();
  void Start(uint32_t slot);
  // Handles what came back; how many.
  size_t Reap(int64_t wait_ns);
  void OnCompletion(const Completion& completion);

  const std::unique_ptr<Ring> ring_;
  MpscQueue queue_;
  // True while the owner may sleep. Written before the queue is looked at for
  // the last time; read after a push. seq_cst on both sides, as is the push.
  std::atomic<bool> parked_{false};
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
};

}  // namespace gyre::uring

#endif  // GYRE_ENGINE_URING_FILE_RING_H_
