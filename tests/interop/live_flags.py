"""Every flag that /flags calls live, set there while clients run: not that the value is kept, but
what it does. A live flag without a test here is a failure.
"""
import contextlib
import glob
import json
import os
import re
import select
import time

import kafka_wire as wire
from admin_pages import AdminGyred, PATIENCE_SECONDS, ask, say_hello, until
from harness import Trickle, check, check_equal

# A rate lets one second's worth pass at once.
FLAGS = ["--quota_window_num=2"]


def connect(server): return wire.Connection(server.port, timeout=PATIENCE_SECONDS)


def put(server, flag, value):
    check_equal(ask(server, "PUT", "/flags/" + flag, str(value)),
                (200, "%s=%s\n" % (flag, value)), "PUT")


def value_of(server, flag):
    flags = json.loads(ask(server, "GET", "/flags", headers={"Accept": "application/json"})[1])
    return next(entry["value"] for entry in flags if entry["name"] == flag)


@contextlib.contextmanager
def changed(server, flag, value):
    before = value_of(server, flag)
    put(server, flag, value)
    try:
        yield
    finally:
        put(server, flag, before)


def metric(server, name):
    """The sum over all labels."""
    text = ask(server, "GET", "/metrics")[1]
    return sum(float(found) for found in re.findall(r"(?m)^%s(?:\{[^}]*\})? (\S+)$" % re.escape(name), text))


def nobody_is_there(server):
    until("no connection", lambda: metric(server, "network_connections") == 0)


def is_silent(connection, seconds=0.1):
    return not select.select([connection.socket], [], [], seconds)[0]


def served(connection):
    check_equal(connection.api_versions()[0], 0, "ApiVersions")


def ask_early(connection):
    connection.send(wire.API_VERSIONS, 0, b"")


def answered(connection):
    connection.receive()


# ---- connections ------------------------------------------------------------------------------

def connections_max_idle_ms(server):
    with connect(server) as connection:
        with changed(server, "connections_max_idle_ms", 100):
            check(connection.closed_within(PATIENCE_SECONDS), "the idle connection stays")


def socket_request_max_bytes(server):
    large = wire.int32(100_000)
    received = lambda: metric(server, "network_received_bytes_total")
    with connect(server) as before, connect(server) as after:
        earlier = received()
        before.send_raw(large)
        until("its length is there", lambda: received() >= earlier + len(large))
        with changed(server, "socket_request_max_bytes", 99_999):
            after.send_raw(large)
            check(after.closed_within(PATIENCE_SECONDS), "one byte too many is waited for")
            # Its length had come before; that request is waited for.
            check(is_silent(before), "what was good when it came is closed")
            with connect(server) as small:
                served(small)


def second_one_waits(server, flag, value):
    """With the value the second connection is accepted only when the value is taken back."""
    nobody_is_there(server)
    with connect(server) as first:
        served(first)
        with changed(server, flag, value):
            second = connect(server)
            ask_early(second)
            check(is_silent(second), "the second is served")
            served(first)
        answered(second)
        second.close()


def second_one_is_closed(server, flag, value):
    nobody_is_there(server)
    with connect(server) as first:
        served(first)
        with changed(server, flag, value):
            with connect(server) as second:
                check(second.closed_within(PATIENCE_SECONDS), "the second stays")
            served(first)
        with connect(server) as third:
            served(third)


def max_connections(server):
    second_one_waits(server, "max_connections", 1)
    # Lowered, it sheds.
    connections = [connect(server) for _ in range(4)]
    for connection in connections:
        served(connection)
    with changed(server, "max_connections", 2):
        until("two are left", lambda: metric(server, "network_connections") == 2)
    for connection in connections:
        connection.close()


def max_connections_per_ip(server):
    second_one_is_closed(server, "max_connections_per_ip", 1)


def max_connections_per_ip_overrides(server):
    second_one_is_closed(server, "max_connections_per_ip_overrides", "127.0.0.1:1,10.1.2.3:7")


def max_connection_creation_rate(server):
    held_up = "kafka_server_socket_server_metrics_connection_accept_throttle_total"
    before = metric(server, held_up)
    with changed(server, "max_connection_creation_rate", 1):
        connections = [connect(server) for _ in range(3)]
        for connection in connections:
            ask_early(connection)
        until("accepting waits", lambda: metric(server, held_up) > before)
    for connection in connections:
        answered(connection)
        connection.close()


def max_connection_creation_rate_per_ip(server):
    with changed(server, "max_connection_creation_rate_per_ip", 1):
        with connect(server) as first, connect(server) as second:
            served(first)
            check(second.closed_within(PATIENCE_SECONDS), "the second is served")
    with connect(server) as first, connect(server) as second:
        served(first)
        served(second)


def max_connection_creation_rate_per_ip_overrides(server):
    with changed(server, "max_connection_creation_rate_per_ip_overrides", "10.1.2.3:1,127.0.0.1:1"):
        with connect(server) as first, connect(server) as second:
            served(first)
            check(second.closed_within(PATIENCE_SECONDS), "the second is served")
    with changed(server, "max_connection_creation_rate_per_ip", 1):
        with changed(server, "max_connection_creation_rate_per_ip_overrides", "127.0.0.1:1000"):
            with connect(server) as first, connect(server) as second:
                served(first)
                served(second)


def listener_overrides(server):
    second_one_waits(server, "listener_overrides", "PLAINTEXT.max_connections=1")
    with changed(server, "listener_overrides", "PLAINTEXT.num_network_threads=2"):
        until("two processors", lambda: threads(server, "processor-") == 2)
    until("three processors again", lambda: threads(server, "processor-") == 3)


def drain_timeout_ms(binary, scratch):
    with AdminGyred(binary, os.path.join(scratch, "live-drain"),
                    ["--admin_listener=127.0.0.1:0", "--drain_timeout_ms=600000"]) as server:
        with Trickle(server.port):
            put(server, "drain_timeout_ms", 500)
            check_equal(server.stop(PATIENCE_SECONDS * 2), 0, "exit code")
            check("did not end in time" in server.stderr(), "it does not say that one was cut")


# ---- threads and lanes --------------------------------------------------------------------------

def threads(server, name):
    """Threads of the broker whose name begins so."""
    count = 0
    for path in glob.glob("/proc/%d/task/*/comm" % server.process.pid):
        with contextlib.suppress(OSError), open(path) as file:
            count += file.read().startswith(name)
    return count


def resized(server, flag, name, before, during):
    with connect(server) as connection:
        served(connection)
        check_equal(threads(server, name), before, "threads " + name)
        with changed(server, flag, during):
            until("%d threads %s" % (during, name), lambda: threads(server, name) == during)
            served(connection)
        until("%d again" % before, lambda: threads(server, name) == before)
        served(connection)


def num_network_threads(server):
    told_of = lambda: set(re.findall(r'(?m)^kafka_network_processor_idle_percent\{networkprocessor="(\d+)"\}',
                                     ask(server, "GET", "/metrics")[1]))
    resized(server, "num_network_threads", "processor-", 3, 5)
    until("those that are gone are not told of", lambda: len(told_of()) == 3)
    with changed(server, "num_network_threads", 4):
        until("the one that came is told of", lambda: len(told_of()) == 4)


def num_io_threads(server):
    resized(server, "num_io_threads", "handler-", 8, 12)


def request_lane_weights(server):
    # FairnessTest sees what handlers make of a lane's weight; here: that it gets there.
    weights = lambda: re.findall(r'(?m)^gyre_request_lane_weight\{lane="(\w+)"\} (\d+)$',
                                 ask(server, "GET", "/metrics")[1])
    before = weights()
    with changed(server, "request_lane_weights", "fetch:9,other:1"):
        check_equal(dict(weights()), {"control": "8", "produce": "4", "fetch": "9", "other": "1"}, "weights")
    check_equal(weights(), before, "weights afterwards")


def syncs_of_produces(server, count=48):
    """Log syncs while as many acks=all produces are sent at once on one connection."""
    topic = "live-pipelined"
    content = wire.batch([(None, b"x")])
    with connect(server) as connection:
        check(connection.create_topic(topic) in (wire.NONE, wire.TOPIC_ALREADY_EXISTS), "CreateTopics")
        check_equal(connection.produce(topic, 0, content)[0], 0, "produce")
        before = metric(server, "gyre_log_syncs")
        stream = b""
        for _ in range(count):
            frame = connection.header(wire.PRODUCE, 7) + connection.produce_body(topic, 0, content)
            stream += wire.int32(len(frame)) + frame
        connection.send_raw(stream)
        for _ in range(count):
            check_equal(connection.produce_result(connection.receive()[1], 7)[0], 0, "produce")
        return metric(server, "gyre_log_syncs") - before


def max_in_flight_requests_per_connection(server):
    # Alone in flight, each produce waits for a sync of its own; together, they share some.
    with changed(server, "max_in_flight_requests_per_connection", 1):
        check(syncs_of_produces(server) >= 48, "several were in flight")
    with changed(server, "max_in_flight_requests_per_connection", 64):
        shared = syncs_of_produces(server)
        check(shared < 48, "each was alone: %d syncs" % shared)
    return "%d syncs for 48 produces" % shared


def max_in_flight_bytes_per_connection(server):
    with changed(server, "max_in_flight_requests_per_connection", 64):
        with changed(server, "max_in_flight_bytes_per_connection", 1):
            check(syncs_of_produces(server) >= 48, "several were in flight")
        check(syncs_of_produces(server) < 48, "each was alone")


AHEAD_BYTES = 1_000_000


@contextlib.contextmanager
def much_sent_behind_a_request(server):
    """A fetch that waits, and behind it more than is received ahead by default."""
    topic = "live-ahead"
    with connect(server) as connection:
        connection.create_topic(topic)
        part = wire.int32(0) + wire.int64(0) + wire.int32(1 << 20)
        connection.send(wire.FETCH, 4, wire.int32(-1) + wire.int32(60_000) + wire.int32(1) + wire.int32(1 << 20) +
                        wire.int8(0) + wire.array([wire.string(topic) + wire.array([part])]))
        request = connection.header(wire.API_VERSIONS, 0)
        connection.socket.setblocking(False)
        stream, sent = (wire.int32(len(request)) + request) * (AHEAD_BYTES // len(request)), 0
        before = metric(server, "network_received_bytes_total")

        def received_ahead():
            nonlocal sent
            with contextlib.suppress(BlockingIOError):
                sent += connection.socket.send(stream[sent:])
            return metric(server, "network_received_bytes_total") - before
        yield received_ahead


def receive_ahead_bytes(server):
    with changed(server, "receive_ahead_bytes", 0):
        with much_sent_behind_a_request(server) as received_ahead:
            for _ in range(20):
                check(received_ahead() < AHEAD_BYTES / 2, "more is received than a buffer or two")
                time.sleep(0.01)
            put(server, "receive_ahead_bytes", 2 * AHEAD_BYTES)
            until("all is received ahead", lambda: received_ahead() >= AHEAD_BYTES)


# ---- how answers leave ----------------------------------------------------------------------------

TRANSFER_BYTES = 200_000
WAYS = ("copied", "sendfile", "spliced")


def ways_of_a_fetch(server):
    """The ways in which the records of one large fetch left."""
    topic = "live-transfer"
    with connect(server) as connection:
        if connection.create_topic(topic) == wire.NONE:
            content = wire.batch([(None, b"x" * TRANSFER_BYTES)])
            check_equal(connection.produce(topic, 0, content), (0, 0), "produce")
    count = lambda: {way: metric(server, "network_file_%s_bytes_total" % way) for way in WAYS}
    before = count()
    # A connection of its own: one on which the kernel copied sends no more by zero copy.
    with connect(server) as connection:
        check(len(connection.fetch(topic, 0, 0)[2]) > TRANSFER_BYTES, "the fetch brings less")
        connection.api_versions()
    after = count()
    return {way for way in WAYS if after[way] - before[way] >= TRANSFER_BYTES}


def file_transfer(server):
    for value, way in (("copy", "copied"), ("sendfile", "sendfile"), ("splice", "spliced")):
        with changed(server, "file_transfer", value):
            check_equal(ways_of_a_fetch(server), {way}, "file_transfer=" + value)


def file_copy_max_bytes(server):
    with changed(server, "file_transfer", "auto"):
        with changed(server, "file_copy_max_bytes", 1 << 20):
            check_equal(ways_of_a_fetch(server), {"copied"}, "with a larger one")
        with changed(server, "file_copy_max_bytes", 0):
            check("copied" not in ways_of_a_fetch(server), "it is copied with 0")


def has_zero_copy(server):
    return "send_zc" in re.search(r"io_uring on kernel.*; has ([^;\n]*)", server.stderr()).group(1)


def zero_copy_min_bytes(server):
    sends = lambda: metric(server, "network_zero_copy_sends_total")
    with changed(server, "file_transfer", "copy"):
        with changed(server, "zero_copy_min_bytes", -1):
            before = sends()
            ways_of_a_fetch(server)
            check_equal(sends(), before, "zero-copy sends with -1")
        with changed(server, "zero_copy_min_bytes", 1):
            ways_of_a_fetch(server)
            check(sends() > before or not has_zero_copy(server), "nothing is sent by zero copy")


def zero_copy_max_pinned_bytes(server):
    sends = lambda: metric(server, "network_zero_copy_sends_total")
    with changed(server, "file_transfer", "copy"), changed(server, "zero_copy_min_bytes", 1):
        with changed(server, "zero_copy_max_pinned_bytes", 0):
            before = sends()
            ways_of_a_fetch(server)
            check_equal(sends(), before, "zero-copy sends with 0")
        ways_of_a_fetch(server)
        check(sends() > before or not has_zero_copy(server), "nothing is sent by zero copy")


# ---- the log ------------------------------------------------------------------------------------

def slow_request_log_ms(server):
    with changed(server, "slow_request_log_ms", 0):
        with connect(server) as connection:
            say_hello(connection, "slow-test", "9")
            until("a line in the log", lambda: "slow request: ApiVersions version 3 took" in server.stderr())
    line = [l for l in server.stderr().splitlines() if "slow request: ApiVersions" in l][0]
    for part in ("request queue", "local", "remote", "throttle", "response queue", "response send",
                 "software slow-test 9"):
        check(part in line, "no %r in %r" % (part, line))


def minloglevel(server):
    with changed(server, "minloglevel", 1):
        put(server, "slow_request_log_ms", 86_399_999)
    put(server, "slow_request_log_ms", -1)
    until("information again", lambda: "--slow_request_log_ms is now -1" in server.stderr())
    check("is now 86399999" not in server.stderr(), "information is logged all the same")


OF_A_RUNNING_SERVER = [
    connections_max_idle_ms,
    file_copy_max_bytes,
    file_transfer,
    listener_overrides,
    max_connection_creation_rate,
    max_connection_creation_rate_per_ip,
    max_connection_creation_rate_per_ip_overrides,
    max_connections,
    max_connections_per_ip,
    max_connections_per_ip_overrides,
    max_in_flight_bytes_per_connection,
    max_in_flight_requests_per_connection,
    minloglevel,
    num_io_threads,
    num_network_threads,
    receive_ahead_bytes,
    request_lane_weights,
    slow_request_log_ms,
    socket_request_max_bytes,
    zero_copy_max_pinned_bytes,
    zero_copy_min_bytes,
]


def each_live_flag_has_a_test(server):
    flags = json.loads(ask(server, "GET", "/flags", headers={"Accept": "application/json"})[1])
    live = {flag["name"] for flag in flags if flag["live"]}
    tested = {test.__name__ for test in OF_A_RUNNING_SERVER + [drain_timeout_ms]}
    check_equal(sorted(live - tested), [], "live flags without a test")
    check_equal(sorted(tested - live), [], "tests of flags that are not live")
    return "%d of them" % len(live)


def each_live_flag_refuses_what_is_bad(server):
    for test in OF_A_RUNNING_SERVER + [drain_timeout_ms]:
        flag = test.__name__
        before = value_of(server, flag)
        for bad in ("carrier pigeon", "-9", "99999999999999999999"):
            status, text = ask(server, "PUT", "/flags/" + flag, bad)
            check_equal(status, 400, "PUT of %s to %s" % (bad, flag))
            check(flag in text and text.count("\n") == 1, "not one clear line: %r" % text)
        check_equal(value_of(server, flag), before, flag)


def run_all(runner, binary, scratch, flags):
    with AdminGyred(binary, os.path.join(scratch, "live"),
                    FLAGS + list(flags) + ["--admin_listener=127.0.0.1:0"]) as server:
        for test in [each_live_flag_has_a_test, each_live_flag_refuses_what_is_bad] + OF_A_RUNNING_SERVER:
            runner.run("live_flags/" + test.__name__, test, server)
    runner.run("live_flags/drain_timeout_ms", drain_timeout_ms, binary, scratch)
