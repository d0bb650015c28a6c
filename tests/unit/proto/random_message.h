// Random but well-formed encodings, made from descriptors alone: an oracle for the
// generated codecs that shares no code with them.
//
// The bytes are canonical: the only encoding of their message in that version, so that a
// codec has to reproduce them.
#ifndef GYRE_TESTS_UNIT_PROTO_RANDOM_MESSAGE_H_
#define GYRE_TESTS_UNIT_PROTO_RANDOM_MESSAGE_H_

#include <cstdint>
#include <random>
#include <string>

#include "proto/descriptor.h"

namespace gyre::proto {

class RandomMessage {
 public:
  explicit RandomMessage(uint64_t seed) : random_(seed) {}

  // The body of `message` in `version`, with null, empty, short and longer values, and now
  // and then tagged fields that the schema does not know.
  std::string Encode(const MessageDescriptor& message, int16_t version);

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  std::string Struct(const StructDescriptor& descriptor, bool random, int depth);
  std::string Value(const FieldDescriptor& field, bool random, int depth);
  std::string Element(const FieldDescriptor& field, bool random, int depth);
  std::string Tags(const StructDescriptor& descriptor, bool random, int depth);
  std::string Text();
  int64_t Number(int bits);

  std::mt19937_64 random_;
  int16_t version_ = 0;
  bool flexible_ = false;
};

}  // namespace gyre::proto

#endif  // GYRE_TESTS_UNIT_PROTO_RANDOM_MESSAGE_H_
