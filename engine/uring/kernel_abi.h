// Kernel constants that are newer than liburing 2.3, by private names: most
// are enum members in later headers, so an #ifndef would not find them. Never
// include <linux/io_uring.h> beside <liburing.h>: the guards are the same and
// the contents are not.
//
// Threads: immutable.
#ifndef GYRE_ENGINE_URING_KERNEL_ABI_H_
#define GYRE_ENGINE_URING_KERNEL_ABI_H_

#include <liburing.h>

#include <cstddef>
#include <cstdint>

namespace gyre::uring::abi {

// A message to a ring from a thread that has none (6.13): io_uring_register
// with descriptor -1 and one MSG_RING sqe.
inline constexpr unsigned kRegisterSendMsgRing = 31;
// io_uring_getevents_arg carries a minimum wait (6.12).
inline constexpr unsigned kFeatMinTimeout = 1u << 15;
// sqe->ioprio of SEND_ZC: say in the notification whether bytes were copied (6.2).
inline constexpr uint16_t kSendZeroCopyReportUsage = 1u << 3;
// The answer, in cqe->res of the notification.
inline constexpr uint32_t kNotifUsageCopied = 1u << 31;

// Later headers call this field min_wait_usec; a header that moves it must
// break the build, not the run.
inline void SetMinWait(io_uring_getevents_arg* arg, uint32_t min_wait_us) {
  arg->pad = min_wait_us;
}
static_assert(sizeof(io_uring_getevents_arg) == 24);
static_assert(offsetof(io_uring_getevents_arg, pad) == 12);
static_assert(offsetof(io_uring_getevents_arg, ts) == 16);
static_assert(sizeof(io_uring_buf_reg) == 40);
static_assert(sizeof(io_uring_sqe) == 64);

}  // namespace gyre::uring::abi

#endif  // GYRE_ENGINE_URING_KERNEL_ABI_H_
