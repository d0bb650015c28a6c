// What the stress tests of the network layer have in common: the modes they run in, the
// bounds that make each kind of waiting happen, and that nothing is left at the end.
#ifndef GYRE_TESTS_STRESS_NETWORK_STRESS_H_
#define GYRE_TESTS_STRESS_NETWORK_STRESS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/endian.h"
#include "engine/network/socket_server.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {

struct StressMode {
  const char* disabled;
  Dispatch dispatch;
  int in_flight;
  AcceptMode accept_mode = AcceptMode::kAcceptor;
};

inline std::string NameOfStressMode(const ::testing::TestParamInfo<StressMode>& info) {
  const StressMode& mode = info.param;
  return absl::StrCat(mode.disabled[0] == '\0' ? "Full" : "Rung519",
                      mode.dispatch == Dispatch::kPool ? "Pool" : "Inline", mode.in_flight,
                      mode.accept_mode == AcceptMode::kReusePort ? "Reuse" : "");
}

inline void SetTightBounds(const StressMode& mode, SocketServerOptions& options) {
  options.accept_mode = mode.accept_mode;
  options.queued_max_requests = 4;
  options.queued_max_request_bytes = 3 << 20;
  options.sockets.send_buffer_bytes = 16'384;
  ProcessorOptions& processor = options.processor;
  processor.receive_buffer_bytes = 4096;
  processor.receive_buffer_count = 16;
  processor.splice_pipe_count = 1;
  processor.connection.socket_request_max_bytes = 1 << 20;
  processor.connection.receive_ahead_bytes = 8192;
  processor.connection.send_quantum_bytes = 32'768;
  processor.connection.dispatch = mode.dispatch;
  processor.connection.max_in_flight_requests_per_connection = mode.in_flight;
}

// A request for the last `size` bytes of a file, and its answer.
inline std::string FileRequest(int32_t size) {
  std::string request(5, 'f');
  StoreBigEndian<int32_t>(&request[1], size);
  return request;
}
inline void AnswerFileRequest(RequestPtr request, const FileRef& file, int64_t file_bytes) {
  const int64_t size = LoadBigEndian<int32_t>(request->frame().data() + 1);
  Buffer head = Buffer::Allocate(4);
  StoreBigEndian<int32_t>(head.data(), static_cast<int32_t>(size));
  NetworkSend send(std::move(head));
  send.Append(FileSlice{file, file_bytes - size, size});
  request.Reply(std::move(send));
}

// The clients are gone.
inline void ExpectNothingLeft(TestServer& server) {
  EXPECT_TRUE(server.AwaitConnections(0));
  EXPECT_TRUE(
      AwaitTrue([&] { return server.Metric("kafka_network_socketserver_memorypoolused") == 0; }));
  EXPECT_TRUE(AwaitTrue([&] { return server.Metric("network_connections") == 0; }));
  EXPECT_EQ(server.Metric("network_throttled_connections"), 0);
  EXPECT_EQ(server.Metric("network_connections_accepted_total"),
            server.Metric("network_connections_closed_total"));
  EXPECT_TRUE(server.server().Drain(20'000));
}

}  // namespace gyre::testing

#endif  // GYRE_TESTS_STRESS_NETWORK_STRESS_H_
