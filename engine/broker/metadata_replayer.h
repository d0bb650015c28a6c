// Turns the batches of a metadata log or snapshot back into an image. Control
// batches are skipped; records of a metadata transaction are applied when its
// end is met, all or none.
//
// Threads: owner any one.
// Owns: the image so far.
#ifndef GYRE_ENGINE_BROKER_METADATA_REPLAYER_H_
#define GYRE_ENGINE_BROKER_METADATA_REPLAYER_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/uuid.h"
#include "engine/broker/metadata_image.h"

namespace gyre {

class MetadataReplayer {
 public:
  MetadataReplayer() : delta_(std::make_shared<const MetadataImage>()) {}

  // `batches` holds whole batches. An error names the offset.
  absl::Status Apply(absl::string_view batches);

  // The image as of the last whole batch. A transaction that is still open is
  // not in it. The replayer is spent.
  std::shared_ptr<const MetadataImage> Finish();

  int32_t last_epoch() const { return epoch_; }
  // False for a log in which no data record was ever written.
  bool has_records() const { return has_records_; }
  const std::vector<Uuid>& removed_topic_ids() const { return removed_topic_ids_; }

 private:
  absl::Status ApplyBatch(absl::string_view batch);
  absl::Status ApplyRecord(absl::string_view value, int64_t offset);
  void NoteRemovedTopics();

  MetadataDelta delta_;
  // Set while a metadata transaction is open: the image before it.
  std::shared_ptr<const MetadataImage> before_transaction_;
  int64_t offset_ = -1;
  int32_t epoch_ = 0;
  bool has_records_ = false;
  std::vector<Uuid> removed_topic_ids_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_METADATA_REPLAYER_H_
