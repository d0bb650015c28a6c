#include "engine/network/server_options.h"

namespace gyre {

bool ParseDispatch(absl::string_view text, Dispatch* out) {
  if (text == "pool")
    *out = Dispatch::kPool;
  else if (text == "inline")
    *out = Dispatch::kInline;
  else
    return false;
  return true;
}

bool ParseFileTransfer(absl::string_view text, FileTransfer* out) {
  if (text == "auto")
    *out = FileTransfer::kAuto;
  else if (text == "sendfile")
    *out = FileTransfer::kSendfile;
  else if (text == "splice")
    *out = FileTransfer::kSplice;
  else if (text == "copy")
    *out = FileTransfer::kCopy;
  else
    return false;
  return true;
}

}  // namespace gyre
