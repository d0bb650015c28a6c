// The requests of the protocol, by the number that starts each of them.
#ifndef GYRE_PROTO_WIRE_API_KEY_H_
#define GYRE_PROTO_WIRE_API_KEY_H_

#include <cstdint>
#include <iosfwd>

#include "absl/strings/string_view.h"

namespace gyre {

// Numbers that Kafka gave up keep their names, so that logs can say what a peer asked for.
enum class ApiKey : int16_t {
  kProduce = 0,
  kFetch = 1,
  kListOffsets = 2,
  kMetadata = 3,
  kLeaderAndIsr = 4,
  kStopReplica = 5,
  kUpdateMetadata = 6,
  kControlledShutdown = 7,
  kOffsetCommit = 8,
  kOffsetFetch = 9,
  kFindCoordinator = 10,
  kJoinGroup = 11,
  kHeartbeat = 12,
  kLeaveGroup = 13,
  kSyncGroup = 14,
  kDescribeGroups = 15,
  kListGroups = 16,
  kSaslHandshake = 17,
  kApiVersions = 18,
  kCreateTopics = 19,
  kDeleteTopics = 20,
  kDeleteRecords = 21,
  kInitProducerId = 22,
  kOffsetForLeaderEpoch = 23,
  kAddPartitionsToTxn = 24,
  kAddOffsetsToTxn = 25,
  kEndTxn = 26,
  kWriteTxnMarkers = 27,
  kTxnOffsetCommit = 28,
  kDescribeAcls = 29,
  kCreateAcls = 30,
  kDeleteAcls = 31,
  kDescribeConfigs = 32,
  kAlterConfigs = 33,
  kAlterReplicaLogDirs = 34,
  kDescribeLogDirs = 35,
  kSaslAuthenticate = 36,
  kCreatePartitions = 37,
  kCreateDelegationToken = 38,
  kRenewDelegationToken = 39,
  kExpireDelegationToken = 40,
  kDescribeDelegationToken = 41,
  kDeleteGroups = 42,
  kElectLeaders = 43,
  kIncrementalAlterConfigs = 44,
  kAlterPartitionReassignments = 45,
  kListPartitionReassignments = 46,
  kOffsetDelete = 47,
  kDescribeClientQuotas = 48,
  kAlterClientQuotas = 49,
  kDescribeUserScramCredentials = 50,
  kAlterUserScramCredentials = 51,
  kVote = 52,
  kBeginQuorumEpoch = 53,
  kEndQuorumEpoch = 54,
  kDescribeQuorum = 55,
  kAlterPartition = 56,
  kUpdateFeatures = 57,
  kEnvelope = 58,
  kFetchSnapshot = 59,
  kDescribeCluster = 60,
  kDescribeProducers = 61,
  kBrokerRegistration = 62,
  kBrokerHeartbeat = 63,
  kUnregisterBroker = 64,
  kDescribeTransactions = 65,
  kListTransactions = 66,
  kAllocateProducerIds = 67,
  kConsumerGroupHeartbeat = 68,
  kConsumerGroupDescribe = 69,
  kControllerRegistration = 70,
  kGetTelemetrySubscriptions = 71,
  kPushTelemetry = 72,
  kAssignReplicasToDirs = 73,
  kListConfigResources = 74,
  kDescribeTopicPartitions = 75,
  kShareGroupHeartbeat = 76,
  kShareGroupDescribe = 77,
  kShareFetch = 78,
  kShareAcknowledge = 79,
  kAddRaftVoter = 80,
  kRemoveRaftVoter = 81,
  kUpdateRaftVoter = 82,
  kInitializeShareGroupState = 83,
  kReadShareGroupState = 84,
  kWriteShareGroupState = 85,
  kDeleteShareGroupState = 86,
  kReadShareGroupStateSummary = 87,
  kStreamsGroupHeartbeat = 88,
  kStreamsGroupDescribe = 89,
  kDescribeShareGroupOffsets = 90,
  kAlterShareGroupOffsets = 91,
  kDeleteShareGroupOffsets = 92,
  kStreamsGroupTopologyDescriptionUpdate = 93,
  kUnregisterController = 94,
};

inline constexpr int kApiKeyCount = 95;

// The name without the k; "Unknown" for a number that is not listed.
absl::string_view ApiKeyName(ApiKey key);

std::ostream& operator<<(std::ostream& out, ApiKey key);

}  // namespace gyre

#endif  // GYRE_PROTO_WIRE_API_KEY_H_
