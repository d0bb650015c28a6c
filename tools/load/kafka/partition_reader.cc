#include "tools/load/kafka/partition_reader.h"

#include <algorithm>
#include <string>

#include "engine/record/compression.h"
#include "engine/record/record.h"
#include "engine/record/record_batch.h"

namespace gyre::load {
namespace {

constexpr int64_t kMaxBatchBytes = 256 << 20;

}  // namespace

void PartitionReader::Rewind(int64_t offset) {
  next_offset_ = offset;
  streams_.clear();
}

PartitionReader::Read PartitionReader::OnFetched(absl::string_view records, uint32_t wanted_run,
                                                 RecordSink* sink) {
  Read read;
  while (records.size() >= batch::kMinPrefixBytes) {
    const BatchShape shape = CheckBatchShape(records);
    if (shape == BatchShape::kIncomplete || records.size() < batch::kHeaderBytes) return read;
    if (shape != BatchShape::kOk) {
      read.malformed = true;
      return read;
    }
    const RecordBatchView view(records);
    const auto size = static_cast<size_t>(view.size_bytes());
    if (view.next_offset() > next_offset_) {
      ReadBatch(records.substr(0, size), wanted_run, sink, &read);
      next_offset_ = view.next_offset();
    }
    records.remove_prefix(size);
  }
  return read;
}

void PartitionReader::ReadBatch(absl::string_view bytes, uint32_t wanted_run, RecordSink* sink,
                                Read* read) {
  const RecordBatchView view(bytes);
  if (view.is_control()) return;
  const bool crc_is_right = ComputeBatchCrc(bytes) == view.crc();
  const int64_t corrupted_before = corrupted_count_;
  std::string decompressed;
  absl::string_view payload = view.payload();
  bool readable = view.codec_id() <= static_cast<int>(Codec::kZstd);
  if (readable && view.codec() != Codec::kNone) {
    absl::StatusOr<std::string> plain = Decompress(view.codec(), payload, kMaxBatchBytes);
    readable = plain.ok();
    if (readable) decompressed = *std::move(plain);
    payload = decompressed;
  }
  int64_t count = 0;
  if (readable) {
    RecordReader records(view, payload);
    for (Record record; records.Next(&record);) {
      ++count;
      if (record.offset < next_offset_) continue;
      const absl::string_view value = record.value.value_or(absl::string_view());
      ++read->records;
      read->bytes += static_cast<int64_t>(value.size());
      PayloadHeader header;
      const PayloadState state = OpenPayload(value, &header);
      if (state == PayloadState::kCorrupted) {
        ++corrupted_count_;
      } else if (state == PayloadState::kForeign || (wanted_run != 0 && header.run != wanted_run)) {
        ++foreign_count_;
      } else {
        // A run that is read alone may begin where retention left it.
        StreamCheck& stream = streams_
                                  .try_emplace({header.run, header.stream},
                                               StreamCheck(wanted_run != 0 ? 0 : header.number))
                                  .first->second;
        const bool is_new = stream.OnRecord(header.number) != StreamCheck::Seen::kAgain;
        if (is_new && sink != nullptr) sink->OnRecord(header, static_cast<int64_t>(value.size()));
      }
    }
    readable = records.ok();
  }
  if (crc_is_right && readable) return;
  // The damage is in the batch and no record owns up to it: then none can be trusted.
  if (corrupted_count_ == corrupted_before) {
    corrupted_count_ += std::max<int64_t>(view.record_count() - (readable ? 0 : count), 1);
  }
}

}  // namespace gyre::load
