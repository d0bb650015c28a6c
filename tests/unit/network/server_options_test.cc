// Every value that cannot work is refused with its name and range, and a server makes
// nothing of it.
#include "engine/network/server_options.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "engine/network/request/request_handler.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"

namespace gyre {
namespace {

struct Case {
  const char* name;  // what the refusal must hold
  std::function<void(SocketServerOptions&, int64_t)> set;
  std::vector<int64_t> bad;
  std::vector<int64_t> good;
};

SocketServerOptions Options() {
  SocketServerOptions options;
  options.listeners.resize(1);
  options.listeners[0].endpoint = *ParseEndpoint("TEST://127.0.0.1:0");
  return options;
}

template <typename Member>
std::function<void(SocketServerOptions&, int64_t)> Of(Member SocketServerOptions::* member) {
  return [member](SocketServerOptions& options, int64_t value) {
    options.*member = static_cast<Member>(value);
  };
}
template <typename Member>
std::function<void(SocketServerOptions&, int64_t)> Of(Member ProcessorOptions::* member) {
  return [member](SocketServerOptions& options, int64_t value) {
    options.processor.*member = static_cast<Member>(value);
  };
}
template <typename Member>
std::function<void(SocketServerOptions&, int64_t)> Of(Member ConnectionOptions::* member) {
  return [member](SocketServerOptions& options, int64_t value) {
    options.processor.connection.*member = static_cast<Member>(value);
  };
}
template <typename Member>
std::function<void(SocketServerOptions&, int64_t)> Of(Member SocketOptions::* member) {
  return [member](SocketServerOptions& options, int64_t value) {
    options.sockets.*member = static_cast<Member>(value);
  };
}
template <typename Member>
std::function<void(SocketServerOptions&, int64_t)> Of(Member ListenerOptions::* member) {
  return [member](SocketServerOptions& options, int64_t value) {
    options.listeners[0].*member = static_cast<int32_t>(value);
  };
}

std::vector<Case> ConnectionCases() {
  using C = ConnectionOptions;
  return {
      {"socket_request_max_bytes",
       Of(&C::socket_request_max_bytes),
       {INT64_MIN, -1, 0, C::kMaxRequestBytes + 1, INT64_MAX},
       {1, C::kMaxRequestBytes}},
      {"connections_max_idle_ms",
       Of(&C::connections_max_idle_ms),
       {0, kMaxTimeMs + 1, INT64_MAX},
       {INT64_MIN, -1, 1, kMaxTimeMs}},
      {"frame_timeout_ms",
       Of(&C::frame_timeout_ms),
       {0, kMaxTimeMs + 1, INT64_MAX},
       {-1, 1, kMaxTimeMs}},
      {"slow_request_log_ms",
       Of(&C::slow_request_log_ms),
       {kMaxTimeMs + 1, INT64_MAX},
       {-1, 0, kMaxTimeMs}},
      {"max_in_flight_requests_per_connection",
       Of(&C::max_in_flight_requests_per_connection),
       {-1, 0, 1025},
       {1, 1024}},
      {"max_in_flight_bytes_per_connection",
       Of(&C::max_in_flight_bytes_per_connection),
       {-1, 0},
       {1, INT64_MAX}},
      {"receive_ahead_bytes",
       Of(&C::receive_ahead_bytes),
       {-1, (1 << 30) + 1, INT64_MAX},
       {0, 1 << 30}},
      {"file_copy_max_bytes",
       Of(&C::file_copy_max_bytes),
       {-1, (1 << 20) + 1, INT64_MAX},
       {0, 1 << 20}},
      {"dispatch_quantum_bytes", Of(&C::dispatch_quantum_bytes), {-1, 0}, {1, INT64_MAX}},
      {"send_quantum_bytes", Of(&C::send_quantum_bytes), {-1, 0}, {1, INT64_MAX}},
      {"zero_copy_max_pinned_bytes",
       Of(&C::zero_copy_max_pinned_bytes),
       {-1, (1 << 30) + 1},
       {0, 1 << 30}},
      {"response_budget_bytes", Of(&C::response_budget_bytes), {-1, 0}, {1, INT64_MAX}},
  };
}

std::vector<Case> StartCases() {
  using P = ProcessorOptions;
  using S = SocketServerOptions;
  using L = ListenerOptions;
  return {
      {"receive_buffer_bytes",
       Of(&P::receive_buffer_bytes),
       {0, 1023, (1 << 20) + 1, UINT32_MAX},
       {1024, 1 << 20}},
      {"receive_buffer_count",
       Of(&P::receive_buffer_count),
       {0, 1, 7, 65'536, UINT32_MAX},
       {4, 32'768}},
      {"processor.max_connections",
       Of(&P::max_connections),
       {0, (1 << 24) + 1, UINT32_MAX},
       {1, 1 << 24}},
      {"zero_copy_close_timeout_ms",
       Of(&P::zero_copy_close_timeout_ms),
       {-1, kMaxTimeMs + 1},
       {0, kMaxTimeMs}},
      {"response_budget_processors", Of(&P::response_budget_processors), {-1, 0}, {1}},
      {"response_stall_ms", Of(&P::response_stall_ms), {-1, kMaxTimeMs + 1}, {0, kMaxTimeMs}},
      {"splice_pipe_count", Of(&P::splice_pipe_count), {-1, INT32_MAX}, {0, 16}},
      {"splice_pipe_bytes", Of(&P::splice_pipe_bytes), {0, 4095, UINT32_MAX}, {4096, 1 << 30}},
      {"num_network_threads", Of(&S::num_network_threads), {-1, 0, 257}, {1, 256}},
      {"num_io_threads", Of(&S::num_io_threads), {-1, 0, 1025}, {1, 1024}},
      {"queued_max_requests", Of(&S::queued_max_requests), {-1, 0, INT32_MAX}, {1, 1 << 20}},
      {"slab_bytes", Of(&S::slab_bytes), {-1, INT64_MAX}, {0, 1 << 30}},
      {"max_connections", Of(&S::max_connections), {-1, 0}, {1, INT32_MAX}},
      {"max_connections_per_ip", Of(&S::max_connections_per_ip), {-1}, {0, INT32_MAX}},
      {"max_connection_creation_rate", Of(&S::max_connection_creation_rate), {0}, {1}},
      {"max_connection_creation_rate_per_ip",
       Of(&S::max_connection_creation_rate_per_ip),
       {-1, 0},
       {1}},
      {"quota_window_num", Of(&S::quota_window_num), {0, 1, INT32_MAX}, {2, 1000}},
      {"quota_window_size_seconds", Of(&S::quota_window_size_seconds), {0, INT32_MAX}, {1, 3600}},
      {"queued_max_request_bytes",
       Of(&S::queued_max_request_bytes),
       {1, 100 * 1024 * 1024 + 3},
       {-1, 0, 100 * 1024 * 1024 + 4, INT64_MAX}},
      {"listen_backlog_size", Of(&SocketOptions::listen_backlog_size), {-1, 0}, {1}},
      {"send_buffer_bytes", Of(&SocketOptions::send_buffer_bytes), {-2, INT32_MIN}, {-1, 0}},
      {"socket_receive_buffer_bytes", Of(&SocketOptions::receive_buffer_bytes), {-2}, {-1, 0}},
      {"privileged_io_threads", Of(&L::privileged_io_threads), {0, 1025}, {1}},
      {"privileged_queued_max_requests",
       Of(&L::privileged_queued_max_requests),
       {-1, 0, INT32_MAX},
       {1}},
      {"num_network_threads", Of(&L::num_network_threads), {-1, 0, 257}, {1, 256}},
      {"max_connections", Of(&L::max_connections), {-1, 0}, {1}},
      {"max_connection_creation_rate", Of(&L::max_connection_creation_rate), {-1, 0}, {1}},
  };
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = ConnectionCases();
  for (Case& one : StartCases()) cases.push_back(std::move(one));
  return cases;
}

class NoHandler final : public RequestHandler {
  void Start(RequestPtr request) override { request.ReplyNothing(); }
};

TEST(ServerOptions, TheDefaultsPass) { EXPECT_TRUE(CheckOptions(Options()).ok()); }

TEST(ServerOptions, WhatIsOutOfRangeIsNamedAndTheEndsOfTheRangePass) {
  for (const Case& one : AllCases()) {
    for (const int64_t value : one.bad) {
      SocketServerOptions options = Options();
      one.set(options, value);
      const absl::Status status = CheckOptions(options);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << one.name << " " << value;
      EXPECT_TRUE(absl::StrContains(status.message(), one.name)) << status;
    }
    for (const int64_t value : one.good) {
      SocketServerOptions options = Options();
      one.set(options, value);
      EXPECT_TRUE(CheckOptions(options).ok()) << CheckOptions(options);
    }
  }
}

TEST(ServerOptions, ARunningServerRefusesTheSame) {
  for (const Case& one : ConnectionCases()) {
    const SocketServerOptions before = Options();
    for (const int64_t value : one.bad) {
      SocketServerOptions after = before;
      one.set(after, value);
      EXPECT_FALSE(CheckLiveOptions(before, after.processor.connection).ok())
          << one.name << " " << value;
    }
    for (const int64_t value : one.good) {
      SocketServerOptions after = before;
      one.set(after, value);
      EXPECT_TRUE(CheckLiveOptions(before, after.processor.connection).ok())
          << one.name << " " << value;
    }
  }
}

TEST(ServerOptions, NamesAreUniqueAndLanesAreFew) {
  SocketServerOptions options = Options();
  options.listeners.push_back(options.listeners[0]);
  EXPECT_TRUE(absl::StrContains(CheckOptions(options).message(), "\"TEST\""));
  options.listeners[1].endpoint.listener_name = "test";
  EXPECT_FALSE(CheckOptions(options).ok());
  options.listeners[1].endpoint.listener_name = "OTHER";
  EXPECT_TRUE(CheckOptions(options).ok());
  options.lanes = {{"a", 1}, {"a", 2}};
  EXPECT_TRUE(absl::StrContains(CheckOptions(options).message(), "\"a\""));
  options.lanes = {{"a", 0}};
  EXPECT_TRUE(absl::StrContains(CheckOptions(options).message(), "weight"));
  options.lanes = {{"a", INT32_MAX}};
  EXPECT_TRUE(absl::StrContains(CheckOptions(options).message(), "weight"));
  options.lanes.clear();
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    options.lanes.push_back({name, kMaxLaneWeight});
  }
  EXPECT_TRUE(CheckOptions(options).ok());
  options.lanes.push_back({"9", 1});
  EXPECT_TRUE(absl::StrContains(CheckOptions(options).message(), "at most 8"));
}

TEST(ServerOptions, AServerMakesNothingOfWhatIsRefused) {
  NoHandler handler;
  const auto expect_refused = [&handler](const SocketServerOptions& options) {
    SocketServer server(options, handler);
    EXPECT_EQ(server.Start(), CheckOptions(options));
  };
  for (const Case& one : AllCases()) {
    for (const int64_t value : one.bad) {
      SocketServerOptions options = Options();
      options.memory_limit_bytes = int64_t{1} << 30;  // which is divided early
      one.set(options, value);
      expect_refused(options);
    }
  }
  SocketServerOptions options = Options();
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7", "8", "9"}) {
    options.lanes.push_back({name, 1});
  }
  expect_refused(options);
}

}  // namespace
}  // namespace gyre
