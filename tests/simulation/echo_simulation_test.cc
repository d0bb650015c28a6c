// A service on the engine's network layer under many seeds: clients that
// pipeline, stall, half-close, vanish and come back; responses from memory and
// from files, at once and later; resets; bounds that are reached all the time.
//
// Checked: each connection's responses are those of its requests, complete and in
// order; nothing hangs; at the end everything that was lent is back.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/fs/fault_injecting_file_system.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_answers.h"
#include "tests/simulation/sim_file.h"
#include "tests/simulation/sim_run.h"
#include "tests/simulation/sim_seeds.h"
#include "tests/simulation/sim_server.h"

namespace gyre::sim {
namespace {

constexpr uint16_t kPort = 9092;
constexpr size_t kFileBytes = 20'000;

// A request's first byte says how it is answered; an answer repeats the frame.
enum Manner : char {
  kEcho = 'e',     // at once
  kDelayed = 'd',  // later, from another thread
  kFile = 'f',     // the frame, then a range of the file: offset and size, int32 each
  kSilent = 's',   // by nothing
  kClose = 'c',    // by closing
};

class EchoHandler final : public RequestHandler {
 public:
  EchoHandler(uint64_t seed, FileRef file) : random_(seed), file_(std::move(file)) {}

  void Start(RequestPtr request) override {
    const absl::string_view frame = request->frame();
    switch (frame.empty() ? static_cast<char>(kEcho) : frame[0]) {
      case kDelayed: {
        // As delayed operations do: what is needed is copied, the frame goes.
        std::string kept(frame);
        if (random_.OneIn(2)) request->ReleaseFrame();
        waiting_.emplace_back(std::move(request), std::move(kept));
        return;
      }
      case kFile:
        return ReplyWithFile(std::move(request));
      case kSilent:
        return request.ReplyNothing();
      case kClose:
        return request.CloseConnection("asked for it");
      default:
        return request.Reply(Echo(*request));
    }
  }
  bool RunsInline(const Request& request) const override {
    return request.frame().empty() || request.frame()[0] != kFile;
  }

  // Another thread's part: answers one of those that wait.
  bool AnswerOne() {
    if (waiting_.empty()) return false;
    const size_t index = random_.Below(waiting_.size());
    auto [request, frame] = std::move(waiting_[index]);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
    request.Reply(NetworkSend(Buffer::CopyOf(Framed(frame))));
    return true;
  }

 private:
  NetworkSend Echo(const Request& request) {
    const absl::string_view frame = request.frame();
    if (random_.OneIn(2)) return NetworkSend(Buffer::CopyOf(Framed(frame)));
    // From where it was received.
    NetworkSend send(Buffer::CopyOf(Framed(frame).substr(0, 4)));
    send.Append(request.frame_buffer());
    return send;
  }
  void ReplyWithFile(RequestPtr request) {
    const absl::string_view frame = request->frame();
    if (frame.size() < 9) return request.CloseConnection("a short file request");
    const auto position = LoadBigEndian<int32_t>(frame.data() + 1);
    const auto size = LoadBigEndian<int32_t>(frame.data() + 5);
    std::string head(4, '\0');
    StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(frame.size()) + size);
    NetworkSend send(Buffer::CopyOf(absl::StrCat(head, frame)));
    send.Append(FileSlice{file_, position, size});
    request.Reply(std::move(send));
  }

  Random random_;
  const FileRef file_;
  std::vector<std::pair<RequestPtr, std::string>> waiting_;
};

// One client: sends its requests, checks the answers, and connects again with
// the rest when its connection is lost.
class Client {
 public:
  Client(uint64_t seed, int request_count, bool may_misbehave, bool large_frames,
         SimNetwork& network)
      : random_(seed),
        requests_left_(request_count),
        may_misbehave_(may_misbehave),
        large_frames_(large_frames),
        network_(network) {}

  bool done() const { return fd_ < 0 && requests_left_ == 0; }
  int answered() const { return answers_.answered(); }
  int lost_connections() const { return lost_connections_; }

  std::string State() const {
    return absl::StrCat("fd ", fd_, ": ", requests_left_, " requests left, ", outgoing_.size(),
                        " bytes to send, ", answers_.State());
  }

  bool Step() {
    if (fd_ < 0) return Connect();
    if (stalled_steps_ > 0) {
      --stalled_steps_;
      return true;
    }
    if (may_misbehave_ && random_.OneIn(300)) {
      stalled_steps_ = static_cast<int>(random_.Below(200));
    }
    if (may_misbehave_ && random_.OneIn(500)) {
      if (random_.OneIn(2)) network_.SetResetOnClose(fd_);
      Disconnect();
      return true;
    }
    const bool wrote = Write();
    const bool read = fd_ >= 0 && Read();
    if (fd_ >= 0 && requests_left_ == 0 && outgoing_.empty() && answers_.done()) Disconnect();
    return wrote || read;
  }

 private:
  bool Connect() {
    if (requests_left_ == 0) return false;
    fd_ = network_.Connect(kPort);
    EXPECT_GE(fd_, 0);
    return true;
  }
  void Disconnect() {
    network_.Close(fd_);
    fd_ = -1;
    outgoing_.clear();
    answers_.Clear();
    closing_ = false;
  }
  void Lose() {
    ++lost_connections_;
    Disconnect();
  }

  void AddRequest() {
    --requests_left_;
    const uint64_t roll = random_.Below(100);
    std::string payload(1, kEcho);
    if (roll < 25) payload[0] = kDelayed;
    if (roll >= 25 && roll < 50) payload[0] = kFile;
    if (roll >= 50 && roll < 55) payload[0] = kSilent;
    if (roll == 55 && may_misbehave_) payload[0] = kClose;
    if (payload[0] == kFile) {
      const auto size = static_cast<int32_t>(random_.Below(random_.OneIn(4) ? 9'000 : 500));
      const auto position =
          static_cast<int32_t>(random_.Below(kFileBytes - static_cast<size_t>(size)));
      payload.resize(9);
      StoreBigEndian<int32_t>(payload.data() + 1, position);
      StoreBigEndian<int32_t>(payload.data() + 5, size);
      std::string answer = payload;
      for (int32_t i = 0; i < size; ++i) {
        answer.push_back(FileByte(position + i));
      }
      answers_.Expect(std::move(answer));
    } else {
      size_t size = random_.Below(random_.OneIn(8) ? 4'000 : 200);
      if (large_frames_ && random_.OneIn(8)) size = 270'000 + random_.Below(50'000);
      std::string body(size, '\0');
      random_.Fill(body.data(), body.size());
      payload += body;
      if (payload[0] == kClose) closing_ = true;
      if (payload[0] == kEcho || payload[0] == kDelayed) answers_.Expect(payload);
    }
    outgoing_ += Framed(payload);
  }

  bool Write() {
    const size_t window = 1 + random_.Below(8);
    while (requests_left_ > 0 && !closing_ && answers_.due() < window && outgoing_.size() < 4'096) {
      AddRequest();
    }
    if (outgoing_.empty()) return false;
    const IoResult sent = network_.Send(fd_, outgoing_);
    if (sent.would_block()) return false;
    if (!sent.ok()) {
      // What has arrived can still be read.
      outgoing_.clear();
      closing_ = true;
      return true;
    }
    outgoing_.erase(0, static_cast<size_t>(sent.bytes()));
    return true;
  }

  bool Read() {
    char chunk[700];
    const IoResult received = network_.Receive(fd_, chunk, 1 + random_.Below(sizeof(chunk)));
    if (received.would_block()) return false;
    if (received.bytes() == 0) {
      // The server closes only when it was asked to, or after a reset.
      EXPECT_TRUE(!received.ok() || closing_ || may_misbehave_) << "closed without a reason";
      Lose();
      return true;
    }
    answers_.Receive(absl::string_view(chunk, static_cast<size_t>(received.bytes())));
    return true;
  }

  Random random_;
  int requests_left_;
  const bool may_misbehave_;
  const bool large_frames_;
  SimNetwork& network_;
  int fd_ = -1;
  std::string outgoing_;
  ExpectedAnswers answers_;
  bool closing_ = false;
  int stalled_steps_ = 0;
  int lost_connections_ = 0;
};

struct Outcome {
  int answered = 0;
  int lost_connections = 0;
  uint64_t steps = 0;
  int resizes = 0;
  int64_t closed_for_memory = 0;
};

struct World {
  bool faults = false;
  bool resizes = false;
  // Both kinds of memory are short, so that connections are closed for it.
  bool short_memory = false;
};

void RunSeed(uint64_t seed, const World& world, Outcome* total) {
  const bool faults = world.faults;
  SimRun run(seed);
  Random& random = run.random;
  FaultInjectingFileSystem disk(random.Next());
  const FileRef file = MakeFile(disk, kFileBytes);
  if (random.OneIn(4)) disk.SetShortIoOneIn(4);

  SimServerOptions options = SimServerOptions::Tight(random.Next());
  options.port = kPort;
  const bool large_frames = random.OneIn(16);
  if (random.OneIn(2)) {
    // Partial frames of all clients fit, unless one may be closed to let the others go.
    options.queued_max_request_bytes = large_frames ? 1'500'000 : faults ? 10'000 : 17'000;
    if (!large_frames) options.processor.connection.socket_request_max_bytes = 5'000;
  }
  if (world.short_memory) {
    // A file's piece and a frame are up to 13,000 bytes together, more than the least share.
    options.queued_max_request_bytes = large_frames ? 400'000 : random.Between(5'100, 8'000);
    options.processor.connection.response_budget_bytes = random.Between(8'000, 40'000);
    options.processor.response_budget_processors = options.processors;
    options.processor.response_stall_ms = random.Between(10, 1'000);
  }
  if (random.OneIn(4)) options.quotas.max_connections = 2;
  EchoHandler handler(random.Next(), file);
  SimServer server(random.Next(), options, run.clock, run.network);
  server.Start(handler, run.scheduler);
  // A run that fails leaves some waiting.
  const absl::Cleanup answered = [&handler] {
    while (handler.AnswerOne()) {
    }
  };
  run.AddNetwork(2);
  run.scheduler.Add("completer", [&] { return handler.AnswerOne(); });
  run.scheduler.Add("cache", [&] {
    disk.SetResident(!random.OneIn(2));
    return false;
  });
  if (world.resizes) run.scheduler.Add("resizer", [&] { return server.ResizeStep(); });
  if (faults) run.AddResets(400);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(
        std::make_unique<Client>(random.Next(), 20, faults, large_frames, run.network));
    run.AddClient(clients.back().get());
  }
  EXPECT_TRUE(run.Serve(clients, 4'000'000)) << "clients hang; held: " << server.Leaks() << "\n"
                                             << [&] {
                                                  std::string states;
                                                  for (const auto& client : clients)
                                                    absl::StrAppend(&states, client->State(), "\n");
                                                  return states;
                                                }();
  for (const auto& client : clients) {
    if (!faults) EXPECT_EQ(client->lost_connections(), 0);
    total->answered += client->answered();
    total->lost_connections += client->lost_connections();
  }
  // The clients are gone: their connections go by themselves, long before they are idle
  // for too long.
  EXPECT_TRUE(run.scheduler.RunUntil([&] { return server.connections() == 0; }, 200'000))
      << "a connection is left behind; held: " << server.Leaks();
  run.Stop(server, /*drain=*/random.OneIn(2));
  EXPECT_EQ(server.Leaks(), "");
  EXPECT_EQ(run.network.open_sockets(), 1u) << "the listener alone";
  total->closed_for_memory += server.closed_for_memory();
  total->steps += run.scheduler.steps();
  total->resizes += server.resizes();
}

Outcome RunSeeds(uint64_t first, uint64_t count, const World& world) {
  FLAGS_minloglevel = google::GLOG_ERROR;  // refusals and closes are the point
  Outcome total;
  count = ForEachSeed(first, count, [&](uint64_t seed) { RunSeed(seed, world, &total); });
  std::printf(
      "%llu seeds: %d answers, %d lost connections, %lld of them for memory, %d resizes, "
      "%llu steps\n",
      static_cast<unsigned long long>(count), total.answered, total.lost_connections,
      static_cast<long long>(total.closed_for_memory), total.resizes,
      static_cast<unsigned long long>(total.steps));
  return total;
}

TEST(EchoSimulationTest, WithoutFaultsEveryRequestIsAnsweredOnItsOneConnection) {
  RunSeeds(0, 300, {});
}

TEST(EchoSimulationTest, ThroughResetsAndRudeClientsAnswersAreRightAndNothingLeaks) {
  RunSeeds(0, 300, {.faults = true});
}

TEST(EchoSimulationTest, WhileProcessorsComeAndGoNoConnectionIsLostAndNoAnswer) {
  RunSeeds(1'000, 120, {.resizes = true});
}

TEST(EchoSimulationTest, ResetsWhileProcessorsComeAndGoLeaveNothing) {
  RunSeeds(1'000, 120, {.faults = true, .resizes = true});
}

TEST(EchoSimulationTest, WithTooLittleMemorySomeAreClosedNothingHangsAndNothingLeaks) {
  const Outcome outcome = RunSeeds(2'000, 150, {.faults = true, .short_memory = true});
  if (std::getenv("SIMULATION_SEED") == nullptr) EXPECT_GT(outcome.closed_for_memory, 0);
}

TEST(EchoSimulationTest, TooLittleMemoryWhileProcessorsComeAndGoLeavesNothing) {
  RunSeeds(3'000, 100, {.faults = true, .resizes = true, .short_memory = true});
}

}  // namespace
}  // namespace gyre::sim
