// Zero-copy sends of one processor: when one pays, what each pins, and who it
// belongs to. A send gives two completions. The first says how many bytes left
// and frees the sending side for the next send; the second, the notification, may
// come much later, after the peer has acknowledged, in any order among sends, and
// only then may the bytes be written again.
//
// Each send is a numbered record that holds its buffers, and the record, not the
// connection's slot, is what the ring's token names: so a notification finds its
// bytes whatever the connection does meanwhile.
//
// Zero copy is switched off for a connection whose notifications say that the
// kernel copied after all (always on loopback), and whose socket refuses it.
// Where the kernel cannot say (before 6.2) it is not used: it would go on losing.
//
// Threads: owner (the processor).
// Owns: references to the buffers of sends whose notification is not in.
// Borrows: ring, slab, options, metrics.
// Invariant: a connection's pinned bytes are the sum over its records; both are
// zero when no record is in use, and no send takes them beyond the options' bounds.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_ZERO_COPY_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_ZERO_COPY_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/memory/slab_pool.h"
#include "engine/network/connection/connection_table.h"
#include "engine/network/network_metrics.h"
#include "engine/network/server_options.h"
#include "engine/uring/ring.h"

namespace gyre {

class ZeroCopySends {
 public:
  // One connection's part of zero_copy_max_pinned_bytes: one so many-th.
  static constexpr int64_t kConnectionShare = 8;
  // Notifications in a row that report a copy before a connection is given up on.
  static constexpr uint8_t kMaxCopied = 3;

  ZeroCopySends(uring::Ring& ring, const SlabPool& slab, const ProcessorOptions& options,
                NetworkMetrics& metrics);
  ZeroCopySends(const ZeroCopySends&) = delete;
  ZeroCopySends& operator=(const ZeroCopySends&) = delete;

  // The ring has the slab as fixed buffers. Once, before the first send.
  void OnSlabRegistered() { slab_registered_ = true; }

  // Shall `bytes`, gathered from the front of slot.output, go by zero copy?
  bool ShouldUse(const ConnectionSlot& slot, int64_t bytes) const;
  // Submits them: the `count` parts, in `message` where they are more than one.
  void Start(ConnectionSlot& slot, const iovec* parts, int count, int64_t bytes,
             const msghdr* message, bool more_follows);

  // Whose the completion is; null when it names a record that is not in use.
  ConnectionSlot* SlotOf(const uring::Completion& completion);
  // The first completion. True: the bytes that did not leave are to be sent again
  // without zero copy, which was refused.
  bool OnSent(const uring::Completion& completion);
  // The second one: the record is free.
  void OnNotification(const uring::Completion& completion);
  // Cancels the send in flight: its first completion comes as usual.
  void Cancel(ConnectionSlot& slot);

  int64_t pinned_bytes() const { return pinned_bytes_; }
  // What is pinned beyond the options' bound, after that was lowered: no more is, and the
  // peers' acknowledgements bring it down.
  int64_t excess_bytes() const {
    return std::max<int64_t>(0, pinned_bytes_ - options_.zero_copy_max_pinned_bytes);
  }
  size_t in_use() const { return records_.size() - free_.size(); }

 private:
  struct Record {
    explicit Record(uint32_t record_index) : index(record_index) {}

    ConnectionSlot* slot = nullptr;  // null: free
    const uint32_t index;
    uint32_t generation = 0;
    int64_t bytes = 0;
    std::vector<Buffer> buffers;  // with room for every part of a send
  };

  Record* Find(const uring::Token& token);
  void Free(Record& record);

  uring::Ring& ring_;
  const SlabPool& slab_;
  const ConnectionOptions& options_;  // as they are now
  NetworkMetrics& metrics_;
  const bool available_;
  bool slab_registered_ = false;
  int64_t pinned_bytes_ = 0;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<uint32_t> free_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_ZERO_COPY_H_
