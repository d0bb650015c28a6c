// Lets a thread wait for a descriptor until another thread wakes it.
//
// Threads: Wake any; Wait one.
#ifndef GYRE_ENGINE_PROCESS_WAKE_FD_H_
#define GYRE_ENGINE_PROCESS_WAKE_FD_H_

#include <cstdint>

#include "engine/base/unique_fd.h"

namespace gyre {

class WakeFd {
 public:
  WakeFd();

  // False without a descriptor left: then Wake does nothing.
  bool valid() const { return event_fd_.valid(); }
  void Wake() const;
  // Until `fd` can be read, or Wake was called since the last Wait returned, or it is
  // `deadline_ns` (ThreadBody::kNever: no limit).
  void Wait(int fd, int64_t now_ns, int64_t deadline_ns) const;

 private:
  UniqueFd event_fd_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_WAKE_FD_H_
