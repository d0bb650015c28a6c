#include "absl/strings/match.h"
#include "gflags/gflags.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"

DEFINE_string(log_dirs, "",
              "The one directory that holds everything; made if missing (one level). Required.");
DEFINE_string(log_flush, "group",
              "group: acks=all is answered after an fdatasync that many appends share, and "
              "consumers see only synced records. interval: synced every --log_flush_interval_ms. "
              "none: left to the kernel, as Kafka does by default.");
DEFINE_int64(log_flush_interval_ms, 1000, "For --log_flush=interval.");
DEFINE_int32(log_segment_bytes, 1 << 30, "A topic's segment.bytes where the topic does not say.");
DEFINE_int32(message_max_bytes, 1048588,
             "A topic's max.message.bytes where the topic does not say: the largest batch a "
             "producer may send.");
DEFINE_int32(fetch_max_bytes, 57671680,
             "The most records in one fetch response; one batch may exceed it.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  if (FLAGS_log_dirs.empty()) {
    return absl::InvalidArgumentError(
        "--log_dirs is missing; name the directory that shall hold the data");
  }
  if (absl::StrContains(FLAGS_log_dirs, ',')) {
    return BadFlagValue("log_dirs", FLAGS_log_dirs, "one directory");
  }
  options.log_dir = FLAGS_log_dirs;
  options.flush_mode = FLAGS_log_flush == "group"      ? FlushMode::kGroup
                       : FLAGS_log_flush == "interval" ? FlushMode::kInterval
                                                       : FlushMode::kNone;
  options.flush_interval_ms = FLAGS_log_flush_interval_ms;
  options.broker.topic_defaults.segment_bytes = FLAGS_log_segment_bytes;
  options.broker.topic_defaults.max_message_bytes = FLAGS_message_max_bytes;
  options.broker.fetch_max_bytes = FLAGS_fetch_max_bytes;
  return absl::OkStatus();
}

}  // namespace

FlagGroup StorageFlags() {
  return {"Its data",
          {
              FlagSpec("log_dirs"),
              FlagSpec("log_flush").OneOf({"group", "interval", "none"}),
              FlagSpec("log_flush_interval_ms").Between(1, FlagSpec::kInt32Max),
              FlagSpec("log_segment_bytes").AtLeast(14),
              FlagSpec("message_max_bytes").AtLeast(0),
              FlagSpec("fetch_max_bytes").Between(1024, 1 << 30),
          },
          &Apply};
}

}  // namespace gyre
