#include "engine/network/connection/connection_quotas.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gyre {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t least) {
  if (value >= least && value <= INT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=", value, " is not valid; it must be from ", least, " to ", INT32_MAX));
}

absl::Status NeedsOverrides() {
  return absl::InvalidArgumentError(
      "max_connections_per_ip=0 refuses every address; it needs max_connections_per_ip_overrides");
}

}  // namespace

ConnectionQuotas::ConnectionQuotas(ConnectionQuotaOptions options) : limits_(std::move(options)) {
  for (ListenerQuota& quota : limits_.listeners) listeners_.emplace_back().quota = std::move(quota);
  limits_.listeners.clear();
}

// --- limits as they are now ----------------------------------------------------------

int64_t ConnectionQuotas::ServerMaximum() const {
  return std::min(limits_.max_connections, limits_.descriptor_maximum);
}

int64_t ConnectionQuotas::ListenerMaximum(const ListenerState& state) const {
  return state.quota.max_connections.value_or(static_cast<int32_t>(ServerMaximum()));
}

RateLimit ConnectionQuotas::Rate(int32_t per_second) const {
  return RateLimit{per_second, limits_.creation_burst_seconds * kSecondNs};
}

RateLimit ConnectionQuotas::ListenerRate(const ListenerState& state) const {
  return Rate(
      state.quota.max_connection_creation_rate.value_or(limits_.max_connection_creation_rate));
}

RateLimit ConnectionQuotas::AddressRate(const AddressKey& address) const {
  const IpLimits& overrides = limits_.max_connection_creation_rate_per_ip_overrides;
  const auto found = overrides.find(address);
  return Rate(found == overrides.end() ? limits_.max_connection_creation_rate_per_ip
                                       : found->second);
}

int32_t ConnectionQuotas::AddressMaximum(const AddressKey& address) const {
  const auto found = limits_.max_connections_per_ip_overrides.find(address);
  return found == limits_.max_connections_per_ip_overrides.end() ? limits_.max_connections_per_ip
                                                                 : found->second;
}

int64_t ConnectionQuotas::Left(const ListenerState& state) const {
  const int64_t left = ListenerMaximum(state) - state.count;
  return state.quota.is_protected ? left : std::min(left, ServerMaximum() - total_);
}

// --- admission -------------------------------------------------------------------------

ConnectionQuotas::Decision ConnectionQuotas::Admit(int listener, const SocketAddress& peer,
                                                   int64_t now_ns, bool was_held,
                                                   RoomListener* waiter, Token* token) {
  const AddressKey key = KeyOf(peer);
  MutexLock lock(mutex_);
  ListenerState& state = listeners_[static_cast<size_t>(listener)];
  const RateLimit address_limit = AddressRate(key);
  const auto found = addresses_.find(key);
  AddressState* const known = found == addresses_.end() ? nullptr : &found->second;
  // What the address may do comes first: who is refused waits for nobody, and
  // uses up nothing that others wait for.
  if (known != nullptr) {
    const int64_t delay_ns = known->rate.DelayNs(address_limit, now_ns);
    if (delay_ns > 0) {
      if (was_held) LetGo(state, 1);
      return {Verdict::kAddressRateExceeded, std::min(delay_ns, kSecondNs)};
    }
  }
  if ((known == nullptr ? 0 : known->count) >= AddressMaximum(key)) {
    // It counts against its own rate, so that trying again and again is slowed.
    if (address_limit.limited()) {
      ForgetAddressesAtRest(now_ns);
      addresses_[key].rate.Record(address_limit, now_ns);
    }
    if (was_held) LetGo(state, 1);
    return {Verdict::kAddressFull, 0};
  }
  const int64_t ahead = was_held ? 0 : state.held;
  if (Left(state) <= ahead) {
    Await(waiter);
    return {Verdict::kFull, 0};
  }
  const RateLimit server_limit = Rate(limits_.max_connection_creation_rate);
  const RateLimit listener_limit = ListenerRate(state);
  int64_t delay_ns = state.rate.DelayNs(listener_limit, now_ns, ahead);
  if (!state.quota.is_protected) {
    delay_ns = std::max(delay_ns, rate_.DelayNs(server_limit, now_ns, ahead));
  }
  if (delay_ns > 0) return {Verdict::kRateExceeded, std::min(delay_ns, kSecondNs)};

  if (was_held) {
    --state.held;
    // Where others do not accept while one is held, one of them may again.
    if (state.quota.sheds_when_full) CallWaiters();
  }
  state.rate.Record(listener_limit, now_ns);
  if (!state.quota.is_protected) rate_.Record(server_limit, now_ns);
  ForgetAddressesAtRest(now_ns);
  AddressState& address = addresses_[key];
  address.rate.Record(address_limit, now_ns);
  ++address.accepted;
  if (address.count++ == 0) ++counted_addresses_;
  ++state.count;
  ++total_;
  token->Release();
  token->quotas_ = this;
  token->address_ = key;
  token->listener_ = listener;
  token->shed_ = false;
  if (state.quota.is_protected) TellExcess();
  return {Verdict::kAdmitted, 0};
}

ConnectionQuotas::Room ConnectionQuotas::AskRoom(int listener, int64_t now_ns,
                                                 RoomListener* waiter) {
  MutexLock lock(mutex_);
  const ListenerState& state = listeners_[static_cast<size_t>(listener)];
  int64_t left = Left(state) - state.held;
  if (left <= 0) {
    if (!state.quota.sheds_when_full || state.held > 0) {
      Await(waiter);
      return {};
    }
    left = 1;  // only an accepted one shows that there is one
  }
  const RateLimit server_limit = Rate(limits_.max_connection_creation_rate);
  const RateLimit listener_limit = ListenerRate(state);
  int64_t by_rate = state.rate.Available(listener_limit, now_ns);
  int64_t delay_ns = state.rate.DelayNs(listener_limit, now_ns, state.held);
  if (!state.quota.is_protected) {
    by_rate = std::min(by_rate, rate_.Available(server_limit, now_ns));
    delay_ns = std::max(delay_ns, rate_.DelayNs(server_limit, now_ns, state.held));
  }
  const int64_t count = std::min(left, by_rate - state.held);
  return count > 0 ? Room{count, 0} : Room{0, std::clamp<int64_t>(delay_ns, 1, kSecondNs)};
}

void ConnectionQuotas::Await(RoomListener* waiter) {
  if (waiter == nullptr) return;
  if (std::find(waiters_.begin(), waiters_.end(), waiter) == waiters_.end()) {
    waiters_.push_back(waiter);
  }
}

void ConnectionQuotas::CallWaiters() {
  // Called with the lock held, so that ForgetWaiter can promise silence; a
  // listener only raises a flag and wakes its thread. All of them: which one has
  // a client waiting is known to the kernel alone.
  for (RoomListener* waiter : waiters_) waiter->OnConnectionRoom();
  waiters_.clear();
}

void ConnectionQuotas::ForgetWaiter(RoomListener* waiter) {
  MutexLock lock(mutex_);
  waiters_.erase(std::remove(waiters_.begin(), waiters_.end(), waiter), waiters_.end());
}

void ConnectionQuotas::Hold(int listener) {
  MutexLock lock(mutex_);
  ListenerState& state = listeners_[static_cast<size_t>(listener)];
  ++state.held;
  if (PlacesWanted(state) > 0 && excess_listener_ != nullptr) {
    excess_listener_->OnExcessConnections();
  }
}

void ConnectionQuotas::LetGo(int listener, int64_t count) {
  MutexLock lock(mutex_);
  LetGo(listeners_[static_cast<size_t>(listener)], count);
}

void ConnectionQuotas::LetGo(ListenerState& state, int64_t count) {
  state.held -= count;
  // What one acceptor held and let go of is room for the others.
  CallWaiters();
}

// --- release -----------------------------------------------------------------------------

void ConnectionQuotas::Token::Release() {
  if (quotas_ == nullptr) return;
  quotas_->Release(*this);
  quotas_ = nullptr;
}

void ConnectionQuotas::Release(const Token& token) {
  MutexLock lock(mutex_);
  ListenerState& state = listeners_[static_cast<size_t>(token.listener_)];
  --total_;
  --state.count;
  if (token.shed_) {
    --shedding_;
    --state.shedding;
  }
  const auto found = addresses_.find(token.address_);
  if (--found->second.count == 0) {
    --counted_addresses_;
    // A rate must be remembered; those at rest are swept with the others.
    if (!AddressRate(token.address_).limited()) addresses_.erase(found);
  }
  if (!waiters_.empty() && (total_ < ServerMaximum() || Left(state) > 0)) CallWaiters();
}

void ConnectionQuotas::ForgetAddressesAtRest(int64_t now_ns) {
  if (addresses_.size() < forget_at_) return;
  absl::erase_if(addresses_, [now_ns](const auto& entry) {
    return entry.second.count == 0 && entry.second.rate.idle(now_ns);
  });
  // As many again may come before the next sweep, so that each costs O(1).
  forget_at_ = std::max(kForgetAtLeast, 2 * addresses_.size());
}

// --- too many ------------------------------------------------------------------------------

int64_t ConnectionQuotas::Excess() const { return total_ - ServerMaximum() - shedding_; }

int64_t ConnectionQuotas::PlacesWanted(const ListenerState& state) const {
  if (!state.quota.sheds_when_full) return 0;
  return state.held - std::max<int64_t>(0, Left(state)) - state.shedding;
}

void ConnectionQuotas::TellExcess() {
  if (Excess() > 0 && excess_listener_ != nullptr) excess_listener_->OnExcessConnections();
}

bool ConnectionQuotas::Token::TryShed() {
  if (quotas_ == nullptr || shed_ || !quotas_->TryShed(listener_)) return false;
  shed_ = true;
  return true;
}

bool ConnectionQuotas::TryShed(int listener) {
  MutexLock lock(mutex_);
  ListenerState& state = listeners_[static_cast<size_t>(listener)];
  const bool too_many = !state.quota.is_protected && Excess() > 0;
  if (!too_many && PlacesWanted(state) <= 0) return false;
  ++shedding_;
  ++state.shedding;
  return true;
}

void ConnectionQuotas::SetExcessListener(ExcessListener* listener) {
  MutexLock lock(mutex_);
  excess_listener_ = listener;
}

// --- changes ---------------------------------------------------------------------------------

absl::Status ConnectionQuotas::SetMaxConnections(int64_t value) {
  if (absl::Status status = CheckRange("max_connections", value, 1); !status.ok()) return status;
  MutexLock lock(mutex_);
  limits_.max_connections = static_cast<int32_t>(value);
  CallWaiters();
  TellExcess();
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetMaxConnectionCreationRate(int64_t value) {
  if (absl::Status status = CheckRange("max_connection_creation_rate", value, 1); !status.ok()) {
    return status;
  }
  MutexLock lock(mutex_);
  limits_.max_connection_creation_rate = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetMaxConnectionsPerIp(int64_t value) {
  if (absl::Status status = CheckRange("max_connections_per_ip", value, 0); !status.ok()) {
    return status;
  }
  MutexLock lock(mutex_);
  if (value == 0 && limits_.max_connections_per_ip_overrides.empty()) return NeedsOverrides();
  limits_.max_connections_per_ip = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetMaxConnectionsPerIpOverrides(IpLimits overrides) {
  MutexLock lock(mutex_);
  if (limits_.max_connections_per_ip == 0 && overrides.empty()) return NeedsOverrides();
  limits_.max_connections_per_ip_overrides = std::move(overrides);
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetMaxConnectionCreationRatePerIp(int64_t value) {
  if (absl::Status status = CheckRange("max_connection_creation_rate_per_ip", value, 1);
      !status.ok()) {
    return status;
  }
  MutexLock lock(mutex_);
  limits_.max_connection_creation_rate_per_ip = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetMaxConnectionCreationRatePerIpOverrides(IpLimits overrides) {
  for (const auto& [address, rate] : overrides) {
    const absl::Status status = CheckRange("a rate", rate, 1);
    if (!status.ok()) return status;
  }
  MutexLock lock(mutex_);
  limits_.max_connection_creation_rate_per_ip_overrides = std::move(overrides);
  return absl::OkStatus();
}

ConnectionQuotas::ListenerState* ConnectionQuotas::Find(absl::string_view listener) {
  for (ListenerState& state : listeners_) {
    if (state.quota.name == listener) return &state;
  }
  return nullptr;
}

absl::Status ConnectionQuotas::SetListenerMaxConnections(absl::string_view listener,
                                                         std::optional<int64_t> value) {
  if (value.has_value()) {
    const absl::Status status = CheckRange(absl::StrCat(listener, ".max_connections"), *value, 1);
    if (!status.ok()) return status;
  }
  MutexLock lock(mutex_);
  ListenerState* const state = Find(listener);
  if (state == nullptr) return absl::NotFoundError(absl::StrCat("no listener ", listener));
  state->quota.max_connections = value;
  CallWaiters();
  return absl::OkStatus();
}

absl::Status ConnectionQuotas::SetListenerMaxConnectionCreationRate(absl::string_view listener,
                                                                    std::optional<int64_t> value) {
  if (value.has_value()) {
    const absl::Status status =
        CheckRange(absl::StrCat(listener, ".max_connection_creation_rate"), *value, 1);
    if (!status.ok()) return status;
  }
  MutexLock lock(mutex_);
  ListenerState* const state = Find(listener);
  if (state == nullptr) return absl::NotFoundError(absl::StrCat("no listener ", listener));
  state->quota.max_connection_creation_rate = value;
  return absl::OkStatus();
}

// --- what there is -------------------------------------------------------------------------

int64_t ConnectionQuotas::total() const {
  MutexLock lock(mutex_);
  return total_;
}

int64_t ConnectionQuotas::connections_of(int listener) const {
  MutexLock lock(mutex_);
  return listeners_[static_cast<size_t>(listener)].count;
}

int64_t ConnectionQuotas::connections_from(const AddressKey& address) const {
  MutexLock lock(mutex_);
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? 0 : found->second.count;
}

int64_t ConnectionQuotas::held() const {
  MutexLock lock(mutex_);
  int64_t held = 0;
  for (const ListenerState& state : listeners_) held += state.held;
  return held;
}

size_t ConnectionQuotas::addresses() const {
  MutexLock lock(mutex_);
  return static_cast<size_t>(counted_addresses_);
}

std::vector<ConnectionQuotas::AddressAccepts> ConnectionQuotas::BusiestAddresses(
    size_t count) const {
  const auto more = [](const AddressAccepts& a, const AddressAccepts& b) {
    return a.accepted > b.accepted;
  };
  // A heap of those that are wanted, the least of them in front.
  std::vector<AddressAccepts> busiest;
  busiest.reserve(count + 1);
  MutexLock lock(mutex_);
  for (const auto& [address, state] : addresses_) {
    if (busiest.size() == count && state.accepted <= busiest.front().accepted) continue;
    busiest.push_back({address, state.accepted});
    std::push_heap(busiest.begin(), busiest.end(), more);
    if (busiest.size() <= count) continue;
    std::pop_heap(busiest.begin(), busiest.end(), more);
    busiest.pop_back();
  }
  std::sort_heap(busiest.begin(), busiest.end(), more);
  return busiest;
}

size_t ConnectionQuotas::remembered_addresses() const {
  MutexLock lock(mutex_);
  return addresses_.size();
}

}  // namespace gyre
