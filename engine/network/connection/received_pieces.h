// What one connection received and has not looked at, piece by piece and in order. The
// first piece lies in place: rarely is there another. Those behind it are kept in slab
// memory while there are any, because an I/O thread that takes them must not allocate.
//
// Threads: owner (the connection's processor).
// Owns: the pieces.
// Invariant: `more_` is null while there are fewer than two.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_RECEIVED_PIECES_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_RECEIVED_PIECES_H_

#include <cstdint>

#include "engine/memory/buffer.h"

namespace gyre {

class ReceiveMemory;

class ReceivedPieces {
 public:
  struct Piece {
    Buffer bytes;
    uint32_t spare_bytes = 0;  // free room behind `bytes`, ours to append to
  };

  ReceivedPieces() = default;
  ReceivedPieces(const ReceivedPieces&) = delete;
  ReceivedPieces& operator=(const ReceivedPieces&) = delete;
  ~ReceivedPieces() { Clear(); }

  bool empty() const { return front_.bytes.block() == nullptr; }
  // Not of an empty one, nor back and PopFront.
  Piece& front() { return front_; }
  const Piece& front() const { return front_; }
  Piece& back() { return more_ == nullptr ? front_ : more_->pieces()[more_->end - 1]; }

  // `piece` has a block.
  void PushBack(Piece piece, ReceiveMemory& memory);
  void PushFront(Piece piece, ReceiveMemory& memory);
  void PopFront();
  void Clear();

 private:
  // The head of the memory that the others lie in.
  struct More {
    Buffer memory;  // this
    uint32_t first = 0;
    uint32_t end = 0;
    uint32_t capacity = 0;
    Piece* pieces() { return reinterpret_cast<Piece*>(this + 1); }
  };

  // Room for one at the end, and for one before the first.
  void MakeRoom(ReceiveMemory& memory);

  Piece front_;
  More* more_ = nullptr;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_RECEIVED_PIECES_H_
