#include "engine/broker/metadata_store.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/broker/features.h"
#include "engine/broker/metadata_record.h"
#include "engine/broker/metadata_replayer.h"
#include "engine/broker/topic_planner.h"
#include "engine/record/batch_builder.h"
#include "glog/logging.h"
#include "proto/begin_transaction_record.h"
#include "proto/broker_registration_change_record.h"
#include "proto/end_transaction_record.h"
#include "proto/feature_level_record.h"
#include "proto/leader_change_message.h"
#include "proto/partition_change_record.h"
#include "proto/register_broker_record.h"
#include "proto/register_controller_record.h"

namespace gyre {

namespace {

// Key of a LeaderChange control record: int16 version 0, int16 type 2.
constexpr char kLeaderChangeKey[] = {0, 0, 0, 2};
constexpr int16_t kLeaderChangeVersion = 0;
constexpr int16_t kRegisterBrokerVersion = 3;  // log directories, of 3.7-IV2
constexpr int16_t kPartitionChangeVersion = 0;
constexpr int16_t kPartitionChangeWithElrVersion = 2;
constexpr int16_t kPlaintext = 0;
constexpr size_t kOffsetDigits = 20;
constexpr int64_t kReplayChunkBytes = int64_t{4} << 20;

template <typename Record>
std::string EncodeControlValue(const Record& record, int16_t version) {
  std::string value(record.EncodedSize(version), '\0');
  wire::Writer writer(value.data(), value.size());
  record.Encode(writer, version);
  return value;
}

absl::Status Refused() {
  return absl::UnavailableError("the metadata log is not writable; see earlier errors");
}

// Found by looking at topics that may not be durable yet.
bool DependsOnTopics(ErrorCode error) {
  return error == ErrorCode::kNone || error == ErrorCode::kTopicAlreadyExists ||
         error == ErrorCode::kUnknownTopicOrPartition || error == ErrorCode::kUnknownTopicId;
}

template <typename Result>
void FailAll(std::vector<Result>& results) {
  for (Result& result : results) {
    if (!DependsOnTopics(result.error)) continue;
    result.error = ErrorCode::kKafkaStorageError;
    result.message = "The metadata log is not writable.";
  }
}

// The topic is there, but who made it wants to use it.
void TellUnmade(const ReplicaManager& replicas, std::vector<NewTopicResult>& results) {
  for (NewTopicResult& result : results) {
    if (result.error != ErrorCode::kNone) continue;
    const absl::Status unmade = replicas.UnmadeOf(result.name);
    if (unmade.ok()) continue;
    result.error = ErrorCode::kKafkaStorageError;
    result.message = absl::StrCat("The topic was created, but ", unmade.message(),
                                  ". They are tried again until they can be.");
  }
}

}  // namespace

MetadataStore::MetadataStore(const MetadataStoreOptions& options)
    : options_(options), tentative_(std::make_shared<const MetadataImage>()), applied_(tentative_) {
  apply_.run = &RunApply;
  apply_.store = this;
}

MetadataStore::~MetadataStore() = default;

void MetadataStore::Enqueue(const std::vector<std::string>& records, bool is_control,
                            absl::AnyInvocable<void(bool failed)> done) {
  auto batch = std::make_unique<Batch>();
  BatchOptions batch_options;
  batch_options.base_offset = 0;
  batch_options.leader_epoch = epoch_;
  batch_options.is_control = is_control;
  BatchBuilder builder(batch_options);
  const int64_t now_ms = options_.clock->WallTimeMs();
  MetadataDelta delta(tentative_);
  for (const std::string& record : records) {
    if (is_control) {
      builder.Add(now_ms, absl::string_view(kLeaderChangeKey, sizeof(kLeaderChangeKey)),
                  absl::string_view(record));
      continue;
    }
    builder.Add(now_ms, std::nullopt, absl::string_view(record));
    const absl::Status applied = delta.Apply(record);
    CHECK(applied.ok()) << "a metadata record of our own does not apply: " << applied;
  }
  next_offset_ += builder.record_count();
  batch->bytes = builder.Build();
  batch->store = this;
  batch->removed = delta.removed_topics();
  batch->changed = delta.ChangedTopics();
  batch->image = delta.Finish(next_offset_ - 1, epoch_);
  batch->done = std::move(done);
  batch->append.origin = AppendOrigin::kCoordinator;
  batch->append.records = batch->bytes;
  batch->append.leader_epoch = epoch_;
  batch->append.on_done = &OnAppended;
  batch->append.context = batch.get();
  tentative_ = batch->image;
  batches_.push_back(std::move(batch));
}

void MetadataStore::AppendQueued() {
  {
    MutexLock lock(mutex_);
    if (appending_) return;
    appending_ = true;
  }
  for (;;) {
    Batch* batch = nullptr;
    {
      MutexLock lock(mutex_);
      if (failed_ || appended_count_ == batches_.size()) {
        appending_ = false;
        return;
      }
      batch = batches_[appended_count_++].get();
    }
    log_->Append(&batch->append);
  }
}

void MetadataStore::OnAppended(AppendRequest* append) {
  Batch* batch = static_cast<Batch*>(append->context);
  MetadataStore* store = batch->store;
  const bool ok = append->error == ErrorCode::kNone;
  if (!ok && !store->log_->is_offline()) {
    // Nothing of it is in the log: a full disk, which may have room again.
    LOG_EVERY_N(ERROR, 100) << "the metadata log refuses a change: " << append->message;
    MutexLock lock(store->mutex_);
    store->failed_ = true;
  } else if (!ok) {
    store->Fail(absl::StrCat("appending to the metadata log: ", ErrorCodeName(append->error), " ",
                             append->message));
  }
  {
    MutexLock lock(store->mutex_);
    if (ok) batch->end_offset = append->last_offset + 1;
    batch->append_done = true;
  }
  store->RequestApply();
}

void MetadataStore::OnSettled() { RequestApply(); }

void MetadataStore::OnOffline() {
  Fail("the metadata log went offline");
  RequestApply();
}

void MetadataStore::Fail(absl::string_view why) {
  MutexLock lock(mutex_);
  if (!failed_) LOG(ERROR) << why << "; topics can no longer be created or deleted";
  failed_ = true;
}

void MetadataStore::RequestApply() {
  if (!apply_posted_.exchange(true, std::memory_order_acq_rel)) options_.lane->Post(&apply_);
  WakeWriters();
}

void MetadataStore::WakeWriters() {
  MutexLock lock(wakeup_mutex_);
  ++wakeup_count_;
  wakeup_.NotifyAll();
}

void MetadataStore::RunApply(Continuation* continuation) {
  MetadataStore* store = static_cast<ApplyContinuation*>(continuation)->store;
  // Before looking: what comes after the look posts again.
  store->apply_posted_.store(false, std::memory_order_release);
  store->ApplySettled();
}

std::unique_ptr<MetadataStore::Batch> MetadataStore::TakeFinished(bool* failed) {
  if (batches_.empty()) return nullptr;
  Batch& first = *batches_.front();
  const bool durable = first.end_offset >= 0 && log_->durable_offset() >= first.end_offset;
  const bool in_the_log = appended_count_ > 0 && !first.append_done;
  if (!durable && (!failed_ || in_the_log)) return nullptr;
  // Written before the one that was refused: its sync decides.
  if (!durable && first.end_offset >= 0 && !log_->is_offline()) return nullptr;
  *failed = !durable;
  std::unique_ptr<Batch> batch = std::move(batches_.front());
  batches_.pop_front();
  if (appended_count_ > 0) --appended_count_;
  return batch;
}

void MetadataStore::ApplySettled() {
  {
    MutexLock lock(mutex_);
    // Whoever is applying looks again before it stops, and will see what made
    // us come.
    if (applying_) return;
    applying_ = true;
  }
  for (;;) {
    bool failed = false;
    std::unique_ptr<Batch> batch;
    {
      MutexLock lock(mutex_);
      batch = TakeFinished(&failed);
      if (batch == nullptr) {
        MaybeRecover();
        applying_ = false;
        return;
      }
    }
    if (!failed) {
      options_.replicas->Apply(batch->removed, batch->changed);
      options_.cache->Publish(batch->image);
      MutexLock lock(mutex_);
      applied_ = batch->image;
    }
    if (batch->done) batch->done(failed);
  }
}

void MetadataStore::MaybeRecover() {
  if (!failed_ || closed_ || !batches_.empty() || log_->is_offline()) return;
  // All that was built on the refused batch is answered, too.
  tentative_ = applied_;
  next_offset_ = log_->log_end_offset();
  failed_ = false;
}

void MetadataStore::RetryUnmadePartitions() {
  {
    MutexLock lock(mutex_);
    if (applying_ || closed_) return;
    applying_ = true;
  }
  options_.replicas->RetryUnmade();
  {
    MutexLock lock(mutex_);
    applying_ = false;
  }
  // What came meanwhile left it to us.
  ApplySettled();
}

void MetadataStore::CreateTopics(std::vector<NewTopic> topics, bool validate_only,
                                 CreateTopicsDone done) {
  std::vector<NewTopicResult> results;
  results.reserve(topics.size());
  bool refused = false;
  {
    MutexLock lock(mutex_);
    TopicPlanner planner(*options_.config, options_.directory_id, *tentative_, *options_.random);
    for (const NewTopic& topic : topics) {
      NewTopicResult& result = results.emplace_back(planner.Create(topic));
      if (validate_only) result.id = Uuid::kZero;
    }
    refused = failed_ || closed_;
    if (!refused && !validate_only && !planner.records().empty()) {
      Enqueue(planner.records(), false,
              [this, done = std::move(done), results = std::move(results)](bool failed) mutable {
                if (failed) FailAll(results);
                TellUnmade(*options_.replicas, results);
                done(std::move(results));
              });
      done = nullptr;
    } else if (!refused && !batches_.empty()) {
      return AnswerAfterQueued(std::move(results), std::move(done));
    }
  }
  if (!done) return AppendQueued();
  if (refused) FailAll(results);
  done(std::move(results));
}

template <typename Result>
void MetadataStore::AnswerAfterQueued(std::vector<Result> results,
                                      absl::AnyInvocable<void(std::vector<Result>)> done) {
  auto& last = batches_.back()->done;
  last = [before = std::move(last), done = std::move(done),
          results = std::move(results)](bool failed) mutable {
    if (before) before(failed);
    if (failed) FailAll(results);
    done(std::move(results));
  };
}

void MetadataStore::DeleteTopics(std::vector<TopicSelector> topics, DeleteTopicsDone done) {
  std::vector<DeleteTopicResult> results;
  results.reserve(topics.size());
  bool refused = false;
  {
    MutexLock lock(mutex_);
    TopicPlanner planner(*options_.config, options_.directory_id, *tentative_, *options_.random);
    for (const TopicSelector& topic : topics) results.push_back(planner.Delete(topic));
    refused = failed_ || closed_;
    if (!refused && !planner.records().empty()) {
      Enqueue(planner.records(), false,
              [done = std::move(done), results = std::move(results)](bool failed) mutable {
                if (failed) FailAll(results);
                done(std::move(results));
              });
      done = nullptr;
    } else if (!refused && !batches_.empty()) {
      return AnswerAfterQueued(std::move(results), std::move(done));
    }
  }
  if (!done) return AppendQueued();
  if (refused) FailAll(results);
  done(std::move(results));
}

absl::Status MetadataStore::Write(const std::vector<std::string>& records, bool is_control) {
  enum class Outcome { kPending, kDurable, kFailed };
  const auto outcome = std::make_shared<std::atomic<Outcome>>(Outcome::kPending);
  {
    MutexLock lock(mutex_);
    if (failed_ || closed_) return Refused();
    Enqueue(records, is_control, [this, outcome](bool failed) {
      outcome->store(failed ? Outcome::kFailed : Outcome::kDurable, std::memory_order_release);
      // A handler may be the one who applies: our own look then finds nothing to do.
      WakeWriters();
    });
  }
  AppendQueued();
  for (;;) {
    uint64_t seen = 0;
    {
      MutexLock lock(wakeup_mutex_);
      seen = wakeup_count_;
    }
    // Before the handlers run nobody takes the continuation: apply it here.
    ApplySettled();
    switch (outcome->load(std::memory_order_acquire)) {
      case Outcome::kDurable:
        return absl::OkStatus();
      case Outcome::kFailed:
        return Refused();
      case Outcome::kPending:
        break;
    }
    MutexLock lock(wakeup_mutex_);
    if (wakeup_count_ == seen) wakeup_.Wait(wakeup_mutex_);
  }
}

absl::StatusOr<int64_t> MetadataStore::ReplaySnapshot(MetadataReplayer& replayer) {
  // The log's beginning may be gone; then a snapshot stands for it.
  const int64_t log_start = log_->log_start_offset();
  if (log_start == 0) return 0;
  FileSystem& file_system = *options_.file_system;
  GYRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system.List(log_->path()));
  // "<end offset, 20 digits>-<epoch, 10 digits>.checkpoint": the last is the newest.
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const absl::string_view digits = absl::string_view(*name).substr(0, kOffsetDigits);
    int64_t end_offset = -1;
    if (!absl::EndsWith(*name, ".checkpoint") || !absl::SimpleAtoi(digits, &end_offset)) continue;
    if (end_offset < log_start || end_offset > log_->log_end_offset()) continue;
    GYRE_ASSIGN_OR_RETURN(const std::string bytes,
                          file_system.ReadFile(absl::StrCat(log_->path(), "/", *name)));
    GYRE_RETURN_IF_ERROR(replayer.Apply(bytes), *name);
    return end_offset;
  }
  return absl::DataLossError(
      absl::StrCat("starts at offset ", log_start, ", and no snapshot holds what was before"));
}

absl::Status MetadataStore::Replay() {
  MetadataReplayer replayer;
  const int64_t end = log_->log_end_offset();
  GYRE_ASSIGN_OR_RETURN(const int64_t start, ReplaySnapshot(replayer));
  std::string bytes;
  for (int64_t offset = start; offset < end;) {
    const ReadResult read = log_->Read(offset, kReplayChunkBytes, end, true);
    if (read.error != ErrorCode::kNone || read.slice.size_bytes == 0) {
      return absl::DataLossError(absl::StrCat("cannot be read at offset ", offset));
    }
    bytes.resize(static_cast<size_t>(read.slice.size_bytes));
    GYRE_RETURN_IF_ERROR(
        read.slice.file->ReadExactly(read.slice.position, bytes.data(), bytes.size()));
    GYRE_RETURN_IF_ERROR(replayer.Apply(bytes));
    offset = read.next_offset;
  }
  std::shared_ptr<const MetadataImage> image = replayer.Finish();
  removed_topic_ids_ = replayer.removed_topic_ids();
  epoch_ = std::max(replayer.last_epoch(), log_->latest_leader_epoch());
  MutexLock lock(mutex_);
  applied_ = image;
  tentative_ = std::move(image);
  next_offset_ = end;
  return absl::OkStatus();
}

absl::Status MetadataStore::WriteLeaderChange() {
  proto::LeaderChangeMessage message;
  message.leader_id = options_.config->node_id;
  message.voters.push_back({.voter_id = options_.config->node_id});
  message.granting_voters.push_back({.voter_id = options_.config->node_id});
  return Write({EncodeControlValue(message, kLeaderChangeVersion)}, true);
}

absl::Status MetadataStore::WriteBootstrapRecords() {
  std::vector<std::string> records;
  proto::BeginTransactionRecord begin;
  begin.name = "Bootstrap records";
  records.push_back(EncodeMetadataRecord(begin, 0));
  for (const SupportedFeature& feature : kSupportedFeatures) {
    if (feature.initial_level == 0) continue;
    proto::FeatureLevelRecord record;
    record.name = feature.name;
    record.feature_level = feature.initial_level;
    records.push_back(EncodeMetadataRecord(record, 0));
  }
  records.push_back(EncodeMetadataRecord(proto::EndTransactionRecord(), 0));
  return Write(std::move(records), false);
}

// Kafka stops with its partitions led by nobody; who opens the directory leads
// those of which no other replica may know more. After an unclean stop each of
// them gets a new leader epoch.
bool MetadataStore::MustLeadAnew(const PartitionImage& partition) const {
  const int32_t node_id = options_.config->node_id;
  const bool is_only_replica =
      partition.replicas.size() == 1 && partition.replicas.front() == node_id;
  if (!is_only_replica && !absl::c_linear_search(partition.isr, node_id)) return false;
  return options_.unclean_start || partition.leader == kNoLeader;
}

absl::Status MetadataStore::TakeLeadership() {
  std::shared_ptr<const MetadataImage> image;
  {
    MutexLock lock(mutex_);
    image = tentative_;
  }
  std::vector<std::string> records;
  for (const MetadataImage::TopicPtr& topic : image->Topics()) {
    for (size_t i = 0; i < topic->partitions.size(); ++i) {
      const PartitionImage& partition = topic->partitions[i];
      if (!MustLeadAnew(partition)) continue;
      proto::PartitionChangeRecord change;
      change.partition_id = static_cast<int32_t>(i);
      change.topic_id = topic->id;
      change.leader = options_.config->node_id;
      if (!absl::c_linear_search(partition.isr, change.leader)) change.isr = {change.leader};
      // Who is in sync is not "eligible" beside it.
      const bool has_elr =
          !partition.eligible_leader_replicas.empty() || !partition.last_known_elr.empty();
      if (has_elr) {
        change.eligible_leader_replicas.emplace();
        change.last_known_elr.emplace();
      }
      records.push_back(EncodeMetadataRecord(
          change, has_elr ? kPartitionChangeWithElrVersion : kPartitionChangeVersion));
      if (records.size() < TopicPlanner::kMaxRecords) continue;
      GYRE_RETURN_IF_ERROR(Write(std::exchange(records, {}), false));
    }
  }
  return records.empty() ? absl::OkStatus() : Write(std::move(records), false);
}

absl::Status MetadataStore::Open(LogRef log) {
  log_ = std::move(log);
  if (log_->is_offline()) return Annotate(log_->offline_reason(), "metadata log");
  GYRE_RETURN_IF_ERROR(Replay(), "metadata log");
  std::shared_ptr<const MetadataImage> image;
  {
    MutexLock lock(mutex_);
    image = tentative_;
  }
  options_.replicas->RemoveStrayLogs(*image, removed_topic_ids_);
  ++epoch_;
  GYRE_RETURN_IF_ERROR(log_->StartLeaderEpoch(epoch_), "metadata log");
  GYRE_RETURN_IF_ERROR(WriteLeaderChange());
  if (image->features().empty()) GYRE_RETURN_IF_ERROR(WriteBootstrapRecords());
  GYRE_RETURN_IF_ERROR(TakeLeadership());
  // Everything that replay found; what was written since was applied already.
  {
    MutexLock lock(mutex_);
    image = tentative_;
  }
  options_.replicas->Apply({}, image->Topics());
  options_.cache->Publish(std::move(image));
  return absl::OkStatus();
}

absl::Status MetadataStore::Register(std::vector<BrokerEndpointImage> endpoints) {
  const int32_t node_id = options_.config->node_id;
  proto::RegisterControllerRecord controller;
  proto::RegisterBrokerRecord broker;
  {
    MutexLock lock(mutex_);
    controller.incarnation_id = RandomUuid(*options_.random);
    broker.incarnation_id = RandomUuid(*options_.random);
  }
  controller.controller_id = node_id;
  broker.broker_id = node_id;
  broker.rack.reset();
  broker.log_dirs.push_back(options_.directory_id);
  // The controller is reached through the broker, so its listener is the first.
  if (!endpoints.empty()) {
    controller.end_points.push_back({.name = "CONTROLLER",
                                     .host = endpoints.front().host,
                                     .port = endpoints.front().port,
                                     .security_protocol = kPlaintext});
  }
  for (const BrokerEndpointImage& endpoint : endpoints) {
    broker.end_points.push_back({.name = endpoint.name,
                                 .host = endpoint.host,
                                 .port = endpoint.port,
                                 .security_protocol = endpoint.security_protocol});
  }
  for (const SupportedFeature& feature : kSupportedFeatures) {
    controller.features.push_back({.name = feature.name,
                                   .min_supported_version = feature.min_level,
                                   .max_supported_version = feature.max_level});
    broker.features.push_back({.name = feature.name,
                               .min_supported_version = feature.min_level,
                               .max_supported_version = feature.max_level});
  }
  GYRE_RETURN_IF_ERROR(Write({EncodeMetadataRecord(controller, 0)}, false));
  {
    MutexLock lock(mutex_);
    if (failed_ || closed_) return Refused();
    // The broker's epoch is the offset of the record that registers it.
    broker_epoch_ = next_offset_;
    broker.broker_epoch = broker_epoch_;
    Enqueue({EncodeMetadataRecord(broker, kRegisterBrokerVersion)}, false, nullptr);
  }
  proto::BrokerRegistrationChangeRecord unfence;
  unfence.broker_id = node_id;
  unfence.broker_epoch = broker_epoch_;
  unfence.fenced = -1;
  return Write({EncodeMetadataRecord(unfence, 0)}, false);
}

absl::Status MetadataStore::Close() {
  absl::Status written;
  if (broker_epoch_ >= 0) {
    proto::BrokerRegistrationChangeRecord fence;
    fence.broker_id = options_.config->node_id;
    fence.broker_epoch = broker_epoch_;
    fence.fenced = 1;
    written = Write({EncodeMetadataRecord(fence, 0)}, false);
  }
  MutexLock lock(mutex_);
  closed_ = true;
  return written;
}

}  // namespace gyre
