#include "tests/simulation/sim_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace gyre::sim {
namespace {

std::unique_ptr<SlabPool> MakeSlab(const SimServerOptions& options) {
  const int64_t run_bytes =
      (int64_t{options.processor.receive_buffer_bytes} * options.processor.receive_buffer_count +
       kSlabMaxBytes) *
      options.processors;
  SlabPoolConfig config = SlabPoolConfig::Evenly(64 * 1024, run_bytes);
  config.huge_pages = false;
  absl::StatusOr<std::unique_ptr<SlabPool>> slab = SlabPool::Create(config);
  CHECK(slab.ok()) << slab.status();
  return *std::move(slab);
}

}  // namespace

SimServerOptions SimServerOptions::Tight(uint64_t seed) {
  Random random(seed ^ 0x5eed0f0751ed0975);
  SimServerOptions options;
  options.processors = static_cast<int>(random.Between(1, 3));
  options.handlers = static_cast<int>(random.Between(1, 3));
  options.queued_max_requests = static_cast<uint32_t>(random.Between(1, 4));
  options.ring.multishot_receive = !random.OneIn(4);
  options.ring.max_pipes = static_cast<size_t>(random.Between(0, 4));
  ProcessorOptions& processor = options.processor;
  processor.receive_buffer_bytes = 256u << random.Below(4);
  processor.receive_buffer_count = 4u << random.Below(3);
  processor.max_connections = 64;
  options.ring.zero_copy = !random.OneIn(4);
  options.ring.zero_copy_copied_one_in = random.Below(4);
  processor.connection.zero_copy_min_bytes = random.OneIn(4) ? -1 : random.Between(1, 1024);
  processor.connection.zero_copy_max_pinned_bytes = int64_t{8192} << random.Below(8);
  processor.zero_copy_close_timeout_ms = random.Between(0, 100);
  processor.splice_pipe_count = static_cast<int32_t>(random.Between(1, 3));
  processor.splice_pipe_bytes = 4096;
  ConnectionOptions& connection = processor.connection;
  connection.max_in_flight_requests_per_connection = static_cast<int32_t>(random.Between(1, 5));
  connection.receive_ahead_bytes = random.Between(256, 4096);
  connection.dispatch = random.OneIn(3) ? Dispatch::kInline : Dispatch::kPool;
  connection.file_transfer = static_cast<FileTransfer>(random.Below(4));
  connection.file_copy_max_bytes = random.Between(0, 256);
  connection.send_quantum_bytes = random.Between(512, 8192);
  connection.socket_request_max_bytes = 1 << 20;
  return options;
}

SimServer::SimServer(uint64_t seed, const SimServerOptions& options, const Clock& clock,
                     SimNetwork& network)
    : options_(options),
      connection_options_(options.processor.connection),
      clock_(clock),
      network_(network),
      random_(seed ^ 0x5e44e4),
      memory_(options.queued_max_request_bytes,
              options.processor.connection.socket_request_max_bytes + 4),
      large_ranges_(LargeRangesConfig{}),
      slab_(MakeSlab(options)),
      response_buffers_(slab_.get()),
      quotas_(options.quotas),
      metrics_(&registry_),
      request_metrics_(nullptr, {}),
      channel_(options.queued_max_requests, clock, memory_, options.lanes),
      frame_decoder_(options.processor.connection.socket_request_max_bytes),
      listen_fd_(network.Listen(options.port)) {
  listener_.bound = {"SIM", "127.0.0.1", options.port};
  listener_.advertised_host = "127.0.0.1";
  listener_.advertised_port = options.port;
  listener_.frame_decoder = &frame_decoder_;
}

SimServer::~SimServer() { Halt(); }

void SimServer::Halt() {
  if (!std::exchange(running_, false)) return;
  acceptor_->OnThreadStop();
  for (const auto& processor : processors_) processor->OnThreadStop();
  for (const auto& processor : retiring_) processor->OnThreadStop();
  network_.Close(listen_fd_);
}

std::unique_ptr<SimRing> SimServer::MakeRing() {
  return std::make_unique<SimRing>(random_.Next(), options_.ring, network_);
}

void SimServer::AddProcessor(std::unique_ptr<ProcessorSeat> seat) {
  processors_.push_back(std::make_unique<Processor>(
      *seat, options_.processor,
      Processor::Shared{channel_, *handler_, *slab_, large_ranges_, metrics_, request_metrics_},
      MakeRing()));
  Processor& processor = *processors_.back();
  processor.EnqueueOptions(connection_options_);
  processor.OnThreadStart();
  CHECK(processor.AwaitStart().ok()) << processor.AwaitStart();
  scheduler_->AddThread(absl::StrCat("processor-", processor.index()), processor, &processor);
  processor_set_.Add(seat.get());
  seats_.push_back(std::move(seat));
}

void SimServer::Start(RequestHandler& handler, SimScheduler& scheduler) {
  running_ = true;
  handler_ = &handler;
  scheduler_ = &scheduler;
  for (int i = 0; i < options_.processors; ++i) {
    char* const receive_base = slab_->CarveRun(options_.processor.receive_buffer_bytes,
                                               options_.processor.receive_buffer_count);
    CHECK(receive_base != nullptr);
    AddProcessor(std::make_unique<ProcessorSeat>(i, options_.processor, receive_base));
  }
  // A close(2) of the simulated number by UniqueFd finds nothing.
  acceptor_ = std::make_unique<Acceptor>(listener_, UniqueFd(listen_fd_), MakeRing(), quotas_,
                                         processor_set_, metrics_);
  for (int i = 0; i < options_.handlers; ++i) {
    workers_.push_back(std::make_unique<HandlerWorker>(channel_, handler, clock_));
  }
  acceptor_->OnThreadStart();
  scheduler.AddThread("acceptor", *acceptor_, acceptor_.get());
  for (const auto& worker : workers_) scheduler.AddThread("handler", *worker);
}

std::unique_ptr<ProcessorSeat> SimServer::TakeSeat(const ProcessorSeat& seat) {
  const auto found = std::find_if(seats_.begin(), seats_.end(),
                                  [&seat](const auto& each) { return each.get() == &seat; });
  std::unique_ptr<ProcessorSeat> taken = std::move(*found);
  seats_.erase(found);
  return taken;
}

// As ProcessorPool does it.
bool SimServer::ResizeStep() {
  for (auto it = retiring_.begin(); it != retiring_.end(); ++it) {
    Processor& processor = **it;
    if (!processor.retired()) continue;
    processor.OnThreadStop();
    scheduler_->RemoveThread(processor);
    ProcessorSeat& seat = processor.seat();
    retiring_.erase(it);
    processor_set_.Forget(&seat);
    free_seats_.push_back(TakeSeat(seat));
    return true;
  }
  if (stopping_ || !random_.OneIn(20)) return false;
  ++resizes_;
  if (processors_.size() > 1 && random_.OneIn(2)) {
    retiring_.push_back(std::move(processors_.back()));
    processors_.pop_back();
    processor_set_.Remove(&retiring_.back()->seat());
    retiring_.back()->Retire(&processor_set_);
  } else if (processors_.size() < 4) {
    std::unique_ptr<ProcessorSeat> seat;
    if (free_seats_.empty()) {
      const auto index = static_cast<int>(seats_.size());
      seat = std::make_unique<ProcessorSeat>(index, options_.processor, nullptr);
    } else {
      seat = std::move(free_seats_.back());
      free_seats_.pop_back();
    }
    AddProcessor(std::move(seat));
    for (const auto& processor : processors_) processor->Rebalance(&processor_set_);
  }
  return true;
}

void SimServer::SetConnectionOptions(const ConnectionOptions& options) {
  connection_options_ = options;
  for (const auto* processors : {&processors_, &retiring_}) {
    for (const auto& processor : *processors) processor->EnqueueOptions(options);
  }
}

void SimServer::BeginStop(bool drain) {
  stopping_ = true;
  acceptor_->StopAccepting();
  for (const auto* processors : {&processors_, &retiring_}) {
    for (const auto& processor : *processors) {
      if (drain) {
        processor->BeginDrain();
      } else {
        processor->CloseAll();
      }
    }
  }
}

bool SimServer::stopped() const {
  return acceptor_->stopped() && processor_set_.open_connections() == 0;
}

std::string SimServer::Leaks() const {
  std::string leaks;
  const auto expect_zero = [&leaks](absl::string_view what, int64_t value) {
    if (value != 0) absl::StrAppend(&leaks, what, "=", value, " ");
  };
  expect_zero("request bytes", memory_.used_bytes());
  expect_zero("partial request bytes", memory_.partial_bytes());
  expect_zero("memory waiters", memory_.waiter_count());
  expect_zero("response bytes", Metric("network_response_memory_bytes"));
  expect_zero("pinned bytes", Metric("network_zero_copy_pinned_bytes"));
  expect_zero("throttled connections", Metric("network_throttled_connections"));
  expect_zero("open connections", Metric("network_connections"));
  expect_zero("large range bytes", large_ranges_.lent_bytes());
  expect_zero("connections", quotas_.total());
  expect_zero("held sockets", quotas_.held());
  expect_zero("queued runs", static_cast<int64_t>(channel_.queued_runs()));
  for (const SlabPool::ClassUsage& usage : slab_->Usage()) {
    expect_zero(absl::StrCat("slab slots of ", usage.slot_bytes), usage.lent_count);
  }
  return leaks;
}

}  // namespace gyre::sim
