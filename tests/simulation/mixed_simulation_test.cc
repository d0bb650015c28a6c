// Everything at once, under many seeds: clients that pipeline, read slowly, half-close and
// go on sending after the request that ends their connection; answers from memory and from
// files, hot and cold, at once and later; throttlings; processors that come and go; memory
// that is short in some worlds; and a drain or a stop in the middle of it.
//
// Checked: the requests of a connection start in order; whatever was answered on a connection
// that ended in good order arrives, whole and in order; nothing hangs, and at the end
// everything that was lent or counted is back.
#include <cstdlib>
#include <map>
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
constexpr int32_t kFileBytes = 30'000;
constexpr int kRequestsPerClient = 25;

// The fixed front of a request; an answer is the whole frame and then the file's bytes.
enum Manner : char { kEcho = 'e', kDelayed = 'd', kSilent = 's', kLast = 'l' };
enum Throttling : char { kNoThrottle = '-', kTimed = 't', kToken = 'k' };
struct Head {
  Manner manner = kEcho;
  Throttling throttling = kNoThrottle;
  bool alone = false;
  int32_t client = 0;
  int32_t connection = 0;  // of this client, counted
  int32_t sequence = 0;    // on this connection
  int32_t position = 0;    // of the file
  int32_t size = 0;
};
constexpr size_t kHeadBytes = 24;

std::string Encode(const Head& head, size_t body_bytes) {
  std::string frame(kHeadBytes + body_bytes, 'x');
  frame[0] = head.manner;
  frame[1] = head.throttling;
  frame[2] = head.alone ? 'a' : '-';
  int at = 4;
  for (const int32_t value :
       {head.client, head.connection, head.sequence, head.position, head.size}) {
    StoreBigEndian<int32_t>(frame.data() + at, value);
    at += 4;
  }
  return frame;
}

Head Decode(absl::string_view frame) {
  CHECK_GE(frame.size(), kHeadBytes);
  const auto number = [&frame](int at) { return LoadBigEndian<int32_t>(frame.data() + at); };
  return Head{static_cast<Manner>(frame[0]),
              static_cast<Throttling>(frame[1]),
              frame[2] == 'a',
              number(4),
              number(8),
              number(12),
              number(16),
              number(20)};
}

using ConnectionId = std::pair<int32_t, int32_t>;

// The protocol's side.
class Handler final : public RequestHandler {
 public:
  Handler(uint64_t seed, FileRef file) : random_(seed), file_(std::move(file)) {}

  void Start(RequestPtr request) override {
    std::string frame(request->frame());
    const Head head = Decode(frame);
    State& state = states_[{head.client, head.connection}];
    EXPECT_EQ(head.sequence, state.next_sequence++) << "started out of order";
    if (head.throttling == kTimed) {
      request->Throttle(static_cast<int64_t>(random_.Below(3'000'000)));
    } else if (head.throttling == kToken) {
      tokens_.push_back(request->StartThrottling(1));
    }
    if (head.manner == kDelayed) {
      if (random_.OneIn(2)) request->ReleaseFrame();
      waiting_.emplace_back(std::move(request), std::move(frame));
      return;
    }
    Answer(std::move(request), frame);
  }
  bool RunsInline(const Request& request) const override {
    const Head head = Decode(request.frame());
    return head.size == 0 && head.sequence % 3 != 0;
  }
  bool RunsAlone(const Request& request) const override { return Decode(request.frame()).alone; }

  // Another thread's part.
  bool AnswerOne() {
    if (waiting_.empty()) return false;
    const size_t index = random_.Below(waiting_.size());
    auto [request, frame] = std::move(waiting_[index]);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
    Answer(std::move(request), frame);
    return true;
  }
  bool EndOne() {
    if (tokens_.empty()) return false;
    tokens_.erase(tokens_.begin() + static_cast<ptrdiff_t>(random_.Below(tokens_.size())));
    return true;
  }
  // How many answers with bytes were given on the connection.
  int Answered(const ConnectionId& connection) { return states_[connection].answered; }

 private:
  struct State {
    int32_t next_sequence = 0;
    int answered = 0;
  };

  void Answer(RequestPtr request, const std::string& frame) {
    const Head head = Decode(frame);
    if (head.manner == kSilent) return request.ReplyNothing();
    ++states_[{head.client, head.connection}].answered;
    std::string front(4, '\0');
    StoreBigEndian<int32_t>(front.data(), static_cast<int32_t>(frame.size()) + head.size);
    NetworkSend send(Buffer::CopyOf(front + frame));
    // In pieces, as a broker's partitions are.
    for (int32_t done = 0; done < head.size;) {
      const auto piece = static_cast<int32_t>(
          random_.OneIn(2) ? head.size - done
                           : 1 + random_.Below(static_cast<uint64_t>(head.size - done)));
      send.Append(FileSlice{file_, head.position + done, piece});
      done += piece;
    }
    if (head.manner == kLast) return request.ReplyThenClose(std::move(send));
    request.Reply(std::move(send));
  }

  Random random_;
  const FileRef file_;
  std::map<ConnectionId, State> states_;
  std::vector<std::pair<RequestPtr, std::string>> waiting_;
  std::vector<ThrottleToken> tokens_;
};

// Sends as fast as the socket takes it, reads at its own pace, and connects again with the
// rest when its connection has ended.
class Client {
 public:
  // `orderly`: nobody but the handler ends a connection, so all that was answered arrives.
  Client(int32_t id, uint64_t seed, bool orderly, SimNetwork& network, Handler& handler)
      : id_(id), random_(seed), orderly_(orderly), network_(network), handler_(handler) {
    slow_ = random_.OneIn(3);
  }

  bool done() const { return fd_ < 0 && requests_left_ == 0; }
  int answered() const { return answered_; }
  int ended() const { return ended_; }
  // The server ends now: by a drain, in good order, or at once.
  void OnServerEnds(bool orderly) {
    requests_left_ = fd_ < 0 ? 0 : requests_left_;
    server_ends_ = true;
    orderly_ = orderly_ && orderly;
  }
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
    if (slow_ && random_.OneIn(20)) stalled_steps_ = static_cast<int>(random_.Below(100));
    const bool wrote = Write();
    const bool read = Read();
    if (fd_ >= 0 && Finished()) FinishOrLeave();
    return wrote || read;
  }

 private:
  bool Connect() {
    if (requests_left_ == 0 || server_ends_) {
      requests_left_ = 0;
      return false;
    }
    fd_ = network_.Connect(kPort);
    EXPECT_GE(fd_, 0);
    ++connection_;
    sequence_ = 0;
    half_closes_ = random_.OneIn(2);
    half_closed_ = last_sent_ = false;
    answered_before_ = answers_.answered();
    return true;
  }
  bool Finished() const { return requests_left_ == 0 && outgoing_.empty() && !half_closed_; }
  void FinishOrLeave() {
    if (half_closes_) {
      network_.Shutdown(fd_, /*write_side_only=*/true);
      half_closed_ = true;
    } else if (answers_.done() && !last_sent_) {
      Leave();
    }
  }
  void Leave() {
    answered_ += answers_.answered() - answered_before_;
    network_.Close(fd_);
    fd_ = -1;
    outgoing_.clear();
    answers_.Clear();
  }

  void AddRequest() {
    --requests_left_;
    Head head;
    const uint64_t roll = random_.Below(40);
    if (roll < 12) head.manner = kDelayed;
    if (roll >= 12 && roll < 16) head.manner = kSilent;
    if (roll == 39) head.manner = kLast;
    if (random_.OneIn(8)) head.throttling = random_.OneIn(2) ? kTimed : kToken;
    head.alone = random_.OneIn(6);
    head.client = id_;
    head.connection = connection_;
    head.sequence = sequence_++;
    if (head.manner != kSilent && random_.OneIn(3)) {
      head.size = static_cast<int32_t>(1 + random_.Below(random_.OneIn(4) ? 12'000 : 600));
      head.position =
          static_cast<int32_t>(random_.Below(static_cast<uint64_t>(kFileBytes - head.size)));
    }
    const std::string frame = Encode(head, random_.Below(random_.OneIn(6) ? 1'500 : 60));
    if (head.manner == kLast) last_sent_ = true;
    if (head.manner != kSilent) {
      std::string answer = frame;
      for (int32_t i = 0; i < head.size; ++i) answer.push_back(FileByte(head.position + i));
      answers_.Expect(std::move(answer));
    }
    outgoing_ += Framed(frame);
  }

  bool Write() {
    if (half_closed_) return false;
    while (requests_left_ > 0 && outgoing_.size() < 2'000) AddRequest();
    if (outgoing_.empty()) return false;
    const IoResult sent = network_.Send(fd_, outgoing_);
    if (sent.would_block()) return false;
    if (!sent.ok()) {
      // What has arrived can still be read.
      outgoing_.clear();
      requests_left_ = server_ends_ ? 0 : requests_left_;
      return true;
    }
    outgoing_.erase(0, static_cast<size_t>(sent.bytes()));
    return true;
  }

  bool Read() {
    char chunk[700];
    const size_t most = slow_ ? 40 : sizeof(chunk);
    const IoResult received = network_.Receive(fd_, chunk, 1 + random_.Below(most));
    if (received.would_block()) return false;
    if (received.bytes() > 0) {
      answers_.Receive(absl::string_view(chunk, static_cast<size_t>(received.bytes())));
      return true;
    }
    ++ended_;
    if (orderly_) {
      EXPECT_TRUE(last_sent_ || half_closed_ || server_ends_) << "closed without a reason";
      EXPECT_EQ(answers_.answered() - answered_before_, handler_.Answered({id_, connection_}))
          << "an answer was lost";
      if (half_closed_ && !last_sent_ && !server_ends_) EXPECT_TRUE(answers_.done());
    }
    Leave();
    return true;
  }

  const int32_t id_;
  Random random_;
  bool orderly_;
  SimNetwork& network_;
  Handler& handler_;
  bool slow_ = false;
  int requests_left_ = kRequestsPerClient;
  int fd_ = -1;
  int32_t connection_ = 0;
  int32_t sequence_ = 0;
  std::string outgoing_;
  ExpectedAnswers answers_;
  int answered_before_ = 0;  // on earlier connections
  bool half_closes_ = false;
  bool half_closed_ = false;
  bool last_sent_ = false;
  bool server_ends_ = false;
  int stalled_steps_ = 0;
  int answered_ = 0;
  int ended_ = 0;
};

struct Outcome {
  int answered = 0;
  int ended = 0;
  int resizes = 0;
  int64_t closed_for_memory = 0;
};

struct World {
  bool faults = false;
  bool short_memory = false;
};

void RunSeed(uint64_t seed, const World& world, Outcome* total) {
  const bool orderly = !world.faults && !world.short_memory;
  SimRun run(seed);
  Random& random = run.random;
  FaultInjectingFileSystem disk(random.Next());
  const FileRef file = MakeFile(disk, kFileBytes);
  if (random.OneIn(4)) disk.SetShortIoOneIn(4);

  SimServerOptions options = SimServerOptions::Tight(random.Next());
  options.port = kPort;
  ConnectionOptions& connection = options.processor.connection;
  connection.max_in_flight_requests_per_connection = static_cast<int32_t>(random.Between(1, 6));
  connection.max_in_flight_bytes_per_connection = random.Between(100, 20'000);
  connection.dispatch_quantum_bytes = random.Between(256, 4'096);
  if (world.short_memory) {
    connection.socket_request_max_bytes = 2'000;
    options.queued_max_request_bytes = random.Between(2'100, 4'000);
    connection.response_budget_bytes = random.Between(4'000, 40'000);
    options.processor.response_budget_processors = options.processors;
    options.processor.response_stall_ms = random.Between(10, 1'000);
  }
  Handler handler(random.Next(), file);
  SimServer server(random.Next(), options, run.clock, run.network);
  server.Start(handler, run.scheduler);
  // A run that fails leaves some waiting.
  const absl::Cleanup answered = [&handler] {
    while (handler.AnswerOne()) {
    }
    while (handler.EndOne()) {
    }
  };
  run.AddNetwork(2);
  run.scheduler.Add("completer", [&] { return handler.AnswerOne(); });
  run.scheduler.Add("quota", [&] { return random.OneIn(4) && handler.EndOne(); });
  run.scheduler.Add("cache", [&] {
    disk.SetResident(!random.OneIn(2));
    return false;
  });
  run.scheduler.Add("resizer", [&] { return server.ResizeStep(); });
  if (world.faults) run.AddResets(500);
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(i, random.Next(), orderly, run.network, handler));
    run.AddClient(clients.back().get());
  }
  const auto states = [&] {
    std::string text = absl::StrCat("held: ", server.Leaks());
    for (const auto& client : clients) absl::StrAppend(&text, "\n", client->State());
    return text;
  };
  // Half of the runs end in the middle of everything.
  const bool ends_early = random.OneIn(2);
  EXPECT_TRUE(run.Serve(clients, ends_early ? random.Below(20'000) : 4'000'000) || ends_early)
      << "clients hang; " << states();
  const bool drain = !random.OneIn(4);
  for (const auto& client : clients) client->OnServerEnds(drain);
  run.Stop(server, drain);
  while (handler.EndOne()) {
  }
  run.GoOn(1'000);
  EXPECT_EQ(server.Leaks(), "");
  server.Halt();
  EXPECT_TRUE(run.Serve(clients, 1'000'000)) << "clients hang after the end; " << states();
  EXPECT_EQ(run.network.open_sockets(), 0u);
  EXPECT_EQ(run.network.open_pipes(), 0u);
  for (const auto& client : clients) {
    total->answered += client->answered();
    total->ended += client->ended();
  }
  total->closed_for_memory += server.closed_for_memory();
  total->resizes += server.resizes();
}

Outcome RunSeeds(uint64_t first, uint64_t count, const World& world) {
  FLAGS_minloglevel = google::GLOG_ERROR;  // closes are the point
  Outcome total;
  count = ForEachSeed(first, count, [&](uint64_t seed) { RunSeed(seed, world, &total); });
  std::printf(
      "%llu seeds: %d answers, %d connections ended by the server, %lld of them for "
      "memory, %d resizes\n",
      static_cast<unsigned long long>(count), total.answered, total.ended,
      static_cast<long long>(total.closed_for_memory), total.resizes);
  return total;
}

TEST(MixedSimulationTest, WhateverWasAnsweredArrivesThoughEverythingChanges) {
  RunSeeds(0, 200, {});
}

TEST(MixedSimulationTest, ThroughResetsNothingHangsAndNothingLeaks) {
  RunSeeds(1'000, 150, {.faults = true});
}

TEST(MixedSimulationTest, WithTooLittleMemoryNothingHangsAndNothingLeaks) {
  const Outcome outcome = RunSeeds(2'000, 150, {.short_memory = true});
  if (std::getenv("SIMULATION_SEED") == nullptr) EXPECT_GT(outcome.closed_for_memory, 0);
}

TEST(MixedSimulationTest, ThroughResetsWithTooLittleMemoryNothingHangsAndNothingLeaks) {
  RunSeeds(3'000, 100, {.faults = true, .short_memory = true});
}

}  // namespace
}  // namespace gyre::sim
