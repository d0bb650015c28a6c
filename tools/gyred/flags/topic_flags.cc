#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_int32(node_id, 1, "This broker's number; kept in the data directory.");
DEFINE_string(cluster_id, "",
              "22 characters of URL-safe base64. Empty: the data directory's own, or a fresh one.");
DEFINE_int32(num_partitions, 1, "For topics created without a number of partitions.");
DEFINE_int32(default_replication_factor, 1,
             "For topics created without one; this broker is alone, so only 1 works.");
DEFINE_bool(auto_create_topics_enable, true, "Create a topic when a client asks about it by name.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  if (!FLAGS_cluster_id.empty()) {
    options.cluster_id = Uuid::Parse(FLAGS_cluster_id);
    if (!options.cluster_id.has_value()) {
      return BadFlagValue("cluster_id", FLAGS_cluster_id, "22 characters of URL-safe base64");
    }
  }
  if (FLAGS_default_replication_factor != 1) {
    return BadFlagValue("default_replication_factor",
                        absl::StrCat(FLAGS_default_replication_factor),
                        "1: this broker is alone, there is no other one for a second replica");
  }
  BrokerConfig& broker = options.broker;
  broker.node_id = FLAGS_node_id;
  broker.num_partitions = FLAGS_num_partitions;
  broker.default_replication_factor = static_cast<int16_t>(FLAGS_default_replication_factor);
  broker.auto_create_topics_enable = FLAGS_auto_create_topics_enable;
  return absl::OkStatus();
}

}  // namespace

FlagGroup TopicFlags() {
  return {"The cluster and its topics",
          {
              FlagSpec("node_id").AtLeast(0),
              FlagSpec("cluster_id"),
              FlagSpec("num_partitions").Between(1, 10'000),
              FlagSpec("default_replication_factor").Between(1, INT16_MAX),
              FlagSpec("auto_create_topics_enable"),
          },
          &Apply};
}

}  // namespace gyre
