#include "tools/load/kafka/consumer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/fetch.h"
#include "proto/wire/error_code.h"

namespace gyre::load {
namespace {

constexpr int64_t kRetryPauseNs = 50'000'000;

}  // namespace

Consumer::Consumer(KafkaClient& client, const std::vector<int32_t>& partitions, ConsumerMode mode)
    : client_(client),
      options_(client.options()),
      mode_(mode),
      channels_(client, *this),
      paused_until_ns_(partitions.size(), 0) {
  for (const int32_t partition : partitions) {
    readers_.emplace_back(partition, client.shared().start_offsets[static_cast<size_t>(partition)]);
  }
}

void Consumer::Open() {
  for (const PartitionReader& reader : readers_) channels_.ToLeader(reader.partition());
  channels_.Turn(client_.NowNs());
}

bool Consumer::ready() const {
  return std::all_of(readers_.begin(), readers_.end(), [this](const PartitionReader& reader) {
    const Channel* const channel = const_cast<ChannelSet&>(channels_).ToLeader(reader.partition());
    return channel != nullptr && channel->up();
  });
}

void Consumer::Start(Recorder* recorder) { recorder_ = recorder; }

void Consumer::Turn(int64_t now_ns) {
  channels_.Turn(now_ns);
  if (stopped_) return;
  std::map<Channel*, std::vector<size_t>> wanted;
  for (size_t i = 0; i < readers_.size(); ++i) {
    // Another first every time: one partition's megabytes must not starve the rest.
    const size_t at = (i + rotation_) % readers_.size();
    if (paused_until_ns_[at] > now_ns) continue;
    Channel* const channel = channels_.ToLeader(readers_[at].partition());
    if (channel == nullptr || !channel->up() || under_way_[channel].is) continue;
    wanted[channel].push_back(at);
  }
  for (const auto& [channel, readers] : wanted) SendFetch(*channel, readers);
}

void Consumer::SendFetch(Channel& channel, const std::vector<size_t>& readers) {
  ++rotation_;
  proto::FetchRequest request;
  request.max_wait_ms = options_.fetch_max_wait_ms;
  request.min_bytes = options_.fetch_min_bytes;
  request.max_bytes = options_.fetch_max_bytes;
  auto& topic = request.topics.emplace_back();
  topic.topic = options_.topic;
  for (const size_t at : readers) {
    auto& partition = topic.partitions.emplace_back();
    partition.partition = readers_[at].partition();
    partition.fetch_offset = readers_[at].next_offset();
    partition.partition_max_bytes = options_.fetch_partition_bytes;
  }
  channel.Send(request, client_.cluster().VersionOf(ApiKey::kFetch), 0);
  under_way_[&channel] = {client_.NowNs(), true};
}

PartitionReader* Consumer::ReaderOf(int32_t partition) {
  for (PartitionReader& reader : readers_) {
    if (reader.partition() == partition) return &reader;
  }
  return nullptr;
}

void Consumer::OnRecord(const PayloadHeader& header, int64_t bytes) {
  if (mode_ == ConsumerMode::kMeasureRecords) {
    recorder_->Done(header.intended_ns, header.made_ns, now_ns_, bytes);
  }
}

bool Consumer::OnResponse(Channel& channel, uint64_t, wire::Reader& reader) {
  const Under under = std::exchange(under_way_[&channel], Under());
  proto::FetchResponse response;
  if (!response.Decode(reader, client_.cluster().VersionOf(ApiKey::kFetch))) return false;
  now_ns_ = client_.NowNs();
  if (response.error_code != ErrorCode::kNone) {
    if (recorder_ != nullptr) {
      recorder_->Error(absl::StrCat("fetch: ", ErrorCodeName(response.error_code)), now_ns_);
    }
    std::fill(paused_until_ns_.begin(), paused_until_ns_.end(), now_ns_ + kRetryPauseNs);
    return true;
  }
  PartitionReader::Read sum;
  for (const auto& topic : response.responses) {
    if (topic.topic != options_.topic) return false;
    for (const auto& answer : topic.partitions) {
      PartitionReader* const found = ReaderOf(answer.partition_index);
      if (found == nullptr) return false;
      if (answer.error_code != ErrorCode::kNone) {
        OnPartitionError(static_cast<size_t>(found - readers_.data()), answer.error_code, now_ns_);
        continue;
      }
      const bool any_run = mode_ == ConsumerMode::kMeasureFetches;
      const PartitionReader::Read read =
          found->OnFetched(answer.records.bytes(), any_run ? 0 : client_.part().run, this);
      if (read.malformed) return false;
      sum.records += read.records;
      sum.bytes += read.bytes;
      if (read.records == 0) AtEnd(*found, answer.high_watermark);
    }
  }
  progress_ += sum.records;
  if (mode_ == ConsumerMode::kMeasureFetches && sum.records > 0 && recorder_ != nullptr) {
    recorder_->Done(under.sent_ns, under.sent_ns, now_ns_, sum.bytes, sum.records);
  }
  return true;
}

void Consumer::AtEnd(PartitionReader& reader, int64_t high_watermark) {
  const int64_t start = client_.shared().start_offsets[static_cast<size_t>(reader.partition())];
  if (mode_ == ConsumerMode::kMeasureFetches && options_.at_end == AtEnd::kRewind &&
      reader.next_offset() >= high_watermark && high_watermark > start) {
    reader.Rewind(start);
  }
}

void Consumer::OnPartitionError(size_t reader, ErrorCode error, int64_t now_ns) {
  if (IsRetriable(error) && error != ErrorCode::kCorruptMessage) {
    client_.AskForMetadata();
    paused_until_ns_[reader] = now_ns + kRetryPauseNs;
    return;
  }
  // OFFSET_OUT_OF_RANGE and worse: what was to be read is not there.
  paused_until_ns_[reader] = INT64_MAX;
  if (recorder_ != nullptr) {
    recorder_->Error(absl::StrCat("fetch: ", ErrorCodeName(error)), now_ns);
  }
}

void Consumer::OnBroken(Channel& channel, const absl::Status&, const std::vector<uint64_t>&) {
  under_way_[&channel] = Under();
  client_.AskForMetadata();
}

bool Consumer::AllReadTo(const std::vector<int64_t>& ends) const {
  for (size_t i = 0; i < readers_.size(); ++i) {
    const auto partition = static_cast<size_t>(readers_[i].partition());
    if (readers_[i].next_offset() < ends[partition] && paused_until_ns_[i] != INT64_MAX) {
      return false;
    }
  }
  return true;
}

int64_t Consumer::unread_count(const std::vector<int64_t>& ends) const {
  return std::count_if(readers_.begin(), readers_.end(), [&](const PartitionReader& reader) {
    return reader.next_offset() < ends[static_cast<size_t>(reader.partition())];
  });
}

}  // namespace gyre::load
