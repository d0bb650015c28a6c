-- Makes wrk end with one line of JSON, as the load clients of this directory do.
function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format(
    '{"operations": %d, "bytes": %d, "seconds": %.6f, "p99_us": %d, "errors": %d}',
    summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
