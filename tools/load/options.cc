#include "tools/load/options.h"

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/record/compression.h"
#include "tools/gyred/flags/nearest_name.h"
#include "tools/load/help.h"

namespace gyre::load {
namespace {

using Setter = absl::Status (*)(absl::string_view value, Options* options);

absl::Status Expected(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what));
}

template <auto kMember, typename Number>
absl::Status SetNumber(absl::string_view value, Options* options, Number low, Number high) {
  Number number;
  bool parsed = false;
  if constexpr (std::is_floating_point_v<Number>) {
    parsed = absl::SimpleAtod(value, &number);
  } else {
    parsed = absl::SimpleAtoi(value, &number);
  }
  if (!parsed || !(number >= low && number <= high)) {
    return Expected(absl::StrCat("a number from ", low, " to ", high));
  }
  options->*kMember = number;
  return absl::OkStatus();
}

template <auto kMember, int64_t kLow, int64_t kHigh>
absl::Status Int(absl::string_view value, Options* options) {
  int64_t number;
  if (!absl::SimpleAtoi(value, &number) || number < kLow || number > kHigh) {
    return Expected(absl::StrCat("a whole number from ", kLow, " to ", kHigh));
  }
  using Member = std::remove_reference_t<decltype(options->*kMember)>;
  options->*kMember = static_cast<Member>(number);
  return absl::OkStatus();
}

template <auto kMember>
absl::Status Double(absl::string_view value, Options* options) {
  return SetNumber<kMember, double>(value, options, 0.0, 1e9);
}

template <auto kMember>
absl::Status Text(absl::string_view value, Options* options) {
  options->*kMember = std::string(value);
  return absl::OkStatus();
}

template <auto kMember>
absl::Status Bool(absl::string_view value, Options* options) {
  if (value == "true" || value == "1" || value == "yes") {
    options->*kMember = true;
  } else if (value == "false" || value == "0" || value == "no") {
    options->*kMember = false;
  } else {
    return Expected("true or false");
  }
  return absl::OkStatus();
}

template <auto kMember>
absl::Status Duration(absl::string_view value, Options* options) {
  GYRE_ASSIGN_OR_RETURN(options->*kMember, ParseDuration(value));
  return absl::OkStatus();
}

absl::Status SetWorkload(absl::string_view value, Options* options) {
  for (const Workload workload :
       {Workload::kEcho, Workload::kConnect, Workload::kIdle, Workload::kProduce,
        Workload::kConsume, Workload::kEndToEnd, Workload::kMixed}) {
    if (value == WorkloadName(workload)) {
      options->workload = workload;
      return absl::OkStatus();
    }
  }
  return Expected("echo, produce, consume, end-to-end, connect, idle or mixed");
}

absl::Status SetBrokers(absl::string_view value, Options* options) {
  options->brokers.clear();
  for (absl::string_view item : absl::StrSplit(value, ',')) {
    const size_t colon = item.rfind(':');
    int32_t port = 0;
    if (colon == absl::string_view::npos || colon == 0 ||
        !absl::SimpleAtoi(item.substr(colon + 1), &port) || port < 1 || port > 65535) {
      return Expected(absl::StrCat("HOST:PORT[,HOST:PORT…], not \"", item, "\""));
    }
    absl::string_view host = item.substr(0, colon);
    if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
      return Expected("an IPv6 address in brackets");
    }
    options->brokers.emplace_back(host, static_cast<uint16_t>(port));
  }
  return absl::OkStatus();
}

absl::Status SetArrivals(absl::string_view value, Options* options) {
  if (value != "constant" && value != "poisson") return Expected("constant or poisson");
  options->arrivals = value == "poisson" ? Arrivals::kPoisson : Arrivals::kConstant;
  return absl::OkStatus();
}

absl::Status SetRecordSize(absl::string_view value, Options* options) {
  GYRE_ASSIGN_OR_RETURN(options->record_size, SizeDistribution::Parse(value));
  return absl::OkStatus();
}

absl::Status SetAcks(absl::string_view value, Options* options) {
  if (value == "all" || value == "-1") {
    options->acks = -1;
  } else if (value == "0" || value == "1") {
    options->acks = value == "0" ? 0 : 1;
  } else {
    return Expected("all, 1 or 0");
  }
  return absl::OkStatus();
}

absl::Status SetCompression(absl::string_view value, Options* options) {
  for (const Codec codec :
       {Codec::kNone, Codec::kGzip, Codec::kSnappy, Codec::kLz4, Codec::kZstd}) {
    if (value == CodecName(codec)) {
      options->compression = codec;
      return absl::OkStatus();
    }
  }
  return Expected("none, gzip, snappy, lz4 or zstd");
}

absl::Status SetIdempotence(absl::string_view value, Options* options) {
  if (value == "auto") {
    options->idempotence = Idempotence::kAuto;
  } else if (value == "on" || value == "true") {
    options->idempotence = Idempotence::kOn;
  } else if (value == "off" || value == "false") {
    options->idempotence = Idempotence::kOff;
  } else {
    return Expected("auto, on or off");
  }
  return absl::OkStatus();
}

absl::Status SetFrom(absl::string_view value, Options* options) {
  if (value != "earliest" && value != "latest") return Expected("earliest or latest");
  options->from_earliest = value == "earliest";
  return absl::OkStatus();
}

absl::Status SetAtEnd(absl::string_view value, Options* options) {
  if (value == "stop") {
    options->at_end = AtEnd::kStop;
  } else if (value == "wait") {
    options->at_end = AtEnd::kWait;
  } else if (value == "rewind") {
    options->at_end = AtEnd::kRewind;
  } else {
    return Expected("stop, wait or rewind");
  }
  return absl::OkStatus();
}

absl::Status SetProgress(absl::string_view value, Options* options) {
  if (value != "auto" && value != "on" && value != "off") return Expected("auto, on or off");
  options->progress = std::string(value);
  return absl::OkStatus();
}

struct Entry {
  absl::string_view name;
  Setter set;
  bool is_bool = false;
};

constexpr Entry kEntries[] = {
    {"workload", SetWorkload},
    {"brokers", SetBrokers},
    {"scenario", Text<&Options::scenario>},
    {"rate", Double<&Options::rate>},
    {"arrivals", SetArrivals},
    {"duration", Duration<&Options::duration_ns>},
    {"warmup", Duration<&Options::warmup_ns>},
    {"drain", Duration<&Options::drain_ns>},
    {"timeout", Duration<&Options::timeout_ns>},
    {"threads", Int<&Options::threads, 1, 256>},
    {"connections", Int<&Options::connections, 1, 4'000'000>},
    {"pipeline", Int<&Options::pipeline, 1, 100'000>},
    {"seed", Int<&Options::seed, 0, INT64_MAX>},
    {"record_size", SetRecordSize},
    {"payload_file", Text<&Options::payload_file>},
    {"keys", Int<&Options::keys, 0, 1'000'000'000>},
    {"topic", Text<&Options::topic>},
    {"partitions", Int<&Options::partitions, 1, 100'000>},
    {"replication_factor", Int<&Options::replication_factor, 1, 100>},
    {"create_topic", Bool<&Options::create_topic>, true},
    {"acks", SetAcks},
    {"compression", SetCompression},
    {"idempotence", SetIdempotence},
    {"batch_bytes", Int<&Options::batch_bytes, 1, 64 << 20>},
    {"batch_records", Int<&Options::batch_records, 0, 1'000'000>},
    {"linger", Duration<&Options::linger_ns>},
    {"buffer_bytes", Int<&Options::buffer_bytes, 1 << 10, int64_t{1} << 40>},
    {"from", SetFrom},
    {"at_end", SetAtEnd},
    {"fetch_max_bytes", Int<&Options::fetch_max_bytes, 1, 100 << 20>},
    {"fetch_partition_bytes", Int<&Options::fetch_partition_bytes, 1, 100 << 20>},
    {"fetch_min_bytes", Int<&Options::fetch_min_bytes, 0, 100 << 20>},
    {"fetch_max_wait_ms", Int<&Options::fetch_max_wait_ms, 0, 60'000>},
    {"verify", Bool<&Options::verify>, true},
    {"allow_reconnects", Bool<&Options::allow_reconnects>, true},
    {"min_rate_percent", Double<&Options::min_rate_percent>},
    {"round_trip", Bool<&Options::round_trip>, true},
    {"reset", Bool<&Options::reset>, true},
    {"server_pid", Int<&Options::server_pid, 1, INT32_MAX>},
    {"find_max", Bool<&Options::find_max>, true},
    {"p99_ms", Double<&Options::p99_ms>},
    {"step", Duration<&Options::step_ns>},
    {"json", Text<&Options::json>},
    {"report", Text<&Options::report>},
    {"metrics_url", Text<&Options::metrics_url>},
    {"progress", SetProgress},
    {"uring_disable", Text<&Options::uring_disable>},
    {"help", Bool<&Options::help>, true},
};

const Entry* FindEntry(absl::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

absl::string_view WorkloadName(Workload workload) {
  switch (workload) {
    case Workload::kNone:
      return "none";
    case Workload::kEcho:
      return "echo";
    case Workload::kConnect:
      return "connect";
    case Workload::kIdle:
      return "idle";
    case Workload::kProduce:
      return "produce";
    case Workload::kConsume:
      return "consume";
    case Workload::kEndToEnd:
      return "end-to-end";
    case Workload::kMixed:
      return "mixed";
  }
  return "?";
}

absl::StatusOr<int64_t> ParseDuration(absl::string_view text) {
  double unit = 1e9;
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "ms")) {
    unit = 1e6;
  } else if (absl::ConsumeSuffix(&number, "us")) {
    unit = 1e3;
  } else if (absl::ConsumeSuffix(&number, "m")) {
    unit = 60e9;
  } else if (absl::ConsumeSuffix(&number, "h")) {
    unit = 3600e9;
  } else {
    absl::ConsumeSuffix(&number, "s");
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value >= 0) || value * unit > 1e17) {
    return Expected("a time such as 500ms, 10s, 2m or 10 (seconds)");
  }
  return static_cast<int64_t>(value * unit);
}

absl::Status SetOption(absl::string_view name, absl::string_view value, Options* options) {
  const Entry* const entry = FindEntry(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const Entry& other : kEntries) names.emplace_back(other.name);
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": no such flag", DidYouMean(name, names), " (see --help)"));
  }
  GYRE_RETURN_IF_ERROR(entry->set(value, options), absl::StrCat("--", name));
  for (auto& [given_name, given_value] : options->given) {
    if (given_name == name) {
      given_value = std::string(value);
      return absl::OkStatus();
    }
  }
  options->given.emplace_back(name, value);
  return absl::OkStatus();
}

absl::StatusOr<Options> ParseArguments(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument, "\": flags begin with -- (see --help)"));
    }
    if (argument == "compare") {
      options.compare.assign(arguments.begin() + static_cast<ptrdiff_t>(i) + 1, arguments.end());
      if (options.compare.size() != 2) {
        return absl::InvalidArgumentError("--compare: expected two files: --compare A.json B.json");
      }
      return options;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    const Entry* entry = FindEntry(parts.first);
    if (absl::StrContains(argument, '=')) {
      GYRE_RETURN_IF_ERROR(SetOption(parts.first, parts.second, &options));
    } else if (entry != nullptr && entry->is_bool) {
      GYRE_RETURN_IF_ERROR(SetOption(parts.first, "true", &options));
    } else if (entry == nullptr && absl::StartsWith(argument, "no") &&
               FindEntry(argument.substr(2)) != nullptr && FindEntry(argument.substr(2))->is_bool) {
      GYRE_RETURN_IF_ERROR(SetOption(argument.substr(2), "false", &options));
    } else if (entry == nullptr || i + 1 == arguments.size()) {
      GYRE_RETURN_IF_ERROR(SetOption(parts.first, "", &options));
    } else {
      GYRE_RETURN_IF_ERROR(SetOption(parts.first, arguments[++i], &options));
    }
  }
  return options;
}

absl::Status CheckOptions(const Options& options) {
  const auto refuse = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  const Workload workload = options.workload;
  if (workload == Workload::kNone) {
    return refuse("--workload: say what to do: echo, produce, consume, end-to-end, connect, idle ",
                  "or mixed (see --help)");
  }
  if (workload == Workload::kMixed) {
    return options.scenario.empty() ? refuse("--workload=mixed needs --scenario=FILE")
                                    : absl::OkStatus();
  }
  if (options.brokers.empty()) return refuse("--brokers: HOST:PORT is needed");
  if (options.duration_ns <= 0) return refuse("--duration: must be above 0");
  if (options.threads > options.connections) {
    return refuse("--threads: ", options.threads, " threads need at least as many --connections");
  }
  const bool writes = workload == Workload::kProduce || workload == Workload::kEndToEnd;
  if (writes && options.verify && options.payload_file.empty() &&
      options.record_size.min_bytes() < static_cast<int64_t>(kPayloadHeaderBytes)) {
    return refuse("--record_size: records below ", kPayloadHeaderBytes,
                  " bytes have no room for what is checked; --noverify sends them unchecked");
  }
  if (workload == Workload::kEndToEnd &&
      (!options.verify ||
       (options.payload_file.empty() &&
        options.record_size.min_bytes() < static_cast<int64_t>(kPayloadHeaderBytes)))) {
    return refuse("--workload=end-to-end reads its clock from the records: it needs --verify and ",
                  "records of at least ", kPayloadHeaderBytes, " bytes");
  }
  if (options.rate > 0 && (workload == Workload::kConsume || workload == Workload::kIdle)) {
    return refuse("--rate: does not apply to --workload=", WorkloadName(workload));
  }
  if (options.idempotence == Idempotence::kOn && options.acks != -1) {
    return refuse("--idempotence=on needs --acks=all");
  }
  if (options.find_max && options.p99_ms <= 0) return refuse("--find_max needs --p99_ms");
  if (options.find_max && (workload == Workload::kConsume || workload == Workload::kIdle)) {
    return refuse("--find_max: needs a workload with a rate");
  }
  return absl::OkStatus();
}

}  // namespace gyre::load
