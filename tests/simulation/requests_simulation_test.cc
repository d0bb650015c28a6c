// Pipelining, lanes and throttling under many seeds: clients send ahead, handlers
// finish in any order, quotas throttle for a time or until a token's holder ends it,
// some requests must run alone, and every bound is small.
//
// Processors come and go meanwhile, and how many requests may be in flight changes.
//
// Checked: the requests of a connection start in order, no more at once than its
// limits say, one that runs alone by itself, none before a throttling is over, no more
// in a turn than its share; answers leave in order; nothing hangs and nothing leaks.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "tests/simulation/sim_answers.h"
#include "tests/simulation/sim_run.h"
#include "tests/simulation/sim_seeds.h"
#include "tests/simulation/sim_server.h"

namespace gyre::sim {
namespace {

constexpr uint16_t kPort = 9092;
constexpr int kRequestsPerClient = 30;

// The fixed front of a request.
enum Manner : char { kEcho = 'e', kDelayed = 'd', kSilent = 's', kClose = 'c' };
enum Throttling : char { kNoThrottle = '-', kTimed = 't', kToken = 'k' };
struct Head {
  Manner manner = kEcho;
  Throttling throttling = kNoThrottle;
  bool alone = false;
  char lane = 0;
  int32_t client = 0;
  int32_t connection = 0;  // of this client, counted
  int32_t sequence = 0;    // on this connection
};
constexpr size_t kHeadBytes = 16;

std::string Encode(const Head& head, size_t body_bytes) {
  std::string frame(kHeadBytes + body_bytes, 'x');
  frame[0] = head.manner;
  frame[1] = head.throttling;
  frame[2] = head.alone ? 'a' : '-';
  frame[3] = head.lane;
  StoreBigEndian<int32_t>(frame.data() + 4, head.client);
  StoreBigEndian<int32_t>(frame.data() + 8, head.connection);
  StoreBigEndian<int32_t>(frame.data() + 12, head.sequence);
  return frame;
}

Head Decode(absl::string_view frame) {
  CHECK_GE(frame.size(), kHeadBytes);
  return Head{static_cast<Manner>(frame[0]),
              static_cast<Throttling>(frame[1]),
              frame[2] == 'a',
              frame[3],
              LoadBigEndian<int32_t>(frame.data() + 4),
              LoadBigEndian<int32_t>(frame.data() + 8),
              LoadBigEndian<int32_t>(frame.data() + 12)};
}

// The protocol's side, and the judge of what the engine may do.
class Handler final : public RequestHandler {
 public:
  Handler(uint64_t seed, const ConnectionOptions& limits, const SimScheduler& scheduler,
          const Clock& clock)
      : random_(seed),
        limits_(limits),
        scheduler_(scheduler),
        clock_(clock),
        before_(limits.max_in_flight_requests_per_connection),
        now_(before_),
        most_(now_) {}

  void Start(RequestPtr request) override {
    const std::string frame(request->frame());
    const Head head = Decode(frame);
    State& state = states_[{head.client, head.connection}];
    JudgeStart(head, frame.size(), state);
    ++state.unanswered;
    state.unanswered_bytes += static_cast<int64_t>(frame.size());
    state.alone = head.alone;
    ++starts_;
    if (head.manner == kDelayed) {
      if (random_.OneIn(2)) request->ReleaseFrame();
      waiting_.push_back({std::move(request), frame});
      // Some quotas are known at once, others with the answer.
      Waiting& last = waiting_.back();
      if (random_.OneIn(2)) MaybeThrottle(*last.request, head, state, &last.throttled);
      return;
    }
    bool throttled = false;
    MaybeThrottle(*request, head, state, &throttled);
    Finish(std::move(request), frame, head, state);
  }
  bool RunsInline(const Request& request) const override {
    return Decode(request.frame()).sequence % 3 != 0;
  }
  int LaneOf(const Request& request) const override { return Decode(request.frame()).lane; }
  bool RunsAlone(const Request& request) const override { return Decode(request.frame()).alone; }

  // Another thread's part: answers one of those that wait, whichever.
  bool AnswerOne() {
    if (waiting_.empty()) return false;
    const size_t index = random_.Below(waiting_.size());
    Waiting waiting = std::move(waiting_[index]);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index));
    const Head head = Decode(waiting.frame);
    State& state = states_[{head.client, head.connection}];
    if (!waiting.throttled) MaybeThrottle(*waiting.request, head, state, &waiting.throttled);
    Finish(std::move(waiting.request), waiting.frame, head, state);
    return true;
  }
  // A quota manager's part: ends one of its throttlings.
  bool EndOne() {
    if (tokens_.empty()) return false;
    const size_t index = random_.Below(tokens_.size());
    --tokens_[index].first->tokens;
    tokens_.erase(tokens_.begin() + static_cast<ptrdiff_t>(index));
    return true;
  }
  // Throttlings are over with the beginning of a drain.
  void OnDrain() { draining_ = true; }
  // From some turn of each processor on so many may be in flight, and until then as many
  // as before. Not again before MayChangeLimit.
  void OnNewLimit(int32_t limit) {
    before_ = std::exchange(now_, limit);
    most_ = std::max(most_, limit);
    changed_step_ = scheduler_.steps();
  }
  bool MayChangeLimit() const { return scheduler_.steps() > changed_step_ + kSettleSteps; }

  int starts() const { return starts_; }
  int throttles() const { return throttles_; }
  int most_at_once() const { return most_at_once_; }

 private:
  // One connection's life.
  struct State {
    int32_t next_sequence = 0;
    int32_t unanswered = 0;
    int64_t unanswered_bytes = 0;
    bool alone = false;  // the one that was started last
    int64_t throttled_until_ns = 0;
    int tokens = 0;
    int started_while_throttled = 0;
    uint64_t turn = 0;
    int64_t turn_bytes = 0;
  };
  struct Waiting {
    RequestPtr request;
    std::string frame;
    bool throttled = false;
  };

  // Every thread has had many turns by then: options are taken, and what was handed over
  // under the old limit is started.
  static constexpr uint64_t kSettleSteps = 1'000;

  int32_t Limit() const { return MayChangeLimit() ? now_ : std::max(before_, now_); }
  bool Throttled(const State& state) const {
    return !draining_ && (state.tokens > 0 || clock_.NowNs() < state.throttled_until_ns);
  }

  void JudgeStart(const Head& head, size_t frame_bytes, State& state) {
    EXPECT_EQ(head.sequence, state.next_sequence) << "started out of order";
    state.next_sequence = head.sequence + 1;
    EXPECT_LT(state.unanswered, Limit());
    most_at_once_ = std::max(most_at_once_, state.unanswered + 1);
    if (state.unanswered > 0) {
      EXPECT_LT(state.unanswered_bytes, limits_.max_in_flight_bytes_per_connection);
      EXPECT_FALSE(head.alone) << "not alone";
      EXPECT_FALSE(state.alone) << "beside one that runs alone";
    }
    if (Throttled(state)) {
      // What was in flight when the throttling began, and no more.
      EXPECT_LT(++state.started_while_throttled, most_) << "started while throttled";
    } else {
      state.started_while_throttled = 0;
    }
    // What one connection is given in one turn of its processor, beside one request
    // that was taken in an earlier one. A handler's turns are others, and smaller.
    const int64_t bytes =
        std::max<int64_t>(static_cast<int64_t>(frame_bytes), ConnectionOptions::kSmallRequestBytes);
    if (state.turn != scheduler_.steps()) state.turn_bytes = -bytes;
    state.turn = scheduler_.steps();
    EXPECT_LT(state.turn_bytes, limits_.dispatch_quantum_bytes) << "more than its share of a turn";
    state.turn_bytes += bytes;
  }

  void MaybeThrottle(Request& request, const Head& head, State& state, bool* throttled) {
    *throttled = true;
    if (head.throttling == kNoThrottle) return;
    ++throttles_;
    if (!Throttled(state)) state.started_while_throttled = 0;
    if (head.throttling == kTimed) {
      const auto duration_ns = static_cast<int64_t>(random_.Below(3'000'000));
      state.throttled_until_ns = std::max(state.throttled_until_ns, clock_.NowNs() + duration_ns);
      return request.Throttle(duration_ns);
    }
    ++state.tokens;
    tokens_.emplace_back(&state, request.StartThrottling(1));
  }

  void Finish(RequestPtr request, const std::string& frame, const Head& head, State& state) {
    --state.unanswered;
    state.unanswered_bytes -= static_cast<int64_t>(frame.size());
    switch (head.manner) {
      case kEcho:
      case kDelayed:
        return request.Reply(NetworkSend(Buffer::CopyOf(Framed(frame))));
      case kSilent:
        return request.ReplyNothing();
      case kClose:
        return request.CloseConnection("asked for it");
    }
  }

  Random random_;
  const ConnectionOptions limits_;
  const SimScheduler& scheduler_;
  const Clock& clock_;
  int32_t before_;
  int32_t now_;
  int32_t most_;  // of all limits so far
  uint64_t changed_step_ = 0;
  std::map<std::pair<int32_t, int32_t>, State> states_;
  std::vector<Waiting> waiting_;
  std::vector<std::pair<State*, ThrottleToken>> tokens_;
  bool draining_ = false;
  int starts_ = 0;
  int throttles_ = 0;
  int most_at_once_ = 0;
};

// Sends its requests as fast as the socket takes them and checks the answers; when
// its connection is lost it connects again, with the rest.
class Client {
 public:
  Client(int32_t id, uint64_t seed, bool may_misbehave, SimNetwork& network)
      : id_(id), random_(seed), may_misbehave_(may_misbehave), network_(network) {}

  bool done() const { return fd_ < 0 && requests_left_ == 0; }
  int lost_connections() const { return lost_connections_; }
  int answered() const { return answers_.answered(); }

  // It sends no more, closes at once or reads what is still to come.
  void Quit() {
    requests_left_ = 0;
    closing_ = true;
    if (fd_ >= 0 && random_.OneIn(2)) Disconnect();
  }

  bool Step() {
    if (fd_ < 0) return Connect();
    if (may_misbehave_ && random_.OneIn(400)) {
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
    ++connection_;
    sequence_ = 0;
    return true;
  }
  void Disconnect() {
    network_.Close(fd_);
    fd_ = -1;
    outgoing_.clear();
    answers_.Clear();
    closing_ = false;
  }

  void AddRequest() {
    --requests_left_;
    Head head;
    const uint64_t roll = random_.Below(20);
    if (roll < 8) head.manner = kDelayed;
    if (roll >= 8 && roll < 11) head.manner = kSilent;
    if (roll == 19 && may_misbehave_) head.manner = kClose;
    if (random_.OneIn(6)) head.throttling = random_.OneIn(2) ? kTimed : kToken;
    head.alone = random_.OneIn(5);
    // In streaks, so that runs have more than one; some name a lane there is not.
    if (random_.OneIn(3)) lane_ = static_cast<char>(random_.Below(5));
    head.lane = lane_;
    head.client = id_;
    head.connection = connection_;
    head.sequence = sequence_++;
    const std::string frame = Encode(head, random_.Below(random_.OneIn(6) ? 1500 : 60));
    if (head.manner == kEcho || head.manner == kDelayed) answers_.Expect(frame);
    if (head.manner == kClose) closing_ = true;
    outgoing_ += Framed(frame);
  }

  bool Write() {
    while (requests_left_ > 0 && !closing_ && outgoing_.size() < 2'000) AddRequest();
    if (outgoing_.empty()) return false;
    const IoResult sent = network_.Send(fd_, outgoing_);
    if (sent.would_block()) return false;
    if (!sent.ok()) {
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
      EXPECT_TRUE(closing_ || may_misbehave_) << "closed without a reason";
      ++lost_connections_;
      Disconnect();
      return true;
    }
    answers_.Receive(absl::string_view(chunk, static_cast<size_t>(received.bytes())));
    return true;
  }

  const int32_t id_;
  Random random_;
  const bool may_misbehave_;
  SimNetwork& network_;
  int requests_left_ = kRequestsPerClient;
  int fd_ = -1;
  int32_t connection_ = 0;
  int32_t sequence_ = 0;
  char lane_ = 0;
  std::string outgoing_;
  ExpectedAnswers answers_;
  bool closing_ = false;
  int lost_connections_ = 0;
};

struct Outcome {
  int starts = 0;
  int answered = 0;
  int throttles = 0;
  int lost_connections = 0;
  int most_at_once = 0;
  int resizes = 0;
  int limits = 0;
};

struct World {
  bool faults = false;
  bool resizes = false;
  bool changes_limit = false;
};

void RunSeed(uint64_t seed, const World& world, Outcome* total) {
  const bool faults = world.faults;
  SimRun run(seed);
  Random& random = run.random;
  SimServerOptions options = SimServerOptions::Tight(random.Next());
  options.port = kPort;
  ConnectionOptions& connection = options.processor.connection;
  connection.max_in_flight_requests_per_connection = static_cast<int32_t>(random.Between(1, 8));
  connection.max_in_flight_bytes_per_connection = random.Between(100, 5'000);
  connection.dispatch_quantum_bytes = random.Between(256, 4'096);
  for (uint64_t lane = random.Below(5); lane > 0; --lane) {
    options.lanes.push_back({absl::StrCat("lane ", lane), static_cast<int32_t>(lane)});
  }
  // Partial frames of all clients fit, so that nobody is closed to let the others go.
  if (random.OneIn(3)) {
    connection.socket_request_max_bytes = 3'000;
    options.queued_max_request_bytes = 6'000;
  }
  Handler handler(random.Next(), connection, run.scheduler, run.clock);
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
  if (faults) run.AddResets(500);
  if (world.resizes) run.scheduler.Add("resizer", [&] { return server.ResizeStep(); });
  if (world.changes_limit) {
    run.scheduler.Add("limits", [&] {
      if (!handler.MayChangeLimit() || !random.OneIn(20)) return false;
      connection.max_in_flight_requests_per_connection = static_cast<int32_t>(random.Between(1, 8));
      handler.OnNewLimit(connection.max_in_flight_requests_per_connection);
      server.SetConnectionOptions(connection);
      ++total->limits;
      return true;
    });
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(i, random.Next(), faults, run.network));
    run.AddClient(clients.back().get());
  }
  // Half of the runs are drained in the middle of everything.
  const bool drain_early = random.OneIn(2);
  const uint64_t max_steps = drain_early ? random.Below(20'000) : 4'000'000;
  EXPECT_TRUE(run.Serve(clients, max_steps) || drain_early)
      << "clients hang; held: " << server.Leaks();
  for (const auto& client : clients) {
    if (!faults && !drain_early) EXPECT_EQ(client->lost_connections(), 0);
    total->lost_connections += client->lost_connections();
    total->answered += client->answered();
  }
  handler.OnDrain();
  for (const auto& client : clients) client->Quit();
  run.Stop(server, /*drain=*/random.OneIn(2));
  // Ends of throttlings may still be on their way.
  while (handler.EndOne()) {
  }
  run.GoOn(1'000);
  EXPECT_EQ(server.Leaks(), "");
  total->starts += handler.starts();
  total->throttles += handler.throttles();
  total->most_at_once = std::max(total->most_at_once, handler.most_at_once());
  total->resizes += server.resizes();
}

Outcome RunSeeds(uint64_t first, uint64_t count, const World& world) {
  FLAGS_minloglevel = google::GLOG_ERROR;  // closes are the point
  Outcome total;
  count = ForEachSeed(first, count, [&](uint64_t seed) { RunSeed(seed, world, &total); });
  std::printf(
      "%llu seeds: %d requests started, at most %d at once on a connection, %d throttled, %d "
      "answered, %d connections lost, %d resizes, %d new limits\n",
      static_cast<unsigned long long>(count), total.starts, total.most_at_once, total.throttles,
      total.answered, total.lost_connections, total.resizes, total.limits);
  return total;
}

TEST(RequestsSimulationTest, WithoutFaultsEveryBoundAndOrderHolds) { RunSeeds(0, 300, {}); }

TEST(RequestsSimulationTest, ThroughResetsAndRudeClientsEveryBoundAndOrderHolds) {
  RunSeeds(0, 300, {.faults = true});
}

// A connection that moves takes its throttling, its order and its bounds along.
TEST(RequestsSimulationTest, WhileProcessorsComeAndGoNoAnswerIsLostAndEveryBoundHolds) {
  RunSeeds(1'000, 200, {.resizes = true});
}

TEST(RequestsSimulationTest, ALimitThatChangesHoldsForConnectionsThatAreThere) {
  const Outcome outcome = RunSeeds(2'000, 200, {.changes_limit = true});
  if (std::getenv("SIMULATION_SEED") == nullptr) EXPECT_GT(outcome.limits, 200);
}

TEST(RequestsSimulationTest, ThroughResetsResizesAndNewLimitsNothingHangsAndNothingLeaks) {
  RunSeeds(3'000, 200, {.faults = true, .resizes = true, .changes_limit = true});
}

}  // namespace
}  // namespace gyre::sim
