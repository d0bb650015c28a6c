#include "engine/uring/file_ring.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "glog/logging.h"

namespace gyre::uring {

FileRing::FileRing(std::unique_ptr<Ring> ring, size_t max_in_flight)
    : ring_(std::move(ring)), slots_(max_in_flight) {
  free_slots_.reserve(max_in_flight);
  for (size_t slot = max_in_flight; slot > 0; --slot) {
    free_slots_.push_back(static_cast<uint32_t>(slot - 1));
  }
}

FileRing::~FileRing() { DCHECK_EQ(in_flight(), 0u) << "a file operation outlives its ring"; }

void FileRing::Submit(FileOperation* operation) {
  queue_.Push(operation);
  // Only the first of many has to wake the owner.
  if (parked_.load(std::memory_order_seq_cst) &&
      parked_.exchange(false, std::memory_order_seq_cst)) {
    ring_->Wake();
  }
}

void FileRing::OnThreadStart() {
  const absl::Status attached = ring_->Attach();
  CHECK(attached.ok()) << attached;
}

void FileRing::OnThreadStop() {
  // Submitters wait for their answers; a sync that is under way is not ours to
  // abandon.
  while (SubmitQueued() || in_flight() > 0 || !queue_.Empty()) Reap(in_flight() > 0 ? -1 : 0);
}

bool FileRing::RunOnce(int64_t now_ns) {
  const bool submitted = SubmitQueued();
  const size_t completed = Reap(0);
  return submitted || completed > 0;
}

void FileRing::Wait(int64_t now_ns, int64_t deadline_ns) {
  const int64_t wait_ns = deadline_ns == kNever ? -1 : std::max<int64_t>(deadline_ns - now_ns, 0);
  parked_.store(true, std::memory_order_seq_cst);
  // With every slot taken the queue cannot move, and a completion ends the wait.
  const bool may_sleep = queue_.Empty() || free_slots_.empty();
  Reap(may_sleep ? wait_ns : 0);
  parked_.store(false, std::memory_order_seq_cst);
}

void FileRing::Wake() { ring_->Wake(); }

bool FileRing::SubmitQueued() {
  bool any = false;
  while (!free_slots_.empty()) {
    MpscNode* node = queue_.Pop();
    if (node == nullptr) break;
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot].operation = static_cast<FileOperation*>(node);
    Start(slot);
    any = true;
  }
  return any;
}

void FileRing::Start(uint32_t slot) {
  const FileOperation& operation = *slots_[slot].operation;
  const Token token = {OpKind::kFile, slot, slots_[slot].generation};
  switch (operation.kind) {
    case FileOperation::Kind::kRead:
      ring_->ReadFile(token, *operation.file, operation.position, operation.parts,
                      operation.part_count);
      return;
    case FileOperation::Kind::kWrite:
      ring_->WriteFile(token, *operation.file, operation.position, operation.parts,
                       operation.part_count);
      return;
    case FileOperation::Kind::kSync:
      ring_->SyncFile(token, *operation.file);
      return;
  }
}

size_t FileRing::Reap(int64_t wait_ns) {
  Completion completions[64];
  const size_t count = ring_->SubmitAndReap(absl::MakeSpan(completions), wait_ns);
  for (size_t i = 0; i < count; ++i) OnCompletion(completions[i]);
  return count;
}

void FileRing::OnCompletion(const Completion& completion) {
  const uint32_t index = completion.token.slot;
  CHECK(index < slots_.size() && slots_[index].generation == completion.token.generation)
      << "a file completion that nobody waits for";
  Slot& slot = slots_[index];
  const int error = completion.result.error();
  // EAGAIN: not begun, for lack of memory or workers. EINTR: begun, which a
  // read or write may repeat but a sync must not (see PosixFile::Sync).
  if (error == EAGAIN || (error == EINTR && slot.operation->kind != FileOperation::Kind::kSync)) {
    Start(index);
    return;
  }
  FileOperation* operation = std::exchange(slot.operation, nullptr);
  ++slot.generation;
  free_slots_.push_back(index);
  operation->result = completion.result;
  // The last use: on_done may free it or submit it again.
  operation->on_done(operation);
}

}  // namespace gyre::uring
