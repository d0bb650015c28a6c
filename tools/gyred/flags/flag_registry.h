// What gyred knows about its flags beyond what gflags does: the subject each belongs
// to, which values are good, and which may change while the server runs.
//
// To add a flag: DEFINE_… it with its help in the file of its subject, name it in
// that file's group with its range, and copy it into the options there. A flag is
// live when its FlagSpec names what carries a new value to the running server.
//
// Threads: Check, Apply and Help before the server's threads start; List and Set any,
// of which Set one at a time under the registry's lock. Nothing else reads a live FLAGS_… once
// the server runs.
#ifndef GYRE_TOOLS_GYRED_FLAGS_FLAG_REGISTRY_H_
#define GYRE_TOOLS_GYRED_FLAGS_FLAG_REGISTRY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/concurrent/mutex.h"

namespace gyre {

class BrokerServer;
struct BrokerServerOptions;

class FlagSpec {
 public:
  // Takes what the flag holds now to the running server. An error (a value that does
  // not go with another flag's) leaves the server as it was.
  using LiveSetter = absl::Status (*)(BrokerServer& server);

  static constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
  static constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

  explicit FlagSpec(const char* name) : name_(name) {}

  // A number from `min` to `max`. kInt32Max and kInt64Max read as no upper bound.
  FlagSpec& Between(int64_t min, int64_t max) {
    ranged_ = true;
    min_ = min;
    max_ = max;
    return *this;
  }
  FlagSpec& AtLeast(int64_t min) { return Between(min, kInt64Max); }
  // One of these words.
  FlagSpec& OneOf(std::vector<std::string> choices) {
    choices_ = std::move(choices);
    return *this;
  }
  FlagSpec& Live(LiveSetter setter) {
    live_ = setter;
    return *this;
  }
  // For flags that are gflags' own; ours have theirs in DEFINE_….
  FlagSpec& Help(const char* help) {
    help_ = help;
    return *this;
  }

  const char* name() const { return name_; }
  const char* help() const { return help_; }
  LiveSetter live() const { return live_; }
  // "from 1 to 256", "at least 0", "pool or inline"; "" when anything goes.
  std::string GoodValues() const;
  // Whether `text` is a good value of gflags' type `type`; the message has the range.
  absl::Status Check(absl::string_view type, absl::string_view text) const;

 private:
  const char* name_;
  const char* help_ = nullptr;
  bool ranged_ = false;
  int64_t min_ = 0;
  int64_t max_ = 0;
  std::vector<std::string> choices_;
  LiveSetter live_ = nullptr;
};

struct FlagGroup {
  const char* title;
  std::vector<FlagSpec> flags;
  // Copies the group's flags into the options; refuses what no single flag's range
  // can. May be null.
  absl::Status (*apply)(BrokerServerOptions& options);
};

class FlagRegistry {
 public:
  struct Entry {
    std::string name;
    std::string group;
    std::string type;  // gflags': "int32", "bool", "string", …
    std::string value;
    std::string default_value;
    std::string help;
    std::string unit;  // "ms", "bytes" or ""
    std::string good_values;
    bool live = false;
  };

  // CHECKs that each named flag exists.
  explicit FlagRegistry(std::vector<FlagGroup> groups);

  // INVALID_ARGUMENT names the first bad flag, its value and what would be good.
  absl::Status Check() const;
  // Check, then every group's apply.
  absl::Status Apply(BrokerServerOptions& options) const;

  // What a command line gives, of gflags' and glog's flags too. INVALID_ARGUMENT names the
  // good values, or the flag that is nearest to one there is not.
  absl::Status SetBeforeStart(absl::string_view name, absl::string_view value) const;

  // By subject, with defaults; `full`: also the flags of gflags and glog.
  std::string Help(bool full) const;

  // Does not wait for a Set under way, whose new value is in it already.
  std::vector<Entry> List() const;
  // NOT_FOUND: no flag of ours; it names the nearest. FAILED_PRECONDITION: it takes effect at a
  // start only. INVALID_ARGUMENT: a bad value. Whatever the error, nothing changed.
  absl::Status Set(absl::string_view name, absl::string_view value, BrokerServer& server);

 private:
  const FlagSpec* Find(absl::string_view name) const;
  std::string NoSuchFlag(absl::string_view name) const;
  // Of the flag's group alone.
  absl::Status ApplyGroup(const FlagSpec& flag, BrokerServerOptions& options) const;

  const std::vector<FlagGroup> groups_;
  Mutex mutex_;  // one change at a time
};

// `text` for `flag` is none of `choices` ("pool or inline").
absl::Status BadFlagValue(absl::string_view flag, absl::string_view text,
                          absl::string_view choices);

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_FLAGS_FLAG_REGISTRY_H_
