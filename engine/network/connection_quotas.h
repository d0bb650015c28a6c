// How many connections there may be: in total and from one address. A token is
// one counted socket; it is tied to the socket's owner and gives the count back
// when it goes, so every path releases exactly once.
//
// Threads: any; one mutex, taken once per connection and once per close.
// Owns: the counts.
// Invariant: total == live tokens == sum over addresses.
#ifndef GYRE_ENGINE_NETWORK_CONNECTION_QUOTAS_H_
#define GYRE_ENGINE_NETWORK_CONNECTION_QUOTAS_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/endpoint.h"

namespace gyre {

class ConnectionQuotas {
 public:
  // An IPv4 address is kept as its IPv6 mapping, so both families share a count.
  using AddressKey = std::array<uint8_t, 16>;

  class Token {
   public:
    Token() = default;
    Token(Token&& other) noexcept
        : quotas_(std::exchange(other.quotas_, nullptr)), address_(other.address_) {}
    Token& operator=(Token&& other) noexcept {
      if (this != &other) {
        Release();
        quotas_ = std::exchange(other.quotas_, nullptr);
        address_ = other.address_;
      }
      return *this;
    }
    ~Token() { Release(); }
    void Release();
    explicit operator bool() const { return quotas_ != nullptr; }

   private:
    friend class ConnectionQuotas;
    Token(ConnectionQuotas* quotas, const AddressKey& address)
        : quotas_(quotas), address_(address) {}
    ConnectionQuotas* quotas_ = nullptr;
    AddressKey address_ = {};
  };

  enum class Verdict : uint8_t {
    kAdmitted,
    kTotalFull,    // wait: the socket may be admitted when another one leaves
    kAddressFull,  // close it
  };

  // Told, on the releasing thread, that the total fell below its limit after a
  // kTotalFull. Called under the quotas' lock: it raises a flag and wakes a thread.
  class RoomListener {
   public:
    virtual void OnConnectionRoom() = 0;

   protected:
    ~RoomListener() = default;
  };

  ConnectionQuotas(int32_t max_total, int32_t max_per_address)
      : max_total_(max_total), max_per_address_(max_per_address) {}

  // On kAdmitted `*token` holds the count. On kTotalFull `waiter` (may be null) is
  // called once when there is room.
  Verdict TryAdmit(const SocketAddress& peer, RoomListener* waiter, Token* token);
  // The waiter is not called any more once this returned.
  void ForgetWaiter(RoomListener* waiter);

  int64_t total() const;
  // How many more would be admitted now, from an address without connections.
  int64_t room() const;
  size_t addresses() const;

  static AddressKey KeyOf(const SocketAddress& peer);

 private:
  void Release(const AddressKey& address);

  const int32_t max_total_;
  const int32_t max_per_address_;
  mutable Mutex mutex_;
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<AddressKey, int32_t> per_address_ ABSL_GUARDED_BY(mutex_);
  // A handful: one per acceptor.
  std::vector<RoomListener*> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gyre

#endif  // GYRE_ENGINE_NETWORK_CONNECTION_QUOTAS_H_
