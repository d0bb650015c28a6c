#include "engine/broker/metadata_replayer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/broker/metadata_record.h"
#include "engine/record/record.h"
#include "engine/record/record_batch.h"
#include "proto/abort_transaction_record.h"
#include "proto/begin_transaction_record.h"
#include "proto/end_transaction_record.h"

namespace gyre {

void MetadataReplayer::NoteRemovedTopics() {
  removed_topic_ids_.insert(removed_topic_ids_.end(), delta_.removed_topic_ids().begin(),
                            delta_.removed_topic_ids().end());
}

absl::Status MetadataReplayer::ApplyRecord(absl::string_view value, int64_t offset) {
  GYRE_ASSIGN_OR_RETURN(const MetadataRecordFrame frame, ParseMetadataRecord(value));
  has_records_ = true;
  switch (frame.type) {
    case proto::BeginTransactionRecord::kRecordType:
      if (before_transaction_ != nullptr) {
        return absl::InvalidArgumentError("a metadata transaction begins inside another");
      }
      NoteRemovedTopics();
      before_transaction_ = delta_.Finish(offset, epoch_);
      delta_ = MetadataDelta(before_transaction_);
      return absl::OkStatus();
    case proto::EndTransactionRecord::kRecordType:
      if (before_transaction_ == nullptr) {
        return absl::InvalidArgumentError("a metadata transaction ends that never began");
      }
      before_transaction_ = nullptr;
      return absl::OkStatus();
    case proto::AbortTransactionRecord::kRecordType:
      if (before_transaction_ == nullptr) {
        return absl::InvalidArgumentError("a metadata transaction is aborted that never began");
      }
      delta_ = MetadataDelta(std::move(before_transaction_));
      before_transaction_ = nullptr;
      return absl::OkStatus();
    default:
      return delta_.Apply(value);
  }
}

absl::Status MetadataReplayer::ApplyBatch(absl::string_view bytes) {
  const RecordBatchView batch(bytes);
  epoch_ = batch.leader_epoch();
  offset_ = batch.last_offset();
  if (batch.is_control()) return absl::OkStatus();
  if (batch.codec() != Codec::kNone) {
    return absl::InvalidArgumentError("a batch of the metadata log is compressed");
  }
  RecordReader reader(batch, batch.payload());
  Record record;
  while (reader.Next(&record)) {
    GYRE_RETURN_IF_ERROR(ApplyRecord(record.value.value_or(""), record.offset),
                         absl::StrCat("offset ", record.offset));
  }
  if (!reader.ok()) return absl::InvalidArgumentError("malformed record");
  return absl::OkStatus();
}

absl::Status MetadataReplayer::Apply(absl::string_view batches) {
  while (!batches.empty()) {
    const BatchShape shape = CheckBatchShape(batches);
    if (shape != BatchShape::kOk) {
      return absl::InvalidArgumentError(
          absl::StrCat("after offset ", offset_, ": ", BatchShapeName(shape)));
    }
    const RecordBatchView batch(batches);
    const size_t size_bytes = static_cast<size_t>(batch.size_bytes());
    GYRE_RETURN_IF_ERROR(ApplyBatch(batches.substr(0, size_bytes)),
                         absl::StrCat("batch at offset ", batch.base_offset()));
    batches.remove_prefix(size_bytes);
  }
  return absl::OkStatus();
}

std::shared_ptr<const MetadataImage> MetadataReplayer::Finish() {
  if (before_transaction_ != nullptr) return std::move(before_transaction_);
  NoteRemovedTopics();
  return delta_.Finish(offset_, epoch_);
}

}  // namespace gyre
