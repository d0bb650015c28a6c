// A request or response as one frame: int32 size, header, body.
#ifndef GYRE_PROTO_FRAME_H_
#define GYRE_PROTO_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/api_info.h"
#include "proto/request_header.h"
#include "proto/response_header.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

namespace gyre::proto {

inline constexpr size_t kFrameSizePrefix = 4;

// Reads the header of a request, whose version follows from the api key and version that
// it starts with. `reader` starts after the size prefix and is left at the body. False,
// with the reader failed, when the header is malformed. The api may be one that nobody
// knows: its header is taken as not flexible.
bool DecodeRequestHeader(wire::Reader& reader, RequestHeader& header);

// Reads the header of the response to a request of this api and version.
bool DecodeResponseHeader(wire::Reader& reader, ApiKey key, int16_t version,
                          ResponseHeader& header);

// Bytes that EncodeResponse writes. External records are not among them.
template <typename Response>
size_t ResponseSize(const Response& response, int16_t version) {
  return kFrameSizePrefix +
         ResponseHeader().EncodedSize(ResponseHeaderVersion(Response::kApiKey, version)) +
         response.EncodedSize(version);
}

// Writes size prefix, header and body to a writer at its start. The prefix counts the
// external records, which the sender puts into the writer's holes.
template <typename Response>
void EncodeResponse(wire::Writer& writer, const Response& response, int32_t correlation_id,
                    int16_t version) {
  writer.WriteInt32(0);
  ResponseHeader header;
  header.correlation_id = correlation_id;
  header.Encode(writer, ResponseHeaderVersion(Response::kApiKey, version));
  response.Encode(writer, version);
  writer.PatchInt32(
      0, static_cast<int32_t>(writer.size() + writer.external_size() - kFrameSizePrefix));
}

// The same for a request, which is what clients, brokers as clients and tests send.
template <typename Request>
size_t RequestSize(const Request& request, absl::string_view client_id, int16_t version) {
  RequestHeader header;
  header.client_id = client_id;
  return kFrameSizePrefix + header.EncodedSize(RequestHeaderVersion(Request::kApiKey, version)) +
         request.EncodedSize(version);
}

template <typename Request>
void EncodeRequest(wire::Writer& writer, const Request& request, absl::string_view client_id,
                   int32_t correlation_id, int16_t version) {
  writer.WriteInt32(0);
  RequestHeader header;
  header.request_api_key = static_cast<int16_t>(Request::kApiKey);
  header.request_api_version = version;
  header.correlation_id = correlation_id;
  header.client_id = client_id;
  header.Encode(writer, RequestHeaderVersion(Request::kApiKey, version));
  request.Encode(writer, version);
  writer.PatchInt32(
      0, static_cast<int32_t>(writer.size() + writer.external_size() - kFrameSizePrefix));
}

}  // namespace gyre::proto

#endif  // GYRE_PROTO_FRAME_H_
