#include "engine/network/connection/output_queue.h"

#include <algorithm>

#include "glog/logging.h"

namespace gyre {
namespace {

int64_t SizeOf(const NetworkSend::Part& part) {
  if (const Buffer* buffer = std::get_if<Buffer>(&part)) return buffer->size_bytes();
  return std::get<FileSlice>(part).size_bytes;
}

}  // namespace

void OutputQueue::Push(ConnectionRequest* request) {
  request->next_in_order = nullptr;
  if (last_ != nullptr) {
    last_->next_in_order = request;
  } else {
    first_ = request;
  }
  last_ = request;
  if (first_unready_ == nullptr) first_unready_ = request;
}

int32_t OutputQueue::MarkReady(ConnectionRequest* request) {
  request->ready = true;
  int32_t count = 0;
  while (first_unready_ != nullptr && first_unready_->ready) {
    first_unready_ = first_unready_->next_in_order;
    ++count;
  }
  return count;
}

int OutputQueue::Gather(iovec* parts, int max_parts, int64_t max_bytes, int64_t* bytes,
                        bool* more_follows) {
  *bytes = 0;
  *more_follows = false;
  int count = 0;
  uint32_t index = part_;
  int64_t offset = part_offset_;
  for (ConnectionRequest* request = first_; request != first_unready_;
       request = request->next_in_order) {
    if (request->response_kind() == ResponseKind::kCloseConnection) return count;
    auto& list = request->response().parts();
    for (; index < list.size(); ++index) {
      const Buffer* buffer = std::get_if<Buffer>(&list[index]);
      if (buffer == nullptr || count == max_parts || *bytes >= max_bytes) {
        *more_follows = true;
        return count;
      }
      const int64_t left = buffer->size_bytes() - offset;
      const int64_t take = std::min(left, max_bytes - *bytes);
      parts[count].iov_base = buffer->data() + offset;
      parts[count].iov_len = static_cast<size_t>(take);
      *bytes += take;
      offset = 0;
      ++count;
      if (take < left) {
        *more_follows = true;
        return count;
      }
    }
    index = 0;
  }
  return count;
}

void OutputQueue::HoldGathered(int count, std::vector<Buffer>* out) const {
  uint32_t index = part_;
  for (ConnectionRequest* request = first_; count > 0; request = request->next_in_order) {
    const auto& list = request->response().parts();
    for (; index < list.size() && count > 0; ++index, --count) {
      out->push_back(std::get<Buffer>(list[index]));
    }
    index = 0;
  }
}

bool OutputQueue::more_after_part() const {
  if (part_ + 1 < first_->response().parts().size()) return true;
  const ConnectionRequest* next = first_->next_in_order;
  return next != first_unready_ && next->response_kind() == ResponseKind::kSend &&
         !next->response_empty();
}

void OutputQueue::InsertBeforeSlice(Buffer bytes) {
  auto& list = front_parts();
  FileSlice& slice = std::get<FileSlice>(list[part_]);
  const int64_t used = part_offset_ + bytes.size_bytes();
  DCHECK_LE(used, slice.size_bytes);
  slice.position += used;
  slice.size_bytes -= used;
  part_offset_ = 0;
  if (slice.size_bytes == 0) {
    list[part_] = std::move(bytes);
  } else if (part_ > 0) {
    // In the place of one that has left.
    list[--part_] = std::move(bytes);
  } else {
    list.insert(list.begin(), std::move(bytes));
  }
}

void OutputQueue::Advance(int64_t bytes) {
  auto& list = front_parts();
  while (bytes > 0) {
    if (part_ == list.size()) {
      carried_bytes_ += bytes;
      return;
    }
    const int64_t left = SizeOf(list[part_]) - part_offset_;
    const int64_t take = std::min(left, bytes);
    bytes -= take;
    part_offset_ += take;
    if (take < left) return;
    list[part_] = Buffer();
    part_offset_ = 0;
    ++part_;
  }
}

ConnectionRequest* OutputQueue::Pop() {
  ConnectionRequest* request = first_;
  first_ = request->next_in_order;
  if (first_unready_ == request) first_unready_ = first_;
  if (first_ == nullptr) last_ = nullptr;
  part_ = 0;
  part_offset_ = 0;
  if (const int64_t carried = std::exchange(carried_bytes_, 0); carried > 0) Advance(carried);
  return request;
}

}  // namespace gyre
