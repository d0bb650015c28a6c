// How many connections there may be, and how fast new ones may come: in the whole
// server, through one listener, and from one address. A token is one counted
// socket; it is tied to the socket's owner and gives the count back when it goes,
// so every path releases exactly once.
//
//   limit exceeded            what becomes of the socket
//   server's or listener's    waits (held, or in the kernel's backlog) and is
//   maximum or rate           then admitted
//   address's maximum         is closed at once
//   address's rate            is held, uncounted, for the delay and then closed
//
// A refused socket uses up nothing of the server's and the listener's rates. As
// in Kafka a protected listener (the brokers' own) is exempt from the server's
// maximum and rate, and a listener without limits of its own has the server's.
// When a protected one takes the total past the maximum, or the maximum is
// lowered, connections of other listeners are shed: each TryShed claims one of
// the excess, so no more are closed than are too many. The same makes room in a full
// listener with `sheds_when_full`: it accepts one more, and sheds one for it while it is
// held.
//
// Threads: any; one mutex, taken once per connection and once per close.
// Owns: the counts.
// Invariant: total == live tokens == sum over listeners == sum over addresses.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_QUOTAS_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_QUOTAS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/connection/creation_rate.h"
#include "engine/network/connection/ip_limits.h"
#include "engine/network/endpoint.h"

namespace gyre {

// One listener's limits; unset: the server's.
struct ListenerQuota {
  std::string name;
  bool is_protected = false;
  std::optional<int32_t> max_connections;
  std::optional<int32_t> max_connection_creation_rate;
  // Full, it closes its least used connection for each new one, which else would wait.
  bool sheds_when_full = false;
};

struct ConnectionQuotaOptions {
  static constexpr int32_t kUnlimited = INT32_MAX;

  int32_t max_connections = kUnlimited;
  int32_t max_connection_creation_rate = kUnlimited;  // per second
  int32_t max_connections_per_ip = kUnlimited;
  IpLimits max_connections_per_ip_overrides;
  int32_t max_connection_creation_rate_per_ip = kUnlimited;
  IpLimits max_connection_creation_rate_per_ip_overrides;  // each at least 1
  // A burst of as many seconds' worth passes at once: Kafka's (quota.window.num
  // - 1) x quota.window.size.seconds.
  int32_t creation_burst_seconds = 10;
  // What the process has descriptors for, whatever max_connections says.
  int32_t descriptor_maximum = kUnlimited;
  std::vector<ListenerQuota> listeners{ListenerQuota{}};
};

class ConnectionQuotas {
 public:
  class Token {
   public:
    Token() = default;
    Token(Token&& other) noexcept { *this = std::move(other); }
    Token& operator=(Token&& other) noexcept {
      if (this == &other) return *this;
      Release();
      quotas_ = std::exchange(other.quotas_, nullptr);
      address_ = other.address_;
      listener_ = other.listener_;
      shed_ = other.shed_;
      return *this;
    }
    ~Token() { Release(); }
    void Release();
    // True: this connection is one too many, or another waits for its place, and the
    // caller closes it.
    bool TryShed();
    bool shed() const { return shed_; }
    explicit operator bool() const { return quotas_ != nullptr; }

   private:
    friend class ConnectionQuotas;
    ConnectionQuotas* quotas_ = nullptr;
    AddressKey address_ = {};
    int listener_ = 0;
    bool shed_ = false;
  };

  enum class Verdict : uint8_t {
    kAdmitted,
    kFull,                 // wait for the waiter's call
    kRateExceeded,         // wait for the delay
    kAddressFull,          // close it
    kAddressRateExceeded,  // hold it for the delay, then close it
  };
  struct Decision {
    Verdict verdict = Verdict::kAdmitted;
    int64_t delay_ns = 0;
  };

  // How many sockets may be accepted now; with none, what for: a maximum (the
  // waiter will be called), or a rate (`delay_ns` says when to ask again).
  struct Room {
    int64_t count = 0;
    int64_t delay_ns = 0;
  };

  // Told, on whatever thread made it, that there may be room after a kFull or a
  // Room of none. Called under the quotas' lock: it raises a flag and wakes a
  // thread.
  class RoomListener {
   public:
    virtual void OnConnectionRoom() = 0;

   protected:
    ~RoomListener() = default;
  };
  // Told that connections of unprotected listeners are too many, or that one waits in
  // front of a full listener that sheds then. Under the lock.
  class ExcessListener {
   public:
    virtual void OnExcessConnections() = 0;

   protected:
    ~ExcessListener() = default;
  };

  explicit ConnectionQuotas(ConnectionQuotaOptions options);

  // --- acceptors -----------------------------------------------------------------
  // On kAdmitted `*token` holds the count; else nothing is counted. On kFull
  // `waiter` (may be null) is called once when there is room. `was_held`: the
  // socket is one for which Hold was called, and goes before those that are not;
  // unless it has to go on waiting, it is not held any more.
  Decision Admit(int listener, const SocketAddress& peer, int64_t now_ns, bool was_held,
                 RoomListener* waiter, Token* token);
  Room AskRoom(int listener, int64_t now_ns, RoomListener* waiter);
  // The waiter is not called any more once this returned.
  void ForgetWaiter(RoomListener* waiter);
  // An accepted socket waits for a maximum or a rate.
  void Hold(int listener);
  // `count` held ones were closed, and were not admitted.
  void LetGo(int listener, int64_t count);

  // --- limits, at any time --------------------------------------------------------
  // INVALID_ARGUMENT says the range, and changes nothing. They act on the next
  // connection; a lower max_connections sheds.
  absl::Status SetMaxConnections(int64_t value);
  absl::Status SetMaxConnectionCreationRate(int64_t value);
  absl::Status SetMaxConnectionsPerIp(int64_t value);
  absl::Status SetMaxConnectionsPerIpOverrides(IpLimits overrides);
  absl::Status SetMaxConnectionCreationRatePerIp(int64_t value);
  // For these addresses, instead of the above.
  absl::Status SetMaxConnectionCreationRatePerIpOverrides(IpLimits overrides);
  // nullopt: the server's. NOT_FOUND for a name that is no listener's.
  absl::Status SetListenerMaxConnections(absl::string_view listener, std::optional<int64_t> value);
  absl::Status SetListenerMaxConnectionCreationRate(absl::string_view listener,
                                                    std::optional<int64_t> value);
  // At most one; null: nobody.
  void SetExcessListener(ExcessListener* listener);

  // --- what there is ----------------------------------------------------------------
  int64_t total() const;
  int64_t connections_of(int listener) const;
  int64_t connections_from(const AddressKey& address) const;
  int64_t held() const;
  // Addresses with connections.
  size_t addresses() const;
  struct AddressAccepts {
    AddressKey address = {};
    int64_t accepted = 0;  // since it is remembered
  };
  // The `count` remembered addresses of which the most connections were let in, at most.
  std::vector<AddressAccepts> BusiestAddresses(size_t count) const;
  // Addresses that are remembered: those, and the ones whose rate is not at rest.
  size_t remembered_addresses() const;

 private:
  struct ListenerState {
    ListenerQuota quota;
    int64_t count = 0;
    int64_t held = 0;
    int64_t shedding = 0;  // claimed, and not yet released
    CreationRate rate;
  };
  struct AddressState {
    int32_t count = 0;
    int64_t accepted = 0;
    CreationRate rate;
  };

  void Release(const Token& token);
  bool TryShed(int listener);
  int64_t ServerMaximum() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t ListenerMaximum(const ListenerState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RateLimit Rate(int32_t per_second) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RateLimit ListenerRate(const ListenerState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RateLimit AddressRate(const AddressKey& address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int32_t AddressMaximum(const AddressKey& address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many the maxima leave to the listener.
  int64_t Left(const ListenerState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t Excess() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many more must go for those that are held, where the listener sheds.
  int64_t PlacesWanted(const ListenerState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo(ListenerState& state, int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Await(RoomListener* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CallWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellExcess() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetAddressesAtRest(int64_t now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ListenerState* Find(absl::string_view listener) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  ConnectionQuotaOptions limits_ ABSL_GUARDED_BY(mutex_);  // listeners: in listeners_
  std::vector<ListenerState> listeners_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<AddressKey, AddressState> addresses_ ABSL_GUARDED_BY(mutex_);
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = kForgetAtLeast;
  CreationRate rate_ ABSL_GUARDED_BY(mutex_);
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t counted_addresses_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t shedding_ ABSL_GUARDED_BY(mutex_) = 0;  // claimed, and not yet released
  // A handful: one per acceptor.
  std::vector<RoomListener*> waiters_ ABSL_GUARDED_BY(mutex_);
  ExcessListener* excess_listener_ ABSL_GUARDED_BY(mutex_) = nullptr;

  static constexpr size_t kForgetAtLeast = 1024;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_CONNECTION_QUOTAS_H_
