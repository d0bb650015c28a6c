#include "engine/network/network_health.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/network/request/handler_turn.h"

namespace gyre {
namespace {

constexpr int64_t kMs = 1'000'000;

struct LongTurn {
  std::string thread_name;
  HandlerTurn::State turn;
};

std::optional<LongTurn> LongestTurn(const NetworkPlane& plane) {
  std::optional<LongTurn> longest;
  if (plane.handlers() == nullptr) return longest;
  plane.handlers()->ForEachTurn([&](const std::string& name, const HandlerTurn::State& turn) {
    if (longest.has_value() && longest->turn.began_ms <= turn.began_ms) return;
    longest = LongTurn{name, turn};
  });
  return longest;
}

// The clock after the turns: one that begins in between is none that lasts.
int64_t LengthMs(const LongTurn& longest, const Clock& clock) {
  return std::max<int64_t>(0, clock.NowNs() / kMs - longest.turn.began_ms);
}

// "one request (Produce, api key 0, lane produce)".
std::string DescribeTurn(const HandlerTurn::State& turn, const NetworkPlane& plane,
                         const std::vector<std::string>& api_names) {
  if (turn.lane == HandlerTurn::kContinuation) return "work beside requests";
  std::string text;
  const auto api = static_cast<size_t>(turn.api);
  if (turn.api >= 0 && api < api_names.size() && !api_names[api].empty()) {
    absl::StrAppend(&text, api_names[api], ", ");
  }
  absl::StrAppend(&text, turn.api >= 0 ? absl::StrCat("api key ", turn.api) : "no api known");
  const std::string& lane = plane.channel().lane_name(turn.lane);
  if (!lane.empty()) absl::StrAppend(&text, ", lane ", lane);
  return absl::StrCat("one request (", text, ")");
}

}  // namespace

absl::Status CheckProcessorsGetOn(const NetworkThreads& threads, absl::string_view name_prefix,
                                  int64_t stuck_ms, const Clock& clock) {
  absl::Status status;
  threads.ForEach([&](const NetworkThread& thread) {
    const int64_t began_ns = thread.turn_began_ns.load(std::memory_order_relaxed);
    if (began_ns == NetworkThread::kNoTurn || !status.ok()) return;
    const int64_t turn_ms = (clock.NowNs() - began_ns) / kMs;
    if (turn_ms < stuck_ms) return;
    status =
        absl::UnavailableError(absl::StrCat(name_prefix, "processor-", thread.index, " (listener ",
                                            thread.listener, ") has been busy with one turn for ",
                                            turn_ms / 1000, " s; its connections are not served"));
  });
  return status;
}

absl::Status CheckHandlersGetOn(const NetworkPlane& plane,
                                const std::vector<std::string>& api_names, int64_t stuck_ms,
                                const Clock& clock) {
  const std::optional<LongTurn> longest = LongestTurn(plane);
  if (!longest.has_value()) return absl::OkStatus();
  const int64_t length_ms = LengthMs(*longest, clock);
  if (length_ms < stuck_ms) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(longest->thread_name, " has been busy with ",
                                             DescribeTurn(longest->turn, plane, api_names), " for ",
                                             length_ms / 1000, " s; it serves nothing else"));
}

int64_t LongestHandlerTurnMs(const NetworkPlane& plane, const Clock& clock) {
  const std::optional<LongTurn> longest = LongestTurn(plane);
  return longest.has_value() ? LengthMs(*longest, clock) : 0;
}

}  // namespace gyre
