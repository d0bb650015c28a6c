#include "tools/load/kafka/producer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/produce.h"
#include "proto/wire/error_code.h"

namespace gyre::load {
namespace {

// acks=0: how much may wait for the socket.
constexpr size_t kMaxUnsentBytes = 1 << 20;

// MurmurHash2 with Kafka's seed.
uint32_t Murmur2(absl::string_view bytes) {
  constexpr uint32_t kMix = 0x5bd1e995;
  uint32_t hash = 0x9747b28c ^ static_cast<uint32_t>(bytes.size());
  size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    word *= kMix;
    word ^= word >> 24;
    word *= kMix;
    hash = hash * kMix ^ word;
  }
  if (at < bytes.size()) {
    for (size_t i = bytes.size(); i-- > at;) {
      hash ^= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * (i - at));
    }
    hash *= kMix;
  }
  hash ^= hash >> 13;
  hash *= kMix;
  return hash ^ hash >> 15;
}

}  // namespace

int32_t PartitionForKey(absl::string_view key, int32_t partition_count) {
  return static_cast<int32_t>(Murmur2(key) & 0x7fffffff) % partition_count;
}

Producer::Producer(KafkaClient& client, int32_t index, bool counts_acknowledgements)
    : client_(client),
      options_(client.options()),
      identity_(client.shared().idempotent ? client.shared().identities[static_cast<size_t>(index)]
                                           : ProducerIdentity()),
      counts_acknowledgements_(counts_acknowledgements),
      channels_(client, *this),
      source_(options_.record_size, client.part().lines(),
              options_.seed * 7919 + static_cast<uint64_t>(index)),
      random_(options_.seed * 104729 + static_cast<uint64_t>(index)),
      streams_(client.cluster().leaders.size()),
      sticky_partition_(index % static_cast<int32_t>(streams_.size())) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].id = static_cast<uint32_t>(static_cast<size_t>(index) * streams_.size() + i);
  }
}

void Producer::Open() {
  for (size_t i = 0; i < streams_.size(); ++i) channels_.ToLeader(static_cast<int32_t>(i));
  channels_.Turn(client_.NowNs());
}

bool Producer::ready() const {
  for (size_t i = 0; i < streams_.size(); ++i) {
    const Channel* const channel =
        const_cast<ChannelSet&>(channels_).ToLeader(static_cast<int32_t>(i));
    if (channel == nullptr || !channel->up()) return false;
  }
  return true;
}

void Producer::Start(Recorder& recorder, bool open_loop) {
  recorder_ = &recorder;
  open_loop_ = open_loop;
}

bool Producer::HasRoom() const {
  if (buffered_bytes_ >= options_.buffer_bytes) return false;
  return open_loop_ || sealed_batch_count_ < options_.depth();
}

// --- making batches --------------------------------------------------------------------

int32_t Producer::ChoosePartition(std::string* key) {
  if (options_.keys == 0) return sticky_partition_;
  *key = absl::StrFormat("key-%010d", random_.Below(static_cast<uint64_t>(options_.keys)));
  return PartitionForKey(*key, static_cast<int32_t>(streams_.size()));
}

void Producer::OpenBatch(int32_t partition) {
  Stream& stream = StreamOf(partition);
  stream.open = std::make_unique<Batch>();
  stream.open->partition = partition;
  stream.open->first_number = stream.next_number;
  BatchOptions batch_options;
  batch_options.codec = options_.compression;
  batch_options.producer_id = identity_.id;
  batch_options.producer_epoch = identity_.epoch;
  if (identity_.id != kNoProducerId) batch_options.base_sequence = stream.next_sequence;
  stream.builder = std::make_unique<BatchBuilder>(batch_options);
  opened_.push_back(partition);
}

void Producer::Add(int64_t intended_ns, int64_t now_ns) {
  const int32_t partition = ChoosePartition(&key_);
  Stream& stream = StreamOf(partition);
  if (stream.open == nullptr) OpenBatch(partition);
  source_.Make({.run = client_.part().run,
                .stream = stream.id,
                .number = stream.next_number++,
                .intended_ns = intended_ns,
                .made_ns = now_ns},
               &value_);
  const auto key = options_.keys == 0 ? std::nullopt : std::optional<absl::string_view>(key_);
  stream.builder->Add(client_.part().clock->WallTimeMs(), key, value_);
  stream.sent.sent_count = stream.next_number;
  const auto bytes = static_cast<int64_t>(value_.size());
  stream.open->records.push_back({intended_ns, now_ns, bytes});
  stream.open->value_bytes += bytes;
  buffered_bytes_ += bytes;
  ++buffered_count_;
  const auto count = static_cast<int32_t>(stream.open->records.size());
  if (stream.builder->size_bytes() >= options_.batch_bytes || count == options_.batch_records) {
    Seal(partition);
  }
}

void Producer::Seal(int32_t partition) {
  Stream& stream = StreamOf(partition);
  // Sequences wrap to 0 after the largest int32.
  stream.next_sequence = static_cast<int32_t>(
      (static_cast<uint32_t>(stream.next_sequence) + stream.open->records.size()) & 0x7fffffff);
  stream.open->bytes = stream.builder->Build();
  stream.ready.push_back(std::move(stream.open));
  ++sealed_batch_count_;
  opened_.erase(std::find(opened_.begin(), opened_.end(), partition));
  // Records without keys fill one batch after another, each for the next partition.
  if (options_.keys == 0) {
    sticky_partition_ = (sticky_partition_ + 1) % static_cast<int32_t>(streams_.size());
  }
  List(partition);
}

void Producer::List(int32_t partition) {
  Stream& stream = StreamOf(partition);
  if (stream.listed || stream.ready.empty()) return;
  stream.listed = true;
  sendable_.push_back(partition);
}

// A batch that is not full leaves after its linger, as soon as its broker has room.
int64_t Producer::SealLingering(int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  for (size_t i = 0; i < opened_.size();) {
    const int32_t partition = opened_[i];
    Stream& stream = StreamOf(partition);
    const int64_t due_ns = stream.open->records.front().made_ns + options_.linger_ns;
    const Channel* const channel = channels_.ToLeader(partition);
    const bool room = channel != nullptr && channel->up() && stream.ready.empty() &&
                      channel->in_flight_count() < static_cast<size_t>(options_.depth());
    if (flushing_ || (open_loop_ && now_ns >= due_ns && room)) {
      Seal(partition);
      continue;
    }
    // Without room, an answer brings us back.
    if (open_loop_ && due_ns > now_ns) next_ns = std::min(next_ns, due_ns);
    ++i;
  }
  return next_ns;
}

// --- sending ---------------------------------------------------------------------------

int64_t Producer::Turn(int64_t now_ns) {
  channels_.Turn(now_ns);
  const int64_t next_ns = SealLingering(now_ns);
  for (size_t left = sendable_.size(); left > 0; --left) {
    const int32_t partition = sendable_.front();
    sendable_.pop_front();
    Stream& stream = StreamOf(partition);
    stream.listed = false;
    // One batch a partition and round: no partition waits for another's queue.
    if (SendOne(partition) && !stream.ready.empty()) ++left;
    List(partition);
  }
  return next_ns;
}

bool Producer::SendOne(int32_t partition) {
  Stream& stream = StreamOf(partition);
  Channel* const channel = channels_.ToLeader(partition);
  if (channel == nullptr || !channel->up() || stream.ready.empty()) return false;
  if (stream.recovering && stream.under_way_count > 0) return false;
  if (channel->in_flight_count() >= static_cast<size_t>(options_.depth())) return false;
  if (options_.acks == 0 && channel->unsent_bytes() > kMaxUnsentBytes) return false;
  stream.recovering = false;
  std::unique_ptr<Batch> batch = std::move(stream.ready.front());
  stream.ready.pop_front();

  proto::ProduceRequest request;
  request.acks = options_.acks;
  request.timeout_ms = static_cast<int32_t>(options_.timeout_ns / 1'000'000);
  auto& topic = request.topic_data.emplace_back();
  topic.name = options_.topic;
  auto& data = topic.partition_data.emplace_back();
  data.index = partition;
  data.records = absl::string_view(batch->bytes);
  const uint64_t tag = next_tag_++;
  channel->Send(request, client_.cluster().VersionOf(ApiKey::kProduce), tag, options_.acks != 0);
  if (++batch->times_sent > 1) {
    stream.sent.retried.Add(batch->first_number, batch->end_number());
    sent_again_count_ += static_cast<int64_t>(batch->records.size());
  }
  if (options_.acks == 0) {
    const int64_t now_ns = client_.NowNs();
    Acknowledge(*batch, -1, now_ns);
    return true;
  }
  ++stream.under_way_count;
  under_way_.emplace(tag, std::move(batch));
  return true;
}

std::unique_ptr<Producer::Batch> Producer::TakeUnderWay(uint64_t tag) {
  const auto found = under_way_.find(tag);
  if (found == under_way_.end()) return nullptr;
  std::unique_ptr<Batch> batch = std::move(found->second);
  under_way_.erase(found);
  --StreamOf(batch->partition).under_way_count;
  return batch;
}

void Producer::TakeBack(std::unique_ptr<Batch> batch) {
  const int32_t partition = batch->partition;
  Stream& stream = StreamOf(partition);
  stream.recovering = true;
  const auto after = std::find_if(stream.ready.begin(), stream.ready.end(), [&](const auto& other) {
    return other->first_number > batch->first_number;
  });
  stream.ready.insert(after, std::move(batch));
  List(partition);
}

// --- answers ---------------------------------------------------------------------------

void Producer::Acknowledge(const Batch& batch, int64_t base_offset, int64_t now_ns) {
  Stream& stream = StreamOf(batch.partition);
  if (base_offset >= 0) {
    stream.sent.acknowledged.Add(batch.first_number, batch.end_number());
    const int64_t end_offset = base_offset + static_cast<int64_t>(batch.records.size());
    // A broker that knows the producer may name an older appearance's offset, rightly.
    if (base_offset <= stream.last_offset && batch.times_sent == 1) ++bad_offset_count_;
    stream.last_offset = std::max(stream.last_offset, end_offset - 1);
    client_.shared().NoteAcknowledged(batch.partition, end_offset);
  }
  if (counts_acknowledgements_) {
    for (const Made& made : batch.records) {
      recorder_->Done(made.intended_ns, made.made_ns, now_ns, made.bytes);
    }
  }
  buffered_bytes_ -= batch.value_bytes;
  buffered_count_ -= static_cast<int64_t>(batch.records.size());
  --sealed_batch_count_;
}

void Producer::Drop(const Batch& batch, absl::string_view why, int64_t now_ns) {
  recorder_->Error(why, now_ns, static_cast<int64_t>(batch.records.size()));
  buffered_bytes_ -= batch.value_bytes;
  buffered_count_ -= static_cast<int64_t>(batch.records.size());
  --sealed_batch_count_;
}

bool Producer::OnResponse(Channel&, uint64_t tag, wire::Reader& reader) {
  proto::ProduceResponse response;
  if (!response.Decode(reader, client_.cluster().VersionOf(ApiKey::kProduce))) return false;
  if (response.responses.size() != 1 || response.responses[0].partition_responses.size() != 1) {
    return false;
  }
  const auto& answer = response.responses[0].partition_responses[0];
  std::unique_ptr<Batch> batch = TakeUnderWay(tag);
  if (batch == nullptr) return true;
  if (answer.index != batch->partition) {
    TakeBack(std::move(batch));
    return false;
  }
  const int64_t now_ns = client_.NowNs();
  // A duplicate of a sequence is one that was appended before.
  if (answer.error_code == ErrorCode::kNone ||
      answer.error_code == ErrorCode::kDuplicateSequenceNumber) {
    Acknowledge(*batch, std::max<int64_t>(answer.base_offset, 0), now_ns);
  } else if (IsRetriable(answer.error_code) ||
             (batch->times_sent < 3 && answer.error_code == ErrorCode::kOutOfOrderSequenceNumber)) {
    client_.AskForMetadata();
    TakeBack(std::move(batch));
  } else {
    Drop(*batch, absl::StrCat("produce: ", ErrorCodeName(answer.error_code)), now_ns);
  }
  return true;
}

void Producer::OnBroken(Channel&, const absl::Status&, const std::vector<uint64_t>& tags) {
  client_.AskForMetadata();
  for (const uint64_t tag : tags) {
    if (std::unique_ptr<Batch> batch = TakeUnderWay(tag)) TakeBack(std::move(batch));
  }
}

}  // namespace gyre::load
