#include "engine/network/listener_threads.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/network/memory_plan.h"

namespace gyre {

ListenerThreads::ListenerThreads(const SocketServerOptions& options,
                                 const std::vector<std::unique_ptr<ListenerRuntime>>& listeners)
    : server_options_(options),
      listeners_(listeners),
      num_network_threads_(options.num_network_threads),
      options_(options.listeners) {}

absl::Status ListenerThreads::SetServersNumber(int32_t num_network_threads) {
  MutexLock lock(mutex_);
  GYRE_RETURN_IF_ERROR(Resize(num_network_threads, options_));
  num_network_threads_ = num_network_threads;
  return absl::OkStatus();
}

absl::Status ListenerThreads::SetOwnNumbers(const std::vector<ListenerOptions>& options) {
  MutexLock lock(mutex_);
  GYRE_RETURN_IF_ERROR(Resize(num_network_threads_, options));
  options_ = options;
  return absl::OkStatus();
}

absl::Status ListenerThreads::Resize(int32_t num_network_threads,
                                     const std::vector<ListenerOptions>& options) {
  SocketServerOptions resized = server_options_;
  resized.num_network_threads = num_network_threads;
  resized.listeners = options;
  GYRE_RETURN_IF_ERROR(PlanMemory(resized).status(),
                       absl::StrCat(ProcessorCount(resized), " network threads"));
  for (size_t i = 0; i < listeners_.size(); ++i) {
    const int32_t count = NetworkThreadsOf(num_network_threads, options[i]);
    GYRE_RETURN_IF_ERROR(listeners_[i]->CheckNetworkThreads(count));
  }
  // Those that grow first, for they may fail; to shrink again does not.
  for (size_t i = 0; i < listeners_.size(); ++i) {
    const int32_t count = NetworkThreadsOf(num_network_threads, options[i]);
    if (count < CountBefore(i)) continue;
    absl::Status status = listeners_[i]->ResizeNetworkThreads(count);
    if (status.ok()) continue;
    for (size_t grown = 0; grown <= i; ++grown) {
      if (NetworkThreadsOf(num_network_threads, options[grown]) <= CountBefore(grown)) continue;
      listeners_[grown]->ResizeNetworkThreads(CountBefore(grown)).IgnoreError();
    }
    return status;
  }
  for (size_t i = 0; i < listeners_.size(); ++i) {
    const int32_t count = NetworkThreadsOf(num_network_threads, options[i]);
    if (count < CountBefore(i)) GYRE_RETURN_IF_ERROR(listeners_[i]->ResizeNetworkThreads(count));
  }
  return absl::OkStatus();
}

}  // namespace gyre
