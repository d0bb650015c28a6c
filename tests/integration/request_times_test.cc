// Where a request's time went: each of the seven times is made to pass by itself, on a clock
// that stands still otherwise.
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/manual_clock.h"
#include "engine/concurrent/mutex.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

constexpr int64_t kQueuedMs = 100;
constexpr int64_t kInHandlerMs = 20;
constexpr int64_t kWaitsMs = 300;
constexpr int64_t kThrottledMs = 7;
constexpr int64_t kAnswerQueuedMs = 40;
constexpr int64_t kSendMs = 5000;

// Who enters stays until it is opened.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    entered_ = true;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(mutex_);
  }
  void AwaitEntered() {
    MutexLock lock(mutex_);
    while (!entered_) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool entered_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class TimedHandler final : public RequestHandler {
 public:
  explicit TimedHandler(ManualClock& clock) : clock_(clock) {}

  // "stall" keeps the processor; "step" takes its time on it.
  bool RunsInline(const Request& request) const override {
    return request.frame() == "stall" || request.frame() == "step";
  }
  void Start(RequestPtr request) override {
    const std::string frame(request->frame());
    request->api = frame == "work" ? 1 : 0;
    if (frame == "work") {
      clock_.AdvanceMs(kInHandlerMs);
      request->Throttle(kThrottledMs * 1'000'000);
      return held.Add(std::move(request));
    }
    if (frame == "step") clock_.AdvanceMs(kInHandlerMs);
    if (frame == "stall") processor_gate.Pass();
    if (frame == "busy") handler_gate.Pass();
    Echo(std::move(request));
  }

  Held held;
  Gate processor_gate;
  Gate handler_gate;

 private:
  ManualClock& clock_;
};

class RequestTimesTest : public ::testing::Test {
 protected:
  // Waits until as many requests of the API were answered.
  bool AwaitAnswered(absl::string_view api, int64_t count) {
    return AwaitTrue([&] {
      return server.Metric("kafka_network_requestmetrics_requests_total",
                           absl::StrCat("request=\"", api, "\"")) == count;
    });
  }
  void ExpectSum(absl::string_view time, absl::string_view api, int64_t ms) {
    const std::string sample = absl::StrCat("\nkafka_network_requestmetrics_", time,
                                            "_sum{request=\"", api, "\"} ", ms, "\n");
    EXPECT_TRUE(absl::StrContains(server.Exposition(), sample)) << sample << server.Exposition();
  }

  ManualClock clock;
  TimedHandler handler{clock};
  TestServer server{"", Echo, [this](SocketServerOptions& options) {
                      options.clock = &clock;
                      options.num_network_threads = 1;
                      options.num_io_threads = 1;
                      options.api_names = {"Other", "Work"};
                      options.listeners[0].handler = &handler;
                      options.sockets.send_buffer_bytes = 64 * 1024;
                      ConnectionOptions& connection = options.processor.connection;
                      connection.dispatch = Dispatch::kInline;
                      connection.max_in_flight_requests_per_connection = 5;
                      connection.connections_max_idle_ms = -1;
                      connection.zero_copy_min_bytes = -1;
                    }};
};

TEST_F(RequestTimesTest, EachOfTheSevenIsWhatPassedThere) {
  Client worker(server.port(), kSmallWindowBytes);
  Client other(server.port());
  Client third(server.port());

  other.SendFrame("busy");
  handler.handler_gate.AwaitEntered();
  worker.SendFrame("work");
  ASSERT_TRUE(AwaitTrue(
      [&] { return server.Metric("kafka_network_requestchannel_requestqueuesize") == 1; }));
  clock.AdvanceMs(kQueuedMs);
  handler.handler_gate.Open();
  EXPECT_EQ(other.ReadFrame(), "busy");
  // The only handler is through with the work once it has answered this.
  ASSERT_TRUE(handler.held.Await(1));
  other.SendFrame("hello");
  EXPECT_EQ(other.ReadFrame(), "hello");

  third.SendFrame("stall");
  handler.processor_gate.AwaitEntered();
  clock.AdvanceMs(kWaitsMs);
  const std::string answer = Pattern(4 << 20, 1);
  for (RequestPtr& request : handler.held.TakeAll()) ReplyFramed(std::move(request), answer);
  clock.AdvanceMs(kAnswerQueuedMs);
  handler.processor_gate.Open();
  EXPECT_EQ(third.ReadFrame(), "stall");

  // The answer has begun to leave and waits for its reader.
  const std::string first = worker.Read(sizeof(int32_t));
  third.SendFrame("hello");
  EXPECT_EQ(third.ReadFrame(), "hello");
  clock.AdvanceMs(kSendMs);
  EXPECT_TRUE(first + worker.Read(answer.size()) == Framed(answer));

  ASSERT_TRUE(AwaitAnswered("Work", 1));
  ExpectSum("requestqueuetimems", "Work", kQueuedMs);
  ExpectSum("localtimems", "Work", kInHandlerMs);
  ExpectSum("remotetimems", "Work", kWaitsMs);
  ExpectSum("throttletimems", "Work", kThrottledMs);
  ExpectSum("responsequeuetimems", "Work", kAnswerQueuedMs);
  ExpectSum("responsesendtimems", "Work", kSendMs);
  ExpectSum("totaltimems", "Work", kQueuedMs + kInHandlerMs + kWaitsMs + kAnswerQueuedMs + kSendMs);
}

TEST_F(RequestTimesTest, InlineEachTakesItsOwnTimeAndWaitsForThoseBefore) {
  Client client(server.port());
  client.Send(Framed("step") + Framed("step") + Framed("step"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ReadFrame(), "step");
  ASSERT_TRUE(AwaitAnswered("Other", 3));
  ExpectSum("localtimems", "Other", 3 * kInHandlerMs);
  ExpectSum("requestqueuetimems", "Other", kInHandlerMs + 2 * kInHandlerMs);
}

}  // namespace
}  // namespace gyre::testing
