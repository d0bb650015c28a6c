// Servers with several listeners: each with its own address, processors, handler
// and frames, and a privileged one that answers while the others cannot.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {
namespace {

class ListenerTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<TestServer> Serve(std::function<void(RequestPtr)> start,
                                    std::function<void(SocketServerOptions&)> change) {
    return std::make_unique<TestServer>(GetParam(), std::move(start), change);
  }
  static uint16_t Port(TestServer& server, size_t listener) {
    return server.server().bound_endpoints()[listener].port;
  }
};

INSTANTIATE_TEST_SUITE_P(Rungs, ListenerTest, ::testing::Values("", "all"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return info.param[0] == '\0' ? "Full" : "Rung519";
                         });

ListenerOptions Named(const char* endpoint) {
  ListenerOptions listener;
  listener.endpoint = *ParseEndpoint(endpoint);
  return listener;
}

TEST_P(ListenerTest, EachListenerHasItsOwnNameHandlerAndFrames) {
  const auto with_name = [](RequestPtr request) {
    ReplyFramed(std::move(request), absl::StrCat(request->session().listener->bound.listener_name,
                                                 ":", request->frame()));
  };
  TestHandler shouting([](RequestPtr request) {
    ReplyFramed(std::move(request), absl::StrCat("! ", request->frame()));
  });
  const Int32LengthPrefixed short_frames(16);
  auto server = Serve(with_name, [&](SocketServerOptions& options) {
    options.listeners = {Named("ONE://127.0.0.1:0"), Named("TWO://127.0.0.1:0"),
                         Named("SHOUT://127.0.0.1:0")};
    options.listeners[1].frame_decoder = &short_frames;
    options.listeners[1].num_network_threads = 1;
    options.listeners[2].handler = &shouting;
  });
  Client one(Port(*server, 0)), two(Port(*server, 1)), shout(Port(*server, 2));
  for (int i = 0; i < 3; ++i) {
    one.SendFrame("a longer frame than 16 bytes");
    EXPECT_EQ(one.ReadFrame(), "ONE:a longer frame than 16 bytes");
    two.SendFrame("b");
    EXPECT_EQ(two.ReadFrame(), "TWO:b");
    shout.SendFrame("c");
    EXPECT_EQ(shout.ReadFrame(), "! c");
  }
  two.SendFrame("a longer frame than 16 bytes");
  EXPECT_TRUE(two.AtEnd());
}

TEST_P(ListenerTest, APrivilegedListenerAnswersWhileTheDataPlaneIsFull) {
  // Every handler of the data plane stands still, its queue is full and its memory
  // budget is used up.
  absl::Notification go_on;
  TestHandler control(Echo);
  auto server = Serve(
      [&](RequestPtr request) {
        go_on.WaitForNotification();
        Echo(std::move(request));
      },
      [&](SocketServerOptions& options) {
        options.listeners = {Named("DATA://127.0.0.1:0"), Named("CONTROL://127.0.0.1:0")};
        options.listeners[1].privileged = true;
        options.listeners[1].handler = &control;
        options.num_io_threads = 1;
        options.queued_max_requests = 1;
        options.processor.connection.socket_request_max_bytes = 4096;
        options.queued_max_request_bytes = 5000;
        options.processor.connection.dispatch = Dispatch::kPool;
      });
  std::vector<Client> stuck;
  for (int i = 0; i < 6; ++i) {
    stuck.emplace_back(Port(*server, 0));
    stuck.back().SendFrame(std::string(1000, 'x'));
  }
  ASSERT_TRUE(server->AwaitMetric("network_requests_parked_total", 1));
  Client client(Port(*server, 1));
  for (int i = 0; i < 20; ++i) {
    client.SendFrame(absl::StrCat("control ", i));
    ASSERT_EQ(client.ReadFrame(), absl::StrCat("control ", i));
  }
  go_on.Notify();
  for (Client& one : stuck) EXPECT_EQ(one.ReadFrame(), std::string(1000, 'x'));
}

}  // namespace
}  // namespace gyre::testing
