// gyred: the broker as a program.
#include <sys/random.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/metrics/metric_registry.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/gyred_admin.h"
#include "tools/gyred/gyred_flags.h"

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

// From now on another signal ends the process on the spot.
void UnblockStopSignals() {
  const sigset_t signals = StopSignals();
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

int Run(gyre::FlagRegistry& flags, gyre::BrokerServerOptions options) {
  const sigset_t signals = BlockSignals();
  gyre::MetricRegistry metrics;
  options.seed = Entropy();
  options.metrics = &metrics;
  gyre::GyredAdmin admin(flags, metrics, kVersion);
  if (absl::Status status = admin.Start(options.admin, options.uring_hidden); !status.ok()) {
    return Refuse(status);
  }
  if (admin.listening()) {
    std::printf("gyred: admin pages on http://%s\n", admin.Address().c_str());
    std::fflush(stdout);
  }
  gyre::BrokerServer server(std::move(options));
  if (absl::Status status = server.Start(); !status.ok()) return Refuse(status);
  admin.OnServing(server);
  for (const gyre::Endpoint& endpoint : server.bound_endpoints()) {
    std::printf("gyred: listening on %s\n", endpoint.ToString().c_str());
  }
  std::fflush(stdout);
  ServeUntilSignal(metrics, signals);
  UnblockStopSignals();
  admin.OnDraining();
  if (absl::Status status = server.Stop(); !status.ok()) return Refuse(status);
  admin.Stop();
  LOG(INFO) << "stopped";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, true);
  gyre::FlagRegistry flags(gyre::AllFlagGroups());
  if (gyre::HelpWanted()) {
    std::fputs(gyre::HelpText(flags).c_str(), stdout);
    return 0;
  }
  if (gyre::VersionWanted()) {
    std::printf("gyred %s\n", kVersion);
    return 0;
  }
  if (argc > 1) {
    return Refuse(absl::InvalidArgumentError(std::string("'") + argv[1] +
                                             "' is not a flag; see gyred --help"));
  }
  absl::StatusOr<gyre::BrokerServerOptions> options = gyre::OptionsFromFlags(flags);
  if (!options.ok()) return Refuse(options.status());
  if (gyre::CheckConfigWanted()) {
    std::printf("gyred: the configuration is valid\n");
    return 0;
  }
  google::InitGoogleLogging(argv[0]);
  return Run(flags, *std::move(options));
}
