// gyred: the broker as a program.
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/metrics/metric_registry.h"
#include "engine/process/reexecution.h"
#include "engine/process/service_notifier.h"
#include "engine/process/start_watch.h"
#include "engine/process/stop_signals.h"
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

// Opens what is closed of the standard streams. Else whatever is opened first gets their
// numbers, and log lines: a socket, or a file of the logs.
void OpenStandardStreams() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

// Whoever logs must not wait for the reader of a pipe on standard error, least of all the
// thread that obeys signals: lines that it does not keep up with are lost.
void LetStandardErrorLoseLines() {
  struct stat file = {};
  if (fstat(STDERR_FILENO, &file) != 0 || !S_ISFIFO(file.st_mode)) return;
  // Opened anew, so that it does not become so for others that have the pipe.
  const int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  // Where it may be that large, few are lost.
  fcntl(fd, F_SETPIPE_SZ, 1024 * 1024);
  dup2(fd, STDERR_FILENO);
  close(fd);
}

// Gives a reader that is slow its time, and one that does not read none.
void WriteToStandardError(absl::string_view text) {
  constexpr int kPatienceMs = 500;
  while (!text.empty()) {
    const ssize_t size = write(STDERR_FILENO, text.data(), text.size());
    if (size > 0) text.remove_prefix(static_cast<size_t>(size));
    if (size >= 0 || errno == EINTR) continue;
    pollfd entry = {STDERR_FILENO, POLLOUT, 0};
    if (errno != EAGAIN || poll(&entry, 1, kPatienceMs) <= 0) return;
  }
}

int Refuse(const absl::Status& status) {
  std::fprintf(stderr, "gyred: %s\n", std::string(status.message()).c_str());
  return 1;
}

uint64_t Entropy() {
  uint64_t seed = 0;
  CHECK_EQ(getrandom(&seed, sizeof(seed), 0), static_cast<ssize_t>(sizeof(seed)));
  return seed;
}

constexpr char kSignalWhileStarting[] =
    "gyred: ended by a signal while starting; the next start recovers the logs if it has to\n";

constexpr char kSecondSignal[] =
    "gyred: a second signal: ended without draining and without the clean-stop marker; the next "
    "start recovers the logs\n";

void ServeUntilSignal(const gyre::MetricRegistry& metrics, const gyre::StopSignals& signals) {
  for (;;) {
    const int signal = signals.Wait();
    if (signals.Asks(signal)) {
      LOG(INFO) << "signal " << signal << ": draining";
      return;
    }
    WriteToStandardError(metrics.Exposition());
  }
}

void LogIfFailed(const absl::Status& status) {
  if (!status.ok()) LOG(WARNING) << status.message();
}

// From here on the other process drains, and this one serves when it has.
absl::Status TakeOver(gyre::Takeover& takeover, int64_t timeout_ms) {
  LOG(INFO) << "taking over from process " << takeover.pid();
  if (absl::Status status = takeover.Commit(); !status.ok()) return status;
  return takeover.AwaitDone(timeout_ms);
}

void PrintEndpoints(const gyre::BrokerServer& server) {
  for (const gyre::Endpoint& endpoint : server.bound_endpoints()) {
    std::printf("gyred: listening on %s\n", endpoint.ToString().c_str());
  }
  std::fflush(stdout);
}

// The listening sockets that are there already: of the process that is taken over, or
// inherited by one that serves again.
struct Start {
  std::optional<gyre::Takeover> takeover;
  gyre::TakenSockets sockets;
  bool serves_again = false;
};

absl::StatusOr<Start> Begin(const gyre::BrokerServerOptions& options) {
  Start start;
  std::optional<std::vector<gyre::ListenSocket>> inherited;
  GYRE_ASSIGN_OR_RETURN(inherited, gyre::TakeInheritedSockets());
  if (inherited.has_value()) {
    start.serves_again = true;
    GYRE_ASSIGN_OR_RETURN(start.sockets,
                          gyre::SocketsFor(options, *std::move(inherited), getpid()));
    return start;
  }
  GYRE_ASSIGN_OR_RETURN(start.takeover, gyre::BeginTakeover(options));
  if (start.takeover.has_value()) {
    GYRE_ASSIGN_OR_RETURN(
        start.sockets,
        gyre::SocketsFor(options, std::move(start.takeover->sockets()), start.takeover->pid()));
  }
  return start;
}

int Run(const std::string& program, gyre::FlagRegistry& flags,
        const gyre::BrokerServerOptions& options) {
  const gyre::StopSignals signals({SIGUSR1});
  // A file that may not grow (ulimit -f) is an error of the write, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  LetStandardErrorLoseLines();
  const gyre::ServiceNotifier manager = gyre::ServiceNotifier::FromEnvironment();
  gyre::StartWatch watch(signals, manager, kSignalWhileStarting);
  if (absl::Status status = watch.Start(); !status.ok()) return Refuse(status);
  absl::StatusOr<Start> start = Begin(options);
  if (!start.ok()) return Refuse(start.status());
  std::optional<gyre::Takeover>& takeover = start->takeover;

  gyre::MetricRegistry metrics;
  gyre::GyredAdmin admin(flags, metrics, kVersion);
  gyre::BrokerServerOptions server_options = options;
  server_options.seed = Entropy();
  server_options.metrics = &metrics;
  gyre::BrokerServer server(std::move(server_options));
  server.AdoptListenSockets(std::move(start->sockets.listeners));
  absl::Status status = server.Prepare();
  if (status.ok()) {
    status = admin.Start(options.admin, options.uring_hidden, std::move(start->sockets.admin));
  }
  if (!status.ok()) return Refuse(gyre::WithHolder(options, std::move(status)));
  if (admin.listening()) {
    std::printf("gyred: admin pages on http://%s\n", admin.Address().c_str());
    std::fflush(stdout);
  }
  if (status.ok() && takeover.has_value()) {
    LogIfFailed(manager.Status("waiting for the process before to drain"));
    status = TakeOver(*takeover, options.takeover.timeout_ms);
  }
  if (status.ok()) {
    LogIfFailed(manager.Status("recovering"));
    status = server.Recover();
  }
  if (!status.ok()) return Refuse(status);
  // Who is served from here on has a right to the drain.
  watch.Stop();
  status = server.Start();
  if (!status.ok()) return Refuse(status);
  admin.OnServing(server);
  PrintEndpoints(server);
  // A successor's commit is as good as a signal.
  std::unique_ptr<gyre::TakeoverPoint> point = gyre::OfferTakeover(
      options, server, admin, start->serves_again, [] { kill(getpid(), SIGTERM); });
  LogIfFailed(manager.Ready());
  if (takeover.has_value()) takeover->Serves();

  ServeUntilSignal(metrics, signals);
  if (point != nullptr) {
    point->Refuse(
        absl::StrCat("process ", getpid(), " is already stopping; start again when it has ended"));
    // A commit that came beside the signal is no second signal.
    if (point->committed()) signals.TryTake();
  }
  signals.EndAtNext(kSecondSignal);
  const bool handed_over = point != nullptr && point->committed();
  // It may yet serve again; and where both are of one unit, that does not stop.
  LogIfFailed(handed_over ? manager.Status("taken over: draining") : manager.Stopping());
  admin.OnDraining();
  server.Drain();
  // The next process that has the data directory has one there.
  if (point != nullptr) point->Close();
  status = server.Stop();
  admin.Stop();
  if (handed_over) {
    point->Done();
    std::vector<std::string> arguments = gyre::FlagsAsArguments();
    arguments.insert(arguments.begin(), program);
    gyre::StandBy(options, *point, signals, arguments);
  }
  if (!status.ok()) return Refuse(status);
  LOG(INFO) << "stopped";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardStreams();
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
  return Run(argv[0], flags, *std::move(options));
}
