// What one partition's fetched bytes hold: batches checked by their CRC, records by their
// payload's checksum, and each stream's numbers.
//
// Threads: its consumer's.
#ifndef GYRE_TOOLS_LOAD_KAFKA_PARTITION_READER_H_
#define GYRE_TOOLS_LOAD_KAFKA_PARTITION_READER_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/string_view.h"
#include "tools/load/checks.h"
#include "tools/load/payload.h"

namespace gyre::load {

// Each record that is ours, whole and new.
class RecordSink {
 public:
  virtual void OnRecord(const PayloadHeader& header, int64_t bytes) = 0;

 protected:
  ~RecordSink() = default;
};

class PartitionReader {
 public:
  struct Read {
    int64_t records = 0;
    int64_t bytes = 0;       // of values
    bool malformed = false;  // what followed could not be read
  };

  PartitionReader(int32_t partition, int64_t first_offset)
      : partition_(partition), next_offset_(first_offset) {}

  int32_t partition() const { return partition_; }
  int64_t next_offset() const { return next_offset_; }
  // Reads from `offset` again, forgetting what was seen.
  void Rewind(int64_t offset);

  // The records of a Fetch from next_offset(); moves it on. The last batch may be cut.
  // `sink` may be null. `wanted_run` 0: every run's records are checked; else those of
  // others count as foreign.
  Read OnFetched(absl::string_view records, uint32_t wanted_run, RecordSink* sink);

  // By run and stream.
  const std::map<std::pair<uint32_t, uint32_t>, StreamCheck>& streams() const { return streams_; }
  int64_t corrupted_count() const { return corrupted_count_; }
  int64_t foreign_count() const { return foreign_count_; }

 private:
  void ReadBatch(absl::string_view batch, uint32_t wanted_run, RecordSink* sink, Read* read);

  const int32_t partition_;
  int64_t next_offset_;
  std::map<std::pair<uint32_t, uint32_t>, StreamCheck> streams_;
  int64_t corrupted_count_ = 0;
  int64_t foreign_count_ = 0;
};

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_KAFKA_PARTITION_READER_H_
