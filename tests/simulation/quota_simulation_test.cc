// Intakes and connection quotas against a sequential oracle, on simulated rings: one
// acceptor's, or several on one port as in reuseport mode. A seed draws the limits, when
// completions come, when clients connect and leave, when descriptors run out and when
// limits change. An intake runs only when it was woken, has a completion or is due, so
// that a wake-up that is lost leaves a client without an outcome.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/manual_clock.h"
#include "engine/base/random.h"
#include "engine/network/accept/intake.h"
#include "engine/network/connection/connection_quotas.h"
#include "engine/network/network_metrics.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_network.h"
#include "tests/simulation/sim_ring.h"
#include "tests/simulation/sim_scheduler.h"
#include "tests/simulation/sim_seeds.h"

namespace gyre::sim {
namespace {

constexpr int32_t kUnlimited = ConnectionQuotaOptions::kUnlimited;
constexpr uint32_t kFirstAddress = 0x0a000001;  // 10.0.0.1

// A token bucket in plain arithmetic: what a rate may have let through by now.
class RateOracle {
 public:
  RateOracle(int32_t per_second, int32_t burst_seconds)
      : per_second_(per_second),
        most_(std::max(1.0, static_cast<double>(per_second) * burst_seconds)),
        tokens_(most_) {}
  // False: this one came too early.
  bool Take(int64_t now_ns) {
    if (per_second_ == kUnlimited) return true;
    tokens_ =
        std::min(most_, tokens_ + static_cast<double>(now_ns - last_ns_) * 1e-9 * per_second_);
    last_ns_ = now_ns;
    tokens_ -= 1;
    // Intervals are whole nanoseconds.
    return tokens_ > -0.01;
  }

 private:
  int32_t per_second_;
  double most_;
  double tokens_;
  int64_t last_ns_ = 0;
};

class World;

// Whoever hosts an intake: its ring, and what it was woken for.
class Host final : private Intake::Host {
 public:
  Host(World& world, const Listener& listener, std::unique_ptr<SimRing> ring, int listen_fd);
  bool Step(int64_t now_ns);
  Intake& intake() { return *intake_; }
  // The listening socket leaves, and comes to an intake on another ring.
  void MoveTo(std::unique_ptr<SimRing> ring);
  int listen_fd() const { return listen_fd_; }

 private:
  void OnAdmitted(NewConnection connection) override;
  void WakeForIntake() override { woken_ = true; }

  World& world_;
  std::unique_ptr<SimRing> ring_;
  std::unique_ptr<SimRing> next_ring_;
  const int listen_fd_;
  bool woken_ = true;
  int last_order_ = -1;  // of the clients that were admitted through it
  std::unique_ptr<Intake> intake_;
};

struct Client {
  int fd = -1;
  int order = 0;  // in which they connected
  bool left = false;
  bool admitted = false;
};

struct Served {
  NewConnection connection;
  uint16_t client_port = 0;
};

class World {
 public:
  explicit World(uint64_t seed);
  void Run();

  void OnAdmitted(NewConnection connection, int* last_order);

  int admitted = 0;
  int turned_away = 0;

 private:
  friend class Host;

  ConnectionQuotaOptions DrawLimits();
  bool ConnectOne();
  bool ClientLeaves();
  bool ServerCloses();
  bool ChangeMaximum();
  void Shed();
  void CloseServed(size_t index);
  int64_t OpenThrough(int listener) const;

  Random random_;
  ManualClock clock_;
  SimNetwork network_;
  NetworkMetrics metrics_{nullptr};
  SimScheduler scheduler_;
  ConnectionQuotaOptions limits_;
  std::unique_ptr<ConnectionQuotas> quotas_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<RateOracle> listener_rates_;
  RateOracle server_rate_{kUnlimited, 1};
  std::map<AddressKey, RateOracle> address_rates_;
  std::map<uint16_t, Client> clients_;  // by their port
  std::vector<Served> served_;
  std::map<AddressKey, int> from_address_;
  bool patient_ = false;
  int to_connect_ = 0;
  int connected_ = 0;
};

Host::Host(World& world, const Listener& listener, std::unique_ptr<SimRing> ring, int listen_fd)
    : world_(world), ring_(std::move(ring)), listen_fd_(listen_fd) {
  // A close(2) of the simulated number by UniqueFd finds nothing.
  intake_ = std::make_unique<Intake>(listener, UniqueFd(listen_fd), 3, *ring_, *world.quotas_,
                                     world.metrics_, static_cast<Intake::Host&>(*this));
}

bool Host::Step(int64_t now_ns) {
  uring::Completion completions[8];
  const size_t count = ring_->SubmitAndReap(absl::MakeSpan(completions), 0);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(Intake::SlotOf(completions[i].token), 3u);
    intake_->OnCompletion(completions[i], now_ns);
  }
  if (count == 0 && !woken_ && now_ns < intake_->NextDeadlineNs()) return false;
  woken_ = false;
  intake_->RunOnce(now_ns);
  if (intake_->released()) {
    const std::unique_ptr<ListenSocketHandover> socket = intake_->TakeSocket();
    intake_.reset();
    ring_ = std::move(next_ring_);
    woken_ = true;
    intake_ = std::make_unique<Intake>(*socket, 3, *ring_, world_.metrics_,
                                       static_cast<Intake::Host&>(*this));
  }
  return true;
}

void Host::MoveTo(std::unique_ptr<SimRing> ring) {
  if (intake_->releasing() || intake_->stopping()) return;
  next_ring_ = std::move(ring);
  intake_->BeginRelease();
  woken_ = true;
}

void Host::OnAdmitted(NewConnection connection) {
  world_.OnAdmitted(std::move(connection), &last_order_);
}

World::World(uint64_t seed)
    : random_(seed),
      network_(random_.Next(), {}),
      scheduler_(random_.Next(), clock_),
      limits_(DrawLimits()) {
  clock_.AdvanceMs(static_cast<int64_t>(random_.Below(100'000)));
  quotas_ = std::make_unique<ConnectionQuotas>(limits_);
  const bool reuse_port = random_.OneIn(2);
  const SimRing::Options ring_options = {.mischief_one_in = random_.OneIn(2) ? 0u : 6u};
  server_rate_ = RateOracle(limits_.max_connection_creation_rate, limits_.creation_burst_seconds);
  for (size_t i = 0; i < limits_.listeners.size(); ++i) {
    listener_rates_.emplace_back(limits_.listeners[i].max_connection_creation_rate.value_or(
                                     limits_.max_connection_creation_rate),
                                 limits_.creation_burst_seconds);
    auto listener = std::make_unique<Listener>();
    listener->index = static_cast<int>(i);
    listener->bound = {absl::StrCat("L", i), "127.0.0.1", static_cast<uint16_t>(9000 + i)};
    for (int64_t k = reuse_port ? random_.Between(2, 4) : 1; k > 0; --k) {
      hosts_.push_back(std::make_unique<Host>(
          *this, *listener, std::make_unique<SimRing>(random_.Next(), ring_options, network_),
          network_.Listen(listener->bound.port)));
    }
    listeners_.push_back(std::move(listener));
  }
  to_connect_ = static_cast<int>(random_.Between(20, 200));
  patient_ = random_.OneIn(2);
}

ConnectionQuotaOptions World::DrawLimits() {
  const auto rate = [this](int64_t low, int64_t high) {
    return random_.OneIn(2) ? kUnlimited : static_cast<int32_t>(random_.Between(low, high));
  };
  ConnectionQuotaOptions limits;
  limits.max_connections = static_cast<int32_t>(random_.OneIn(3) ? 1000 : random_.Between(1, 40));
  limits.max_connections_per_ip =
      random_.OneIn(2) ? kUnlimited : static_cast<int32_t>(random_.Between(1, 10));
  limits.max_connection_creation_rate = rate(20, 2000);
  limits.max_connection_creation_rate_per_ip = rate(2, 50);
  limits.creation_burst_seconds = static_cast<int32_t>(random_.Between(1, 3));
  limits.listeners.clear();
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    ListenerQuota quota;
    quota.name = absl::StrCat("L", limits.listeners.size());
    quota.is_protected = !limits.listeners.empty() && random_.OneIn(2);
    if (random_.OneIn(3)) quota.max_connections = static_cast<int32_t>(random_.Between(1, 20));
    if (random_.OneIn(3)) quota.max_connection_creation_rate = rate(20, 500);
    limits.listeners.push_back(std::move(quota));
  }
  return limits;
}

// --- what happens ------------------------------------------------------------------------

void World::OnAdmitted(NewConnection connection, int* last_order) {
  const int64_t now_ns = clock_.NowNs();
  const AddressKey key = KeyOf(connection.peer);
  const auto listener = static_cast<size_t>(connection.listener->index);
  const ListenerQuota& quota = limits_.listeners[listener];
  Client& client = clients_[connection.peer.port()];
  EXPECT_FALSE(client.admitted);
  client.admitted = true;
  // Those that were held go first, so each listening socket keeps the clients' order.
  EXPECT_GT(client.order, *last_order) << "overtaken";
  *last_order = client.order;
  ++admitted;

  EXPECT_LE(++from_address_[key], limits_.max_connections_per_ip);
  served_.push_back({std::move(connection), 0});
  served_.back().client_port = served_.back().connection.peer.port();
  EXPECT_LE(OpenThrough(static_cast<int>(listener)),
            quota.max_connections.value_or(limits_.max_connections));
  if (!quota.is_protected) {
    EXPECT_LE(served_.size(), static_cast<size_t>(limits_.max_connections));
    EXPECT_TRUE(server_rate_.Take(now_ns)) << "beyond the server's rate";
  }
  EXPECT_TRUE(listener_rates_[listener].Take(now_ns)) << "beyond the listener's rate";
  const auto [rate, is_new] = address_rates_.try_emplace(
      key, limits_.max_connection_creation_rate_per_ip, limits_.creation_burst_seconds);
  EXPECT_TRUE(rate->second.Take(now_ns)) << "beyond the address's rate";
  EXPECT_EQ(quotas_->total(), static_cast<int64_t>(served_.size()));
}

int64_t World::OpenThrough(int listener) const {
  return std::count_if(served_.begin(), served_.end(), [listener](const Served& served) {
    return served.connection.listener->index == listener;
  });
}

void World::CloseServed(size_t index) {
  Served& served = served_[index];
  --from_address_[KeyOf(served.connection.peer)];
  network_.Close(served.connection.fd);
  served_[index] = std::move(served_.back());
  served_.pop_back();
}

bool World::ConnectOne() {
  if (connected_ == to_connect_ || random_.OneIn(3)) return false;
  const uint32_t from = kFirstAddress + static_cast<uint32_t>(random_.Below(4));
  const auto port = static_cast<uint16_t>(9000 + random_.Below(listeners_.size()));
  const int fd = network_.Connect(port, from);
  EXPECT_GE(fd, 0);
  clients_[network_.LocalPort(fd)] = Client{fd, connected_++, false, false};
  return true;
}

// A client that was closed leaves; now and then one leaves of itself, with a reset or
// without: one that is served, or where clients have no patience also one in the
// backlog, held or throttled.
bool World::ClientLeaves() {
  for (auto& [port, client] : clients_) {
    if (client.left) continue;
    char byte;
    const IoResult received = network_.Receive(client.fd, &byte, 1);
    const bool closed = !received.would_block();
    if (!closed && ((patient_ && !client.admitted) || !random_.OneIn(60))) continue;
    if (closed && !client.admitted) ++turned_away;
    if (random_.OneIn(3)) network_.SetResetOnClose(client.fd);
    network_.Close(client.fd);
    client.left = true;
    return true;
  }
  return false;
}

bool World::ServerCloses() {
  if (served_.empty()) return false;
  const size_t index = random_.Below(served_.size());
  // Whoever has left is closed soon, others after a while.
  if (!clients_[served_[index].client_port].left && !random_.OneIn(20)) return false;
  CloseServed(index);
  return true;
}

bool World::ChangeMaximum() {
  if (!random_.OneIn(100)) return false;
  limits_.max_connections = static_cast<int32_t>(random_.Between(1, 60));
  EXPECT_TRUE(quotas_->SetMaxConnections(limits_.max_connections).ok());
  Shed();
  return true;
}

// As processors do: each claims one of the excess and closes it.
void World::Shed() {
  const int64_t excess = static_cast<int64_t>(served_.size()) - limits_.max_connections;
  int64_t shed = 0;
  for (size_t i = 0; i < served_.size();) {
    if (limits_.listeners[static_cast<size_t>(served_[i].connection.listener->index)]
            .is_protected ||
        !served_[i].connection.quota.TryShed()) {
      ++i;
      continue;
    }
    ++shed;
    CloseServed(i);
  }
  EXPECT_LE(shed, std::max<int64_t>(0, excess));
}

void World::Run() {
  for (const auto& host : hosts_) {
    scheduler_.Add("intake", [this, host = host.get()] { return host->Step(clock_.NowNs()); });
  }
  scheduler_.Add("wire", [this] { return network_.RunOnce(); });
  scheduler_.Add("connects", [this] { return ConnectOne(); });
  scheduler_.Add("leaves", [this] { return ClientLeaves(); });
  scheduler_.Add("server", [this] { return ServerCloses(); });
  if (random_.OneIn(2)) scheduler_.Add("changes", [this] { return ChangeMaximum(); });
  if (random_.OneIn(3)) {
    scheduler_.Add("moves", [this] {
      if (random_.OneIn(200)) {
        hosts_[random_.Below(hosts_.size())]->MoveTo(
            std::make_unique<SimRing>(random_.Next(), SimRing::Options(), network_));
      }
      return false;
    });
  }
  if (random_.OneIn(3)) {
    scheduler_.Add("descriptors", [this] {
      if (random_.OneIn(50)) network_.SetAcceptError(random_.OneIn(2) ? 0 : EMFILE);
      return false;
    });
  }
  const auto all_have_left = [this] {
    return connected_ == to_connect_ &&
           std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& entry) { return entry.second.left; });
  };
  // Some runs end in the middle, with sockets held, throttled and in the backlog.
  const bool to_the_end = !random_.OneIn(4);
  if (to_the_end) {
    EXPECT_TRUE(scheduler_.RunUntil(all_have_left, 2'000'000))
        << "clients wait for ever: " << connected_ << " of " << to_connect_ << " connected, "
        << admitted << " admitted, " << turned_away << " turned away, " << served_.size()
        << " served, " << quotas_->held() << " held";
  } else {
    scheduler_.RunUntil(all_have_left, random_.Below(2000));
  }

  for (const auto& host : hosts_) host->intake().StopAccepting();
  const auto all_stopped = [this] {
    return std::all_of(hosts_.begin(), hosts_.end(),
                       [](const auto& host) { return host->intake().stopped(); });
  };
  to_connect_ = connected_;
  EXPECT_TRUE(scheduler_.RunUntil(all_stopped, 100'000)) << "an intake does not stop";
  EXPECT_EQ(quotas_->held(), 0);
  while (!served_.empty()) CloseServed(0);
  EXPECT_EQ(quotas_->total(), 0);
  EXPECT_EQ(quotas_->addresses(), 0u);
  for (size_t i = 0; i < listeners_.size(); ++i) {
    EXPECT_EQ(quotas_->connections_of(static_cast<int>(i)), 0);
  }
  for (const auto& host : hosts_) network_.Close(host->listen_fd());
  for (const auto& [port, client] : clients_) {
    if (!client.left) network_.Close(client.fd);
  }
  EXPECT_EQ(network_.open_sockets(), 0u);
}

TEST(QuotaSimulationTest, LimitsHoldClientsGetAnOutcomeAndNothingLeaks) {
  FLAGS_minloglevel = google::GLOG_ERROR;  // refusals are the point
  int admitted = 0;
  int turned_away = 0;
  const uint64_t count = ForEachSeed(0, 250, [&](uint64_t seed) {
    World world(seed);
    world.Run();
    admitted += world.admitted;
    turned_away += world.turned_away;
  });
  std::printf("%llu seeds: %d admitted, %d turned away\n", static_cast<unsigned long long>(count),
              admitted, turned_away);
}

}  // namespace
}  // namespace gyre::sim
