#include "engine/network/listener_overrides.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace gyre {
namespace {

std::vector<ListenerOptions> TwoListeners() {
  std::vector<ListenerOptions> listeners(2);
  listeners[0].endpoint = {"INTERNAL", "127.0.0.1", 0};
  listeners[1].endpoint = {"EX.TERNAL", "127.0.0.1", 0};
  return listeners;
}

TEST(ListenerOverridesTest, EachListenerGetsItsOwnAndTheOthersKeepTheServers) {
  const auto overrides = ParseListenerOverrides(
      "internal.num_network_threads=2, EX.TERNAL.max_connections=100,"
      "INTERNAL.max_connection_creation_rate=7");
  ASSERT_TRUE(overrides.ok()) << overrides.status();
  std::vector<ListenerOptions> listeners = TwoListeners();
  ASSERT_TRUE(ApplyListenerOverrides(*overrides, &listeners).ok());
  EXPECT_EQ(listeners[0].num_network_threads, 2);
  EXPECT_EQ(listeners[0].max_connections, std::nullopt);
  EXPECT_EQ(listeners[0].max_connection_creation_rate, 7);
  EXPECT_EQ(listeners[1].num_network_threads, std::nullopt);
  EXPECT_EQ(listeners[1].max_connections, 100);
  SocketServerOptions options;
  options.num_network_threads = 5;
  EXPECT_EQ(NetworkThreadsOf(options, listeners[0]), 2);
  EXPECT_EQ(NetworkThreadsOf(options, listeners[1]), 5);
  EXPECT_TRUE(ParseListenerOverrides("")->empty());
}

TEST(ListenerOverridesTest, KafkasSpellingMeansTheSame) {
  const auto overrides = ParseListenerOverrides(
      "listener.name.internal.num.network.threads=2,listener.name.ex.ternal.max.connections=100,"
      "listener.name.internal.max.connection.creation.rate=7");
  ASSERT_TRUE(overrides.ok()) << overrides.status();
  ASSERT_EQ(overrides->size(), 2u);
  EXPECT_EQ((*overrides)[0].listener_name, "INTERNAL");
  EXPECT_EQ((*overrides)[0].num_network_threads, 2);
  EXPECT_EQ((*overrides)[0].max_connection_creation_rate, 7);
  EXPECT_EQ((*overrides)[1].listener_name, "EX.TERNAL");
  EXPECT_EQ((*overrides)[1].max_connections, 100);
}

TEST(ListenerOverridesTest, EachWrongEntryIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"A.max_connections", "no \"=\""},
      {"max_connections=5", "no listener's name"},
      {".max_connections=5", "no listener's name"},
      {"A.max_connection=5", "no option"},
      {"A.max_connections=0", "within 1.."},
      {"A.max_connections=-1", "within 1.."},
      {"A.max_connections=", "within 1.."},
      {"A.max_connections=5x", "within 1.."},
      {"A.num_network_threads=257", "within 1..256"},
      {"A.max_connections=5,", "no \"=\""},
      {"listener.name.A.max.connection=5", "\"connection\" is no option"},
      {"listener.name.num.network.threads=5", "\"threads\" is no option"},
      {"A.max_connections=5,a.max_connections=6", "given twice"},
  };
  for (const auto& [text, part] : cases) {
    const auto overrides = ParseListenerOverrides(text);
    ASSERT_EQ(overrides.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(overrides.status().message()).find(part), std::string::npos)
        << overrides.status();
    EXPECT_NE(std::string(overrides.status().message()).find("NAME.option=value"),
              std::string::npos);
  }
}

TEST(ListenerOverridesTest, ANameThatNoListenerHasIsRefused) {
  std::vector<ListenerOptions> listeners = TwoListeners();
  const absl::Status status =
      ApplyListenerOverrides(*ParseListenerOverrides("NONE.max_connections=5"), &listeners);
  EXPECT_EQ(status.message(), "no listener is named NONE");
}

}  // namespace
}  // namespace gyre
