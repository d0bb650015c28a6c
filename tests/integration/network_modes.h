// The ways in which every behaviour of engine/network is tested: with all that the
// kernel has and with nothing optional, on handlers and on the processor.
#ifndef GYRE_TESTS_INTEGRATION_NETWORK_MODES_H_
#define GYRE_TESTS_INTEGRATION_NETWORK_MODES_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/network_harness.h"

namespace gyre::testing {

struct NetworkMode {
  const char* disabled;
  Dispatch dispatch;
};

inline auto AllNetworkModes() {
  return ::testing::Values(NetworkMode{"", Dispatch::kPool}, NetworkMode{"", Dispatch::kInline},
                           NetworkMode{"all", Dispatch::kPool},
                           NetworkMode{"all", Dispatch::kInline});
}

inline std::string NameOfMode(const ::testing::TestParamInfo<NetworkMode>& info) {
  return absl::StrCat(info.param.disabled[0] == '\0' ? "Full" : "Rung519",
                      info.param.dispatch == Dispatch::kPool ? "Pool" : "Inline");
}

class NetworkModeTest : public ::testing::TestWithParam<NetworkMode> {
 protected:
  std::unique_ptr<TestServer> Serve(
      std::function<void(RequestPtr)> start,
      const std::function<void(SocketServerOptions&)>& change = {}) const {
    return std::make_unique<TestServer>(
        GetParam().disabled, std::move(start), [&](SocketServerOptions& options) {
          options.processor.connection.dispatch = GetParam().dispatch;
          if (change) change(options);
        });
  }
  bool is_inline() const { return GetParam().dispatch == Dispatch::kInline; }
};

}  // namespace gyre::testing

#endif  // GYRE_TESTS_INTEGRATION_NETWORK_MODES_H_
