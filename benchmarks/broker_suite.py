"""The whole broker: produce, and fetch of pages in the cache. Informative beside the engine's own
rows; with --kafka PORT:PID produce is compared with an Apache Kafka that runs already."""
import os
import statistics
import sys
import time

from harness import Server, Unavailable
from file_suite import scratch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "interop"))
import kafka_wire as wire  # noqa: E402


class Other:
    """A broker that somebody else started."""

    def __init__(self, name, port, pid):
        self.name, self.port, self.pid = name, port, pid


def topic(port, name, partitions):
    with wire.Connection(port) as connection:
        error = connection.create_topic(name, partitions)
        if error:
            raise RuntimeError("CreateTopics %s: error %d" % (name, error))
        deadline = time.monotonic() + 10
        while any(connection.list_offset(name, p, -1)[0] for p in range(partitions)):
            if time.monotonic() > deadline:
                raise RuntimeError("topic %s has no leader" % name)
            time.sleep(0.05)


def broker(suite, directory):
    if not suite.options.gyred:
        raise Unavailable("no gyred was given")
    return Server("ours", [suite.options.gyred, "--listeners=PLAINTEXT://127.0.0.1:0",
                           "--log_dirs=" + os.path.join(directory, "data"), "--num_network_threads=1",
                           "--num_io_threads=2", "--socket_congestion_control=reno"])


def megabytes(suite):
    return 4 if suite.options.smoke else 32 if suite.options.quick else 128


def per_megabyte(results):
    return [r["server_cpu_us"] / (r["bytes"] / 1e6) for r in results]


def produce(suite):
    """What does a Produce cost (1 KiB records, 16 and 1000 a batch, acks 1 and all)?"""
    serial = [0]

    def once(server, records, acks):
        serial[0] += 1
        name = "produce-%d-%d" % (os.getpid(), serial[0])
        topic(server.port, name, 8)
        try:
            return suite.client("broker_client", server, mode="produce", topic=name, connections=8, acks=acks,
                                records=records, megabytes=megabytes(suite))
        finally:
            with wire.Connection(server.port) as connection:
                connection.delete_topic(name)
    with scratch(suite) as directory, broker(suite, directory) as server:
        brokers = [server]
        if suite.options.kafka:
            brokers.append(Other("kafka", *map(int, suite.options.kafka.split(":"))))
        for records in (16, 1000):
            for acks in (1, -1):
                got = suite.rounds({b.name: lambda b=b: once(b, records, acks) for b in brokers}, divide=2)
                cost = {name: per_megabyte(results) for name, results in got.items()}
                rate = statistics.median(r["bytes"] / r["seconds"] / 1e6 for r in got["ours"])
                suite.add("produce 1 KiB, %d a batch, acks=%s" % (records, "all" if acks < 0 else acks),
                          "server CPU us per MB", cost["ours"], cost.get("kafka"), 0.2 if "kafka" in cost else None,
                          True, "Apache Kafka" if "kafka" in cost else "nothing",
                          "%.0f MB/s, %.0f MB per CPU second" % (rate, 1e6 / statistics.median(cost["ours"])))


def fetch(suite):
    """What does a Fetch of pages in the cache cost beside a header and sendfile of the same ranges?"""
    with scratch(suite) as directory, broker(suite, directory) as server:
        topic(server.port, "hot", 1)
        suite.client("broker_client", server, mode="produce", topic="hot", connections=1, acks=1, warmup_megabytes=0,
                     megabytes=megabytes(suite))
        segment = os.path.join(directory, "data", "hot-0", "0" * 20 + ".log")
        with suite.peer("sendfile_server", file=segment) as peer:
            for size, title in ((64 << 10, "64 KiB"), (1 << 20, "1 MiB")):
                common = dict(connections=4, fetch_bytes=size, megabytes=megabytes(suite) * 4)
                got = suite.rounds({
                    "ours": lambda: suite.client("broker_client", server, mode="fetch", topic="hot", **common),
                    "peer": lambda: suite.client("broker_client", peer, mode="ranges",
                                                 file_bytes=os.path.getsize(segment), **common)}, divide=2)
                rate = statistics.median(r["bytes"] / r["seconds"] / 1e6 for r in got["ours"])
                suite.add("fetch of hot pages, %s, vs header + sendfile" % title, "server CPU us per MB",
                          per_megabyte(got["ours"]), per_megabyte(got["peer"]), None, True, "peers/sendfile_server",
                          "%.0f MB/s; a Fetch also parses, finds offsets and changes threads" % rate)


BENCHMARKS = {"fetch": fetch, "produce": produce}
