#include "engine/network/connection/network_receive.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/limits.h"
#include "engine/memory/large_ranges.h"
#include "glog/logging.h"

namespace gyre {
namespace {

// Pieces up to this size do not keep a whole receive buffer waiting, but are packed into
// blocks. These are in proportion to what waits: the budget counts that, and many
// connections with a few bytes each must not hold much more.
constexpr uint32_t kPackBytes = 4096;
constexpr int64_t kLeastBlockBytes = 256;
constexpr int64_t kMostBlockBytes = 16 * 1024;
static_assert(kPackBytes <= kMostBlockBytes);
// The first assembly buffer; it grows by this factor.
constexpr uint32_t kFirstAssemblyBytes = 4096;
constexpr uint32_t kGrowth = 4;
// An undecided frame gathers so much without being charged: little beside what a
// connection takes, and a length prefix that came in two pieces waits for nobody.
constexpr int64_t kFreeBytes = 64;
constexpr int64_t kMaxFrameBytes = LargeRanges::kMaxRangeBytes;
static_assert(FrameDecoder::kMostUndecidedBytes == kSlabMaxBytes);

// What the decoder says, made safe: whoever serves a protocol of his own may be wrong, and
// sizes come off the wire.
FrameDecoder::Verdict Inspect(const FrameDecoder& decoder, absl::string_view bytes,
                              size_t seen_bytes, int64_t max_frame_bytes) {
  using Verdict = FrameDecoder::Verdict;
  const Verdict verdict = decoder.Inspect(bytes, seen_bytes);
  switch (verdict.kind) {
    case FrameDecoder::Kind::kNeedMore:
      return verdict;
    case FrameDecoder::Kind::kInvalid:
      return verdict.reason != nullptr ? verdict : Verdict::Invalid("no frame of its protocol");
    case FrameDecoder::Kind::kFrame:
      break;
  }
  if (verdict.payload_bytes < 0 || verdict.payload_bytes > kMaxFrameBytes - verdict.skip_bytes) {
    return Verdict::Invalid("a frame of a size that none may have");
  }
  if (verdict.skip_bytes + verdict.payload_bytes == 0) {
    return Verdict::Invalid("a frame without a byte");
  }
  if (verdict.skip_bytes + verdict.payload_bytes > max_frame_bytes) {
    return Verdict::Invalid("a request larger than the limit");
  }
  return verdict;
}

}  // namespace

void NetworkReceive::Append(Buffer bytes, ReceiveMemory& memory) {
  const uint32_t size_bytes = bytes.size_bytes();
  if (size_bytes == 0) return;
  pending_bytes_ += size_bytes;
  if (!pending_.empty() && size_bytes <= kPackBytes) {
    if (pending_.back().spare_bytes < size_bytes) {
      const auto block_bytes = static_cast<uint32_t>(std::max<int64_t>(
          size_bytes, std::clamp(2 * pending_bytes_, kLeastBlockBytes, kMostBlockBytes)));
      Buffer block = memory.Allocate(block_bytes);
      block.Truncate(0);
      pending_.PushBack({std::move(block), block_bytes}, memory);
    }
    ReceivedPieces::Piece& tail = pending_.back();
    std::memcpy(tail.bytes.data() + tail.bytes.size_bytes(), bytes.data(), size_bytes);
    tail.bytes.Truncate(tail.bytes.size_bytes() + size_bytes);
    tail.spare_bytes -= size_bytes;
    return;
  }
  pending_.PushBack({std::move(bytes), 0}, memory);
}

bool NetworkReceive::MayHoldFrame(const FrameDecoder& decoder) const {
  if (!has_unseen()) return false;
  if (assembling_) return total_bytes_ == 0 || assembled_bytes_ + pending_bytes_ >= total_bytes_;
  const FrameDecoder::Verdict verdict = Inspect(decoder, front().view(), 0, INT64_MAX);
  switch (verdict.kind) {
    case FrameDecoder::Kind::kNeedMore:
      return front().size_bytes() < pending_bytes_;
    case FrameDecoder::Kind::kFrame:
      return verdict.skip_bytes + verdict.payload_bytes <= pending_bytes_;
    case FrameDecoder::Kind::kInvalid:
      return false;
  }
  return true;
}

void NetworkReceive::DropFront(uint32_t bytes) {
  pending_bytes_ -= bytes;
  pending_.front().bytes.RemovePrefix(bytes);
  if (front().empty()) pending_.PopFront();
}

void NetworkReceive::PushFront(Buffer bytes, ReceiveMemory& memory) {
  if (bytes.empty()) return;
  pending_bytes_ += bytes.size_bytes();
  pending_.PushFront({std::move(bytes), 0}, memory);
}

NetworkReceive::Status NetworkReceive::Next(const FrameDecoder& decoder, ReceiveMemory& memory,
                                            Frame* frame, const char** reason) {
  if (!assembling_) {
    if (pending_bytes_ == 0) return Status::kNeedMore;
    const Buffer& bytes = front();
    const FrameDecoder::Verdict verdict = Inspect(decoder, bytes.view(), 0, memory.max_frame_bytes);
    switch (verdict.kind) {
      case FrameDecoder::Kind::kInvalid:
        *reason = verdict.reason;
        return Status::kInvalid;
      case FrameDecoder::Kind::kNeedMore:
        // Undecided: gather bytes in an assembly until the decoder can tell, so
        // that a slow peer holds no receive buffer.
        total_bytes_ = 0;
        skip_bytes_ = 0;
        seen_bytes_ = 0;
        large_ = false;
        assembling_ = true;
        break;
      case FrameDecoder::Kind::kFrame: {
        const int64_t total_bytes = verdict.skip_bytes + verdict.payload_bytes;
        if (total_bytes <= bytes.size_bytes()) {
          if (!memory.TryCharge(total_bytes, MemoryUse::kWhole)) return Status::kNoMemory;
          const auto payload_bytes = static_cast<uint32_t>(verdict.payload_bytes);
          frame->charged_bytes = total_bytes;
          if (memory.lent_too_many()) {
            frame->payload = memory.Allocate(payload_bytes);
            std::memcpy(frame->payload.data(), bytes.data() + verdict.skip_bytes, payload_bytes);
          } else {
            frame->payload = bytes.Slice(verdict.skip_bytes, payload_bytes);
          }
          DropFront(static_cast<uint32_t>(total_bytes));
          return Status::kFrame;
        }
        if (const Status status = StartAssembly(total_bytes, verdict.skip_bytes, memory);
            status != Status::kFrame) {
          return status;
        }
        break;
      }
    }
  }
  if (total_bytes_ == 0) {
    const Status status = DecideAssembly(decoder, memory, reason);
    if (status != Status::kFrame) return status;
  }
  const Status status = FillAssembly(memory);
  if (status == Status::kFrame) TakeAssembly(frame);
  return status;
}

// kFrame: the assembly is ready to be filled.
NetworkReceive::Status NetworkReceive::StartAssembly(int64_t total_bytes, uint32_t skip_bytes,
                                                     ReceiveMemory& memory) {
  if (total_bytes > kSlabMaxBytes) {
    Buffer range = memory.TryAllocateLarge(static_cast<uint32_t>(total_bytes));
    if (range.empty()) return Status::kNoMemory;
    if (assembled_bytes_ > 0) {
      std::memcpy(range.data(), assembly_.data(), static_cast<size_t>(assembled_bytes_));
    }
    assembly_ = std::move(range);
    large_ = true;
  } else {
    large_ = false;
  }
  total_bytes_ = total_bytes;
  skip_bytes_ = skip_bytes;
  assembling_ = true;
  return Status::kFrame;
}

void NetworkReceive::Grow(uint32_t capacity_bytes, ReceiveMemory& memory) {
  Buffer larger = memory.Allocate(capacity_bytes);
  if (assembled_bytes_ > 0) {
    std::memcpy(larger.data(), assembly_.data(), static_cast<size_t>(assembled_bytes_));
  }
  assembly_ = std::move(larger);
}

// kFrame: decided.
NetworkReceive::Status NetworkReceive::DecideAssembly(const FrameDecoder& decoder,
                                                      ReceiveMemory& memory, const char** reason) {
  // More than the largest frame is none, and could wait for memory for ever.
  const int64_t max_bytes =
      std::min({int64_t{decoder.max_undecided_bytes()}, int64_t{FrameDecoder::kMostUndecidedBytes},
                memory.max_frame_bytes});
  while (total_bytes_ == 0) {
    if (pending_bytes_ == 0) return Status::kNeedMore;
    const auto take = static_cast<uint32_t>(
        std::min<int64_t>(front().size_bytes(), max_bytes - assembled_bytes_));
    if (take == 0) {
      *reason = max_bytes < decoder.max_undecided_bytes()
                    ? "no end of the request's head within 256 KiB and the largest request"
                    : "no end of the request's head within the limit";
      return Status::kInvalid;
    }
    const int64_t needed_bytes = assembled_bytes_ + take;
    if (needed_bytes > assembly_.size_bytes()) {
      int64_t grown = std::max<int64_t>(int64_t{assembly_.size_bytes()} * kGrowth, kFreeBytes);
      grown = std::min(std::max(grown, needed_bytes), max_bytes);
      if (grown > kFreeBytes && !TryChargeUpTo(grown, memory)) return Status::kNoMemory;
      Grow(static_cast<uint32_t>(grown), memory);
    }
    std::memcpy(assembly_.data() + assembled_bytes_, front().data(), take);
    assembled_bytes_ += take;
    DropFront(take);
    const FrameDecoder::Verdict verdict =
        Inspect(decoder, assembly_.view().substr(0, static_cast<size_t>(assembled_bytes_)),
                seen_bytes_, memory.max_frame_bytes);
    seen_bytes_ = static_cast<uint32_t>(assembled_bytes_);
    switch (verdict.kind) {
      case FrameDecoder::Kind::kInvalid:
        *reason = verdict.reason;
        return Status::kInvalid;
      case FrameDecoder::Kind::kNeedMore:
        break;
      case FrameDecoder::Kind::kFrame: {
        const int64_t total_bytes = verdict.skip_bytes + verdict.payload_bytes;
        if (total_bytes < assembled_bytes_) {
          // More was gathered than the frame has: the rest goes back.
          const auto surplus = static_cast<uint32_t>(assembled_bytes_ - total_bytes);
          PushFront(assembly_.Slice(static_cast<uint32_t>(total_bytes), surplus), memory);
          assembled_bytes_ = total_bytes;
        }
        if (charged_bytes_ > total_bytes) {
          memory.Uncharge(std::exchange(charged_bytes_, total_bytes) - total_bytes,
                          MemoryUse::kPartial);
        }
        const Status status = StartAssembly(total_bytes, verdict.skip_bytes, memory);
        if (status != Status::kFrame) {
          // Asked again later, from the bytes that are gathered.
          PushFront(assembly_.Slice(0, static_cast<uint32_t>(assembled_bytes_)), memory);
          memory.Uncharge(std::exchange(charged_bytes_, 0), MemoryUse::kPartial);
          assembled_bytes_ = 0;
          assembly_.Reset();
          assembling_ = false;
          return status;
        }
        break;
      }
    }
  }
  return Status::kFrame;
}

NetworkReceive::Status NetworkReceive::FillAssembly(ReceiveMemory& memory) {
  const bool whole = assembled_bytes_ + pending_bytes_ >= total_bytes_;
  if (whole) {
    // All of it is here. What it lacks is charged at once, so that nothing that counts as
    // whole ever waits.
    const int64_t lacking_bytes = total_bytes_ - charged_bytes_;
    if (lacking_bytes > 0 && !memory.TryCharge(lacking_bytes, MemoryUse::kWhole)) {
      return Status::kNoMemory;
    }
    memory.MakeWhole(std::exchange(charged_bytes_, 0));
  }
  while (assembled_bytes_ < total_bytes_) {
    if (pending_bytes_ == 0) return Status::kNeedMore;
    const auto take = static_cast<uint32_t>(
        std::min<int64_t>(front().size_bytes(), total_bytes_ - assembled_bytes_));
    const int64_t needed_bytes = assembled_bytes_ + take;
    if (large_ && !whole && !TryChargeUpTo(InRange(needed_bytes), memory)) {
      return Status::kNoMemory;
    }
    if (!large_ && needed_bytes > assembly_.size_bytes()) {
      int64_t grown =
          std::max<int64_t>(int64_t{assembly_.size_bytes()} * kGrowth, kFirstAssemblyBytes);
      // Whatever is here already came: no more than the whole frame is ever taken.
      grown = whole ? total_bytes_ : std::min(std::max(grown, needed_bytes), total_bytes_);
      if (!whole && !TryChargeUpTo(grown, memory)) return Status::kNoMemory;
      Grow(static_cast<uint32_t>(grown), memory);
    }
    std::memcpy(assembly_.data() + assembled_bytes_, front().data(), take);
    assembled_bytes_ += take;
    DropFront(take);
  }
  return Status::kFrame;
}

int64_t NetworkReceive::InRange(int64_t bytes) const {
  const int64_t pages_bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return std::min(pages_bytes, total_bytes_);
}

bool NetworkReceive::TryChargeUpTo(int64_t bytes, ReceiveMemory& memory) {
  if (bytes <= charged_bytes_) return true;
  if (!memory.TryCharge(bytes - charged_bytes_, MemoryUse::kPartial)) return false;
  charged_bytes_ = bytes;
  return true;
}

void NetworkReceive::TakeAssembly(Frame* frame) {
  frame->payload = assembly_.Slice(skip_bytes_, static_cast<uint32_t>(total_bytes_ - skip_bytes_));
  frame->charged_bytes = total_bytes_;
  assembly_.Reset();
  assembling_ = false;
  large_ = false;
  assembled_bytes_ = 0;
  total_bytes_ = 0;
}

bool NetworkReceive::TakeUnfinished(Frame* frame, ReceiveMemory& memory) {
  if (!assembling_ || large_ || assembled_bytes_ == 0) return false;
  total_bytes_ = assembled_bytes_;
  skip_bytes_ = 0;
  TakeAssembly(frame);
  frame->charged_bytes = std::exchange(charged_bytes_, 0);
  memory.MakeWhole(frame->charged_bytes);
  return true;
}

NetworkReceive::Target NetworkReceive::direct_target(size_t max_bytes) const {
  return Target{assembly_.data() + assembled_bytes_,
                std::min(max_bytes, static_cast<size_t>(total_bytes_ - assembled_bytes_))};
}

int64_t NetworkReceive::TryChargeDirect(int64_t max_bytes, ReceiveMemory& memory) {
  const int64_t end = std::min(assembled_bytes_ + max_bytes, total_bytes_);
  if (TryChargeUpTo(InRange(end), memory)) return end - assembled_bytes_;
  // The rest of the last page is charged already.
  return charged_bytes_ - assembled_bytes_;
}

void NetworkReceive::OnDirectDone(int64_t bytes, ReceiveMemory& memory) {
  assembled_bytes_ += bytes;
  const int64_t held_bytes = InRange(assembled_bytes_);
  if (held_bytes >= charged_bytes_) return;
  memory.Uncharge(std::exchange(charged_bytes_, held_bytes) - held_bytes, MemoryUse::kPartial);
}

void NetworkReceive::MoveTo(NetworkReceive* to, ReceiveMemory& memory) {
  DCHECK(to->pending_.empty() && !to->assembling_);
  Buffer block;
  uint32_t room_bytes = 0;
  int64_t left_bytes = pending_bytes_;
  for (; !pending_.empty(); pending_.PopFront()) {
    absl::string_view bytes = front().view();
    while (!bytes.empty()) {
      if (room_bytes == 0) {
        if (block.block() != nullptr) to->pending_.PushBack({std::move(block), 0}, memory);
        room_bytes = static_cast<uint32_t>(std::min<int64_t>(left_bytes, kSlabMaxBytes));
        block = memory.Allocate(room_bytes);
        block.Truncate(0);
      }
      const auto take = static_cast<uint32_t>(std::min<size_t>(bytes.size(), room_bytes));
      std::memcpy(block.data() + block.size_bytes(), bytes.data(), take);
      block.Truncate(block.size_bytes() + take);
      room_bytes -= take;
      left_bytes -= take;
      bytes.remove_prefix(take);
    }
  }
  if (block.block() != nullptr) to->pending_.PushBack({std::move(block), 0}, memory);
  to->pending_bytes_ = pending_bytes_;
  to->seen_bytes_ = seen_bytes_;
  to->assembly_ = std::move(assembly_);
  to->assembled_bytes_ = assembled_bytes_;
  to->total_bytes_ = total_bytes_;
  to->charged_bytes_ = charged_bytes_;
  to->skip_bytes_ = skip_bytes_;
  to->assembling_ = assembling_;
  to->large_ = large_;
  charged_bytes_ = 0;
  Clear(memory);
}

void NetworkReceive::Clear(ReceiveMemory& memory) {
  if (charged_bytes_ > 0) memory.Uncharge(std::exchange(charged_bytes_, 0), MemoryUse::kPartial);
  pending_.Clear();
  pending_bytes_ = 0;
  assembly_.Reset();
  assembling_ = false;
  large_ = false;
  assembled_bytes_ = 0;
  total_bytes_ = 0;
}

}  // namespace gyre
