// The value of a `records` field: record batches, or the fact that they follow from
// somewhere else.
//
// Threads: immutable value.
// Borrows: the bytes it was made from.
#ifndef GYRE_PROTO_WIRE_RECORDS_VIEW_H_
#define GYRE_PROTO_WIRE_RECORDS_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace gyre::wire {

class RecordsView {
 public:
  // No records; written with length zero.
  constexpr RecordsView() = default;

  // Record batches in memory.
  constexpr RecordsView(absl::string_view bytes)  // NOLINT: a view like any other
      : data_(bytes.data()), size_(bytes.size()), kind_(Kind::kBytes) {}

  static constexpr RecordsView Null() { return RecordsView(nullptr, 0, Kind::kNull); }

  // `size_bytes` bytes that are not in memory: a slice of a file. The Writer writes the
  // length and leaves a hole, which the sender fills with the slice.
  static constexpr RecordsView External(size_t size_bytes) {
    return RecordsView(nullptr, size_bytes, Kind::kExternal);
  }

  constexpr bool is_null() const { return kind_ == Kind::kNull; }
  constexpr bool is_external() const { return kind_ == Kind::kExternal; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }

  // The bytes in memory; empty for null and external records.
  constexpr absl::string_view bytes() const {
    return kind_ == Kind::kBytes ? absl::string_view(data_, size_) : absl::string_view();
  }

  // Equal kinds and sizes, and for bytes in memory equal contents.
  friend bool operator==(const RecordsView& a, const RecordsView& b) {
    return a.kind_ == b.kind_ && a.size_ == b.size_ && a.bytes() == b.bytes();
  }

 private:
  enum class Kind : uint8_t { kBytes, kNull, kExternal };

  constexpr RecordsView(const char* data, size_t size, Kind kind)
      : data_(data), size_(size), kind_(kind) {}

  const char* data_ = nullptr;
  size_t size_ = 0;
  Kind kind_ = Kind::kBytes;
};

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_RECORDS_VIEW_H_
