#include "engine/broker/handlers/produce.h"

#include "engine/base/ref_ptr.h"
#include "engine/broker/produce_operation.h"
#include "engine/record/record_batch.h"
#include "proto/produce.h"

namespace gyre {

namespace {

bool HasTransactionalBatch(const proto::ProduceRequest& request) {
  for (const auto& topic : request.topic_data) {
    for (const auto& partition : topic.partition_data) {
      const absl::string_view records = partition.records.bytes();
      if (records.size() >= batch::kHeaderBytes && RecordBatchView(records).is_transactional()) {
        return true;
      }
    }
  }
  return false;
}

// What is wrong with the request as a whole; every partition is told.
ErrorCode CheckRequest(const proto::ProduceRequest& request) {
  if (request.acks < kAcksAll || request.acks > 1) return ErrorCode::kInvalidRequiredAcks;
  // Nobody coordinates transactions yet. Of the errors this one is fatal to
  // clients, so that none waits for a coordinator that does not come.
  if (request.transactional_id.has_value() || HasTransactionalBatch(request)) {
    return ErrorCode::kTransactionalIdAuthorizationFailed;
  }
  return ErrorCode::kNone;
}

}  // namespace

void HandleProduce(const BrokerServices& services, RequestContext context) {
  proto::ProduceRequest request;
  if (!context.Decode(request)) return;
  MakeRef<ProduceOperation>(services, std::move(context), request)
      ->Start(request, CheckRequest(request));
}

}  // namespace gyre
