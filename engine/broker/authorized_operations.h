// The operations a client may do, as the bit field that Metadata and
// DescribeCluster answer with. Without an authorizer everyone may do whatever
// the resource knows.
//
// Bit n = the protocol's operation code n: read 3, write 4, create 5, delete 6,
// alter 7, describe 8, cluster action 9, describe configs 10, alter configs 11,
// idempotent write 12.
#ifndef GYRE_ENGINE_BROKER_AUTHORIZED_OPERATIONS_H_
#define GYRE_ENGINE_BROKER_AUTHORIZED_OPERATIONS_H_

#include <cstdint>
#include <initializer_list>

namespace gyre {

constexpr int32_t OperationBits(std::initializer_list<int> operations) {
  int32_t bits = 0;
  for (int operation : operations) bits |= int32_t{1} << operation;
  return bits;
}

inline constexpr int32_t kAllTopicOperations = OperationBits({3, 4, 5, 6, 7, 8, 10, 11});
inline constexpr int32_t kAllClusterOperations = OperationBits({5, 7, 8, 9, 10, 11, 12});

}  // namespace gyre

#endif  // GYRE_ENGINE_BROKER_AUTHORIZED_OPERATIONS_H_
