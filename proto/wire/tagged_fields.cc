#include "proto/wire/tagged_fields.h"

#include "glog/logging.h"
#include "proto/wire/varint.h"
#include "proto/wire/writer.h"

namespace gyre::wire {

void TaggedFields::Add(uint32_t tag, absl::string_view value) {
  DCHECK(fields_.empty() || fields_.back().tag < tag);
  fields_.push_back({tag, value});
}

size_t TaggedFields::EncodedSize() const {
  size_t size = 0;
  for (const TaggedField& field : fields_) size += TaggedSize(field.tag, field.value.size());
  return size;
}

size_t TaggedFields::EncodeBelow(Writer& writer, size_t index, uint64_t tag) const {
  for (; index < fields_.size() && fields_[index].tag < tag; ++index) {
    writer.WriteTag(fields_[index].tag, fields_[index].value.size());
    writer.WriteRaw(fields_[index].value);
  }
  return index;
}

}  // namespace gyre::wire
