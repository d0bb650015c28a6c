// Bytes as hexadecimal text, with spaces where they help the eye.
#ifndef GYRE_TESTS_UNIT_PROTO_HEX_H_
#define GYRE_TESTS_UNIT_PROTO_HEX_H_

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

namespace gyre::proto {

inline std::string FromHex(absl::string_view hex) {
  return absl::HexStringToBytes(absl::StrReplaceAll(hex, {{" ", ""}}));
}

inline std::string ToHex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

// The encoding of `message`, checked against its EncodedSize.
template <typename Message>
std::string Encoded(const Message& message, int16_t version) {
  std::string bytes(message.EncodedSize(version), '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  message.Encode(writer, version);
  EXPECT_EQ(writer.size(), bytes.size());
  return bytes;
}

// Decodes all of `bytes`, which the caller keeps, since the message's views point there.
template <typename Message>
Message Decoded(const std::string& bytes, int16_t version) {
  wire::Reader reader(bytes);
  Message message;
  EXPECT_TRUE(message.Decode(reader, version)) << wire::ReadErrorName(reader.error());
  EXPECT_EQ(reader.remaining(), 0u);
  return message;
}

}  // namespace gyre::proto

#endif  // GYRE_TESTS_UNIT_PROTO_HEX_H_
