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

bool ParseAcceptMode(absl::string_view text, AcceptMode* out) {
  if (text == "acceptor")
    *out = AcceptMode::kAcceptor;
  else if (text == "reuseport")
    *out = AcceptMode::kReusePort;
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

int32_t NetworkThreadsOf(int32_t num_network_threads, const ListenerOptions& listener) {
  return listener.num_network_threads.value_or(listener.privileged ? 1 : num_network_threads);
}

int32_t NetworkThreadsOf(const SocketServerOptions& options, const ListenerOptions& listener) {
  return NetworkThreadsOf(options.num_network_threads, listener);
}

}  // namespace gyre
