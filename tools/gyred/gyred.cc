// gyred: the broker as a program.
#include <sys/random.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/metrics/metric_registry.h"
#include "engine/process/service_notifier.h"
#include "engine/process/takeover.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/config_check.h"
#include "tools/gyred/flags/command_line.h"
#include "tools/gyred/gyred_admin.h"
#include "tools/gyred/gyred_flags.h"
#include "tools/gyred/gyred_takeover.h"

namespace {

constexpr char kVersion[] = "0.1.0";

int Refuse(const absl::Status& status) {
  std::fprintf(stderr, "gyred: %s\n", std::string(status.message()).c_str());
  return 1;
}

uint64_t Entropy() {
  uint64_t seed = 0;
  CHECK_EQ(getrandom(&seed, sizeof(seed), 0), static_cast<ssize_t>(sizeof(seed)));
  return seed;
}

// What drains and ends the program. Under nohup a hang-up does not.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&signals, SIGHUP);
  }
  return signals;
}

// Every thread inherits the mask, so that only main takes these, with sigwait.
sigset_t BlockSignals() {
  sigset_t signals = StopSignals();
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A file that may not grow (ulimit -f) is an error of the write, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// With async-signal-safe calls only.
void EndOnTheSpot(int signal) {
  constexpr char kLine[] =
      "gyred: a second signal: ended without draining and without the clean-stop marker; the next "
      "start recovers the logs\n";
  (void)!write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// From now on another signal ends the process on the spot.
void UnblockStopSignals() {
  const sigset_t signals = StopSignals();
  struct sigaction action = {};
  action.sa_handler = &EndOnTheSpot;
  // Else the one that it raises would wait for its return.
  action.sa_flags = SA_NODEFER;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&signals, signal) == 1) sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void ServeUntilSignal(const gyre::MetricRegistry& metrics, const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) == 0) {
    if (signal != SIGUSR1) {
      LOG(INFO) << "signal " << signal << ": draining";
      return;
    }
    std::fputs(metrics.Exposition().c_str(), stderr);
    std::fflush(stderr);
  }
}

// Without waiting: whether somebody wants the program to end.
bool StopWanted(const sigset_t& signals) {
  const timespec no_time = {};
  siginfo_t info;
  const int signal = sigtimedwait(&signals, &info, &no_time);
  return signal > 0 && signal != SIGUSR1;
}

void LogIfFailed(const absl::Status& status) {
  if (!status.ok()) LOG(WARNING) << status.message();
}

// From here on the other process drains, and this one serves when it has.
absl::Status TakeOver(gyre::Takeover& takeover, int64_t timeout_ms, const sigset_t& signals) {
  LOG(INFO) << "taking over from process " << takeover.pid();
  if (absl::Status status = takeover.Commit(); !status.ok()) return status;
  return takeover.AwaitDone(timeout_ms, [&signals] { return StopWanted(signals); });
}

void PrintEndpoints(const gyre::BrokerServer& server) {
  for (const gyre::Endpoint& endpoint : server.bound_endpoints()) {
    std::printf("gyred: listening on %s\n", endpoint.ToString().c_str());
  }
  std::fflush(stdout);
}

int Run(gyre::FlagRegistry& flags, const gyre::BrokerServerOptions& options) {
  const sigset_t signals = BlockSignals();
  const gyre::ServiceNotifier manager = gyre::ServiceNotifier::FromEnvironment();
  absl::StatusOr<std::optional<gyre::Takeover>> takeover = gyre::BeginTakeover(options);
  if (!takeover.ok()) return Refuse(takeover.status());
  gyre::TakenSockets taken;
  if (takeover->has_value()) {
    absl::StatusOr<gyre::TakenSockets> sockets = gyre::SocketsFor(options, **takeover);
    if (!sockets.ok()) return Refuse(sockets.status());
    taken = *std::move(sockets);
  }

  gyre::MetricRegistry metrics;
  gyre::GyredAdmin admin(flags, metrics, kVersion);
  gyre::BrokerServerOptions server_options = options;
  server_options.seed = Entropy();
  server_options.metrics = &metrics;
  gyre::BrokerServer server(std::move(server_options));
  server.AdoptListenSockets(std::move(taken.listeners));
  absl::Status status = server.Prepare();
  if (status.ok()) {
    status = admin.Start(options.admin, options.uring_hidden, std::move(taken.admin));
  }
  if (status.ok() && admin.listening()) {
    std::printf("gyred: admin pages on http://%s\n", admin.Address().c_str());
    std::fflush(stdout);
  }
  if (status.ok() && takeover->has_value()) {
    LogIfFailed(manager.Status("waiting for the process before to drain"));
    status = TakeOver(**takeover, options.takeover.timeout_ms, signals);
  }
  if (status.ok()) {
    LogIfFailed(manager.Status("recovering"));
    status = server.Start();
  }
  if (!status.ok()) return Refuse(status);
  admin.OnServing(server);
  PrintEndpoints(server);
  // A successor's commit is as good as a signal.
  std::unique_ptr<gyre::TakeoverPoint> point =
      gyre::OfferTakeover(options, server, admin, [] { kill(getpid(), SIGTERM); });
  LogIfFailed(manager.Ready());

  ServeUntilSignal(metrics, signals);
  if (point != nullptr) {
    point->Close();
    // A commit that came beside the signal is no second signal.
    if (point->committed()) StopWanted(signals);
  }
  UnblockStopSignals();
  LogIfFailed(manager.Stopping());
  admin.OnDraining();
  status = server.Stop();
  admin.Stop();
  if (point != nullptr) point->Done();
  if (!status.ok()) return Refuse(status);
  LOG(INFO) << "stopped";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  gyre::FlagRegistry flags(gyre::AllFlagGroups());
  if (absl::Status status = gyre::ParseCommandLine({argv + 1, argv + argc}, flags); !status.ok()) {
    return Refuse(status);
  }
  if (gyre::HelpWanted()) {
    std::fputs(gyre::HelpText(flags).c_str(), stdout);
    return 0;
  }
  if (gyre::VersionWanted()) {
    std::printf("gyred %s\n", kVersion);
    return 0;
  }
  absl::StatusOr<gyre::BrokerServerOptions> options = gyre::OptionsFromFlags(flags);
  if (!options.ok()) return Refuse(options.status());
  if (absl::Status status = gyre::CheckConfig(*options); !status.ok()) return Refuse(status);
  if (gyre::CheckConfigWanted()) {
    std::printf("gyred: the configuration is valid\n");
    return 0;
  }
  google::InitGoogleLogging(argv[0]);
  return Run(flags, *std::move(options));
}
