#include "tests/simulation/sim_broker.h"

#include <cerrno>
#include <utility>
#include <vector>

namespace gyre::sim {

void SimBroker::BlockingFileIo::Submit(FileOperation* operation) {
  if (!on_the_spot_) return behind_.Submit(operation);
  File& file = *operation->file;
  switch (operation->kind) {
    case FileOperation::Kind::kRead:
      operation->result = file.ReadAt(operation->position, operation->parts[0].iov_base,
                                      operation->parts[0].iov_len);
      break;
    case FileOperation::Kind::kWrite:
      operation->result =
          file.WriteVAt(operation->position, operation->parts, operation->part_count);
      break;
    case FileOperation::Kind::kSync:
      operation->result = file.Sync().ok() ? IoResult::Bytes(0) : IoResult::Error(EIO);
      break;
  }
  operation->on_done(operation);
}

SimBroker::SimBroker(uint64_t seed, uint16_t port, int64_t segment_bytes, FlushMode flush_mode,
                     ManualClock& clock, SimNetwork& network, FaultInjectingFileSystem& disk,
                     SimScheduler& scheduler)
    : random_(seed),
      port_(port),
      segment_bytes_(segment_bytes),
      flush_mode_(flush_mode),
      clock_(clock),
      network_(network),
      disk_(disk),
      scheduler_(scheduler) {}

SimBroker::~SimBroker() {
  if (running()) Crash(PowerLossMode::kKeepEverything);
}

absl::Status SimBroker::Start() {
  auto incarnation = std::make_unique<Incarnation>();
  incarnation->timer = std::make_unique<Timer>(clock_);
  incarnation->file_ring = std::make_unique<uring::FileRing>(
      std::make_unique<SimRing>(random_.Next(), SimRing::Options{}, network_), 4);
  incarnation->file_io = std::make_unique<BlockingFileIo>(*incarnation->file_ring);
  SimServerOptions server = SimServerOptions::Tight(random_.Next());
  server.port = port_;
  if (max_in_flight_ > 0) {
    server.processor.connection.max_in_flight_requests_per_connection = max_in_flight_;
  }
  incarnation->server = std::make_unique<SimServer>(random_.Next(), server, clock_, network_);

  BrokerOptions broker;
  broker.log_dir = kLogDir;
  broker.config.topic_defaults.segment_bytes = segment_bytes_;
  broker.flush_mode = flush_mode_;
  broker.recovery_thread_count = 0;
  broker.seed = random_.Next();
  broker.file_system = &disk_;
  broker.file_io = incarnation->file_io.get();
  broker.clock = &clock_;
  broker.timer = incarnation->timer.get();
  broker.lane = &incarnation->server->continuations();
  broker.response_allocator = &incarnation->server->response_buffers();
  absl::StatusOr<std::unique_ptr<Broker>> opened = Broker::Open(broker);
  if (!opened.ok()) return opened.status();
  incarnation->broker = *std::move(opened);

  incarnation->file_ring->OnThreadStart();
  scheduler_.AddThread("timer", *incarnation->timer);
  scheduler_.AddThread("log-io", *incarnation->file_ring, incarnation->file_ring.get());
  incarnation->server->Start(incarnation->broker->request_handler(), scheduler_);
  std::vector<BrokerEndpointImage> endpoints(1);
  endpoints[0] = {"SIM", "127.0.0.1", port_, 0};
  const absl::Status registered = incarnation->broker->Register(std::move(endpoints));
  incarnation->file_io->SetOnTheSpot(false);
  incarnation_ = std::move(incarnation);
  return registered;
}

// As BrokerServer does it, from the outside in.
void SimBroker::TakeDown() {
  incarnation_->server->Halt();
  incarnation_->broker->DropDelayed();
  incarnation_->file_ring->OnThreadStop();
  incarnation_->broker.reset();
  incarnation_->server.reset();
  incarnation_.reset();
}

void SimBroker::Crash(PowerLossMode mode) {
  // What the teardown does must not reach the disk.
  disk_.PowerOffAt(1);
  network_.DropServer();
  TakeDown();
  disk_.PowerLoss(mode);
}

absl::Status SimBroker::Stop() {
  incarnation_->server->BeginStop(/*drain=*/true);
  const bool drained = scheduler_.RunUntil(
      [this] {
        incarnation_->broker->CompleteDelayedFetches();
        return incarnation_->server->stopped();
      },
      1'000'000);
  if (!drained) return absl::DeadlineExceededError("connections do not drain");
  incarnation_->server->Halt();
  incarnation_->broker->DropDelayed();
  incarnation_->file_ring->OnThreadStop();
  incarnation_->file_io->SetOnTheSpot(true);
  const absl::Status closed = incarnation_->broker->Close();
  incarnation_->broker.reset();
  incarnation_->server.reset();
  incarnation_.reset();
  return closed;
}

}  // namespace gyre::sim
