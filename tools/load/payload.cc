#include "tools/load/payload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/crc32c.h"
#include "engine/base/endian.h"

namespace gyre::load {
namespace {

constexpr uint32_t kMagic = 0x47794c64;  // "GyLd"
constexpr size_t kCheckedFrom = 8;
constexpr int64_t kMaxRecordBytes = 64 << 20;
constexpr size_t kFillerBytes = 1 << 20;

absl::Status BadSize(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a size: N, uniform:MIN:MAX or ",
                   "lognormal:MEDIAN:SIGMA:MAX, bytes from 1 to ", kMaxRecordBytes));
}

bool ParseBytes(absl::string_view text, int64_t* bytes) {
  return absl::SimpleAtoi(text, bytes) && *bytes >= 1 && *bytes <= kMaxRecordBytes;
}

}  // namespace

void SealPayload(const PayloadHeader& header, std::string* payload) {
  char* const to = payload->data();
  StoreBigEndian<uint32_t>(to, kMagic);
  StoreBigEndian<uint32_t>(to + 8, header.run);
  StoreBigEndian<uint32_t>(to + 12, header.stream);
  StoreBigEndian<int64_t>(to + 16, header.number);
  StoreBigEndian<int64_t>(to + 24, header.intended_ns);
  StoreBigEndian<int64_t>(to + 32, header.made_ns);
  StoreBigEndian<uint32_t>(to + 4, Crc32c(to + kCheckedFrom, payload->size() - kCheckedFrom));
}

PayloadState OpenPayload(absl::string_view payload, PayloadHeader* header) {
  if (payload.size() < kPayloadHeaderBytes) return PayloadState::kForeign;
  const char* const from = payload.data();
  if (LoadBigEndian<uint32_t>(from) != kMagic) return PayloadState::kForeign;
  if (LoadBigEndian<uint32_t>(from + 4) !=
      Crc32c(from + kCheckedFrom, payload.size() - kCheckedFrom)) {
    return PayloadState::kCorrupted;
  }
  header->run = LoadBigEndian<uint32_t>(from + 8);
  header->stream = LoadBigEndian<uint32_t>(from + 12);
  header->number = LoadBigEndian<int64_t>(from + 16);
  header->intended_ns = LoadBigEndian<int64_t>(from + 24);
  header->made_ns = LoadBigEndian<int64_t>(from + 32);
  return PayloadState::kOurs;
}

absl::StatusOr<SizeDistribution> SizeDistribution::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  SizeDistribution sizes;
  if (parts.size() == 1 && ParseBytes(text, &sizes.min_)) {
    sizes.max_ = sizes.min_;
    return sizes;
  }
  if (parts.size() == 3 && parts[0] == "uniform" && ParseBytes(parts[1], &sizes.min_) &&
      ParseBytes(parts[2], &sizes.max_) && sizes.min_ <= sizes.max_) {
    sizes.kind_ = Kind::kUniform;
    return sizes;
  }
  int64_t median = 0;
  if (parts.size() == 4 && parts[0] == "lognormal" && ParseBytes(parts[1], &median) &&
      absl::SimpleAtod(parts[2], &sizes.sigma_) && sizes.sigma_ >= 0 && sizes.sigma_ <= 10 &&
      ParseBytes(parts[3], &sizes.max_) && median <= sizes.max_) {
    sizes.kind_ = Kind::kLognormal;
    sizes.median_ = static_cast<double>(median);
    sizes.min_ = std::min<int64_t>(median, static_cast<int64_t>(kPayloadHeaderBytes));
    return sizes;
  }
  return BadSize(text);
}

int64_t SizeDistribution::Draw(Random& random) const {
  switch (kind_) {
    case Kind::kFixed:
      return min_;
    case Kind::kUniform:
      return random.Between(min_, max_);
    case Kind::kLognormal: {
      // Box and Muller's normal variate.
      const double normal = std::sqrt(-2 * std::log1p(-random.NextDouble())) *
                            std::cos(2 * M_PI * random.NextDouble());
      const double bytes = median_ * std::exp(sigma_ * normal);
      return std::clamp(static_cast<int64_t>(std::min(bytes, 1e12)), min_, max_);
    }
  }
  return min_;
}

double SizeDistribution::mean_bytes() const {
  if (kind_ != Kind::kLognormal) return static_cast<double>(min_ + max_) / 2;
  return std::min(median_ * std::exp(sigma_ * sigma_ / 2), static_cast<double>(max_));
}

PayloadSource::PayloadSource(const SizeDistribution& sizes, const std::vector<std::string>* lines,
                             uint64_t seed)
    : sizes_(sizes), lines_(lines), random_(seed), filler_(kFillerBytes, '\0') {
  random_.Fill(filler_.data(), filler_.size());
}

void PayloadSource::Make(const PayloadHeader& header, std::string* payload) {
  if (lines_ != nullptr) {
    payload->assign(kPayloadHeaderBytes, '\0');
    payload->append((*lines_)[next_line_]);
    next_line_ = (next_line_ + 1) % lines_->size();
  } else {
    payload->resize(static_cast<size_t>(sizes_.Draw(random_)));
    for (size_t at = std::min(payload->size(), kPayloadHeaderBytes); at < payload->size();) {
      const size_t from = random_.Below(kFillerBytes / 2);
      const size_t taken = std::min(payload->size() - at, kFillerBytes - from);
      std::memcpy(payload->data() + at, filler_.data() + from, taken);
      at += taken;
    }
  }
  if (payload->size() >= kPayloadHeaderBytes) return SealPayload(header, payload);
  // Too small to be checked by itself: bytes that differ from number to number.
  for (size_t i = 0; i < payload->size(); ++i) {
    (*payload)[i] = static_cast<char>(static_cast<uint64_t>(header.number) >> (8 * (i % 8)));
  }
}

}  // namespace gyre::load
