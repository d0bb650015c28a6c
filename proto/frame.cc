#include "proto/frame.h"

namespace gyre::proto {

bool DecodeRequestHeader(wire::Reader& reader, RequestHeader& header) {
  wire::Reader ahead = reader;
  const ApiKey key = static_cast<ApiKey>(ahead.ReadInt16());
  const int16_t version = ahead.ReadInt16();
  return header.Decode(reader, RequestHeaderVersion(key, version));
}

bool DecodeResponseHeader(wire::Reader& reader, ApiKey key, int16_t version,
                          ResponseHeader& header) {
  return header.Decode(reader, ResponseHeaderVersion(key, version));
}

}  // namespace gyre::proto
