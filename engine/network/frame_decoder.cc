#include "engine/network/frame_decoder.h"

#include "engine/base/endian.h"

namespace gyre {
namespace {

// What the first four bytes say when they are no size of ours.
const char* ReasonForPrefix(absl::string_view prefix, const char* otherwise) {
  for (absl::string_view method :
       {"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "TRAC", "PRI "}) {
    if (prefix == method) return "an HTTP request on this port";
  }
  if (prefix == "SSH-") return "an SSH client on this port";
  if (prefix[0] == 0x16 && prefix[1] == 0x03) return "a TLS handshake on a plaintext port";
  return otherwise;
}

}  // namespace

FrameDecoder::Verdict Int32LengthPrefixed::Inspect(absl::string_view bytes,
                                                   size_t seen_bytes) const {
  if (bytes.size() < sizeof(int32_t)) return Verdict::NeedMore();
  const int32_t payload_bytes = LoadBigEndian<int32_t>(bytes.data());
  const absl::string_view prefix = bytes.substr(0, sizeof(int32_t));
  if (payload_bytes < 0) {
    return Verdict::Invalid(ReasonForPrefix(prefix, "a negative request size"));
  }
  if (payload_bytes > max_payload_bytes_.load(std::memory_order_relaxed)) {
    return Verdict::Invalid(ReasonForPrefix(prefix, "a request larger than the limit"));
  }
  return Verdict::Frame(sizeof(int32_t), payload_bytes);
}

}  // namespace gyre
