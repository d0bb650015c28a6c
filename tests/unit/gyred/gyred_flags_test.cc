// gyred's flags: each has a subject and help, bad values name what would be good, and
// only live ones change in a running server.
#include "tools/gyred/gyred_flags.h"

#include <chrono>
#include <future>
#include <initializer_list>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "gflags/gflags.h"
#include "gtest/gtest.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_registry.h"

DEFINE_int32(test_window_ms, 20, "A number that may change.");
DEFINE_string(test_mode, "slow", "A word.");
DEFINE_string(test_text, "", "Anything.");
DEFINE_bool(test_slow, false, "Takes its time.");
DEFINE_bool(test_switch, false, "On or off.");

namespace gyre {
namespace {

int32_t applied_window_ms = 0;

absl::Status ApplyWindow(BrokerServer&) {
  if (FLAGS_test_window_ms == 13) return absl::InvalidArgumentError("13 does not go with the rest");
  applied_window_ms = FLAGS_test_window_ms;
  return absl::OkStatus();
}

// Looks at all flags from another thread while this one is set.
FlagRegistry* registry_to_list = nullptr;
std::thread listing;
bool listed_meanwhile = false;

absl::Status ListMeanwhile(BrokerServer&) {
  std::promise<void> listed;
  std::future<void> done = listed.get_future();
  listing = std::thread([listed = std::move(listed)]() mutable {
    registry_to_list->List();
    listed.set_value();
  });
  listed_meanwhile = done.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  return absl::OkStatus();
}

FlagGroup TestGroup() {
  return {"Tests",
          {
              FlagSpec("test_window_ms").Between(1, 50).Live(&ApplyWindow),
              FlagSpec("test_mode").OneOf({"slow", "fast"}),
              FlagSpec("test_switch").Live([](BrokerServer&) { return absl::OkStatus(); }),
              FlagSpec("test_text").Live([](BrokerServer&) { return absl::OkStatus(); }),
              FlagSpec("test_slow").Live(&ListMeanwhile),
          },
          nullptr};
}

class GyredFlagsTest : public testing::Test {
 protected:
  gflags::FlagSaver saver_;
  FlagRegistry registry_{{TestGroup()}};
  BrokerServer server_{BrokerServerOptions()};  // never started
};

TEST_F(GyredFlagsTest, ALiveFlagTakesEffect) {
  EXPECT_TRUE(registry_.Set("test_window_ms", "42", server_).ok());
  EXPECT_EQ(applied_window_ms, 42);
  EXPECT_EQ(registry_.List()[0].value, "42");
  EXPECT_EQ(registry_.List()[0].default_value, "20");
}

TEST_F(GyredFlagsTest, ABadValueIsRefusedWithTheRangeAndNothingChanges) {
  applied_window_ms = 0;
  for (const char* text : {"0", "51", "", "x", "1e1", "99999999999999999999", "4 2"}) {
    const absl::Status status = registry_.Set("test_window_ms", text, server_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "from 1 to 50")) << status;
  }
  EXPECT_EQ(applied_window_ms, 0);
  EXPECT_EQ(FLAGS_test_window_ms, 20);
}

TEST_F(GyredFlagsTest, AControlCharacterIsRefusedInOneLine) {
  ASSERT_TRUE(registry_.Set("test_text", "größer", server_).ok());
  for (const std::string& text : {std::string("a\0b", 3), std::string("a\nE0101 forged"),
                                  std::string("\x1b[2J"), std::string("5\0", 2)}) {
    for (const char* name : {"test_text", "test_window_ms"}) {
      const absl::Status status = registry_.Set(name, text, server_);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "without control characters")) << status;
      EXPECT_EQ(status.message().find_first_of(absl::string_view("\0\n\x1b", 3)),
                absl::string_view::npos);
    }
    const absl::Status unknown = registry_.Set(text, "1", server_);
    EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(unknown.message().find_first_of(absl::string_view("\0\n\x1b", 3)),
              absl::string_view::npos);
  }
  EXPECT_EQ(FLAGS_test_text, "größer");
  EXPECT_EQ(FLAGS_test_window_ms, 20);
}

TEST_F(GyredFlagsTest, AChangeThatTakesItsTimeHoldsNoListUp) {
  registry_to_list = &registry_;
  EXPECT_TRUE(registry_.Set("test_slow", "true", server_).ok());
  EXPECT_TRUE(listed_meanwhile);
  listing.join();
}

TEST_F(GyredFlagsTest, AValueThatTheServerRefusesIsTakenBack) {
  EXPECT_FALSE(registry_.Set("test_window_ms", "13", server_).ok());
  EXPECT_EQ(FLAGS_test_window_ms, 20);
}

TEST_F(GyredFlagsTest, AFlagThatIsNotLiveWaitsForTheNextStart) {
  const absl::Status status = registry_.Set("test_mode", "fast", server_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FLAGS_test_mode, "slow");
}

TEST_F(GyredFlagsTest, AnUnknownFlagIsNotFound) {
  const absl::Status status = registry_.Set("test_widnow_ms", "1", server_);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no flag --test_widnow_ms; did you mean --test_window_ms?");
  // gflags' own are not ours to change.
  EXPECT_EQ(registry_.Set("flagfile", "x", server_).code(), absl::StatusCode::kNotFound);
}

TEST_F(GyredFlagsTest, ASwitchTakesTrueOrFalse) {
  EXPECT_TRUE(registry_.Set("test_switch", "true", server_).ok());
  EXPECT_TRUE(FLAGS_test_switch);
  const absl::Status status = registry_.Set("test_switch", "perhaps", server_);
  EXPECT_TRUE(absl::StrContains(status.message(), "true or false")) << status;
  EXPECT_TRUE(FLAGS_test_switch);
}

TEST_F(GyredFlagsTest, CheckNamesTheChoices) {
  FLAGS_test_mode = "medium";
  const absl::Status status = registry_.Check();
  EXPECT_EQ(status.message(), "--test_mode=medium is not valid; it must be slow or fast");
}

TEST_F(GyredFlagsTest, HelpNamesSubjectDefaultRangeAndLiveness) {
  const std::string help = registry_.Help(false);
  EXPECT_TRUE(absl::StrContains(help, "\nTests\n")) << help;
  EXPECT_TRUE(absl::StrContains(help, "  --test_window_ms=20\n")) << help;
  EXPECT_TRUE(absl::StrContains(help, "[from 1 to 50; live]")) << help;
  EXPECT_FALSE(absl::StrContains(help, "logtostderr")) << help;
  EXPECT_TRUE(absl::StrContains(registry_.Help(true), "--logtostderr"));
}

TEST(GyredFlagGroups, EveryFlagOfGyredHasASubjectAndHelp) {
  std::set<std::string> named;
  for (const FlagRegistry::Entry& entry : FlagRegistry(AllFlagGroups()).List()) {
    EXPECT_TRUE(named.insert(entry.name).second) << entry.name << " is named twice";
    EXPECT_NE(entry.help, "") << entry.name;
  }
  std::vector<gflags::CommandLineFlagInfo> all;
  gflags::GetAllFlags(&all);
  for (const gflags::CommandLineFlagInfo& info : all) {
    if (!absl::StrContains(info.filename, "tools/gyred/")) continue;
    EXPECT_TRUE(named.count(info.name) == 1) << info.name << " is in no group";
  }
}

TEST(GyredFlagGroups, TheDefaultsAreGoodButForTheDataDirectory) {
  const FlagRegistry registry(AllFlagGroups());
  EXPECT_TRUE(registry.Check().ok()) << registry.Check();
  EXPECT_TRUE(absl::StrContains(OptionsFromFlags(registry).status().message(), "--log_dirs"));
}

// What the flags of listeners make of a command line.
absl::StatusOr<BrokerServerOptions> WithFlags(
    std::initializer_list<std::pair<const char*, const char*>> flags) {
  gflags::FlagSaver saver;
  gflags::SetCommandLineOption("log_dirs", "somewhere");
  for (const auto& [name, value] : flags) gflags::SetCommandLineOption(name, value);
  return OptionsFromFlags(FlagRegistry(AllFlagGroups()));
}

TEST(GyredFlagGroups, ListenersHaveRolesLimitsAndAdvertisedAddresses) {
  const auto options = WithFlags(
      {{"listeners", "EXTERNAL://0.0.0.0:9092,INTERNAL://127.0.0.1:0,CONTROL://[::1]:9094"},
       {"advertised_listeners", "external://broker.example.org:19092"},
       {"inter_broker_listener_name", "INTERNAL"},
       {"control_plane_listener_name", "control"},
       {"listener_overrides", "EXTERNAL.max_connections=5,INTERNAL.num_network_threads=1"},
       {"accept_mode", "reuseport"}});
  ASSERT_TRUE(options.ok()) << options.status();
  const SocketServerOptions& network = options->network;
  ASSERT_EQ(network.listeners.size(), 3u);
  EXPECT_EQ(network.accept_mode, AcceptMode::kReusePort);
  EXPECT_EQ(network.listeners[0].advertised_host, "broker.example.org");
  EXPECT_EQ(network.listeners[0].advertised_port, 19092);
  EXPECT_EQ(network.listeners[0].max_connections, 5);
  EXPECT_FALSE(network.listeners[0].privileged || network.listeners[0].inter_broker);
  EXPECT_TRUE(network.listeners[1].inter_broker);
  EXPECT_EQ(network.listeners[1].num_network_threads, 1);
  EXPECT_TRUE(network.listeners[2].privileged);
}

TEST(GyredFlagGroups, AWrongListenerFlagIsOneLineThatNamesIt) {
  struct Case {
    const char* flag;
    const char* value;
    const char* part;
  };
  const Case cases[] = {
      {"listeners", "PLAINTEXT:9092", "--listeners: listener \"PLAINTEXT:9092\": no"},
      {"listeners", "SASL_SSL://127.0.0.1:9092", "would be served as PLAINTEXT"},
      {"advertised_listeners", "PLAINTEXT://0.0.0.0:1", "--advertised_listeners: listener"},
      {"advertised_listeners", "OTHER://a:1", "named like one of --listeners"},
      {"inter_broker_listener_name", "OTHER", "--inter_broker_listener_name=OTHER"},
      {"control_plane_listener_name", "OTHER", "--control_plane_listener_name=OTHER"},
      {"control_plane_listener_name", "PLAINTEXT", "a listener beside"},
      {"listener_overrides", "OTHER.max_connections=1", "--listener_overrides: no listener"},
      {"listener_overrides", "PLAINTEXT.x=1", "--listener_overrides: \"PLAINTEXT.x=1\""},
      {"max_connections_per_ip", "0", "--max_connections_per_ip=0"},
      {"default_replication_factor", "3",
       "--default_replication_factor=3 is not valid; it must be 1"},
      {"admin_listener", "foo", "--admin_listener: \"foo\": no port; expected HOST:PORT"},
      {"listeners", "A://:1,B://127.0.0.1:1", "its address is that of A://:1; each needs one of"},
  };
  for (const auto& [flag, value, part] : cases) {
    const absl::Status status = WithFlags({{flag, value}}).status();
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status << " without " << part;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  }
}

TEST(GyredFlagGroups, ABudgetBelowTheLargestRequestIsRefused) {
  gflags::FlagSaver saver;
  gflags::SetCommandLineOption("log_dirs", "somewhere");
  gflags::SetCommandLineOption("queued_max_request_bytes", "1000");
  const absl::Status status = OptionsFromFlags(FlagRegistry(AllFlagGroups())).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "at least 104857604")) << status;
}

TEST(GyredFlagGroups, ALiveValueThatAStartWouldRefuseBesideAnotherFlagIsRefused) {
  gflags::FlagSaver saver;
  gflags::SetCommandLineOption("queued_max_request_bytes", "200000000");
  FlagRegistry registry(AllFlagGroups());
  BrokerServer server{BrokerServerOptions()};  // never started, so nothing may get there
  const absl::Status status = registry.Set("socket_request_max_bytes", "300000000", server);
  EXPECT_TRUE(absl::StrContains(status.message(), "at least 300000004")) << status;
  EXPECT_EQ(gflags::GetCommandLineFlagInfoOrDie("socket_request_max_bytes").current_value,
            "104857600");
  const absl::Status all = registry.Set("max_connections_per_ip", "0", server);
  EXPECT_TRUE(absl::StrContains(all.message(), "needs --max_connections_per_ip_overrides")) << all;
}

TEST(GyredFlagGroups, LaneWeightsAreGivenByNameAndTheOthersKeepTheirs) {
  gflags::FlagSaver saver;
  gflags::SetCommandLineOption("log_dirs", "somewhere");
  const FlagRegistry registry(AllFlagGroups());
  gflags::SetCommandLineOption("request_lane_weights", "fetch:9,other:1");
  const absl::StatusOr<BrokerServerOptions> options = OptionsFromFlags(registry);
  ASSERT_TRUE(options.ok()) << options.status();
  std::string lanes;
  for (const RequestLaneOptions& lane : options->network.lanes) {
    absl::StrAppend(&lanes, lane.name, ":", lane.weight, " ");
  }
  EXPECT_EQ(lanes, "other:1 control:8 produce:4 fetch:9 ");
  for (const char* bad : {"fetch", "fetch:", "fetch:0", "fetch:1001", "fetch:x", "fast:1", ":1"}) {
    gflags::SetCommandLineOption("request_lane_weights", bad);
    const absl::Status status = OptionsFromFlags(registry).status();
    EXPECT_TRUE(absl::StrContains(status.message(), "from 1 to 1000")) << bad << ": " << status;
  }
}

}  // namespace
}  // namespace gyre
