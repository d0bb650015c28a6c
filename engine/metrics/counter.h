// Counter and Gauge: handles to one cell per thread. Copy them; one that was
// made by default counts nothing.
//
// Threads: any; a change is a relaxed addition on the thread's own cache line.
#ifndef GYRE_ENGINE_METRICS_COUNTER_H_
#define GYRE_ENGINE_METRICS_COUNTER_H_

#include <cstdint>

#include "engine/metrics/thread_cells.h"

namespace gyre {

// Only goes up.
class Counter {
 public:
  Counter() = default;
  Counter(ThreadCells* cells, uint32_t cell) : cells_(cells), cell_(cell) {}

  void Increment() { Add(1); }
  void Add(int64_t count) {
    if (cells_ != nullptr) cells_->Add(cell_, count);
  }
  int64_t Value() const { return cells_ == nullptr ? 0 : cells_->Sum(cell_); }

 private:
  ThreadCells* cells_ = nullptr;
  uint32_t cell_ = 0;
};

// The sum of what all threads added and took away. A value that is known
// elsewhere is a callback of the registry instead.
class Gauge {
 public:
  Gauge() = default;
  Gauge(ThreadCells* cells, uint32_t cell) : cells_(cells), cell_(cell) {}

  void Add(int64_t delta) {
    if (cells_ != nullptr) cells_->Add(cell_, delta);
  }
  void Increment() { Add(1); }
  void Decrement() { Add(-1); }
  int64_t Value() const { return cells_ == nullptr ? 0 : cells_->Sum(cell_); }

 private:
  ThreadCells* cells_ = nullptr;
  uint32_t cell_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_METRICS_COUNTER_H_
