// The tagged fields of one struct that its schema does not name. They are kept, and
// written back when the struct is encoded again.
//
// Threads: as a value.
// Borrows: the bytes they were decoded from.
// Invariant: tags ascend and none occurs twice.
#ifndef GYRE_PROTO_WIRE_TAGGED_FIELDS_H_
#define GYRE_PROTO_WIRE_TAGGED_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace gyre::wire {

class Writer;

struct TaggedField {
  uint32_t tag;
  absl::string_view value;

  bool operator==(const TaggedField&) const = default;
};

class TaggedFields {
 public:
  bool empty() const { return fields_.empty(); }
  size_t size() const { return fields_.size(); }
  const TaggedField& operator[](size_t index) const { return fields_[index]; }
  const TaggedField* begin() const { return fields_.data(); }
  const TaggedField* end() const { return fields_.data() + fields_.size(); }

  // `tag` must be above every tag added before.
  void Add(uint32_t tag, absl::string_view value);

  // Bytes of the fields, without the count that precedes them.
  size_t EncodedSize() const;

  // Writes the fields from `index` on whose tag is below `tag`, and returns the index of
  // the first that was not written. This merges them with the struct's own tags.
  size_t EncodeBelow(Writer& writer, size_t index, uint64_t tag) const;

  // Writes all fields.
  void Encode(Writer& writer) const { EncodeBelow(writer, 0, UINT64_MAX); }

  bool operator==(const TaggedFields&) const = default;

 private:
  std::vector<TaggedField> fields_;
};

}  // namespace gyre::wire

#endif  // GYRE_PROTO_WIRE_TAGGED_FIELDS_H_
