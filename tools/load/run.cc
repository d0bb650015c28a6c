#include "tools/load/run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "tools/load/environment.h"
#include "tools/load/host_names.h"
#include "tools/load/kafka/kafka_part.h"
#include "tools/load/load_ring.h"
#include "tools/load/progress.h"
#include "tools/load/report/metrics_page.h"
#include "tools/load/worker.h"
#include "tools/load/workloads/connect.h"
#include "tools/load/workloads/echo.h"
#include "tools/load/workloads/idle.h"

namespace gyre::load {
namespace {

constexpr int64_t kTickNs = 50'000'000;
// Between the last thread's readiness and the first operation.
constexpr int64_t kStartDelayNs = 5'000'000;

// One part with its threads.
struct RunningPart {
  Part part;
  std::unique_ptr<KafkaPart> kafka;
  std::vector<std::unique_ptr<Worker>> workers;
  PartResult result;
  int64_t start_ns = 0;

  int64_t warm_end_ns() const { return start_ns + part.options.warmup_ns; }
  int64_t end_ns() const { return warm_end_ns() + part.options.duration_ns; }
  bool finished() const {
    return std::all_of(workers.begin(), workers.end(),
                       [](const auto& worker) { return worker->finished(); });
  }
};

class Conductor {
 public:
  Conductor(const std::vector<Options>& parts, const std::atomic<bool>& interrupted)
      : interrupted_(interrupted), clock_(Clock::Real()), progress_(parts.front().progress) {
    for (const Options& options : parts) {
      parts_.push_back(std::make_unique<RunningPart>());
      parts_.back()->part.options = options;
    }
  }

  absl::StatusOr<RunResult> Run();

 private:
  absl::Status Prepare(RunningPart& running);
  std::unique_ptr<ThreadLoad> MakeLoad(RunningPart& running, int32_t thread);
  absl::Status OpenAll();
  void Watch();
  void Sample(int64_t now_ns);
  void Collect(RunningPart& running);
  std::vector<const Board*> Boards() const;

  const std::atomic<bool>& interrupted_;
  const Clock& clock_;
  HostNames hosts_;
  Progress progress_;
  std::vector<std::unique_ptr<RunningPart>> parts_;
  std::unique_ptr<StartGate> gate_;
  double cpu_at_start_ = -1;
  double cpu_at_end_ = -1;
};

absl::Status Conductor::Prepare(RunningPart& running) {
  Part& part = running.part;
  Options& options = part.options;
  part.clock = &clock_;
  part.hosts = &hosts_;
  part.run = static_cast<uint32_t>(Random(static_cast<uint64_t>(clock_.NowNs())).Next());
  for (const auto& [host, port] : options.brokers) {
    GYRE_ASSIGN_OR_RETURN(const SocketAddress address,
                          hosts_.Await(host, port, options.timeout_ns, interrupted_), "--brokers");
    part.addresses.push_back(address);
  }
  if (!options.payload_file.empty()) {
    GYRE_ASSIGN_OR_RETURN(part.payload_lines, ReadLines(options.payload_file), "--payload_file");
    if (part.payload_lines.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--payload_file: ", options.payload_file, " has no lines"));
    }
  }
  PartResult& result = running.result;
  result.name = options.name;
  result.workload = std::string(WorkloadName(options.workload));
  result.options = options.given;
  result.rate_asked = options.rate;
  result.min_rate_percent = options.min_rate_percent;
  result.allow_reconnects = options.allow_reconnects;
  if (IsKafka(options.workload)) {
    GYRE_ASSIGN_OR_RETURN(running.kafka, KafkaPart::Prepare(part, interrupted_));
  }
  return absl::OkStatus();
}

std::unique_ptr<ThreadLoad> Conductor::MakeLoad(RunningPart& running, int32_t thread) {
  switch (running.part.options.workload) {
    case Workload::kEcho:
      return std::make_unique<EchoLoad>(running.part, thread);
    case Workload::kConnect:
      return std::make_unique<ConnectLoad>(running.part, thread);
    case Workload::kIdle:
      return std::make_unique<IdleLoad>(running.part, thread);
    case Workload::kProduce:
    case Workload::kConsume:
    case Workload::kEndToEnd:
      return running.kafka->MakeLoad(thread);
    case Workload::kMixed:
    case Workload::kNone:
      break;
  }
  return nullptr;
}

// Starts every worker and waits until all have opened what they need.
absl::Status Conductor::OpenAll() {
  int32_t worker_count = 0;
  for (const auto& running : parts_) worker_count += running->part.options.threads;
  gate_ = std::make_unique<StartGate>(worker_count);
  for (const auto& running : parts_) {
    running->result.memory_before = SampleMemory(running->part.options.server_pid);
    for (int32_t thread = 0; thread < running->part.options.threads; ++thread) {
      GYRE_ASSIGN_OR_RETURN(std::unique_ptr<uring::Ring> ring, MakeLoadRing(running->part.options));
      running->workers.push_back(std::make_unique<Worker>(
          running->part, std::move(ring), MakeLoad(*running, thread), *gate_, interrupted_));
    }
  }
  for (const auto& running : parts_) {
    for (const auto& worker : running->workers) worker->Start();
  }
  absl::Status status;
  while (!gate_->AwaitAll(kTickNs, &status)) {
    if (interrupted_) status = absl::CancelledError("interrupted");
    if (!status.ok()) break;
  }
  return status;
}

std::vector<const Board*> Conductor::Boards() const {
  std::vector<const Board*> boards;
  for (const auto& running : parts_) boards.push_back(&running->part.board);
  return boards;
}

void Conductor::Sample(int64_t now_ns) {
  const RunningPart& first = *parts_.front();
  if (now_ns >= first.warm_end_ns() && cpu_at_start_ < 0) cpu_at_start_ = CpuSeconds();
  if (now_ns >= first.end_ns() && cpu_at_end_ < 0) cpu_at_end_ = CpuSeconds();
  for (const auto& running : parts_) {
    if (running->part.options.workload == Workload::kIdle && now_ns < running->end_ns()) {
      running->result.memory_after = SampleMemory(running->part.options.server_pid);
    }
  }
}

void Conductor::Watch() {
  const auto finished = [this] {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const auto& running) { return running->finished(); });
  };
  Mutex mutex;
  CondVar never;
  while (!finished()) {
    const int64_t now_ns = clock_.NowNs();
    Sample(now_ns);
    const RunningPart& first = *parts_.front();
    progress_.Show(now_ns, {first.start_ns, first.warm_end_ns(), first.end_ns()}, Boards());
    MutexLock lock(mutex);
    never.WaitFor(mutex, kTickNs);
  }
  progress_.End();
  Sample(clock_.NowNs());
  if (cpu_at_end_ < 0) cpu_at_end_ = CpuSeconds();
}

void Conductor::Collect(RunningPart& running) {
  PartResult& result = running.result;
  int64_t ended_ns = 0;
  for (const auto& worker : running.workers) {
    worker->Collect(&result);
    ended_ns = std::max(ended_ns, worker->ended_ns());
  }
  result.seconds = running.part.board.Summaries();
  const int64_t measured_ns = std::min(ended_ns, running.end_ns()) - running.warm_end_ns();
  result.measured_s = static_cast<double>(std::max<int64_t>(measured_ns, 0)) / 1e9;
  if (cpu_at_start_ >= 0) result.client_cpu_s = cpu_at_end_ - cpu_at_start_;
  if (running.kafka != nullptr) running.kafka->Settle(interrupted_, &result);
}

absl::StatusOr<RunResult> Conductor::Run() {
  RunResult result;
  result.machine = DescribeMachine();
  result.started_unix_ms = clock_.WallTimeMs();
  int64_t connections = 0;
  for (const auto& running : parts_) {
    if (absl::Status status = Prepare(*running); absl::IsCancelled(status)) {
      result.interrupted = true;
      return result;
    } else if (!status.ok()) {
      return status;
    }
    connections += 2 * int64_t{running->part.options.connections} + running->part.options.threads;
  }
  GYRE_RETURN_IF_ERROR(RaiseDescriptorLimit(connections));
  const std::string& metrics_url = parts_.front()->part.options.metrics_url;
  if (!metrics_url.empty()) {
    GYRE_ASSIGN_OR_RETURN(result.metrics_before, FetchMetrics(metrics_url, hosts_, interrupted_),
                          "--metrics_url");
  }

  const absl::Status opened = OpenAll();
  if (opened.ok()) {
    const int64_t start_ns = clock_.NowNs() + kStartDelayNs;
    for (const auto& running : parts_) running->start_ns = start_ns;
    gate_->Open(start_ns);
    Watch();
  } else {
    gate_->Abandon();
  }
  for (const auto& running : parts_) {
    for (const auto& worker : running->workers) worker->Join();
  }
  if (!opened.ok() && !absl::IsCancelled(opened)) return opened;
  if (!metrics_url.empty()) {
    absl::StatusOr<MetricValues> after = FetchMetrics(metrics_url, hosts_, interrupted_);
    if (after.ok()) {
      result.metrics_after = *std::move(after);
    } else {
      result.notes.push_back(
          absl::StrCat("--metrics_url: gone after the run: ", after.status().message()));
    }
  }
  for (const auto& running : parts_) {
    Collect(*running);
    result.parts.push_back(std::move(running->result));
  }
  result.interrupted = interrupted_;
  Judge(&result);
  return result;
}

}  // namespace

absl::StatusOr<RunResult> RunParts(const std::vector<Options>& parts,
                                   const std::atomic<bool>& interrupted) {
  return Conductor(parts, interrupted).Run();
}

}  // namespace gyre::load
