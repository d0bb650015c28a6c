// A Ring whose kernel is a seed. Operations are carried out when SubmitAndReap
// is called, each in its own time and in an order that the seed draws; their
// completions may come later still. Receives may end early, sends come back
// short, multishots lose their F_MORE. It never waits.
//
// A zero-copy send is notified once its peer has taken the bytes or is reset, and
// some time after.
//
// It also watches its user: memory of a zero-copy send must not change before
// the notification, a provided buffer is returned once, and a descriptor is not
// closed under an operation that names it.
//
// Threads: one, for all rings and their network.
// Owns: pending operations.  Borrows: the network, files, and the memory that
// operations name, as the kernel would.
#ifndef GYRE_TESTS_SIMULATION_SIM_RING_H_
#define GYRE_TESTS_SIMULATION_SIM_RING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "engine/uring/ring.h"
#include "tests/simulation/sim_network.h"

namespace gyre::sim {

class SimRing final : public uring::Ring {
 public:
  struct Options {
    bool multishot_receive = true;
    // Multishot receives that delivered bytes and never tell of a reset: one in so many; 0:
    // none.
    uint64_t misses_reset_one_in = 2;
    bool zero_copy = true;
    // Notifications that say the bytes were copied after all: one in so many; 0:
    // none, 1: all, as on loopback.
    uint64_t zero_copy_copied_one_in = 1;
    // Sends, file reads and writes that complete short, and multishots that
    // end although nothing is wrong: one in so many; 0: none.
    uint64_t mischief_one_in = 8;
    // Pipes that can be open at once; opening another fails.
    size_t max_pipes = 1024;
  };

  SimRing(uint64_t seed, const Options& options, SimNetwork& network)
      : random_(seed), options_(options), network_(network) {}
  ~SimRing() override = default;

  absl::Status Attach() override { return absl::OkStatus(); }
  void AcceptMultishot(uring::Token token, int listen_fd) override;
  void AcceptOnce(uring::Token token, int listen_fd) override;
  void RecvProvided(uring::Token token, int socket_fd) override;
  void RecvProvidedOnce(uring::Token token, int socket_fd) override;
  void RecvInto(uring::Token token, int socket_fd, char* to, size_t size_bytes) override;
  void SendMessage(uring::Token token, int socket_fd, const msghdr* message,
                   bool more_follows) override;
  void Send(uring::Token token, int socket_fd, const char* from, size_t size_bytes,
            bool more_follows) override;
  void SendZeroCopy(uring::Token token, int socket_fd, const char* from, size_t size_bytes,
                    int registered_index, bool more_follows) override;
  void SendMessageZeroCopy(uring::Token token, int socket_fd, const msghdr* message,
                           bool more_follows) override;
  void Poll(uring::Token token, int fd, uint32_t poll_mask) override;
  // Refuses: the simulated peers connect by SimNetwork::Connect.
  void Connect(uring::Token token, int socket_fd, const sockaddr* address,
               socklen_t address_size) override;
  void Cancel(uring::Token token, uring::Token target) override;
  void SpliceFileToPipe(uring::Token token, const File& file, int64_t position,
                        const uring::PipeFds& pipe, size_t size_bytes) override;
  void ReadFile(uring::Token token, const File& file, int64_t position, const iovec* parts,
                int part_count) override;
  void WriteFile(uring::Token token, const File& file, int64_t position, const iovec* parts,
                 int part_count) override;
  void SyncFile(uring::Token token, const File& file) override;
  IoResult SendFileNow(int socket_fd, const File& file, int64_t position, size_t size_bytes,
                       bool more_follows) override;
  IoResult SplicePipeToSocketNow(const uring::PipeFds& pipe, int socket_fd, size_t size_bytes,
                                 bool more_follows) override;
  absl::StatusOr<uring::PipeFds> OpenPipe(size_t capacity_bytes) override;
  void ClosePipe(const uring::PipeFds& pipe) override;
  void Shutdown(int socket_fd, bool write_side_only) override;
  void Close(int fd) override;
  int64_t UnacknowledgedBytes(int socket_fd) override {
    return network_.UnacknowledgedBytes(socket_fd);
  }
  void SetResetOnClose(int socket_fd) override;
  IoResult SetSocketOption(int socket_fd, int level, int option, const void* value,
                           socklen_t value_size) override;
  IoResult PeerName(int socket_fd, sockaddr_storage* address, socklen_t* address_size) override;
  absl::Status ProvideBuffers(char* base, uint32_t size_bytes, uint32_t count) override;
  void ReturnBuffer(uint32_t id) override;
  absl::Status RegisterBuffers(absl::Span<const iovec> buffers) override;
  size_t SubmitAndReap(absl::Span<uring::Completion> out, int64_t wait_ns) override;
  void Wake() override { ++stats_.wakes; }
  uring::RingStats stats() const override { return stats_; }
  bool recv_is_multishot() const override { return options_.multishot_receive; }
  bool send_zero_copy_available() const override { return options_.zero_copy; }
  bool zero_copy_is_reported() const override { return options_.zero_copy; }

  size_t in_flight() const { return operations_.size(); }

 private:
  enum class Kind {
    kAccept,
    kReceiveProvided,
    kReceiveInto,
    kSend,
    kNotification,
    kPoll,
    kConnect,
    kCancel,
    kSplice,
    kRead,
    kWrite,
    kSync,
  };
  struct Operation {
    Kind kind;
    uring::Token token;
    int fd = -1;  // the socket, or the pipe's read end
    bool multishot = false;
    bool misses_reset = false;
    bool zero_copy = false;
    char* to = nullptr;
    size_t size_bytes = 0;
    std::vector<absl::string_view> parts;  // of a send: views of the caller's memory
    size_t done_bytes = 0;
    std::string snapshot;                // of a zero-copy send's bytes
    std::function<bool()> acknowledged;  // what its notification waits for
    uint32_t poll_mask = 0;
    uring::Token target;
    FileRef file;
    int64_t position = 0;
    const iovec* vector = nullptr;
    int vector_count = 0;
  };
  using Operations = std::list<Operation>;

  Operation& Queue(Kind kind, uring::Token token, int fd);
  void QueueSend(uring::Token token, int fd, std::vector<absl::string_view> parts, bool zero_copy);
  // Each answers whether the operation is retired.
  bool Attempt(Operation& operation);
  bool AttemptAccept(Operation& operation);
  bool AttemptReceiveProvided(Operation& operation);
  bool AttemptSend(Operation& operation);
  bool AttemptCancel(const Operation& operation);
  IoResult Splice(const Operation& operation);
  IoResult ReadOrWrite(const Operation& operation);
  void Complete(const Operation& operation, IoResult result, bool more = false,
                uint32_t buffer_id = uring::kNoBuffer);
  bool Mischief() {
    return options_.mischief_one_in != 0 && random_.OneIn(options_.mischief_one_in);
  }

  Random random_;
  const Options options_;
  SimNetwork& network_;
  Operations operations_;
  std::deque<uring::Completion> ready_;
  std::vector<Operations::iterator> cancelled_;  // by the cancel being attempted
  uring::RingStats stats_;
  size_t open_pipes_ = 0;

  char* buffer_base_ = nullptr;
  uint32_t buffer_size_bytes_ = 0;
  std::deque<uint32_t> buffers_;
  std::vector<bool> lent_;
};

}  // namespace gyre::sim

#endif  // GYRE_TESTS_SIMULATION_SIM_RING_H_
