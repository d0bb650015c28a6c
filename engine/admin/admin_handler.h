// The admin pages: /metrics, /health, /ready, /flags, /connections, /version, and / which
// names them. GET and HEAD everywhere; POST and PUT on /flags alone.
//
//   GET  /flags            as text; ?format=json or Accept: application/json for JSON
//   PUT  /flags/NAME       the body is the value
//   POST /flags            NAME=VALUE, or {"NAME": VALUE} as application/json; one flag
//
// Writes come from loopback only, unless the options say otherwise, and never from a
// page in a browser (a request with an Origin is refused).
//
// Threads: Start on the admin server's handlers.
// Borrows: the source and the clock; they outlive it.
#ifndef GYRE_ENGINE_ADMIN_ADMIN_HANDLER_H_
#define GYRE_ENGINE_ADMIN_ADMIN_HANDLER_H_

#include <atomic>
#include <string>

#include "engine/admin/admin_source.h"
#include "engine/admin/http_request.h"
#include "engine/admin/http_response.h"
#include "engine/base/clock.h"
#include "engine/metrics/counter.h"
#include "engine/metrics/metric_registry.h"
#include "engine/network/request/request_handler.h"

namespace gyre {

// Who may change flags over HTTP.
enum class AdminWrites : uint8_t { kLoopback, kAny, kNone };
// "loopback", "any" or "none"; false for anything else.
bool ParseAdminWrites(absl::string_view text, AdminWrites* out);

class AdminHandler final : public RequestHandler {
 public:
  // `metrics` may be null.
  AdminHandler(AdminSource& source, const HttpLimits& limits, AdminWrites writes,
               const Clock& clock, MetricRegistry* metrics);

  void Start(RequestPtr request) override;

  // The answer to a request from `peer` ("127.0.0.1:50312").
  HttpResponse Answer(const HttpRequest& request, absl::string_view peer);

 private:
  HttpResponse Flags(const HttpRequest& request, absl::string_view peer);
  HttpResponse SetFlag(const HttpRequest& request, absl::string_view peer);
  HttpResponse Connections(const HttpRequest& request);
  HttpResponse Version(const HttpRequest& request);

  // A write may take its time; a third one waits for no handler, of which the pages need
  // some.
  static constexpr int kMaxWritesUnderWay = 2;

  AdminSource& source_;
  const HttpLimits limits_;
  const AdminWrites writes_;
  const Clock& clock_;
  std::atomic<int> writes_under_way_{0};
  Counter requests_;
  Counter refused_;
};

}  // namespace gyre

#endif  // GYRE_ENGINE_ADMIN_ADMIN_HANDLER_H_
