#include "engine/broker/handlers/find_coordinator.h"

#include "proto/find_coordinator.h"

namespace gyre {

namespace {

constexpr int16_t kFirstVersionWithKeyList = 4;
// Groups are 0, transactions 1; newer types come with newer versions.
constexpr int8_t kMaxKeyType = 1;
constexpr int32_t kNoNode = -1;
constexpr int32_t kNoPort = -1;

struct Outcome {
  ErrorCode error;
  const char* message;
};

Outcome OutcomeFor(int8_t key_type) {
  if (key_type < 0 || key_type > kMaxKeyType) {
    return {ErrorCode::kInvalidRequest, "Unknown coordinator key type."};
  }
  return {ErrorCode::kCoordinatorNotAvailable, "The coordinator is not available."};
}

}  // namespace

void HandleFindCoordinator(const BrokerServices& services, RequestContext context) {
  proto::FindCoordinatorRequest request;
  if (!context.Decode(request)) return;
  const Outcome outcome = OutcomeFor(request.key_type);
  proto::FindCoordinatorResponse response;
  if (context.version() < kFirstVersionWithKeyList) {
    response.error_code = outcome.error;
    response.error_message = outcome.message;
    response.node_id = kNoNode;
    response.port = kNoPort;
  } else {
    for (absl::string_view key : request.coordinator_keys) {
      response.coordinators.push_back({.key = key,
                                       .node_id = kNoNode,
                                       .port = kNoPort,
                                       .error_code = outcome.error,
                                       .error_message = outcome.message});
    }
  }
  context.Reply(response);
}

}  // namespace gyre
