#include "engine/broker/request_context.h"

#include <utility>

#include "glog/logging.h"

namespace gyre {

NetworkSend AssembleResponse(Buffer buffer, const wire::Writer& writer,
                             absl::Span<FileSlice> slices) {
  if (writer.holes().empty()) return NetworkSend(std::move(buffer));
  NetworkSend send;
  uint32_t sent_bytes = 0;
  size_t next_slice = 0;
  for (const wire::Writer::Hole& hole : writer.holes()) {
    const uint32_t end = static_cast<uint32_t>(hole.position);
    send.Append(buffer.Slice(sent_bytes, end - sent_bytes));
    sent_bytes = end;
    size_t filled_bytes = 0;
    while (filled_bytes < hole.size) {
      CHECK_LT(next_slice, slices.size()) << "a hole of the response has no slice";
      filled_bytes += static_cast<size_t>(slices[next_slice].size_bytes);
      send.Append(std::move(slices[next_slice++]));
    }
    CHECK_EQ(filled_bytes, hole.size) << "a slice does not fit its hole";
  }
  buffer.RemovePrefix(sent_bytes);
  send.Append(std::move(buffer));
  return send;
}

void RequestContext::Send(Buffer buffer, const wire::Writer& writer, absl::Span<FileSlice> slices) {
  request_.Reply(AssembleResponse(std::move(buffer), writer, slices));
}

}  // namespace gyre
