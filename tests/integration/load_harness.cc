#include "tests/integration/load_harness.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/endian.h"
#include "engine/base/status_macros.h"
#include "engine/record/record_batch.h"
#include "glog/logging.h"
#include "proto/api_versions.h"
#include "proto/create_topics.h"
#include "proto/fetch.h"
#include "proto/frame.h"
#include "proto/init_producer_id.h"
#include "proto/list_offsets.h"
#include "proto/metadata.h"
#include "proto/produce.h"
#include "tools/load/options.h"
#include "tools/load/run.h"
#include "tools/load/scenario.h"

namespace gyre::load {
namespace {

void SleepMs(int64_t ms) {
  timespec left = {ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<RunResult> RunLoad(uint16_t port, std::vector<std::string> flags) {
  flags.push_back(absl::StrCat("--brokers=127.0.0.1:", port));
  flags.push_back("--progress=off");
  GYRE_ASSIGN_OR_RETURN(const Options options, ParseArguments(flags));
  GYRE_ASSIGN_OR_RETURN(const std::vector<Options> parts, PartsOf(options));
  const std::atomic<bool> interrupted{false};
  return RunParts(parts, interrupted);
}

// --- PlainPeer ------------------------------------------------------------------------

PlainPeer::PlainPeer(std::function<void(int fd)> serve)
    : serve_(std::move(serve)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  PCHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  PCHECK(listen(listener_.get(), 64) == 0);
  socklen_t size = sizeof(address);
  getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

PlainPeer::~PlainPeer() {
  stopping_ = true;
  thread_.join();
}

void PlainPeer::Run() {
  while (!stopping_) {
    pollfd entry = {listener_.get(), POLLIN, 0};
    if (poll(&entry, 1, 20) <= 0) continue;
    const UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) serve_(fd.get());
  }
}

bool PlainPeer::ReadFrame(int fd, std::string* payload) {
  const auto read_exactly = [fd](char* to, size_t size) {
    while (size > 0) {
      const ssize_t got = recv(fd, to, size, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  };
  char prefix[4];
  if (!read_exactly(prefix, sizeof(prefix))) return false;
  payload->resize(static_cast<size_t>(LoadBigEndian<int32_t>(prefix)));
  return read_exactly(payload->data(), payload->size());
}

bool PlainPeer::Write(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::function<void(int fd)> EchoWith(
    std::function<std::vector<std::string>(int64_t n, const std::string& frame)> answer) {
  return [answer = std::move(answer)](int fd) {
    std::string frame;
    for (int64_t n = 0; PlainPeer::ReadFrame(fd, &frame); ++n) {
      for (const std::string& reply : answer(n, frame)) {
        if (!PlainPeer::Write(fd, testing::Framed(reply))) return;
      }
    }
  };
}

// --- LyingBroker ----------------------------------------------------------------------

LyingBroker::LyingBroker(std::function<Treatment(int64_t n)> treat) : treat_(std::move(treat)) {
  server_ =
      std::make_unique<testing::TestServer>("", [this](RequestPtr r) { Serve(std::move(r)); });
  server_->handler().runs_inline = false;  // It sleeps.
  port_ = server_->port();
}

void LyingBroker::set_garble(std::function<void(std::string* frame)> garble) {
  MutexLock lock(garble_mutex_);
  garble_ = std::move(garble);
}

template <typename Response>
void LyingBroker::Reply(RequestPtr request, const Response& response, int32_t correlation_id,
                        int16_t version) {
  std::string bytes(proto::ResponseSize(response, version), '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  proto::EncodeResponse(writer, response, correlation_id, version);
  constexpr bool kIsData =
      Response::kApiKey == ApiKey::kProduce || Response::kApiKey == ApiKey::kFetch;
  if (kIsData) {
    MutexLock lock(garble_mutex_);
    if (garble_ != nullptr) garble_(&bytes);
  }
  request.Reply(NetworkSend(Buffer::CopyOf(bytes)));
}

int64_t LyingBroker::kept_count() {
  MutexLock lock(mutex_);
  return kept_count_;
}

void LyingBroker::Serve(RequestPtr request) {
  const absl::string_view frame = request->frame();
  wire::Reader reader(frame);
  proto::RequestHeader header;
  CHECK(proto::DecodeRequestHeader(reader, header));
  const absl::string_view body = frame.substr(frame.size() - reader.remaining());
  const int16_t version = header.request_api_version;
  const int32_t id = header.correlation_id;
  switch (static_cast<ApiKey>(header.request_api_key)) {
    case ApiKey::kApiVersions: {
      proto::ApiVersionsResponse response;
      for (const auto& [key, most] :
           std::map<int16_t, int16_t>{{0, 9}, {1, 12}, {2, 6}, {3, 12}, {19, 7}}) {
        response.api_keys.push_back({.api_key = key, .min_version = 0, .max_version = most});
      }
      if (offers_identities) {
        response.api_keys.push_back({.api_key = 22, .min_version = 0, .max_version = 4});
      }
      return Reply(std::move(request), response, id, version);
    }
    case ApiKey::kMetadata: {
      MutexLock lock(mutex_);
      proto::MetadataResponse response;
      response.brokers.push_back({.node_id = 7, .host = "127.0.0.1", .port = port()});
      auto& topic = response.topics.emplace_back();
      topic.name = "gyre_load";
      if (partitions_.empty()) topic.error_code = ErrorCode::kUnknownTopicOrPartition;
      for (size_t i = 0; i < partitions_.size(); ++i) {
        topic.partitions.push_back({.partition_index = static_cast<int32_t>(i), .leader_id = 7});
      }
      return Reply(std::move(request), response, id, version);
    }
    case ApiKey::kCreateTopics: {
      proto::CreateTopicsRequest asked;
      CHECK(asked.Decode(reader, version));
      MutexLock lock(mutex_);
      proto::CreateTopicsResponse response;
      auto& topic = response.topics.emplace_back();
      topic.name = asked.topics.at(0).name;
      topic.error_code = create_topic_error;
      topic.error_message = "as the test wishes";
      if (create_topic_error == ErrorCode::kNone) {
        partitions_.resize(static_cast<size_t>(asked.topics.at(0).num_partitions));
      }
      return Reply(std::move(request), response, id, version);
    }
    case ApiKey::kListOffsets: {
      proto::ListOffsetsRequest asked;
      CHECK(asked.Decode(reader, version));
      MutexLock lock(mutex_);
      proto::ListOffsetsResponse response;
      auto& topic = response.topics.emplace_back();
      topic.name = "gyre_load";
      for (const auto& partition : asked.topics.at(0).partitions) {
        const auto index = static_cast<size_t>(partition.partition_index);
        topic.partitions.push_back(
            {.partition_index = partition.partition_index,
             .offset = partition.timestamp == -2 ? 0 : partitions_.at(index).end_offset});
      }
      return Reply(std::move(request), response, id, version);
    }
    case ApiKey::kInitProducerId: {
      proto::InitProducerIdResponse response;
      response.producer_id = 4711;
      return Reply(std::move(request), response, id, version);
    }
    case ApiKey::kProduce:
      return OnProduce(std::move(request), body, id);
    case ApiKey::kFetch:
      return OnFetch(std::move(request), body, id);
    default:
      return request.CloseConnection("an api that this broker does not have");
  }
}

int64_t LyingBroker::Keep(Partition& partition, std::string batch, Treatment treatment) {
  if (treatment == Treatment::kFlip || treatment == Treatment::kFlipAndSeal) {
    batch[batch.size() - 10] = static_cast<char>(batch[batch.size() - 10] ^ 0x20);
    if (treatment == Treatment::kFlipAndSeal) {
      StoreBigEndian<uint32_t>(batch.data() + batch::kCrcAt, ComputeBatchCrc(batch));
    }
  }
  const int32_t count = RecordBatchView(batch).record_count();
  const int64_t base = partition.end_offset;
  const auto put = [&](std::string bytes) {
    mutex_.AssertHeld();
    StoreBigEndian<int64_t>(bytes.data(), partition.end_offset);
    partition.batches[partition.end_offset] = std::move(bytes);
    partition.end_offset += count;
    kept_count_ += count;
  };
  if (treatment == Treatment::kDrop) {
    partition.end_offset += count;
    return base;
  }
  put(batch);
  if (treatment == Treatment::kDuplicate) put(batch);
  if (treatment == Treatment::kSwap && partition.batches.size() >= 2) {
    auto& here = partition.batches.rbegin()->second;
    auto& before = std::next(partition.batches.rbegin())->second;
    std::swap(here, before);
    StoreBigEndian<int64_t>(here.data(), partition.batches.rbegin()->first);
    StoreBigEndian<int64_t>(before.data(), std::next(partition.batches.rbegin())->first);
  }
  return base;
}

void LyingBroker::OnProduce(RequestPtr request, absl::string_view body, int32_t correlation_id) {
  constexpr int16_t kVersion = 9;
  proto::ProduceRequest asked;
  wire::Reader reader(body);
  CHECK(asked.Decode(reader, kVersion));
  const auto& data = asked.topic_data.at(0).partition_data.at(0);
  Treatment treatment;
  int64_t base = 0;
  {
    MutexLock lock(mutex_);
    treatment = treat_(batch_count_++);
  }
  if (treatment == Treatment::kCloseBefore) return request.CloseConnection("before");
  if (treatment == Treatment::kStall) SleepMs(1000);
  {
    MutexLock lock(mutex_);
    base = Keep(partitions_.at(static_cast<size_t>(data.index)), std::string(data.records.bytes()),
                treatment);
  }
  if (treatment == Treatment::kCloseAfter) return request.CloseConnection("after");
  proto::ProduceResponse response;
  auto& topic = response.responses.emplace_back();
  topic.name = "gyre_load";
  topic.partition_responses.push_back({.index = data.index, .base_offset = base});
  Reply(std::move(request), response, correlation_id, kVersion);
}

void LyingBroker::OnFetch(RequestPtr request, absl::string_view body, int32_t correlation_id) {
  constexpr int16_t kVersion = 12;
  proto::FetchRequest asked;
  wire::Reader reader(body);
  CHECK(asked.Decode(reader, kVersion));
  std::vector<std::string> found;
  proto::FetchResponse response;
  auto& topic = response.responses.emplace_back();
  topic.topic = "gyre_load";
  bool any = false;
  {
    MutexLock lock(mutex_);
    for (const auto& wanted : asked.topics.at(0).partitions) {
      const Partition& partition = partitions_.at(static_cast<size_t>(wanted.partition));
      std::string& bytes = found.emplace_back();
      for (auto at = partition.batches.lower_bound(wanted.fetch_offset);
           at != partition.batches.end() && bytes.size() < 100'000; ++at) {
        bytes += at->second;
      }
      any = any || !bytes.empty();
      topic.partitions.push_back(
          {.partition_index = wanted.partition, .high_watermark = partition.end_offset});
    }
  }
  for (size_t i = 0; i < found.size(); ++i) {
    topic.partitions[i].records = absl::string_view(found[i]);
  }
  if (!any) SleepMs(2);
  Reply(std::move(request), response, correlation_id, kVersion);
}

}  // namespace gyre::load
