#include "engine/network/connection/zero_copy.h"

#include <cerrno>
#include <utility>

#include "glog/logging.h"

namespace gyre {

using uring::Completion;
using uring::OpKind;
using uring::Token;

ZeroCopySends::ZeroCopySends(uring::Ring& ring, const SlabPool& slab,
                             const ProcessorOptions& options, NetworkMetrics& metrics)
    : ring_(ring),
      slab_(slab),
      options_(options.connection),
      metrics_(metrics),
      available_(ring.send_zero_copy_available() && ring.zero_copy_is_reported()) {}

bool ZeroCopySends::ShouldUse(const ConnectionSlot& slot, int64_t bytes) const {
  const int64_t min_bytes = options_.zero_copy_min_bytes;
  const int64_t max_bytes = options_.zero_copy_max_pinned_bytes;
  return available_ && min_bytes >= 0 && bytes >= min_bytes && bytes > 0 && !slot.zero_copy_off &&
         bytes <= max_bytes / kConnectionShare - slot.zero_copy_pinned_bytes &&
         bytes <= max_bytes - pinned_bytes_;
}

void ZeroCopySends::Start(ConnectionSlot& slot, const iovec* parts, int count, int64_t bytes,
                          const msghdr* message, bool more_follows) {
  if (free_.empty()) {
    const auto made = static_cast<uint32_t>(records_.size());
    records_.push_back(std::make_unique<Record>(made));
    records_.back()->buffers.reserve(kGatherParts);
    free_.reserve(records_.capacity());
    free_.push_back(made);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Record& record = *records_[index];
  record.slot = &slot;
  record.bytes = bytes;
  ++record.generation;
  slot.output.HoldGathered(count, &record.buffers);
  slot.zero_copy_record = index;
  slot.zero_copy_pinned_bytes += static_cast<uint32_t>(bytes);
  pinned_bytes_ += bytes;
  slot.connection.OnZeroCopyPinned();
  metrics_.zero_copy_sends.Increment();
  metrics_.zero_copy_pinned_bytes.Add(bytes);

  const Token token{OpKind::kSendZeroCopy, index, record.generation};
  if (message != nullptr) {
    ring_.SendMessageZeroCopy(token, slot.fd, message, more_follows);
    return;
  }
  const char* const from = static_cast<const char*>(parts[0].iov_base);
  const size_t size_bytes = parts[0].iov_len;
  ring_.SendZeroCopy(token, slot.fd, from, size_bytes,
                     slab_registered_ ? slab_.RegisteredIndex(from, size_bytes) : -1, more_follows);
}

ZeroCopySends::Record* ZeroCopySends::Find(const Token& token) {
  if (token.slot >= records_.size()) return nullptr;
  Record& record = *records_[token.slot];
  return record.slot != nullptr && record.generation == token.generation ? &record : nullptr;
}

ConnectionSlot* ZeroCopySends::SlotOf(const Completion& completion) {
  const Record* record = Find(completion.token);
  return record == nullptr ? nullptr : record->slot;
}

bool ZeroCopySends::OnSent(const Completion& completion) {
  Record& record = *Find(completion.token);
  ConnectionSlot& slot = *record.slot;
  // No notification follows: nothing was pinned in the end.
  if (!completion.more) Free(record);
  const int error = completion.result.error();
  // The socket cannot, or the limit of locked memory is reached: as if it had not
  // been tried.
  if (error != EOPNOTSUPP && error != ENOMEM && error != ENOBUFS) return false;
  slot.zero_copy_off = true;
  return true;
}

void ZeroCopySends::OnNotification(const Completion& completion) {
  Record& record = *Find(completion.token);
  ConnectionSlot& slot = *record.slot;
  if (completion.zero_copy_copied) {
    metrics_.zero_copy_copied.Increment();
    if (++slot.zero_copy_copied >= kMaxCopied) slot.zero_copy_off = true;
  } else {
    slot.zero_copy_copied = 0;
  }
  Free(record);
}

void ZeroCopySends::Free(Record& record) {
  ConnectionSlot& slot = *std::exchange(record.slot, nullptr);
  slot.zero_copy_pinned_bytes -= static_cast<uint32_t>(record.bytes);
  pinned_bytes_ -= record.bytes;
  metrics_.zero_copy_pinned_bytes.Add(-record.bytes);
  slot.connection.OnZeroCopyReleased();
  record.buffers.clear();
  free_.push_back(record.index);
}

void ZeroCopySends::Cancel(ConnectionSlot& slot) {
  const Record& record = *records_[slot.zero_copy_record];
  DCHECK(record.slot == &slot);
  slot.connection.OnOperationSubmitted();
  ring_.Cancel(slot.TokenFor(OpKind::kCancel, Operation::kSend),
               Token{OpKind::kSendZeroCopy, slot.zero_copy_record, record.generation});
}

}  // namespace gyre
