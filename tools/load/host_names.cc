#include "tools/load/host_names.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/concurrent/mutex.h"

namespace gyre::load {
namespace {

// What was found longer ago is looked up again, beside its use.
constexpr int64_t kFreshNs = 30'000'000'000;
// How often a wait looks whether it was interrupted.
constexpr int64_t kLookNs = 50'000'000;

absl::StatusOr<SocketAddress> AddressInfo(const std::string& host, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("\"", host, "\": ", gai_strerror(error)));
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

SocketAddress WithPort(SocketAddress address, uint16_t port) {
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  }
  return address;
}

absl::Status NotYet(const std::string& host) {
  return absl::UnavailableError(absl::StrCat("\"", host, "\": its address is being looked up"));
}

}  // namespace

struct HostNames::Known {
  struct Host {
    bool under_way = false;
    std::optional<SocketAddress> address;
    absl::Status failure;  // of the last look-up
    int64_t looked_up_ns = 0;
  };

  explicit Known(LookUp look_up_host) : look_up(std::move(look_up_host)) {}

  // What is known of the host; a look-up begins where that is nothing, a failure or old.
  static Host Ask(const std::shared_ptr<Known>& known, const std::string& host);

  const LookUp look_up;
  Mutex mutex;
  CondVar changed;
  std::map<std::string, Host> hosts ABSL_GUARDED_BY(mutex);
};

HostNames::Known::Host HostNames::Known::Ask(const std::shared_ptr<Known>& known,
                                             const std::string& host) {
  MutexLock lock(known->mutex);
  Host& entry = known->hosts[host];
  const int64_t now_ns = Clock::Real().NowNs();
  const bool fresh = entry.address.has_value() && now_ns - entry.looked_up_ns < kFreshNs;
  if (entry.under_way || fresh) return entry;
  entry.under_way = true;
  std::thread([known, host] {
    absl::StatusOr<SocketAddress> found = known->look_up(host);
    MutexLock end(known->mutex);
    Host& looked_up = known->hosts[host];
    looked_up.under_way = false;
    looked_up.failure = found.status();
    looked_up.looked_up_ns = Clock::Real().NowNs();
    if (found.ok()) looked_up.address = *std::move(found);
    known->changed.NotifyAll();
  }).detach();
  return entry;
}

HostNames::HostNames() : HostNames([](const std::string& host) { return AddressInfo(host, 0); }) {}

HostNames::HostNames(LookUp look_up) : known_(std::make_shared<Known>(std::move(look_up))) {}

absl::StatusOr<SocketAddress> HostNames::Find(const std::string& host, uint16_t port) {
  const absl::StatusOr<SocketAddress> literal = AddressInfo(host, AI_NUMERICHOST);
  if (literal.ok()) return WithPort(*literal, port);
  const Known::Host known = Known::Ask(known_, host);
  if (known.address.has_value()) return WithPort(*known.address, port);
  return known.failure.ok() ? NotYet(host) : known.failure;
}

absl::StatusOr<SocketAddress> HostNames::Await(const std::string& host, uint16_t port,
                                               int64_t timeout_ns,
                                               const std::atomic<bool>& interrupted) {
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ns;
  absl::StatusOr<SocketAddress> found = Find(host, port);
  while (!found.ok()) {
    MutexLock lock(known_->mutex);
    const Known::Host& entry = known_->hosts[host];
    if (entry.address.has_value()) return WithPort(*entry.address, port);
    if (!entry.under_way) return entry.failure;
    if (interrupted.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    if (Clock::Real().NowNs() >= deadline_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat("\"", host, "\": its address could not be looked up within ",
                       timeout_ns / 1'000'000, " ms (a resolver that does not answer?)"));
    }
    known_->changed.WaitFor(known_->mutex, kLookNs);
  }
  return found;
}

}  // namespace gyre::load
