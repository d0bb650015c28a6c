// One network thread: a ring, the connections that live on it, and nothing else.
// Connection decides, Processor acts: completions and responses become events of a
// Connection, whose next steps are carried out here until there is none.
//
// RunOnce never blocks; Wait submits what the turn prepared and sleeps in the
// ring, in one enter. Other threads reach a processor through its seat, which wakes
// it only while it is parked.
//
// Its sources: processor.cc (the turn, connections, closing), processor_receive.cc,
// processor_requests.cc, processor_control.cc (options, lists), processor_throttle.cc
// (throttling and idle expiry), processor_memory.cc (requests), processor_budget.cc
// (answers), processor_shed.cc, processor_migration.cc;
// response_sender has the sending side, processor_intakes what it accepts itself.
//
// Threads: RunOnce, Wait and every On… the owner (OnThreadStart's thread);
// BeginDrain, CloseAll, Retire, Rebalance, Wake any, while it exists. What comes
// from threads that may outlive it comes through its seat.
// Owns: its ring, connection table, requests and timing wheel.
// Borrows: seat, channel, handler, slab, large ranges, metrics; they outlive it.
// Invariant: each submitted operation is counted in its connection and retired
// exactly once, by the completion without `more`; no I/O except through the ring.
#ifndef GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_H_
#define GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/log_every.h"
#include "engine/base/object_pool.h"
#include "engine/base/thread_owner.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/memory/large_ranges.h"
#include "engine/memory/slab_pool.h"
#include "engine/network/accept/processor_set.h"
#include "engine/network/connection/connection_table.h"
#include "engine/network/connection/new_connection.h"
#include "engine/network/connection/response_sender.h"
#include "engine/network/network_metrics.h"
#include "engine/network/processor/control_mailbox.h"
#include "engine/network/processor/memory_victims.h"
#include "engine/network/processor/processor_intakes.h"
#include "engine/network/processor/processor_seat.h"
#include "engine/network/processor/receive_buffers.h"
#include "engine/network/processor/response_budget.h"
#include "engine/network/request/request_channel.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/request/request_metrics.h"
#include "engine/network/request/slow_request_log.h"
#include "engine/network/server_options.h"
#include "engine/timer/timing_wheel.h"
#include "engine/uring/ring.h"

namespace gyre {

class Processor final : public ThreadBody, public ThreadWaiter, private ResponseSender::Host {
 public:
  struct Shared {
    RequestChannel& channel;
    RequestHandler& handler;
    SlabPool& slab;
    LargeRanges& large_ranges;
    NetworkMetrics& metrics;
    RequestMetrics& request_metrics;
    std::string listener_name;  // whose connections come here; for metrics
  };

  // Takes the seat, and leaves it when it is destroyed.
  Processor(ProcessorSeat& seat, const ProcessorOptions& options, const Shared& shared,
            std::unique_ptr<uring::Ring> ring);
  ~Processor() override;

  // --- any thread --------------------------------------------------------------
  void StopAccepting() { intakes_.StopAccepting(); }
  void Wake() override { ring_->Wake(); }
  // Each connection is closed once what has come of it is answered.
  void BeginDrain();
  // Every connection is closed now.
  void CloseAll();
  // Connections go on with these.
  void EnqueueOptions(const ConnectionOptions& options);
  // Adds the connections to `list`, a few in every turn.
  void EnqueueList(std::shared_ptr<ConnectionList> list);
  // Every connection goes to `others`, which does not hold this one's seat, at once
  // or as soon as its requests are answered. Done when retired().
  void Retire(ProcessorSet* others);
  // Nothing is left here, and no buffer of its ring is lent; the thread may end.
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  // Moves what it has above its share of `set` to the others, as far as it has
  // nothing in flight.
  void Rebalance(ProcessorSet* set);
  // Descriptors that are open, and those on their way here.
  int64_t open_connections() const { return seat_.open_connections(); }
  // Returns when OnThreadStart is done: what attaching to the ring said.
  const absl::Status& AwaitStart() const {
    started_.wait(false, std::memory_order_acquire);
    return start_status_;
  }
  // Whether the ring has the slab as fixed buffers, and why not. After AwaitStart.
  const absl::Status& registered_buffers() const { return registered_buffers_; }
  uring::RingStats ring_stats() const { return ring_->stats(); }
  int index() const { return seat_.index(); }
  ProcessorSeat& seat() { return seat_; }
  // Requests that somebody has the right to answer still. Its thread and the handlers'
  // have ended.
  int64_t requests_awaiting_answer() const;

  // --- the owner's thread --------------------------------------------------------
  void OnThreadStart() override;
  void OnThreadStop() override;
  bool RunOnce(int64_t now_ns) override;
  int64_t NextDeadlineNs() const override;
  void Wait(int64_t now_ns, int64_t deadline_ns) override;

 private:
  using Slot = ConnectionSlot;

  // Takes memory in a connection's name.
  class SlotMemory final : public ReceiveMemory {
   public:
    SlotMemory(Processor& processor, Slot& slot) : processor_(processor), slot_(slot) {
      max_frame_bytes = slot.max_frame_bytes();
    }
    bool TryCharge(int64_t bytes, MemoryUse use) override;
    void Uncharge(int64_t bytes, MemoryUse use) override;
    void MakeWhole(int64_t bytes) override;
    Buffer Allocate(uint32_t size_bytes) override;
    Buffer TryAllocateLarge(uint32_t size_bytes) override;
    bool lent_too_many() const override;
    // What the last refusal wanted; 0: a large range.
    int64_t refused_bytes = 0;
    MemoryUse refused_use = MemoryUse::kWhole;

   private:
    Processor& processor_;
    Slot& slot_;
  };

  // ResponseSender::Host.
  void OnFrontSent(Slot& slot) override;
  void OnCloseResponse(Slot& slot) override;
  void OnSendFailed(Slot& slot, const char* reason) override;
  void OnQuantumUsed(Slot& slot) override;

  // --- events --------------------------------------------------------------------
  void OnCompletion(const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  void OnReceive(Slot& slot, const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  void OnReceiveDirect(Slot& slot, const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  void OnReadable(Slot& slot, const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  void OnPeerLost(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void OnHangup(Slot& slot, const uring::Completion& completion) GYRE_REQUIRES_OWNER(owner_);
  void OnNewConnection(NewConnection connection) GYRE_REQUIRES_OWNER(owner_);
  // `taken_ns`: when it was taken; a turn may have begun long before.
  void OnResponse(ConnectionRequest* request, int64_t taken_ns) GYRE_REQUIRES_OWNER(owner_);
  void OnRunStarted(ConnectionRequest* first) GYRE_REQUIRES_OWNER(owner_);
  void OnRoom(int lane) GYRE_REQUIRES_OWNER(owner_);
  void OnMemoryGranted(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void OnThrottleSignal(ThrottleSignal* signal) GYRE_REQUIRES_OWNER(owner_);
  void OnDeadline(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void OnMigrated(NewConnection connection) GYRE_REQUIRES_OWNER(owner_);

  // --- steps ---------------------------------------------------------------------
  // Carries out what the connection decides until it decides nothing. The slot may
  // be gone afterwards.
  void Settle(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void Receive(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void ReceiveDirect(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void StartDirect(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void CancelReceive(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void DispatchFrames(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // The connection's next whole frame as a request; null when there is none now.
  ConnectionRequest* MakeRequest(Slot& slot, Buffer frame, int64_t charged_bytes)
      GYRE_REQUIRES_OWNER(owner_);
  ConnectionRequest* TakeFrame(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // As much as belongs into one run, linked; null when nothing may be taken now.
  ConnectionRequest* TakeRun(Slot& slot, RequestRun* run, int64_t* bytes)
      GYRE_REQUIRES_OWNER(owner_);
  // False: the connection had its share of this turn, and stands in line.
  bool MayTakeMore(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void SendRun(Slot& slot, ConnectionRequest* first) GYRE_REQUIRES_OWNER(owner_);
  void StartInline(Slot& slot, ConnectionRequest* first) GYRE_REQUIRES_OWNER(owner_);
  void DropResponses(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void Detach(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // Closes one that never got a slot here.
  void Drop(NewConnection connection);
  void Migrate(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void Linger(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void OnLingerCheck(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // Measures from now on how the peer takes what has been sent.
  void BeginTaking(Slot& slot, int64_t left_bytes) GYRE_REQUIRES_OWNER(owner_);
  // The peer has not taken all of it and is not far behind with it.
  bool TakesOn(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void Shutdown(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void OnCloseDeadline(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void CloseSocket(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void Free(Slot& slot) GYRE_REQUIRES_OWNER(owner_);

  bool HandleControl() GYRE_REQUIRES_OWNER(owner_);
  void SetOptions(const ConnectionOptions& options) GYRE_REQUIRES_OWNER(owner_);
  void ContinueList() GYRE_REQUIRES_OWNER(owner_);
  void DropLists() GYRE_REQUIRES_OWNER(owner_);
  void Shed() GYRE_REQUIRES_OWNER(owner_);
  bool DrainMailboxes() GYRE_REQUIRES_OWNER(owner_);
  void BeginDrainNow() GYRE_REQUIRES_OWNER(owner_);
  void Drain(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void EndDrainGrace() GYRE_REQUIRES_OWNER(owner_);
  void EndStalledFrames() GYRE_REQUIRES_OWNER(owner_);
  bool TakeOrders() GYRE_REQUIRES_OWNER(owner_);
  bool HasOrders() const GYRE_REQUIRES_OWNER(owner_);
  void BeginRetirement() GYRE_REQUIRES_OWNER(owner_);
  void GiveSurplus(ProcessorSet* set) GYRE_REQUIRES_OWNER(owner_);
  bool MailboxesEmpty() const GYRE_REQUIRES_OWNER(owner_);
  void RearmStarved() GYRE_REQUIRES_OWNER(owner_);
  void RetryLargeRanges() GYRE_REQUIRES_OWNER(owner_);
  // The response budget: false when the connection stands in line for it now.
  bool MayAskForResponse(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void CountRequests(Slot& slot, ConnectionRequest* first) GYRE_REQUIRES_OWNER(owner_);
  void CountResponse(Slot& slot, ConnectionRequest* request) GYRE_REQUIRES_OWNER(owner_);
  void HoldAnswer(Slot& slot, ConnectionRequest* request, int64_t bytes)
      GYRE_REQUIRES_OWNER(owner_);
  void CountAhead(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // After each step of the sending side.
  void CountSent(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  bool HasResponseWaiters() const GYRE_REQUIRES_OWNER(owner_) {
    return !response_waiters_.empty() || !small_response_waiters_.empty();
  }
  // What they wait for has come back since.
  bool CanServeResponseWaiters() const GYRE_REQUIRES_OWNER(owner_);
  void ServeResponseWaiters() GYRE_REQUIRES_OWNER(owner_);
  void CloseStalledReaders() GYRE_REQUIRES_OWNER(owner_);
  void EnforceResponseBudget() GYRE_REQUIRES_OWNER(owner_);
  // What its part of the response budget was made from.
  struct BudgetShare {
    int64_t total_bytes = 0;
    int64_t sharers = 0;
    int64_t lent_bytes = 0;
    bool operator==(const BudgetShare&) const = default;
  };
  void UpdateResponseBudget() GYRE_REQUIRES_OWNER(owner_);
  void CloseForMemory(Slot& slot, const char* reason) GYRE_REQUIRES_OWNER(owner_);
  void StartThrottle(Slot& slot, int64_t end_ns) GYRE_REQUIRES_OWNER(owner_);
  // Its connection's throttling has changed.
  void ReportThrottled(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // Puts the slot's one entry of the wheel at the first of its deadlines.
  void ArmDeadline(Slot& slot, int64_t idle_deadline_ns) GYRE_REQUIRES_OWNER(owner_);
  void ExpireDeadlines() GYRE_REQUIRES_OWNER(owner_);
  void ReportInput(Slot& slot, bool news) GYRE_REQUIRES_OWNER(owner_);
  void WaitForMemory(Slot& slot, const SlotMemory& memory) GYRE_REQUIRES_OWNER(owner_);
  void MaybeLeavePartialLine(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  bool WatchesPartials() const GYRE_REQUIRES_OWNER(owner_);
  void BreakPartials() GYRE_REQUIRES_OWNER(owner_);
  void LogMemory(const std::string& what) GYRE_REQUIRES_OWNER(owner_);
  // Requests wait for memory, or connections are closed for it: what was freed meanwhile
  // is given back a little later.
  void OnShortMemory() GYRE_REQUIRES_OWNER(owner_) {
    if (heap_trim_due_ns_ == kNever) heap_trim_due_ns_ = now_ns_ + kHeapTrimDelayNs;
  }
  void SpendGranted(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void CancelReceiving(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  // It does not wait for the budget any more.
  void EndMemoryWait(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void StopWaiting(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void NoteStarved() GYRE_REQUIRES_OWNER(owner_);
  void CancelOperation(Slot& slot, uring::OpKind kind, Operation operation)
      GYRE_REQUIRES_OWNER(owner_);
  // False: the lane is full.
  bool TryHandOver(ConnectionRequest* first) GYRE_REQUIRES_OWNER(owner_);
  // Takes its run out of the line for the channel, never handed over.
  ConnectionRequest* Unpark(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void TellHandlers() GYRE_REQUIRES_OWNER(owner_);
  void ServeYielded() GYRE_REQUIRES_OWNER(owner_);
  void DropNextRequest(Slot& slot) GYRE_REQUIRES_OWNER(owner_);
  void FinishFront(Slot& slot, bool sent) GYRE_REQUIRES_OWNER(owner_);
  void ReleaseRequest(ConnectionRequest* request) GYRE_REQUIRES_OWNER(owner_);
  void LogClose(const Slot& slot, const char* reason) GYRE_REQUIRES_OWNER(owner_);
  int64_t IdleNs() const { return options_.connection.connections_max_idle_ms * 1'000'000; }
  int64_t FrameNs() const { return options_.connection.frame_timeout_ms * 1'000'000; }
  int64_t FrameDeadlineNs(const Slot& slot) const GYRE_REQUIRES_OWNER(owner_);
  // A frame is under way, and nothing but its peer holds it up.
  bool AwaitsRestOfFrame(const Slot& slot) const GYRE_REQUIRES_OWNER(owner_);
  void OnFrameLate(Slot& slot, int64_t idle_deadline_ns) GYRE_REQUIRES_OWNER(owner_);

  static constexpr size_t kMaxCompletions = 256;
  // New connections registered in one turn, so that a storm of them does not
  // starve those that are there.
  static constexpr int kMaxNewPerTurn = 20;
  // Connections told to a list in one turn.
  static constexpr uint32_t kListedPerTurn = 64;
  // How far ahead deadlines usually lie.
  static constexpr int64_t kTimedAheadNs = 3'600'000'000'000;
  // A connection that has not sent a request yet when draining begins may still send
  // one within this time: its peer was let in, and nobody else will answer it.
  static constexpr int64_t kDrainGraceNs = 1'000'000'000;
  // Then how long a peer may send nothing of the rest of a frame, and how often it is looked.
  static constexpr int64_t kDrainStallNs = 2'000'000'000;
  static constexpr int64_t kDrainStallCheckNs = 100'000'000;
  // How often it is looked whether a peer has taken the last answers, and how far it may
  // be behind with it before its connection is closed over them.
  static constexpr int64_t kLingerCheckNs = 20'000'000;
  static constexpr int64_t kLingerPatienceNs = 2'000'000'000;
  // Runs handed over in one turn before handlers are woken for them: what the first
  // waits at most for the others.
  static constexpr uint32_t kMaxUntoldRuns = 16;
  static constexpr int64_t kDirectMaxBytes = 256 * 1024;
  static constexpr int64_t kLargeRangeRetryNs = 2'000'000;
  static constexpr int64_t kStallCheckNs = 100'000'000;
  // After so long without traffic a watch is armed beside the receive. Shorter, busy
  // connections would come to pay for it.
  static constexpr int64_t kQuietNs = 1'000'000'000;
  // How long an excess that is let be is not looked at again, unless it grows.
  static constexpr int64_t kShedCheckNs = 20'000'000;
  static constexpr int64_t kHeapTrimDelayNs = 250'000'000;
  static constexpr int64_t kPartialCheckNs = 100'000'000;
  // While requests wait for what unfinished ones hold: those are closed that are so far
  // behind with sending, or wait so long themselves; longer while another gets on.
  static constexpr int64_t kPartialStallNs = 500'000'000;
  static constexpr int64_t kMovingPatience = 4;
  // One look closes holders of one part in so many of what unfinished requests hold here:
  // more than trickles back into the same hands, and by far not everybody.
  static constexpr int64_t kBrokenPart = 4;

  ProcessorSeat& seat_;
  ProcessorOptions options_;  // the owner's, once the thread runs
  const bool charges_memory_;
  RequestChannel& channel_;
  RequestHandler& handler_;
  SlabPool& slab_;
  LargeRanges& large_ranges_;
  NetworkMetrics& metrics_;
  RequestMetrics& request_metrics_;
  const std::unique_ptr<uring::Ring> ring_;
  Connection::Limits limits_;

  ThreadOwner owner_;
  absl::Status start_status_;        // written before started_
  absl::Status registered_buffers_;  // likewise
  std::atomic<bool> started_{false};
  PlaintextTransport plaintext_ ABSL_GUARDED_BY(owner_);
  ReceiveBuffers& receive_buffers_;  // the seat's
  ProcessorIntakes intakes_;         // StopAccepting comes from any thread
  ConnectionTable table_ ABSL_GUARDED_BY(owner_);
  ResponseBudget response_budget_ ABSL_GUARDED_BY(owner_);
  ResponseSender sender_ ABSL_GUARDED_BY(owner_);
  TimingWheel deadlines_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, StarvedTag> starved_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, RangeTag> range_waiters_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, RangeTag> response_waiters_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, RangeTag> small_response_waiters_ ABSL_GUARDED_BY(owner_);
  // Whose turn in the line it is now; until it has asked.
  const Slot* served_waiter_ ABSL_GUARDED_BY(owner_) = nullptr;
  IntrusiveList<MemoryWait, MemoryTag> memory_waiters_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<RequestRun, ParkedTag> parked_runs_[kMaxLanes] ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, TurnTag> turns_ ABSL_GUARDED_BY(owner_);
  IntrusiveList<Slot, YieldTag> yielded_ ABSL_GUARDED_BY(owner_);
  uint32_t turn_ ABSL_GUARDED_BY(owner_) = 0;
  ObjectPool<ConnectionRequest, 32> requests_ ABSL_GUARDED_BY(owner_);
  ObjectPool<MemoryWait, 16> memory_waits_ ABSL_GUARDED_BY(owner_);
  uint32_t untold_runs_ ABSL_GUARDED_BY(owner_) = 0;
  std::vector<uring::Completion> completions_ ABSL_GUARDED_BY(owner_);
  size_t reaped_ ABSL_GUARDED_BY(owner_) = 0;
  bool more_new_connections_ ABSL_GUARDED_BY(owner_) = false;  // perhaps
  int64_t now_ns_ ABSL_GUARDED_BY(owner_) = 0;
  // What an inline request took, an average over the last few runs.
  int64_t inline_request_ns_ ABSL_GUARDED_BY(owner_) = 0;
  int64_t next_deadline_ns_ ABSL_GUARDED_BY(owner_) = ThreadBody::kNever;
  int64_t range_retry_ns_ ABSL_GUARDED_BY(owner_) = 0;
  int64_t stall_check_ns_ ABSL_GUARDED_BY(owner_) = 0;
  int64_t shed_check_ns_ ABSL_GUARDED_BY(owner_) = 0;
  int64_t tolerated_bytes_ ABSL_GUARDED_BY(owner_) = 0;  // of the excess, at the last look
  BudgetShare budget_share_ ABSL_GUARDED_BY(owner_);
  int64_t heap_trim_due_ns_ ABSL_GUARDED_BY(owner_) = ThreadBody::kNever;
  int64_t partial_check_ns_ ABSL_GUARDED_BY(owner_) = 0;
  std::vector<PartialHolder> partial_holders_ ABSL_GUARDED_BY(owner_);  // kept for its memory
  std::vector<ReaderHolder> reader_holders_ ABSL_GUARDED_BY(owner_);    // likewise
  bool draining_ ABSL_GUARDED_BY(owner_) = false;
  int64_t drain_grace_ends_ns_ ABSL_GUARDED_BY(owner_) = ThreadBody::kNever;
  int64_t stalled_check_ns_ ABSL_GUARDED_BY(owner_) = ThreadBody::kNever;  // after that
  bool closing_all_ ABSL_GUARDED_BY(owner_) = false;
  LogEvery close_log_;
  LogEvery memory_log_;
  SlowRequestLog slow_log_;
  NetworkThread thread_;

  struct ListUnderWay {
    std::shared_ptr<ConnectionList> list;
    uint32_t next_slot = 0;
  };
  std::vector<ListUnderWay> lists_ ABSL_GUARDED_BY(owner_);
  ControlMailbox control_;

  bool retiring_ ABSL_GUARDED_BY(owner_) = false;
  // Where connections that are given up go. Outlives the orders that name it.
  ProcessorSet* others_ ABSL_GUARDED_BY(owner_) = nullptr;

  // Orders; each is followed by a wake.
  std::atomic<bool> drain_requested_{false};
  std::atomic<bool> close_requested_{false};
  std::atomic<ProcessorSet*> retire_to_{nullptr};
  std::atomic<ProcessorSet*> rebalance_to_{nullptr};
  std::atomic<bool> retired_{false};
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_PROCESSOR_PROCESSOR_H_
