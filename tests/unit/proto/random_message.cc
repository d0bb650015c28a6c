#include "tests/unit/proto/random_message.h"

#include <map>

namespace gyre::proto {
namespace {

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
    text.push_back(static_cast<char>(value >> shift));
  }
  return text;
}

std::string Uvarint(uint64_t value) {
  std::string text;
  for (; value > 127; value /= 128) text.push_back(static_cast<char>(value % 128 + 128));
  text.push_back(static_cast<char>(value));
  return text;
}

int FixedBytes(FieldType type) {
  switch (type) {
    case FieldType::kBool:
    case FieldType::kInt8:
      return 1;
    case FieldType::kInt16:
    case FieldType::kUint16:
    case FieldType::kError:
      return 2;
    case FieldType::kInt32:
    case FieldType::kUint32:
      return 4;
    case FieldType::kInt64:
    case FieldType::kFloat64:
      return 8;
    case FieldType::kUuid:
      return 16;
    case FieldType::kString:
    case FieldType::kBytes:
    case FieldType::kRecords:
    case FieldType::kStruct:
      return 0;
  }
  return 0;
}

}  // namespace

std::string RandomMessage::Encode(const MessageDescriptor& message, int16_t version) {
  version_ = version;
  flexible_ = message.FlexibleIn(version);
  return Struct(*message.root, true, 0);
}

int64_t RandomMessage::Number(int bits) {
  const int64_t max = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  switch (Below(6)) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return max;
    case 3:
      return -max - 1;
    case 4:
      return static_cast<int64_t>(Below(100));
    default:
      return static_cast<int64_t>(random_());
  }
}

std::string RandomMessage::Text() {
  constexpr size_t kSizes[] = {0, 1, 2, 5, 11, 126, 127, 128, 300};
  std::string text(kSizes[OneIn(8) ? Below(9) : Below(5)], '\0');
  for (char& c : text) c = static_cast<char>('a' + Below(26));
  return text;
}

std::string RandomMessage::Struct(const StructDescriptor& descriptor, bool random, int depth) {
  std::string bytes;
  for (const FieldDescriptor& field : descriptor.fields) {
    if (field.InVersion(version_) && field.tag < 0) bytes += Value(field, random, depth);
  }
  if (flexible_) bytes += Tags(descriptor, random, depth);
  return bytes;
}

std::string RandomMessage::Tags(const StructDescriptor& descriptor, bool random, int depth) {
  std::map<uint32_t, std::string> tags;
  if (random && OneIn(4)) {
    tags[static_cast<uint32_t>(Below(12))] = Text();
    tags[static_cast<uint32_t>(random_())] = Text();
  }
  for (const FieldDescriptor& field : descriptor.fields) {
    if (field.tag < 0 || !field.InVersion(version_)) continue;
    const uint32_t tag = static_cast<uint32_t>(field.tag);
    tags.erase(tag);
    if (!random) continue;
    const std::string value = Value(field, true, depth);
    if (value != Value(field, false, depth)) tags[tag] = value;
  }
  std::string bytes = Uvarint(tags.size());
  for (const auto& [tag, value] : tags) bytes += Uvarint(tag) + Uvarint(value.size()) + value;
  return bytes;
}

std::string RandomMessage::Value(const FieldDescriptor& field, bool random, int depth) {
  const bool compact = flexible_ && !field.classic;
  const bool null = field.NullableIn(version_) && (random ? OneIn(4) : field.default_null);
  if (!field.array && field.type == FieldType::kStruct) {
    std::string prefix;
    if (field.NullableIn(version_)) {
      prefix = field.tag >= 0 ? BigEndian(null ? 0 : 1, 1) : BigEndian(null ? 255 : 1, 1);
    }
    return null ? prefix : prefix + Struct(*field.element, random, depth + 1);
  }
  if (!field.array) {
    if (null) {
      if (compact) return Uvarint(0);
      return BigEndian(UINT64_MAX, field.type == FieldType::kString ? 2 : 4);
    }
    return Element(field, random, depth);
  }
  if (null) return compact ? Uvarint(0) : BigEndian(UINT64_MAX, 4);
  uint64_t count = 0;
  if (random)
    count = OneIn(40) && field.type != FieldType::kStruct ? 130 : Below(depth > 2 ? 2 : 4);
  std::string bytes = compact ? Uvarint(count + 1) : BigEndian(count, 4);
  for (uint64_t i = 0; i < count; ++i) bytes += Element(field, true, depth);
  return bytes;
}

// A value that is neither null nor an array: an element, or a field of its own.
std::string RandomMessage::Element(const FieldDescriptor& field, bool random, int depth) {
  const bool compact = flexible_ && !field.classic;
  const int fixed = FixedBytes(field.type);
  const uint64_t number = static_cast<uint64_t>(
      random ? Number(fixed == 0 || fixed == 16 ? 64 : fixed * 8) : field.default_number);
  switch (field.type) {
    case FieldType::kStruct:
      return Struct(*field.element, random, depth + 1);
    case FieldType::kString: {
      const std::string text = random ? Text() : "";
      return (compact ? Uvarint(text.size() + 1) : BigEndian(text.size(), 2)) + text;
    }
    case FieldType::kBytes:
    case FieldType::kRecords: {
      const std::string text = random ? Text() : "";
      return (compact ? Uvarint(text.size() + 1) : BigEndian(text.size(), 4)) + text;
    }
    case FieldType::kBool:
      return BigEndian(number & 1, 1);
    case FieldType::kFloat64:
      // Small multiples of a quarter; never NaN, which equals nothing.
      return random ? BigEndian(0x3fd0000000000000 + (Below(64) << 44), 8) : BigEndian(0, 8);
    case FieldType::kUuid:
      return BigEndian(number, 8) + BigEndian(random ? Below(3) : 0, 8);
    case FieldType::kInt8:
    case FieldType::kInt16:
    case FieldType::kUint16:
    case FieldType::kInt32:
    case FieldType::kUint32:
    case FieldType::kInt64:
    case FieldType::kError:
      return BigEndian(number, fixed);
  }
  return "";
}

}  // namespace gyre::proto
