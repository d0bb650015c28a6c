#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_groups.h"
#include "tools/gyred/flags/live_connection.h"

DEFINE_string(uring_disable, "",
              "Features to do without, comma-separated, or all: then only what kernel 5.19 has is "
              "used.");
DEFINE_bool(require_registered_buffers, false,
            "Refuse to start where the kernel refuses registered buffers (memlock limit).");
DEFINE_string(file_transfer, "auto", "How records leave a file: auto, sendfile, splice or copy.");
DEFINE_int64(file_copy_max_bytes, 16384,
             "auto: ranges up to this are copied beside the response's header.");
DEFINE_int64(zero_copy_min_bytes, 16384,
             "Answers of at least so many bytes are sent from where they lie; -1: none. Switched "
             "off by itself on connections where the kernel copies after all.");
DEFINE_int64(zero_copy_max_pinned_bytes, 16777216,
             "Bytes that each network thread may have lent to the kernel so; one connection may "
             "have an eighth. Beyond it they are copied. With memory_limit_bytes at most a quarter "
             "of what it leaves for answers.");

namespace gyre {

namespace {

absl::Status Apply(BrokerServerOptions& options) {
  GYRE_ASSIGN_OR_RETURN(options.uring_hidden, uring::ParseDisabled(FLAGS_uring_disable),
                        absl::StrCat("--uring_disable=", FLAGS_uring_disable));
  options.require_registered_buffers = FLAGS_require_registered_buffers;
  ConnectionOptions& connection = options.network.processor.connection;
  CHECK(ParseFileTransfer(FLAGS_file_transfer, &connection.file_transfer));  // one of the choices
  connection.file_copy_max_bytes = FLAGS_file_copy_max_bytes;
  connection.zero_copy_min_bytes = FLAGS_zero_copy_min_bytes;
  connection.zero_copy_max_pinned_bytes = FLAGS_zero_copy_max_pinned_bytes;
  return absl::OkStatus();
}

absl::Status SetTransfer(BrokerServer& server) {
  return ChangeConnections(server, [](ConnectionOptions& options) {
    CHECK(ParseFileTransfer(FLAGS_file_transfer, &options.file_transfer));
    options.file_copy_max_bytes = FLAGS_file_copy_max_bytes;
    options.zero_copy_min_bytes = FLAGS_zero_copy_min_bytes;
    options.zero_copy_max_pinned_bytes = FLAGS_zero_copy_max_pinned_bytes;
  });
}

}  // namespace

FlagGroup TransferFlags() {
  return {
      "io_uring and file transfer",
      {
          FlagSpec("uring_disable"),
          FlagSpec("require_registered_buffers"),
          FlagSpec("file_transfer")
              .OneOf({"auto", "sendfile", "splice", "copy"})
              .Live(&SetTransfer),
          FlagSpec("file_copy_max_bytes").Between(0, 1 << 20).Live(&SetTransfer),
          FlagSpec("zero_copy_min_bytes").Between(-1, 1 << 30).Live(&SetTransfer),
          FlagSpec("zero_copy_max_pinned_bytes").Between(0, int64_t{1} << 30).Live(&SetTransfer),
      },
      &Apply};
}

}  // namespace gyre
