// gyred behind its admin pages: the flags, the broker server's state, its connections and
// metrics. The listener opens before the broker recovers and closes after it has drained.
//
// Threads: OnServing, OnDraining and Stop the main thread; the pages any.
// Owns: the admin server.  Borrows: the flags, the registry, and the broker server between
// OnServing and OnDraining.
#ifndef GYRE_TOOLS_GYRED_GYRED_ADMIN_H_
#define GYRE_TOOLS_GYRED_GYRED_ADMIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/admin/admin_server.h"
#include "engine/admin/admin_source.h"
#include "engine/concurrent/mutex.h"
#include "engine/metrics/metric_registry.h"
#include "engine/metrics/process_collector.h"
#include "tools/gyred/broker_server.h"
#include "tools/gyred/flags/flag_registry.h"

namespace gyre {

class GyredAdmin final : public AdminSource {
 public:
  GyredAdmin(FlagRegistry& flags, MetricRegistry& metrics, std::string version);
  ~GyredAdmin() override;

  // Opens the listener that `options` ask for, or takes `adopted`, the socket of a process
  // that is taken over. An error is one actionable line.
  absl::Status Start(const AdminListenerOptions& options, uring::FeatureSet hidden,
                     std::vector<ListenSocket> adopted = {});
  // To hand over; none without a listener.
  absl::StatusOr<std::vector<ListenSocket>> DuplicateListenSockets();
  // "127.0.0.1:9644", as bound; only after a Start that was asked for one.
  std::string Address() const;
  bool listening() const { return server_ != nullptr; }

  // `server` serves clients from now on.
  void OnServing(BrokerServer& server);
  // It stops accepting and does not serve any more; returns when nothing here uses it.
  void OnDraining();
  void Stop();

  // AdminSource.
  std::string Metrics() override;
  absl::Status Health() override;
  absl::Status Ready() override;
  AdminVersion Version() override;
  std::vector<AdminFlag> Flags() override;
  absl::Status SetFlag(absl::string_view name, absl::string_view value) override;
  std::vector<ConnectionInfo> Connections(size_t max_count, int64_t* open_count) override;

 private:
  FlagRegistry& flags_;
  MetricRegistry& metrics_;
  AdminVersion version_;
  ProcessCollector process_;
  std::unique_ptr<AdminServer> server_;

  // The broker server for as long as one page needs it; null while none serves.
  class InUse {
   public:
    explicit InUse(GyredAdmin& admin);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    explicit operator bool() const { return server_ != nullptr; }
    BrokerServer* operator->() const { return server_; }
    BrokerServer& operator*() const { return *server_; }

   private:
    GyredAdmin& admin_;
    BrokerServer* server_ = nullptr;
  };

  Mutex mutex_;
  CondVar unused_;
  int users_ ABSL_GUARDED_BY(mutex_) = 0;
  BrokerServer* serving_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const char* phase_ ABSL_GUARDED_BY(mutex_) = "recovering";
};

}  // namespace gyre

#endif  // GYRE_TOOLS_GYRED_GYRED_ADMIN_H_
