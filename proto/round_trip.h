// Bytes through the codec of one message type and back: the body of descriptors'
// round_trip.
#ifndef GYRE_PROTO_ROUND_TRIP_H_
#define GYRE_PROTO_ROUND_TRIP_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/descriptor.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

namespace gyre::proto {

// Encodes into exactly EncodedSize bytes; false if Encode leaves some unwritten (writing
// too many stops the process).
template <typename Message>
bool EncodeExactly(const Message& message, int16_t version, std::string* to) {
  to->assign(message.EncodedSize(version), '\0');
  wire::Writer writer(to->data(), to->size());
  message.Encode(writer, version);
  return writer.size() == to->size();
}

template <typename Message>
RoundTripResult RoundTrip(absl::string_view bytes, int16_t version) {
  RoundTripResult result;
  wire::Reader reader(bytes);
  Message message;
  result.decoded = message.Decode(reader, version);
  result.error = reader.error();
  if (!result.decoded) return result;
  result.consumed = bytes.size() - reader.remaining();
  result.size_exact = EncodeExactly(message, version, &result.encoded);

  wire::Reader again(result.encoded);
  Message copy;
  if (!copy.Decode(again, version) || again.remaining() != 0) return result;
  result.equal = copy == message;
  std::string encoded_again;
  result.stable = EncodeExactly(copy, version, &encoded_again) && encoded_again == result.encoded;
  return result;
}

}  // namespace gyre::proto

#endif  // GYRE_PROTO_ROUND_TRIP_H_
