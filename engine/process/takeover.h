// Hands the listening sockets of a running process to its successor, so that a
// restart refuses no connection: what arrives in between waits in the sockets'
// backlogs, which stay open throughout.
//
//   successor                              running process (TakeoverPoint)
//   hello TERMS                ->
//                              <-          offer PID, with the sockets | refuse REASON
//   (checks them, opens those it lacks)
//   commit                     ->          drains, as on SIGTERM, …
//                              <-          done: logs closed, data directory released
//   serves                     ->          ends
//
// Until the commit the running process serves on, whatever becomes of the successor;
// after it, it drains. It keeps its sockets and stands by until the successor serves: of
// one that ends before that it learns by the connection, and may serve again itself.
// While it drains it refuses other successors, with the reason.
// Both must run as the same user (SO_PEERCRED). Messages are packets of a Unix socket, one each.
#ifndef GYRE_ENGINE_PROCESS_TAKEOVER_H_
#define GYRE_ENGINE_PROCESS_TAKEOVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/clock.h"
#include "engine/base/thread_owner.h"
#include "engine/base/unique_fd.h"
#include "engine/concurrent/thread_runner.h"
#include "engine/network/accept/listen_socket.h"
#include "engine/process/wake_fd.h"

namespace gyre {

// Whether a process could offer its sockets at `path`: no file but a socket is there, and
// its directory is. Errors name the path.
absl::Status CheckTakeoverSocket(const std::string& path);

// The running process's side.
//
// Threads: one controlling thread; `sockets` and `on_commit` are called on its own.
// Owns: the Unix socket and its file.
class TakeoverPoint final : private ThreadBody, private ThreadWaiter {
 public:
  struct Options {
    std::string path;
    // What a successor must have the same, in its flags' words: "accept_mode=acceptor …".
    std::string terms;
    // Duplicates of every listening socket.
    std::function<absl::StatusOr<std::vector<ListenSocket>>()> sockets;
    // How long a drain may take: with the offer, so that nobody commits who would not wait
    // as long.
    std::function<int64_t()> drain_timeout_ms;
    // A successor has them: drain. Once. On the point's own thread, so it raises the signal
    // that the main thread waits for; a server's Drain is the main thread's.
    std::function<void()> on_commit;
    // Until then every successor is refused, with this reason.
    int64_t refuse_until_ns = INT64_MIN;
    std::string refusal;
    // Whoever connects has this long for each message.
    int64_t peer_timeout_ms = 10'000;
  };

  // Replaces a file that a process left which is gone; ALREADY_EXISTS when one still
  // listens there. Errors name the path.
  static absl::StatusOr<std::unique_ptr<TakeoverPoint>> Open(Options options, const Clock& clock);
  ~TakeoverPoint() override;

  // From now on offers nothing and says `reason` to whoever asks, or was offered something
  // and did not commit; one that committed by now stays. To be followed by Close before the
  // data directory is released, where the next process has its own.
  void Refuse(std::string reason);
  // Offers nothing any more and removes the file. A successor that committed keeps
  // waiting for Done.
  void Close();
  // The data directory is released: the successor may open it.
  void Done();
  bool committed() const { return committed_.load(std::memory_order_acquire); }

  // After Done. What becomes of the successor within `timeout_ms`:
  enum class Successor : uint8_t {
    kServes,
    kEnded,   // before it served; none of its files is open any more
    kSilent,  // it lives and does not say that it serves
    kUnasked  // `interrupted` says that nobody wants to know
  };
  Successor AwaitServing(int64_t timeout_ms, const std::function<bool()>& interrupted);
  // What the successor that committed was offered, to serve again in its place.
  const std::vector<ListenSocket>& sockets() const { return sockets_; }

 private:
  TakeoverPoint(Options options, const Clock& clock, UniqueFd listen_fd, WakeFd wake);
  absl::Status StartThread();

  bool RunOnce(int64_t now_ns) override;
  int64_t NextDeadlineNs() const override;
  void Wait(int64_t now_ns, int64_t deadline_ns) override;
  void Wake() override;
  void OnThreadStart() override { owner_.Bind(); }
  void OnThreadStop() override { owner_.Unbind(); }

  void OnPeer(UniqueFd peer) GYRE_REQUIRES_OWNER(owner_);
  void OnMessage(absl::string_view message) GYRE_REQUIRES_OWNER(owner_);
  void Offer() GYRE_REQUIRES_OWNER(owner_);
  void RefusePeer(absl::string_view reason) GYRE_REQUIRES_OWNER(owner_);
  void DropPeer(absl::string_view why) GYRE_REQUIRES_OWNER(owner_);

  const Options options_;
  const Clock& clock_;
  ThreadOwner owner_;
  UniqueFd listen_fd_;
  const WakeFd wake_;
  // The thread's while it runs.
  UniqueFd peer_;        // who asks
  std::string refusal_;  // "": it is offered what there is
  UniqueFd refused_;     // a peer that was, after it was offered something
  UniqueFd successor_;   // the peer that committed
  UniqueFd process_;     // its; see PeerProcess
  std::vector<ListenSocket> sockets_;
  bool offered_ = false;
  int64_t now_ns_ = 0;
  int64_t peer_deadline_ns_ = kNever;
  std::atomic<bool> committed_{false};
  std::unique_ptr<ThreadRunner> thread_;
};

// The successor's side.
//
// Threads: one.
// Owns: the connection, and the sockets until they are taken.
class Takeover {
 public:
  // Asks the process behind `path` for its sockets. NOT_FOUND: there is none, start as
  // ever. Else an error is one line; the other process serves on.
  static absl::StatusOr<Takeover> Begin(const std::string& path, absl::string_view terms,
                                        int64_t timeout_ms);

  int pid() const { return pid_; }
  // As the other process said; 0: it did not.
  int64_t drain_timeout_ms() const { return drain_timeout_ms_; }
  std::vector<ListenSocket>& sockets() { return sockets_; }

  // From here on the other process drains. Nothing that can fail should be left.
  // FAILED_PRECONDITION with its reason when it refuses by now, here or from AwaitDone.
  absl::Status Commit();
  // Waits until the other process has released its data. DEADLINE_EXCEEDED after
  // `timeout_ms`. A process that has ended without a word has released it, too; that it
  // closed the connection does not say so much.
  absl::Status AwaitDone(int64_t timeout_ms);
  // This process serves: the other one need not stand by. Once.
  void Serves();

 private:
  UniqueFd peer_;
  UniqueFd process_;  // see PeerProcess
  int pid_ = 0;
  int64_t drain_timeout_ms_ = 0;
  std::vector<ListenSocket> sockets_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_TAKEOVER_H_
