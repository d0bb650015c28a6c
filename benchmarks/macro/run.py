#!/usr/bin/python3
"""What does Gyre cost beside the least program that does the same job? Started by tools/dev/bench.

  run.py --binaries DIR [--gyred PATH] [--echo_server PATH] [--rounds N] [--out FILE] [--kafka PORT:PID]

Every figure is CPU time of the server process (all its threads) for a unit of work, server pinned
to core 0 and client to core 1, over loopback with congestion control reno on both ends. Each round
measures every candidate in turn, in an order that rotates; the ratio is the median of the rounds'
ratios. Writes [{name, ours, peer, ratio, target, unit}] as JSON to FILE and a table with the spread
of every figure beside it. Nothing here passes or fails by a time.
"""
import argparse
import json
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "interop"))
import kafka_wire as wire  # noqa: E402

SERVER_CORE, CLIENT_CORE = 0, (1 if os.cpu_count() > 1 else 0)


class Server:
    """A process pinned to the server's core; its port is read from the line it prints."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(["taskset", "-c", str(SERVER_CORE)] + command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        seen, deadline = b"", time.monotonic() + 30
        while time.monotonic() < deadline:
            if select.select([self.process.stdout], [], [], 0.5)[0]:
                part = os.read(self.process.stdout.fileno(), 4096)
                seen += part
                match = re.search(rb"listening on \S*?127\.0\.0\.1:(\d+)\n", seen)
                if match:
                    self.port, self.pid = int(match.group(1)), self.process.pid
                    return
                if not part:
                    break
        self.stop()
        raise RuntimeError("%s did not start: %r" % (" ".join(command), seen))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Bench:
    def __init__(self, options):
        self.options = options
        self.rows, self.table = [], []

    def client(self, program, port, pid, **flags):
        command = ["taskset", "-c", str(CLIENT_CORE), os.path.join(self.options.binaries, program),
                   "--port=%d" % port, "--server_pid=%d" % pid]
        command += ["--%s=%s" % pair for pair in flags.items()]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if result.returncode != 0:
            raise RuntimeError("%s: %s" % (program, result.stderr.decode().strip()))
        return json.loads(result.stdout)

    def rounds(self, candidates, count):
        """{name: [result a round]} of {name: function}, interleaved; the first round is dropped."""
        results = {name: [] for name in candidates}
        names = list(candidates)
        for number in range(count + 1):
            for name in names[number % len(names):] + names[:number % len(names)]:
                result = candidates[name]()
                if number > 0:
                    results[name].append(result)
        return results

    def add(self, name, unit, ours, peer, target, note=""):
        """ours and peer: the figure of each round, in the same order; peer may be None."""
        pairs = [a / b for a, b in zip(ours, peer)] if peer else []
        row = {"name": name, "ours": round(statistics.median(ours), 3),
               "peer": round(statistics.median(peer), 3) if peer else None,
               "ratio": round(statistics.median(pairs), 3) if pairs else None,
               "target": target, "unit": unit}
        self.rows.append(row)
        spread = lambda values: "%.2f..%.2f" % (min(values), max(values)) if values else "-"
        self.table.append("%-52s %9.2f (%s) %9s (%s)  ratio %s (%s)  %s%s" % (
            name, row["ours"], spread(ours), row["peer"] if peer else "-", spread(peer), row["ratio"] or "-",
            spread(pairs), unit, "  " + note if note else ""))
        print(self.table[-1], flush=True)

    # -- echo --

    def echo(self):
        path = lambda name: os.path.join(self.options.binaries, name)
        servers = [Server("epoll", [path("epoll_echo")]), Server("uring", [path("uring_echo")]),
                   Server("epoll again", [path("epoll_echo")])]
        if self.options.echo_server:
            servers.append(Server("ours", [self.options.echo_server, "--port=0", "--num_network_threads=1",
                                           "--dispatch=inline", "--socket_congestion_control=reno"]))
        try:
            results = self.rounds({s.name: lambda s=s: self.client("echo_client", s.port, s.pid)
                                   for s in servers}, self.options.rounds)
        finally:
            for server in servers:
                server.stop()
        cost = {name: [r["server_cpu_us"] / r["operations"] for r in rs] for name, rs in results.items()}
        for name, rs in results.items():
            rate = statistics.median(r["operations"] / r["seconds"] for r in rs)
            busy = statistics.median(r["client_cpu_us"] / r["seconds"] / 1e6 for r in rs)
            self.table.append("    echo %-12s %7.0f echoes/s, client core busy %3.0f %%" % (name, rate, busy * 100))
            print(self.table[-1], flush=True)
        unit = "server CPU us per 128-byte echo"
        if "ours" in cost:
            self.add("echo, 64 connections, vs minimal epoll", unit, cost["ours"], cost["epoll"], 1.0)
            self.add("echo, 64 connections, vs minimal io_uring", unit, cost["ours"], cost["uring"], 1.2)
        else:
            self.add("echo peers: minimal io_uring vs minimal epoll", unit, cost["uring"], cost["epoll"], None)
        self.add("noise: the epoll peer vs itself", unit, cost["epoll again"], cost["epoll"], None)

    # -- produce and fetch --

    def topic(self, port, name, partitions):
        with wire.Connection(port) as connection:
            error = connection.create_topic(name, partitions)
            if error:
                raise RuntimeError("CreateTopics %s: error %d" % (name, error))
            deadline = time.monotonic() + 10
            while any(connection.list_offset(name, p, -1)[0] for p in range(partitions)):
                if time.monotonic() > deadline:
                    raise RuntimeError("topic %s has no leader" % name)
                time.sleep(0.05)

    def remove(self, port, name):
        with wire.Connection(port) as connection:
            connection.delete_topic(name)

    def brokers(self, scratch):
        """[(name, port, pid)]: gyred, and an Apache Kafka if one was named."""
        self.server = Server("ours", [self.options.gyred, "--listeners=PLAINTEXT://127.0.0.1:0",
                                      "--log_dirs=" + os.path.join(scratch, "data"), "--num_network_threads=1",
                                      "--num_io_threads=2", "--socket_congestion_control=reno"])
        found = [("ours", self.server.port, self.server.pid)]
        if self.options.kafka:
            port, pid = map(int, self.options.kafka.split(":"))
            found.append(("kafka", port, pid))
        return found

    def produce(self, brokers):
        serial = [0]

        def once(port, pid, records, acks):
            serial[0] += 1
            topic = "produce-%d-%d" % (os.getpid(), serial[0])
            self.topic(port, topic, 8)
            try:
                return self.client("broker_client", port, pid, mode="produce", topic=topic, connections=8,
                                   acks=acks, records=records, megabytes=self.options.megabytes)
            finally:
                self.remove(port, topic)

        for records in (16, 1000):
            for acks in (1, -1):
                results = self.rounds({name: lambda port=port, pid=pid: once(port, pid, records, acks)
                                       for name, port, pid in brokers}, max(3, self.options.rounds // 2))
                cost = {name: [r["server_cpu_us"] / (r["bytes"] / 1e6) for r in rs] for name, rs in results.items()}
                rate = statistics.median(r["bytes"] / r["seconds"] / 1e6 for r in results["ours"])
                self.add("produce 1 KiB, %d a batch, acks=%s%s" % (records, "all" if acks < 0 else acks,
                         ", vs Apache Kafka" if "kafka" in cost else ""), "server CPU us per MB",
                         cost["ours"], cost.get("kafka"), 0.2 if "kafka" in cost else None,
                         "%.0f MB/s, %.0f MB per CPU-second" % (rate, 1e6 / statistics.median(cost["ours"])))

    def fetch(self, brokers, scratch):
        port, pid = brokers[0][1:]
        self.topic(port, "hot", 1)
        self.client("broker_client", port, pid, mode="produce", topic="hot", connections=1, acks=1,
                    warmup_megabytes=0, megabytes=128)
        segment = os.path.join(scratch, "data", "hot-0", "0" * 20 + ".log")
        size = os.path.getsize(segment)
        peer = Server("sendfile", [os.path.join(self.options.binaries, "sendfile_server"), "--file=" + segment])
        try:
            for size_kib in (64, 1024):
                common = dict(connections=4, fetch_bytes=size_kib << 10, megabytes=self.options.megabytes * 4)
                results = self.rounds({
                    "ours": lambda: self.client("broker_client", port, pid, mode="fetch", topic="hot", **common),
                    "sendfile": lambda: self.client("broker_client", peer.port, peer.pid, mode="ranges",
                                                    file_bytes=size, **common)}, self.options.rounds)
                cost = {name: [r["server_cpu_us"] / (r["bytes"] / 1e6) for r in rs] for name, rs in results.items()}
                rate = statistics.median(r["bytes"] / r["seconds"] / 1e6 for r in results["ours"])
                self.add("fetch of hot pages, %d KiB a request, vs a sendfile loop" % size_kib,
                         "server CPU us per MB", cost["ours"], cost["sendfile"], 1.2, "%.0f MB/s" % rate)
        finally:
            peer.stop()


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    read = lambda path: open(path).read().strip() if os.path.exists(path) else "unknown"
    return ("%s, %d CPUs, Linux %s; loopback (mtu %s, no NIC, zero copy is a copy), congestion control reno; "
            "server on core %d, client on core %d; governor %s, steal included. Ratios carry over to other "
            "machines better than figures do." %
            (model.group(1) if model else platform.machine(), os.cpu_count(), platform.release(),
             read("/sys/class/net/lo/mtu"), SERVER_CORE, CLIENT_CORE,
             read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True)
    parser.add_argument("--gyred")
    parser.add_argument("--echo_server")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=128, help="payload of one produce round")
    parser.add_argument("--out", required=True)
    parser.add_argument("--kafka", help="PORT:PID of an Apache Kafka to produce to in the same rounds")
    parser.add_argument("--only", help="echo, produce or fetch")
    options = parser.parse_args()
    wanted = [options.only] if options.only else ["echo", "produce", "fetch"]
    bench = Bench(options)
    print(machine() + "\n", flush=True)
    if "echo" in wanted:
        bench.echo()
    if options.gyred and ("produce" in wanted or "fetch" in wanted):
        with tempfile.TemporaryDirectory(prefix="gyre-bench-") as scratch:
            brokers = bench.brokers(scratch)
            try:
                if "fetch" in wanted:
                    bench.fetch(brokers, scratch)
                if "produce" in wanted:
                    bench.produce(brokers)
            finally:
                bench.server.stop()
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    with open(options.out, "w") as file:
        json.dump(bench.rows, file, indent=1)
        file.write("\n")
    with open(os.path.splitext(options.out)[0] + ".txt", "w") as file:
        file.write(machine() + "\n\nmedian (lowest..highest round) of ours, of the peer, of the rounds' ratios\n\n" +
                   "\n".join(bench.table) + "\n")
    print("\nwritten: %s and its .txt" % options.out)


if __name__ == "__main__":
    main()
