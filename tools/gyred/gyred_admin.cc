#include "tools/gyred/gyred_admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/uring/features.h"

namespace gyre {

namespace {

constexpr int64_t kListTimeoutMs = 2'000;

}  // namespace

GyredAdmin::GyredAdmin(FlagRegistry& flags, MetricRegistry& metrics, std::string version)
    : flags_(flags), metrics_(metrics), process_(Clock::Real().WallTimeMs()) {
  metrics_.AddCollector(&process_);
  version_.program = "gyred";
  version_.version = std::move(version);
  version_.start_time_unix_ms = Clock::Real().WallTimeMs();
}

GyredAdmin::~GyredAdmin() {
  Stop();
  metrics_.RemoveCollector(&process_);
}

absl::Status GyredAdmin::Start(const AdminListenerOptions& options, uring::FeatureSet hidden,
                               std::vector<ListenSocket> adopted) {
  if (!options.enabled) return absl::OkStatus();
  GYRE_ASSIGN_OR_RETURN(const uring::Features features, uring::ProbeFeatures(hidden));
  version_.kernel = features.kernel_release;
  version_.io_uring = features.Describe();
  AdminServerOptions server;
  server.endpoint = options.endpoint;
  server.writes = options.writes;
  server.metrics = &metrics_;
  server.hidden_features = hidden;
  server.max_connections = options.max_connections;
  server.connections_max_idle_ms = options.connections_max_idle_ms;
  server_ = std::make_unique<AdminServer>(std::move(server), *this);
  server_->AdoptListenSockets(std::move(adopted));
  absl::Status status = server_->Start();
  if (!status.ok()) server_.reset();
  return status;
}

absl::StatusOr<std::vector<ListenSocket>> GyredAdmin::DuplicateListenSockets() {
  if (server_ == nullptr) return std::vector<ListenSocket>();
  return server_->DuplicateListenSockets();
}

std::string GyredAdmin::Address() const {
  Endpoint endpoint = server_->endpoint();
  const std::string bound = endpoint.host;
  endpoint.host = DefaultAdvertisedHost(endpoint);
  const std::string reached(absl::StripPrefix(endpoint.ToString(), "ADMIN://"));
  if (endpoint.host == bound) return reached;
  return absl::StrCat(reached, bound == "::" ? " (every IPv6 address)" : " (every IPv4 address)");
}

void GyredAdmin::OnServing(BrokerServer& server) {
  MutexLock lock(mutex_);
  serving_ = &server;
  phase_ = "serving";
}

void GyredAdmin::OnDraining() {
  MutexLock lock(mutex_);
  phase_ = "draining";
  if (serving_ == nullptr) return;
  // Ends a change of the number of threads that would take its time.
  serving_->network().BeginDrain();
  serving_ = nullptr;
  while (users_ > 0) unused_.Wait(mutex_);
}

GyredAdmin::InUse::InUse(GyredAdmin& admin) : admin_(admin) {
  MutexLock lock(admin_.mutex_);
  server_ = admin_.serving_;
  if (server_ != nullptr) ++admin_.users_;
}

GyredAdmin::InUse::~InUse() {
  if (server_ == nullptr) return;
  MutexLock lock(admin_.mutex_);
  if (--admin_.users_ == 0) admin_.unused_.NotifyAll();
}

void GyredAdmin::Stop() {
  if (server_ != nullptr) server_->Stop();
}

std::string GyredAdmin::Metrics() { return metrics_.Exposition(); }

absl::Status GyredAdmin::Health() {
  const InUse server(*this);
  return server ? server->Health() : absl::OkStatus();
}

absl::Status GyredAdmin::Ready() {
  MutexLock lock(mutex_);
  return serving_ != nullptr ? absl::OkStatus() : absl::UnavailableError(phase_);
}

AdminVersion GyredAdmin::Version() { return version_; }

std::vector<AdminFlag> GyredAdmin::Flags() {
  std::vector<AdminFlag> flags;
  for (FlagRegistry::Entry& entry : flags_.List()) {
    flags.push_back(AdminFlag{.name = std::move(entry.name),
                              .group = std::move(entry.group),
                              .type = std::move(entry.type),
                              .value = std::move(entry.value),
                              .default_value = std::move(entry.default_value),
                              .help = std::move(entry.help),
                              .unit = std::move(entry.unit),
                              .good_values = std::move(entry.good_values),
                              .live = entry.live});
  }
  return flags;
}

absl::Status GyredAdmin::SetFlag(absl::string_view name, absl::string_view value) {
  const InUse server(*this);
  if (!server) {
    return absl::UnavailableError("flags are set while clients are served, not now");
  }
  return flags_.Set(name, value, *server);
}

std::vector<ConnectionInfo> GyredAdmin::Connections(size_t max_count, int64_t* open_count) {
  const InUse server(*this);
  *open_count = server ? server->network().connection_count() : 0;
  if (!server) return {};
  return server->network().ListConnections(max_count, kListTimeoutMs);
}

}  // namespace gyre
