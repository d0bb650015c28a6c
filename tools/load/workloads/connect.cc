#include "tools/load/workloads/connect.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/endian.h"
#include "proto/api_versions.h"
#include "proto/frame.h"

namespace gyre::load {
namespace {

constexpr int64_t kTimeoutCheckNs = 100'000'000;

// Without the address that it begins with: equal errors are counted together.
absl::string_view Kind(const absl::Status& status) {
  const absl::string_view message = status.message();
  const size_t space = message.find(": ");
  return space == absl::string_view::npos ? message : message.substr(space + 2);
}

}  // namespace

ConnectLoad::ConnectLoad(Part& part, int32_t thread)
    : part_(part), thread_(thread), at_once_(part.Share(part.options.connections, thread)) {}

absl::Status ConnectLoad::Open(Connector& connector) {
  connector_ = &connector;
  opened_ns_ = part_.clock->NowNs();
  return Begin(0, opened_ns_);
}

absl::Status ConnectLoad::failure() const {
  if (failure_.ok() && !probed_ && part_.clock->NowNs() - opened_ns_ > part_.options.timeout_ns) {
    return absl::DeadlineExceededError(absl::StrCat("the first request was not answered within ",
                                                    part_.options.timeout_ns / 1'000'000,
                                                    " ms (--noround_trip sends none)"));
  }
  return failure_;
}

std::string ConnectLoad::Request(int32_t correlation_id) const {
  const proto::ApiVersionsRequest request;
  std::string bytes(proto::RequestSize(request, "gyre_load", 0), '\0');
  wire::Writer writer(bytes.data(), bytes.size());
  proto::EncodeRequest(writer, request, "gyre_load", correlation_id, 0);
  return bytes;
}

absl::Status ConnectLoad::Begin(int64_t intended_ns, int64_t now_ns) {
  const size_t peer = static_cast<size_t>(next_correlation_id_) % part_.addresses.size();
  absl::StatusOr<ConnectionHandle> connection = connector_->Connect(part_.addresses[peer]);
  if (!connection.ok()) return connection.status();
  if (connection->slot >= attempts_.size()) attempts_.resize(connection->slot + 1);
  attempts_[connection->slot] = {*connection, true, intended_ns, now_ns, next_correlation_id_++};
  ++under_way_;
  return absl::OkStatus();
}

ConnectLoad::Attempt* ConnectLoad::AttemptOf(ConnectionHandle connection) {
  Attempt& attempt = attempts_[connection.slot];
  return attempt.under_way && attempt.connection == connection ? &attempt : nullptr;
}

void ConnectLoad::End(Attempt& attempt, bool close) {
  attempt.under_way = false;
  --under_way_;
  if (close) connector_->Close(attempt.connection, part_.options.reset);
  if (recorder_ == nullptr) {
    probed_ = failure_.ok();
  } else {
    schedule_.NoteRoom(part_.clock->NowNs());
  }
}

void ConnectLoad::OnConnected(ConnectionHandle connection) {
  Attempt* const attempt = AttemptOf(connection);
  if (attempt == nullptr) return;
  if (part_.options.round_trip) {
    connector_->Send(connection, Request(attempt->correlation_id));
    return;
  }
  const int64_t now_ns = part_.clock->NowNs();
  if (recorder_ != nullptr) {
    recorder_->Done(attempt->intended_ns, attempt->started_ns, now_ns, 0);
  }
  End(*attempt, /*close=*/true);
}

void ConnectLoad::OnFrame(ConnectionHandle connection, absl::string_view payload) {
  Attempt* const attempt = AttemptOf(connection);
  if (attempt == nullptr) return;
  const std::string request = Request(attempt->correlation_id);
  const bool answers =
      (payload.size() >= 4 && LoadBigEndian<int32_t>(payload.data()) == attempt->correlation_id) ||
      payload == absl::string_view(request).substr(sizeof(int32_t));
  const int64_t now_ns = part_.clock->NowNs();
  if (!answers && recorder_ == nullptr) {
    failure_ = absl::DataLossError("the answer to the first request belongs to another one");
  } else if (!answers) {
    ++corrupted_;
  } else if (recorder_ != nullptr) {
    ++answered_;
    recorder_->Done(attempt->intended_ns, attempt->started_ns, now_ns,
                    static_cast<int64_t>(payload.size()));
  }
  End(*attempt, /*close=*/true);
}

void ConnectLoad::OnClosed(ConnectionHandle connection, const absl::Status& why) {
  Attempt* const attempt = AttemptOf(connection);
  if (attempt == nullptr) return;
  if (recorder_ == nullptr) {
    failure_ = why;
  } else {
    recorder_->Error(Kind(why), part_.clock->NowNs());
  }
  End(*attempt, /*close=*/false);
}

void ConnectLoad::Start(Recorder& recorder) {
  recorder_ = &recorder;
  schedule_ = part_.MakeSchedule(recorder.window(), thread_);
}

int64_t ConnectLoad::Turn(int64_t now_ns) {
  while (const std::optional<int64_t> due = schedule_.Due(now_ns)) {
    if (under_way_ >= at_once_) {
      schedule_.NoteBlocked();
      break;
    }
    const int64_t started_ns = part_.clock->NowNs();
    const int64_t intended_ns = schedule_.is_open_loop() ? *due : started_ns;
    if (schedule_.is_open_loop()) {
      recorder_->Started(intended_ns, started_ns, schedule_.OwnDelayNs(intended_ns, started_ns));
    }
    schedule_.Started();
    if (absl::Status status = Begin(intended_ns, started_ns); !status.ok()) {
      recorder_->Error(Kind(status), started_ns);
      if (!schedule_.is_open_loop()) break;
    }
  }
  if (now_ns >= next_timeout_check_ns_) {
    next_timeout_check_ns_ = now_ns + kTimeoutCheckNs;
    for (Attempt& attempt : attempts_) {
      if (!attempt.under_way || now_ns - attempt.started_ns <= part_.options.timeout_ns) continue;
      recorder_->Error("no answer within --timeout", now_ns);
      End(attempt, /*close=*/true);
    }
  }
  const bool full = under_way_ >= at_once_;
  return full ? next_timeout_check_ns_ : std::min(schedule_.NextNs(now_ns), next_timeout_check_ns_);
}

bool ConnectLoad::Done(int64_t now_ns) const {
  return now_ns >= recorder_->window().end_ns && under_way_ == 0 && schedule_.Exhausted(now_ns);
}

void ConnectLoad::Collect(PartResult* result) {
  result->unanswered += under_way_;
  result->checked = part_.options.round_trip;
  result->checks.checked += answered_;
  result->checks.corrupted += corrupted_;
  if (recorder_ != nullptr && !schedule_.Exhausted(recorder_->window().end_ns)) {
    ++result->not_started;
  }
}

}  // namespace gyre::load
