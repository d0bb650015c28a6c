// The connections of one processor, in fixed slots that never move. A slot's
// generation changes with every new life, and every operation carries it, so a
// completion that comes late names a life that is over and is refused.
//
// Threads: owner (the processor).
// Owns: the slots; memory grows in chunks to the most connections there ever were.
// Invariant: a slot is free, or its `open` is true.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_TABLE_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/intrusive_list.h"
#include "engine/base/limits.h"
#include "engine/concurrent/mpsc_queue.h"
#include "engine/memory/memory_pool.h"
#include "engine/network/connection/connection.h"
#include "engine/network/connection/connection_migration.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/connection/network_receive.h"
#include "engine/network/connection/output_queue.h"
#include "engine/network/connection/pace.h"
#include "engine/network/connection/transport.h"
#include "engine/network/frame_decoder.h"
#include "engine/network/request/session.h"
#include "engine/timer/timing_wheel.h"
#include "engine/uring/completion.h"

namespace gyre {

class ProcessorSeat;
struct Transfer;

// What one operation in the kernel is for: the low bits of a token's generation.
enum class Operation : uint8_t {
  kReceive = 0,    // into a provided buffer
  kReceiveDirect,  // into a large range
  kReadable,       // poll ahead of a direct receive
  kHangup,         // poll while nothing is received
  kSend,
  kWritable,  // poll after a full socket
  kSplice,    // file -> pipe
  kFileRead,
};
inline constexpr int kOperationBits = 3;

// Lists a slot can be in, by tag.
struct StarvedTag;  // waits for provided buffers
struct RangeTag;    // waits for a large range, or for room for its answers
struct TurnTag;     // used up its send quantum
struct YieldTag;    // used up its share of a turn's requests

struct ConnectionSlot;
struct MemoryTag;  // the waits for the memory budget

// A connection's place in the line for the memory budget; leased while it is there.
struct MemoryWait : MemoryWaiter, MpscNode, IntrusiveListNode<MemoryTag> {
  ProcessorSeat* seat = nullptr;
  ConnectionSlot* slot = nullptr;
  int64_t since_ns = 0;
};

// Everything a processor knows of a connection, in whole cache lines. What a small
// request and its answer touch lies together, from `index` to `session.listener`: with
// many connections most of a request's time is spent waiting for these lines. What only
// some connections need, and not for long, is leased (MemoryWait, Transfer) or lies in
// the request that is under way.
struct alignas(kCacheLineBytes) ConnectionSlot : TimerEntry,
                                                 IntrusiveListNode<StarvedTag>,
                                                 IntrusiveListNode<RangeTag>,
                                                 IntrusiveListNode<TurnTag>,
                                                 IntrusiveListNode<YieldTag> {
  explicit ConnectionSlot(const Connection::Limits& limits) : connection(limits) {}

  // The sending side's one operation.
  enum class SendOperation : uint8_t {
    kNone,
    kSend,
    kZeroCopy,
    kWritable,
    kSplice,
    kFileRead,
    kTurn
  };

  const FrameDecoder& decoder() const { return *session.listener->frame_decoder; }
  int64_t max_frame_bytes() const {
    const std::atomic<int64_t>* const limit = session.listener->max_frame_bytes;
    return limit == nullptr ? INT64_MAX : limit->load(std::memory_order_relaxed);
  }
  uring::Token TokenFor(uring::OpKind kind, Operation operation) const {
    return uring::Token{kind, index,
                        generation << kOperationBits | static_cast<uint32_t>(operation)};
  }

  ConnectionRequest* parked_run = nullptr;  // the first request of one that waits for the channel
  MemoryWait* memory_wait = nullptr;        // with the pool, or on its way back

  // --- every request -----------------------------------------------------------------
  uint32_t index = 0;
  uint32_t generation = 0;  // < 2^(32 - kOperationBits)
  int fd = -1;
  bool open = false;
  SendOperation sending = SendOperation::kNone;
  bool zero_copy_off = false;     // it does not pay on this connection
  uint8_t zero_copy_copied = 0;   // notifications in a row that said so
  bool socket_readable = false;   // a direct receive need not wait for readiness
  bool receiving_direct = false;  // one is in flight; else it waits for readiness
  bool large_responses = false;   // its last answer was one
  bool frame_late = false;        // its time is over: take what came of it
  uint32_t dispatch_turn = 0;
  Connection connection;
  Transport* transport = nullptr;
  NetworkReceive receive;
  OutputQueue output;
  Transfer* transfer = nullptr;               // leased while a send needs more than a pointer
  ConnectionRequest* next_request = nullptr;  // looked at, for a run of its own
  int64_t last_progress_ns = 0;
  int64_t frame_started_ns = 0;     // of the frame under way
  Pace receive_pace;                // with sending a frame that was begun
  Pace send_pace;                   // with taking the answers that are ready
  int64_t paced_sent_bytes = 0;     // of traffic.sent_bytes, what send_pace knows of
  int64_t dispatch_bytes = 0;       // of requests, taken in turn `dispatch_turn`
  int64_t turn_bytes = 0;           // of a file, sent in this turn
  int64_t answer_bytes = 0;         // of the last answer: what the next one may take
  int64_t granted_bytes = 0;        // by the memory budget and not yet used, for `granted_use`
  int64_t counted_ahead_bytes = 0;  // of what was received and not looked at, in the budget
  int64_t held_answer_bytes = 0;    // in the budget
  ConnectionTraffic traffic;
  Session session;

  // --- now and then ------------------------------------------------------------------
  ConnectionQuotas::Token quota;
  int64_t throttle_end_ns = 0;  // of what the processor times; 0: nothing
  uint32_t zero_copy_pinned_bytes = 0;
  uint32_t zero_copy_record = 0;      // of the send in flight (SendOperation::kZeroCopy)
  bool counted_as_throttled = false;  // in the gauge
  bool closed_for_memory = false;     // what it holds in the budget is on its way out
  MemoryUse granted_use = MemoryUse::kWhole;
};

class ConnectionTable {
 public:
  // Generations begin behind `first_generation`.
  ConnectionTable(uint32_t max_slots, const Connection::Limits& limits,
                  uint32_t first_generation = 0)
      : max_slots_(max_slots), limits_(limits), first_generation_(first_generation) {}

  // A slot in a new life; null when all are in use.
  ConnectionSlot* Acquire();
  // Nothing refers to the slot any more.
  void Release(ConnectionSlot* slot);
  // The slot a token names, whatever its generation; it exists.
  ConnectionSlot& At(uint32_t index) {
    return chunks_[index / kChunkSlots]->At(index % kChunkSlots);
  }
  // Null when there never was such a slot, or its connection is another.
  ConnectionSlot* Find(uint32_t index, uint32_t generation) {
    if (index >= made_) return nullptr;
    ConnectionSlot& slot = At(index);
    return slot.open && slot.generation == generation ? &slot : nullptr;
  }
  static bool IsCurrent(const ConnectionSlot& slot, const uring::Token& token) {
    return slot.open && slot.generation == token.generation >> kOperationBits;
  }
  static Operation OperationOf(const uring::Token& token) {
    return static_cast<Operation>(token.generation & ((1u << kOperationBits) - 1));
  }

  uint32_t size() const { return used_; }
  // Slots that were ever made: At(0) … At(made() - 1).
  uint32_t made() const { return made_; }
  // Of the generations that were given, the highest.
  uint32_t last_generation() const { return last_generation_; }
  // Calls visit(slot) for each open slot; it may release that slot.
  template <typename Visitor>
  void ForEach(Visitor visit) {
    for (uint32_t index = 0; index < made_; ++index) {
      if (ConnectionSlot& slot = At(index); slot.open) visit(slot);
    }
  }

 private:
  static constexpr uint32_t kChunkSlots = 64;

  struct Chunk {
    alignas(ConnectionSlot) char storage[kChunkSlots * sizeof(ConnectionSlot)];
    uint32_t made = 0;
    ConnectionSlot& At(uint32_t i) { return reinterpret_cast<ConnectionSlot*>(storage)[i]; }
    ~Chunk() {
      for (uint32_t i = 0; i < made; ++i) At(i).~ConnectionSlot();
    }
  };

  const uint32_t max_slots_;
  const Connection::Limits& limits_;
  const uint32_t first_generation_;
  uint32_t last_generation_ = first_generation_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<uint32_t> free_;
  uint32_t made_ = 0;
  uint32_t used_ = 0;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_TABLE_H_
