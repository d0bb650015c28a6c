#include "proto/api_info.h"

#include <iterator>

#include "proto/api_table.h"

namespace gyre::proto {

static_assert(std::size(kApiTable) == kApiKeyCount);

absl::Span<const ApiInfo> AllApis() { return kApiTable; }

const ApiInfo* FindApi(ApiKey key) {
  const int index = static_cast<int>(key);
  if (index < 0 || index >= kApiKeyCount || kApiTable[index].removed) return nullptr;
  return &kApiTable[index];
}

bool IsFlexible(ApiKey key, int16_t version) {
  const ApiInfo* api = FindApi(key);
  return api != nullptr && version >= api->first_flexible_version;
}

int16_t RequestHeaderVersion(ApiKey key, int16_t version) {
  return IsFlexible(key, version) ? 2 : 1;
}

int16_t ResponseHeaderVersion(ApiKey key, int16_t version) {
  return key != ApiKey::kApiVersions && IsFlexible(key, version) ? 1 : 0;
}

}  // namespace gyre::proto
