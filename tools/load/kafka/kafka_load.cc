#include "tools/load/kafka/kafka_load.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gyre::load {
namespace {

// While a broker is away, its return is looked for this often.
constexpr int64_t kIdleTurnNs = 10'000'000;

}  // namespace

absl::Status KafkaLoad::Open(Connector& connector) {
  client_.emplace(part_, shared_, connector);
  opened_ns_ = part_.clock->NowNs();
  switch (part_.options.workload) {
    case Workload::kProduce:
      MakeProducers();
      break;
    case Workload::kEndToEnd:
      MakeProducers();
      MakeConsumers(ConsumerMode::kMeasureRecords);
      break;
    case Workload::kConsume:
      MakeConsumers(ConsumerMode::kMeasureFetches);
      break;
    case Workload::kNone:
    case Workload::kEcho:
    case Workload::kConnect:
    case Workload::kIdle:
    case Workload::kMixed:
      return absl::InternalError("not a workload of Kafka's");
  }
  for (IndexedProducer& each : producers_) each.producer->Open();
  for (auto& consumer : consumers_) consumer->Open();
  return absl::OkStatus();
}

void KafkaLoad::MakeProducers() {
  const Options& options = part_.options;
  for (int32_t i = thread_; i < options.connections; i += options.threads) {
    producers_.push_back(
        {i, std::make_unique<Producer>(*client_, i, options.workload == Workload::kProduce)});
  }
  writing_ = true;
  shared_.writing_threads.fetch_add(1, std::memory_order_relaxed);
}

void KafkaLoad::MakeConsumers(ConsumerMode mode) {
  const auto partition_count = static_cast<int32_t>(shared_.cluster.leaders.size());
  const int32_t consumer_count = std::min(part_.options.connections, partition_count);
  for (int32_t i = thread_; i < consumer_count; i += part_.options.threads) {
    std::vector<int32_t> partitions;
    for (int32_t p = i; p < partition_count; p += consumer_count) partitions.push_back(p);
    consumers_.push_back(std::make_unique<Consumer>(*client_, partitions, mode));
  }
}

bool KafkaLoad::ready() const {
  return std::all_of(producers_.begin(), producers_.end(),
                     [](const IndexedProducer& each) { return each.producer->ready(); }) &&
         std::all_of(consumers_.begin(), consumers_.end(),
                     [](const auto& consumer) { return consumer->ready(); });
}

absl::Status KafkaLoad::failure() const {
  if (!first_failure_.ok()) return first_failure_;
  if (part_.clock->NowNs() - opened_ns_ > part_.options.timeout_ns) {
    return absl::DeadlineExceededError("the brokers could not all be connected within --timeout");
  }
  return absl::OkStatus();
}

void KafkaLoad::OnConnected(ConnectionHandle connection) {
  client_->router().OnConnected(connection);
}

void KafkaLoad::OnFrame(ConnectionHandle connection, absl::string_view payload) {
  client_->router().OnFrame(connection, payload);
}

void KafkaLoad::OnClosed(ConnectionHandle connection, const absl::Status& why) {
  // Before the start nothing is tried twice.
  if (recorder_ == nullptr && first_failure_.ok()) first_failure_ = why;
  client_->router().OnClosed(connection, why);
}

void KafkaLoad::Start(Recorder& recorder) {
  recorder_ = &recorder;
  schedule_ = part_.MakeSchedule(recorder.window(), thread_);
  for (IndexedProducer& each : producers_) {
    each.producer->Start(recorder, schedule_.is_open_loop());
  }
  for (auto& consumer : consumers_) consumer->Start(&recorder);
}

Producer* KafkaLoad::NextWithRoom() {
  for (size_t tried = 0; tried < producers_.size(); ++tried) {
    Producer* const producer = producers_[next_producer_].producer.get();
    next_producer_ = (next_producer_ + 1) % producers_.size();
    if (producer->HasRoom()) return producer;
  }
  return nullptr;
}

int64_t KafkaLoad::TurnProducers(int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  bool blocked = false;
  while (const std::optional<int64_t> due = schedule_.Due(now_ns)) {
    Producer* const producer = NextWithRoom();
    blocked = producer == nullptr;
    if (blocked) {
      schedule_.NoteBlocked();
      break;
    }
    schedule_.NoteRoom(now_ns);
    const int64_t made_ns = part_.clock->NowNs();
    const int64_t intended_ns = schedule_.is_open_loop() ? *due : made_ns;
    if (schedule_.is_open_loop()) {
      recorder_->Started(intended_ns, made_ns, schedule_.OwnDelayNs(intended_ns, made_ns));
    }
    producer->Add(intended_ns, made_ns);
    schedule_.Started();
  }
  if (!blocked) next_ns = schedule_.NextNs(now_ns);
  for (IndexedProducer& each : producers_) {
    if (schedule_.Exhausted(now_ns) && now_ns >= recorder_->window().end_ns) {
      each.producer->Flush();
    }
    next_ns = std::min(next_ns, each.producer->Turn(now_ns));
  }
  return next_ns;
}

int64_t KafkaLoad::Turn(int64_t now_ns) {
  client_->Turn(now_ns);
  if (now_ns < recorder_->window().start_ns) return recorder_->window().start_ns;
  int64_t next_ns = now_ns + kIdleTurnNs;
  if (!producers_.empty()) next_ns = std::min(next_ns, TurnProducers(now_ns));
  for (auto& consumer : consumers_) consumer->Turn(now_ns);
  UpdateDone(now_ns);
  return next_ns;
}

bool KafkaLoad::ConsumersDone(int64_t now_ns) const {
  if (consumers_.empty()) return true;
  std::vector<int64_t> ends = shared_.end_offsets;
  if (part_.options.workload == Workload::kEndToEnd) {
    // Pairs with the release of the last thread that wrote.
    if (shared_.writing_threads.load(std::memory_order_acquire) > 0) return false;
    for (size_t i = 0; i < ends.size(); ++i) {
      ends[i] = shared_.acknowledged_end[i].load(std::memory_order_relaxed);
    }
  } else if (now_ns >= recorder_->window().end_ns) {
    return true;
  } else if (part_.options.at_end != AtEnd::kStop) {
    return false;
  }
  return std::all_of(consumers_.begin(), consumers_.end(),
                     [&](const auto& consumer) { return consumer->AllReadTo(ends); });
}

void KafkaLoad::UpdateDone(int64_t now_ns) {
  if (writing_) {
    const bool drained =
        std::all_of(producers_.begin(), producers_.end(),
                    [](const IndexedProducer& each) { return each.producer->drained(); });
    if (now_ns < recorder_->window().end_ns || !schedule_.Exhausted(now_ns) || !drained) return;
    writing_ = false;
    shared_.writing_threads.fetch_sub(1, std::memory_order_release);
  }
  done_ = ConsumersDone(now_ns);
}

void KafkaLoad::LetGo() {
  for (const IndexedProducer& each : producers_) each.producer->LetGo();
  for (const auto& consumer : consumers_) consumer->LetGo();
  if (client_.has_value()) client_->LetGo();
}

void KafkaLoad::Collect(PartResult* result) {
  for (const IndexedProducer& each : producers_) {
    result->unanswered += each.producer->unanswered_count();
    result->sent_again += each.producer->sent_again_count();
    result->lost_connections.Add(each.producer->lost_connections());
    result->checks.reordered += each.producer->bad_offset_count();
  }
  for (const auto& consumer : consumers_) {
    result->lost_connections.Add(consumer->lost_connections());
  }
  if (!producers_.empty() && recorder_ != nullptr &&
      !schedule_.Exhausted(recorder_->window().end_ns)) {
    ++result->not_started;
  }
}

}  // namespace gyre::load
