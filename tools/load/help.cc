#include "tools/load/help.h"

namespace gyre::load {

std::string HelpText() {
  return R"(gyre_load: load for a Kafka broker or an echo server, measured without lies.

  What it does not do: stop the clock while the server stalls, clip a histogram, count
  the warm-up, lose connections without a word, or call a run good that was not. Every
  run ends in VALID or INVALID with the reasons. Exit code: 0 valid, 1 invalid, 2 could
  not run.

Examples
  # How fast can it go? (closed loop: as much as 4 connections with 5 batches each hold)
  gyre_load --workload=produce --brokers=127.0.0.1:9092 --connections=4

  # How long do 20,000 records a second take, measured from when each was due?
  gyre_load --workload=produce --brokers=127.0.0.1:9092 --rate=20000 --arrivals=poisson

  # From the producer's intent to the consumer's hand, with a page to show around
  gyre_load --workload=end-to-end --brokers=127.0.0.1:9092 --rate=5000 \
            --report=out.html --metrics_url=http://127.0.0.1:9404/metrics

  # The highest rate that keeps 99 % below 10 ms
  gyre_load --workload=produce --brokers=127.0.0.1:9092 --find_max --p99_ms=10

  # Does it lose records when killed? (kill -9 and restart it meanwhile)
  gyre_load --workload=produce --brokers=127.0.0.1:9092 --rate=2000 --acks=all \
            --duration=1m --allow_reconnects

  # Read what is there, round and round
  gyre_load --workload=consume --brokers=127.0.0.1:9092 --at_end=rewind

  # An engine's echo server; connection churn; ten thousand idle connections
  gyre_load --workload=echo --brokers=127.0.0.1:7007 --connections=64 --record_size=128
  gyre_load --workload=connect --brokers=127.0.0.1:7007 --rate=1000
  gyre_load --workload=idle --brokers=127.0.0.1:7007 --connections=10000 --server_pid=PID

  # Did it get better?
  gyre_load ... --json=before.json;  gyre_load ... --json=after.json
  gyre_load --compare before.json after.json

What to do
  --workload            echo, produce, consume, end-to-end, connect, idle or mixed
  --brokers             HOST:PORT[,HOST:PORT...] to start from
  --scenario            mixed: a file of [name] sections with one flag=value a line; each
                        section is a workload, and all run at once

How much, how long
  --rate                operations (records, echoes, connects) per second over all threads:
                        open loop, measured from the intended start. 0: closed loop (0)
  --arrivals            of an open loop: constant or poisson (constant)
  --duration            measured time: 500ms, 10s, 2m (10s)
  --warmup              before it, sent and checked and not measured (2s)
  --drain               how long to wait for the last answers (30s)
  --timeout             looking names up, connecting, setting up, and one request (10s)
  --threads             each with a ring of its own (1)
  --connections         echo, idle, connect: connections, or connects at once; produce:
                        producers; consume: consumers; over all threads (1)
  --pipeline            requests under way on one connection (1 for echo, 5 for Kafka)
  --seed                of everything random (1)

Records
  --record_size         N, uniform:MIN:MAX or lognormal:MEDIAN:SIGMA:MAX bytes (1024)
  --payload_file        replay the lines of this file instead
  --keys                number of different keys; 0: records without one (0)

Producing
  --topic               (gyre_load)
  --create_topic        make it if it is not there (true)
  --partitions          of a topic that is made (6)
  --replication_factor  of a topic that is made (1)
  --acks                all, 1 or 0 (all)
  --idempotence         auto (if the broker offers it and acks=all), on or off (auto)
  --compression         none, gzip, snappy, lz4 or zstd (none)
  --batch_bytes         a batch leaves when it has these (16384)
  --batch_records       or these; 0: by bytes alone (0)
  --linger              or when its first record has waited so long (0)
  --buffer_bytes        records that wait, per producer; then the schedule is held up (32 MiB)

Consuming
  --from                earliest or latest (earliest)
  --at_end              stop, wait or rewind (stop)
  --fetch_max_bytes, --fetch_partition_bytes, --fetch_min_bytes, --fetch_max_wait_ms
                        as a consumer sends them (8 MiB, 1 MiB, 1, 500)

Connecting
  --round_trip          connect: also send one request and wait for its answer (true)
  --reset               connect: close by a reset, which leaves no TIME_WAIT (false)
  --server_pid          idle: whose memory to report

What makes a run valid
  --verify              read everything back and look for lost, duplicated, reordered and
                        corrupted records (true)
  --allow_reconnects    a lost connection is repaired and reported, not held against the
                        run (false)
  --min_rate_percent    of --rate that must be reached (99)

Finding the highest rate
  --find_max            search for it; --rate is where the search starts (1000)
  --p99_ms              the bound on the 99th percentile
  --step                how long each step measures (5s)

Output
  --progress            the line that moves: auto (on a terminal), on or off (auto)
  --json                write everything to this file; - is standard output
  --report              write one self-contained HTML page
  --metrics_url         the broker's metrics, fetched before and after: http://HOST:PORT/PATH
  --compare A B         ratios of two JSON files (each may be a comma-separated list of
                        rounds) with their spread; runs nothing

This program
  --uring_disable       io_uring features to do without, comma-separated, or all
  --help
)";
}

}  // namespace gyre::load
