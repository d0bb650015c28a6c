#include "tools/load/kafka/setup.h"

#include <time.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "proto/create_topics.h"
#include "proto/init_producer_id.h"
#include "proto/list_offsets.h"
#include "proto/wire/error_code.h"
#include "tools/load/kafka/sync_client.h"

namespace gyre::load {
namespace {

constexpr int64_t kEarliest = -2;
constexpr int64_t kLatest = -1;
constexpr int64_t kPauseNs = 50'000'000;

void Pause() {
  const timespec pause = {0, kPauseNs};
  nanosleep(&pause, nullptr);
}

class Setup {
 public:
  Setup(Part& part, const std::atomic<bool>& interrupted, KafkaShared* shared)
      : part_(part), options_(part.options), interrupted_(interrupted), shared_(*shared) {}

  absl::Status Run();

 private:
  bool Writes() const { return options_.workload != Workload::kConsume; }
  // The first of --brokers that speaks Kafka.
  absl::Status Bootstrap();
  absl::Status FindTopic();
  absl::Status CreateTopic();
  absl::Status AskForIdentities();
  absl::Status ListOffsets(int64_t timestamp, std::vector<int64_t>* offsets);
  absl::Status ListOffsetsOf(int32_t node, int64_t timestamp, std::vector<int64_t>* offsets);

  Part& part_;
  const Options& options_;
  const std::atomic<bool>& interrupted_;
  KafkaShared& shared_;
  std::unique_ptr<SyncClient> client_;
};

absl::Status Setup::Bootstrap() {
  absl::Status status;
  for (const SocketAddress& address : part_.addresses) {
    status = client_->ConnectTo(address);
    if (!status.ok()) continue;
    // Version 0 is what every broker answers.
    absl::StatusOr<proto::ApiVersionsResponse> response =
        client_->Call(proto::ApiVersionsRequest(), 0);
    status = response.status();
    if (!status.ok()) continue;
    if (response->error_code != ErrorCode::kNone) {
      return absl::FailedPreconditionError(
          absl::StrCat(address.ToString(), ": ApiVersions: ", ErrorCodeName(response->error_code)));
    }
    return Annotate(ChooseVersions(*response, &shared_.cluster), address.ToString());
  }
  return status;
}

absl::Status Setup::CreateTopic() {
  if (!shared_.cluster.Offers(ApiKey::kCreateTopics)) {
    return absl::UnimplementedError(
        absl::StrCat("topic ", options_.topic, " is not there, and the broker makes none"));
  }
  proto::CreateTopicsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = options_.topic;
  topic.num_partitions = options_.partitions;
  topic.replication_factor = static_cast<int16_t>(options_.replication_factor);
  request.timeout_ms = static_cast<int32_t>(options_.timeout_ns / 1'000'000);
  GYRE_ASSIGN_OR_RETURN(const proto::CreateTopicsResponse response,
                        client_->Call(request, shared_.cluster.VersionOf(ApiKey::kCreateTopics)));
  if (response.topics.size() != 1) {
    return absl::DataLossError("CreateTopics was answered for other topics");
  }
  const auto& answer = response.topics[0];
  if (answer.error_code == ErrorCode::kNone ||
      answer.error_code == ErrorCode::kTopicAlreadyExists) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "topic ", options_.topic, " cannot be created: ", ErrorCodeName(answer.error_code),
      answer.error_message.value_or("").empty() ? "" : ": ", answer.error_message.value_or("")));
}

absl::Status Setup::FindTopic() {
  const int64_t deadline_ns = part_.clock->NowNs() + options_.timeout_ns;
  bool created = false;
  for (;;) {
    GYRE_ASSIGN_OR_RETURN(const proto::MetadataResponse response,
                          client_->Call(MakeMetadataRequest(options_.topic),
                                        shared_.cluster.VersionOf(ApiKey::kMetadata)));
    const absl::Status status =
        ApplyMetadata(response, options_.topic, *part_.hosts, &shared_.cluster);
    if (status.ok()) return status;
    const bool missing = absl::IsNotFound(status);
    if (missing && !created && options_.create_topic && Writes()) {
      GYRE_RETURN_IF_ERROR(CreateTopic());
      created = true;
    } else if ((missing && !created) || (!missing && !absl::IsUnavailable(status)) ||
               part_.clock->NowNs() > deadline_ns) {
      return status;
    } else {
      Pause();
    }
    if (interrupted_.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
  }
}

absl::Status Setup::AskForIdentities() {
  const bool offered = shared_.cluster.Offers(ApiKey::kInitProducerId);
  if (options_.idempotence == Idempotence::kOn && !offered) {
    return absl::UnimplementedError("--idempotence=on: the broker offers no InitProducerId");
  }
  if (options_.idempotence == Idempotence::kOff || options_.acks != -1) return absl::OkStatus();
  if (!offered) {
    shared_.notes.push_back(
        "the broker offers no InitProducerId: not idempotent, so what is sent again may be there "
        "twice");
    return absl::OkStatus();
  }
  for (int32_t i = 0; i < options_.connections; ++i) {
    const int64_t deadline_ns = part_.clock->NowNs() + options_.timeout_ns;
    for (;;) {
      proto::InitProducerIdRequest request;
      request.transactional_id = std::nullopt;
      request.transaction_timeout_ms = 60'000;
      GYRE_ASSIGN_OR_RETURN(
          const proto::InitProducerIdResponse response,
          client_->Call(request, shared_.cluster.VersionOf(ApiKey::kInitProducerId)));
      if (response.error_code == ErrorCode::kNone) {
        shared_.identities.push_back({response.producer_id, response.producer_epoch});
        break;
      }
      if (!IsRetriable(response.error_code) || part_.clock->NowNs() > deadline_ns) {
        return absl::FailedPreconditionError(
            absl::StrCat("InitProducerId: ", ErrorCodeName(response.error_code)));
      }
      Pause();
    }
  }
  shared_.idempotent = true;
  return absl::OkStatus();
}

absl::Status Setup::ListOffsets(int64_t timestamp, std::vector<int64_t>* offsets) {
  offsets->assign(shared_.cluster.leaders.size(), -1);
  std::map<int32_t, bool> nodes;
  for (const int32_t leader : shared_.cluster.leaders) nodes[leader] = true;
  for (const auto& [node, is] : nodes) {
    GYRE_RETURN_IF_ERROR(client_->ConnectTo(shared_.cluster.nodes.at(node)));
    GYRE_RETURN_IF_ERROR(ListOffsetsOf(node, timestamp, offsets));
  }
  return absl::OkStatus();
}

absl::Status Setup::ListOffsetsOf(int32_t node, int64_t timestamp, std::vector<int64_t>* offsets) {
  proto::ListOffsetsRequest request;
  request.replica_id = -1;
  auto& topic = request.topics.emplace_back();
  topic.name = options_.topic;
  for (size_t i = 0; i < offsets->size(); ++i) {
    if (shared_.cluster.leaders[i] != node) continue;
    auto& partition = topic.partitions.emplace_back();
    partition.partition_index = static_cast<int32_t>(i);
    partition.timestamp = timestamp;
  }
  const int64_t deadline_ns = part_.clock->NowNs() + options_.timeout_ns;
  for (;;) {
    GYRE_ASSIGN_OR_RETURN(const proto::ListOffsetsResponse response,
                          client_->Call(request, shared_.cluster.VersionOf(ApiKey::kListOffsets)));
    ErrorCode error = ErrorCode::kNone;
    for (const auto& answered : response.topics) {
      for (const auto& answer : answered.partitions) {
        if (answer.error_code != ErrorCode::kNone) error = answer.error_code;
        const auto index = static_cast<size_t>(answer.partition_index);
        if (index < offsets->size()) (*offsets)[index] = std::max<int64_t>(answer.offset, 0);
      }
    }
    if (error == ErrorCode::kNone) break;
    if (!IsRetriable(error) || part_.clock->NowNs() > deadline_ns) {
      return absl::FailedPreconditionError(absl::StrCat("ListOffsets: ", ErrorCodeName(error)));
    }
    Pause();
  }
  for (size_t i = 0; i < offsets->size(); ++i) {
    if (shared_.cluster.leaders[i] == node && (*offsets)[i] < 0) {
      return absl::DataLossError(absl::StrCat("ListOffsets left partition ", i, " out"));
    }
  }
  return absl::OkStatus();
}

absl::Status Setup::Run() {
  GYRE_ASSIGN_OR_RETURN(client_, SyncClient::Make(options_, *part_.clock, interrupted_));
  GYRE_RETURN_IF_ERROR(Bootstrap());
  GYRE_RETURN_IF_ERROR(FindTopic());
  const size_t partition_count = shared_.cluster.leaders.size();
  shared_.acknowledged_end = std::make_unique<std::atomic<int64_t>[]>(partition_count);
  if (Writes()) GYRE_RETURN_IF_ERROR(AskForIdentities());
  GYRE_RETURN_IF_ERROR(ListOffsets(kLatest, &shared_.end_offsets));
  shared_.start_offsets = shared_.end_offsets;
  if (!Writes() && options_.from_earliest) {
    GYRE_RETURN_IF_ERROR(ListOffsets(kEarliest, &shared_.start_offsets));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetUpKafka(Part& part, const std::atomic<bool>& interrupted, KafkaShared* shared) {
  return Setup(part, interrupted, shared).Run();
}

}  // namespace gyre::load
