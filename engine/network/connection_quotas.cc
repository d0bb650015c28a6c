#include "engine/network/connection_quotas.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace gyre {

ConnectionQuotas::AddressKey ConnectionQuotas::KeyOf(const SocketAddress& peer) {
  AddressKey key = {};
  if (peer.storage.ss_family == AF_INET6) {
    std::memcpy(key.data(), &reinterpret_cast<const sockaddr_in6*>(&peer.storage)->sin6_addr, 16);
  } else if (peer.storage.ss_family == AF_INET) {
    key[10] = key[11] = 0xff;
    std::memcpy(key.data() + 12, &reinterpret_cast<const sockaddr_in*>(&peer.storage)->sin_addr, 4);
  }
  return key;
}

ConnectionQuotas::Verdict ConnectionQuotas::TryAdmit(const SocketAddress& peer,
                                                     RoomListener* waiter, Token* token) {
  const AddressKey key = KeyOf(peer);
  MutexLock lock(mutex_);
  const auto found = per_address_.find(key);
  const int32_t from_address = found == per_address_.end() ? 0 : found->second;
  if (from_address >= max_per_address_) return Verdict::kAddressFull;
  if (total_ >= max_total_) {
    if (waiter != nullptr &&
        std::find(waiters_.begin(), waiters_.end(), waiter) == waiters_.end()) {
      waiters_.push_back(waiter);
    }
    return Verdict::kTotalFull;
  }
  ++total_;
  ++per_address_[key];
  *token = Token(this, key);
  return Verdict::kAdmitted;
}

void ConnectionQuotas::Token::Release() {
  if (ConnectionQuotas* quotas = std::exchange(quotas_, nullptr)) quotas->Release(address_);
}

void ConnectionQuotas::Release(const AddressKey& address) {
  MutexLock lock(mutex_);
  --total_;
  const auto found = per_address_.find(address);
  if (--found->second == 0) per_address_.erase(found);
  if (waiters_.empty() || total_ >= max_total_) return;
  // Called with the lock held, so that ForgetWaiter can promise silence; a
  // listener only raises a flag and wakes its thread.
  for (RoomListener* waiter : waiters_) waiter->OnConnectionRoom();
  waiters_.clear();
}

void ConnectionQuotas::ForgetWaiter(RoomListener* waiter) {
  MutexLock lock(mutex_);
  waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), waiter), waiters_.end());
}

int64_t ConnectionQuotas::total() const {
  MutexLock lock(mutex_);
  return total_;
}

int64_t ConnectionQuotas::room() const {
  MutexLock lock(mutex_);
  return std::max<int64_t>(0, max_total_ - total_);
}

size_t ConnectionQuotas::addresses() const {
  MutexLock lock(mutex_);
  return per_address_.size();
}

}  // namespace gyre
