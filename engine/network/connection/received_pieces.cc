#include "engine/network/connection/received_pieces.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "engine/base/limits.h"
#include "engine/network/connection/network_receive.h"
#include "glog/logging.h"

namespace gyre {
namespace {

constexpr uint32_t kLeastBytes = 256;

}  // namespace

void ReceivedPieces::PushBack(Piece piece, ReceiveMemory& memory) {
  DCHECK(piece.bytes.block() != nullptr);
  if (empty()) {
    front_ = std::move(piece);
    return;
  }
  MakeRoom(memory);
  std::construct_at(&more_->pieces()[more_->end++], std::move(piece));
}

void ReceivedPieces::PushFront(Piece piece, ReceiveMemory& memory) {
  if (!empty()) {
    MakeRoom(memory);
    std::construct_at(&more_->pieces()[--more_->first], std::move(front_));
  }
  front_ = std::move(piece);
}

void ReceivedPieces::PopFront() {
  if (more_ == nullptr) {
    front_ = Piece();
    return;
  }
  Piece* const next = &more_->pieces()[more_->first++];
  front_ = std::move(*next);
  std::destroy_at(next);
  // The block holds its own last reference.
  if (more_->first == more_->end) Buffer(std::move(std::exchange(more_, nullptr)->memory)).Reset();
}

void ReceivedPieces::Clear() {
  while (!empty()) PopFront();
}

void ReceivedPieces::MakeRoom(ReceiveMemory& memory) {
  if (more_ != nullptr && more_->first > 0 && more_->end < more_->capacity) return;
  const uint32_t count = more_ == nullptr ? 0 : more_->end - more_->first;
  // As many again: a new piece moves few old ones on the average.
  const uint32_t wanted_bytes = std::max<uint32_t>(
      kLeastBytes, static_cast<uint32_t>(sizeof(More) + 2 * count * sizeof(Piece)));
  Buffer larger = wanted_bytes <= kSlabMaxBytes ? memory.Allocate(wanted_bytes)
                                                : Buffer::Allocate(wanted_bytes);
  More* const more = new (larger.data()) More;
  more->capacity = (larger.size_bytes() - sizeof(More)) / sizeof(Piece);
  more->first = more->end = std::max<uint32_t>(1, (more->capacity - count) / 4);
  more->memory = std::move(larger);
  for (uint32_t i = 0; i < count; ++i) {
    Piece* const old = &more_->pieces()[more_->first + i];
    std::construct_at(&more->pieces()[more->end++], std::move(*old));
    std::destroy_at(old);
  }
  if (more_ != nullptr) Buffer(std::move(more_->memory)).Reset();
  more_ = more;
}

}  // namespace gyre
