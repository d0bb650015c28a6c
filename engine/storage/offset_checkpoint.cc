#include "engine/storage/offset_checkpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace gyre {

absl::StatusOr<OffsetMap> ReadOffsetCheckpoint(FileSystem& file_system, const std::string& path) {
  const absl::StatusOr<std::string> text = file_system.ReadFile(path);
  if (absl::IsNotFound(text.status())) return OffsetMap();
  GYRE_RETURN_IF_ERROR(text.status());
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  int64_t count = 0;
  if (lines.size() < 2 || lines[0] != "0" || !absl::SimpleAtoi(lines[1], &count) ||
      count != static_cast<int64_t>(lines.size()) - 2) {
    return absl::DataLossError(absl::StrCat(path, ": not a checkpoint of version 0"));
  }
  OffsetMap offsets;
  for (size_t i = 2; i < lines.size(); ++i) {
    const std::vector<absl::string_view> words = absl::StrSplit(lines[i], ' ');
    TopicPartition partition;
    int64_t offset = 0;
    if (words.size() != 3 || words[0].empty() ||
        !absl::SimpleAtoi(words[1], &partition.partition) || partition.partition < 0 ||
        !absl::SimpleAtoi(words[2], &offset) || offset < 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": line ", i + 1, " is no topic, partition and offset"));
    }
    partition.topic = std::string(words[0]);
    offsets[std::move(partition)] = offset;
  }
  return offsets;
}

absl::Status WriteOffsetCheckpoint(FileSystem& file_system, const std::string& path,
                                   const OffsetMap& offsets) {
  std::string text = absl::StrCat("0\n", offsets.size(), "\n");
  for (const auto& [partition, offset] : offsets) {
    absl::StrAppend(&text, partition.topic, " ", partition.partition, " ", offset, "\n");
  }
  return file_system.WriteFileAtomically(path, text);
}

}  // namespace gyre
