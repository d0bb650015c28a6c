// Tells the service manager how the process is doing: sd_notify(3)'s protocol, one
// datagram to the socket named by $NOTIFY_SOCKET. Without one, nobody asked and
// nothing is told.
//
// Threads: any; const.
#ifndef GYRE_ENGINE_PROCESS_SERVICE_NOTIFIER_H_
#define GYRE_ENGINE_PROCESS_SERVICE_NOTIFIER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gyre {

class ServiceNotifier {
 public:
  // `address`: a path, or '@' and an abstract name; "": nobody asked.
  explicit ServiceNotifier(std::string address) : address_(std::move(address)) {}
  static ServiceNotifier FromEnvironment();

  bool asked() const { return !address_.empty(); }

  // Serving, under this process id (which differs from the one that was started after
  // a take-over).
  absl::Status Ready() const;
  absl::Status Stopping() const;
  // It is busy and may need this long from now on; without another word by then it hangs.
  absl::Status ExtendTimeout(int64_t timeout_ms) const;
  // One line for people: "recovering", "draining".
  absl::Status Status(absl::string_view text) const;

 private:
  // OK also when nobody asked. UNAVAILABLE names the socket and what failed.
  absl::Status Send(absl::string_view state) const;

  const std::string address_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_PROCESS_SERVICE_NOTIFIER_H_
