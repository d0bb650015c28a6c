#include "tools/gyred/gyred_flags.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gflags/gflags.h"
#include "tools/gyred/flags/flag_groups.h"

namespace gyre {

namespace {

bool IsSet(const char* flag) {
  return gflags::GetCommandLineFlagInfoOrDie(flag).current_value == "true";
}

}  // namespace

std::vector<FlagGroup> AllFlagGroups() {
  return {
      ListenerFlags(), StorageFlags(), TopicFlags(),    ThreadFlags(), ConnectionFlags(),
      QuotaFlags(),    MemoryFlags(),  TransferFlags(), AdminFlags(),  ProgramFlags(),
  };
}

absl::StatusOr<BrokerServerOptions> OptionsFromFlags(const FlagRegistry& flags) {
  BrokerServerOptions options;
  GYRE_RETURN_IF_ERROR(flags.Apply(options));
  return options;
}

std::string HelpText(const FlagRegistry& flags) {
  return absl::StrCat(
      "gyred: a broker that speaks the Kafka protocol, on io_uring.\n\n"
      "  gyred --log_dirs=/var/lib/gyre --listeners=PLAINTEXT://127.0.0.1:9092\n\n"
      "SIGTERM, SIGINT or SIGHUP drains and stops it; SIGUSR1 prints its metrics to stderr.\n"
      "Flags marked live can be changed while it runs.\n",
      flags.Help(IsSet("helpfull")));
}

std::vector<std::string> FlagsAsArguments() {
  std::vector<std::string> arguments;
  std::vector<gflags::CommandLineFlagInfo> all;
  gflags::GetAllFlags(&all);
  for (const gflags::CommandLineFlagInfo& flag : all) {
    if (flag.current_value == flag.default_value) continue;
    if (flag.name == "flagfile" || flag.name == "takeover") continue;
    arguments.push_back(absl::StrCat("--", flag.name, "=", flag.current_value));
  }
  return arguments;
}

bool HelpWanted() { return IsSet("help") || IsSet("helpfull") || IsSet("helpshort"); }
bool VersionWanted() { return IsSet("version"); }
bool CheckConfigWanted() { return IsSet("check_config"); }

}  // namespace gyre
