#include "engine/network/network_metrics.h"

namespace gyre {

NetworkMetrics::NetworkMetrics(MetricRegistry* registry) : registry_(registry) {
  if (registry == nullptr) return;
  response_queue_cells_ = std::make_unique<ThreadCells>(kMaxResponseQueues);
  MetricRegistry& r = *registry;
  connections_accepted =
      r.AddCounter("network_connections_accepted_total", "Connections accepted and served.");
  connections_closed = r.AddCounter("network_connections_closed_total", "Connections closed.");
  connections_refused_per_address =
      r.AddCounter("network_connections_refused_per_ip_total",
                   "Connections closed at once because their address had its maximum.");
  connections_throttled_per_address =
      r.AddCounter("network_connections_throttled_per_ip_total",
                   "Connections held and then closed because their address made too many.");
  connections_shed = r.AddCounter("network_connections_shed_total",
                                  "Connections closed because max_connections was exceeded.");
  connections_expired =
      r.AddCounter("network_connections_expired_total", "Connections closed as idle.");
  accept_pauses = r.AddCounter("network_accept_pauses_total",
                               "Times an acceptor paused: no descriptors, a maximum or a rate.");
  connections_migrated = r.AddCounter("network_connections_migrated_total",
                                      "Connections moved from one processor to another.");
  bytes_received = r.AddCounter("network_received_bytes_total", "Bytes received.");
  bytes_sent = r.AddCounter("network_sent_bytes_total", "Bytes handed to the kernel to send.");
  frames_received = r.AddCounter("network_frames_received_total", "Whole frames received.");
  frames_invalid =
      r.AddCounter("network_frames_invalid_total", "Connections closed for a bad frame.");
  receive_starved =
      r.AddCounter("network_receive_starved_total", "Receives that found no provided buffer.");
  receive_copied_out =
      r.AddCounter("network_receive_copied_out_total",
                   "Receives copied out because half of the provided buffers were lent.");
  receive_cancelled = r.AddCounter("network_receive_cancelled_total",
                                   "Receives stopped at the receive-ahead bound.");
  requests_parked = r.AddCounter("network_requests_parked_total",
                                 "Runs that found the request channel full and waited.");
  requests_yielded =
      r.AddCounter("network_requests_yielded_total",
                   "Times a connection with more requests at hand let the others go first.");
  throttles = r.AddCounter("network_throttles_total", "Requests that throttled their connection.");
  memory_waits = r.AddCounter("network_memory_waits_total",
                              "Connections that waited for the request memory budget.");
  file_bytes_copied =
      r.AddCounter("network_file_copied_bytes_total", "File bytes sent from a buffer.");
  file_bytes_sendfile =
      r.AddCounter("network_file_sendfile_bytes_total", "File bytes sent by sendfile.");
  file_bytes_spliced =
      r.AddCounter("network_file_spliced_bytes_total", "File bytes sent through a pipe.");
  file_pipes_exhausted = r.AddCounter("network_file_pipes_exhausted_total",
                                      "Cold chunks copied because no pipe was free.");
  file_sends_short = r.AddCounter("network_file_short_sends_total",
                                  "Sendfiles and splices that the socket took a part of, or "
                                  "nothing, and that waited for their reader.");
  responses_stalled = r.AddCounter(
      "network_responses_stalled_total",
      "Connections closed because they did not read while others waited for their memory.");
  responses_shed = r.AddCounter(
      "network_responses_shed_total",
      "Connections closed because answers nobody read took more than memory_limit_bytes allows.");
  partials_broken = r.AddCounter(
      "network_partial_requests_broken_total",
      "Connections closed because an unfinished request held memory that others waited for.");
  zero_copy_sends = r.AddCounter("network_zero_copy_sends_total", "Sends by zero copy.");
  zero_copy_copied =
      r.AddCounter("network_zero_copy_copied_total",
                   "Zero-copy sends of which the kernel says that it copied them after all.");
  zero_copy_resets =
      r.AddCounter("network_zero_copy_resets_total",
                   "Connections reset because the peer did not acknowledge pinned bytes in time.");
  zero_copy_pinned_bytes =
      r.AddGauge("network_zero_copy_pinned_bytes", "Bytes lent to the kernel by zero copy.");
  response_memory_bytes =
      r.AddGauge("network_response_memory_bytes",
                 "Bytes in memory of answers, and of requests received ahead of their turn, where "
                 "memory_limit_bytes bounds them.");
  connections = r.AddGauge("network_connections", "Connections that are open.");
  throttled_connections =
      r.AddGauge("network_throttled_connections", "Connections that are throttled.");
}

Gauge NetworkMetrics::MakeResponseQueueSize() {
  MutexLock lock(mutex_);
  if (response_queue_cells_ == nullptr) return Gauge();
  return Gauge(response_queue_cells_.get(), response_queue_cells_->Allocate(1));
}

}  // namespace gyre
