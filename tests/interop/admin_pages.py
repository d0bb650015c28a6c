"""The admin listener of a gyred that works: pages, live flags, bad HTTP, and the text of /metrics.

http.client and curl for what is well-formed, raw sockets for what is not.
"""
import http.client
import json
import os
import re
import select
import shutil
import socket
import subprocess
import threading
import time

import kafka_wire as wire
from clients import create
from harness import Gyred, Skip, check, check_equal

PATIENCE_SECONDS = 20


class AdminGyred(Gyred):
    """A gyred with an admin listener on a port of its own choice."""

    def start(self):
        super().start()
        # The admin pages are up, and announced, before the broker's listener is.
        match = re.search(rb"^gyred: admin pages on http://127\.0\.0\.1:(\d+)$", self.said, re.M)
        check(match, "no line about the admin pages in %r" % self.said)
        self.admin_port = int(match.group(1))


def ask(server, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def raw(server, content, shut=False):
    """Everything the server answers to these bytes until it closes or stays silent."""
    with socket.create_connection(("127.0.0.1", server.admin_port), timeout=PATIENCE_SECONDS) as peer:
        try:
            peer.sendall(content)
            if shut:
                peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It answered and closed before it had everything.
        answer = b""
        try:
            while True:
                part = peer.recv(65536)
                if not part:
                    return answer
                answer += part
        except OSError:
            return answer


def until(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that: " + what)


def say_hello(connection, name, version):
    """ApiVersions 3, the first that names the client's software."""
    body = wire.compact_string(name) + wire.compact_string(version) + b"\0"
    reader = connection.request(wire.API_VERSIONS, 3, body, flexible=True)
    check_equal(reader.int16(), 0, "the error of ApiVersions")


def pages_answer(server):
    check_equal(ask(server, "GET", "/health"), (200, "well\n"), "/health")
    check_equal(ask(server, "GET", "/ready"), (200, "ready\n"), "/ready")
    version = json.loads(ask(server, "GET", "/version")[1])
    check_equal(version["program"], "gyred", "program")
    check(version["kernel"] and version["io_uring"], "no kernel in %r" % version)
    flags = json.loads(ask(server, "GET", "/flags", headers={"Accept": "application/json"})[1])
    check({"listeners", "connections_max_idle_ms"} <= {flag["name"] for flag in flags}, "flags are missing")
    check(any(flag["live"] for flag in flags), "no flag is live")
    check_equal(ask(server, "GET", "/nope")[0], 404, "an unknown path")
    check_equal(ask(server, "HEAD", "/metrics"), (200, ""), "HEAD")


def curl_reads_and_writes(server):
    if not shutil.which("curl"):
        raise Skip("no curl")
    url = "http://127.0.0.1:%d" % server.admin_port
    run = lambda *arguments: subprocess.run(["curl", "-s", "-m", "20"] + list(arguments),
                                            stdout=subprocess.PIPE, check=True).stdout.decode()
    check("drain_timeout_ms" in run(url + "/flags"), "/flags by curl")
    check_equal(run("-d", "drain_timeout_ms=12345", url + "/flags"), "drain_timeout_ms=12345\n", "POST")
    check_equal(run("-X", "PUT", "-d", "30000", url + "/flags/drain%5Ftimeout_ms"),
                "drain_timeout_ms=30000\n", "PUT")
    # One connection for several, HTTP/1.0, and a body in chunks.
    check_equal(run(url + "/health", url + "/health"), "well\nwell\n", "keep-alive")
    check_equal(run("-0", url + "/health"), "well\n", "HTTP/1.0")
    check_equal(run("-H", "Transfer-Encoding: chunked", "-d", "drain_timeout_ms=30000", url + "/flags"),
                "drain_timeout_ms=30000\n", "chunks")


def bad_writes_change_nothing(server):
    before = ask(server, "GET", "/flags")[1]
    for method, path, body, status, mention in (
            ("PUT", "/flags/connections_max_idle_ms", "soon", 400, "from -1 to"),
            ("PUT", "/flags/connections_max_idle_ms", "-2", 400, "from -1 to"),
            ("PUT", "/flags/file_transfer", "carrier pigeon", 400, "sendfile"),
            ("PUT", "/flags/max_connections_per_ip_overrides", "127.0.0.1:5\0x", 400, "control characters"),
            ("PUT", "/flags/no%0Asuch", "1", 404, "no\\nsuch"),
            ("PUT", "/flags/max_in_flight_requests_per_connection", "0", 400, "from 1 to 1024"),
            ("PUT", "/flags/zero_copy_min_bytes", "-2", 400, "from -1 to"),
            ("PUT", "/flags/zero_copy_max_pinned_bytes", "-1", 400, "from 0 to"),
            ("PUT", "/flags/receive_ahead_bytes", "-1", 400, "from 0 to"),
            ("PUT", "/flags/listener_overrides", "PLAINTEXT.num_network_threads=200", 400, "it can go to"),
            ("PUT", "/flags/listener_overrides", "NOBODY.num_network_threads=2", 404, "NOBODY"),
            ("PUT", "/flags/log_dirs", "/tmp", 409, "start"),
            ("PUT", "/flags/no_such_flag", "1", 404, "no_such_flag"),
            ("POST", "/flags", "a=1&b=2", 400, "one"),
            ("DELETE", "/flags", "", 405, "GET")):
        got, text = ask(server, method, path, body)
        check_equal(got, status, "%s %s %s" % (method, path, body))
        check(mention in text and text.count("\n") == 1, "not one clear line: %r" % text)
    check_equal(ask(server, "PUT", "/flags/drain_timeout_ms", "1", {"Origin": "http://a.b"})[0], 403, "an Origin")
    check_equal(ask(server, "GET", "/flags")[1], before, "flags")


def bad_http_is_answered(server):
    for content, status in (
            (b"\x16\x03\x01\x02\x00\x01\x00\xff\xff", b"400"),
            (b"\x00\x00\x00\x1c\x00\x12\x00\x03\x00\x00\x00\x01", b"400"),
            (b"GET /" + b"a" * 100000, b"414"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100000, b"431"),
            (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20000, b"431"),
            (b"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
            (b"POST /flags HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"411"),
            (b"POST /flags HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
            (b"GET / HTTP/3.0\r\n\r\n", b"505")):
        answer = raw(server, content)
        check(answer.startswith(b"HTTP/1.1 " + status), "%.40r: %.60r" % (content, answer))
    # Half a request and a FIN: no answer is owed, and none else is disturbed.
    raw(server, b"GET /health HT", shut=True)
    check_equal(ask(server, "GET", "/health")[0], 200, "/health")


def slow_requests_do_not_hold_the_pages(server):
    peers = [socket.create_connection(("127.0.0.1", server.admin_port)) for _ in range(40)]
    try:
        for peer in peers:
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX:")
        check_equal(ask(server, "GET", "/health")[0], 200, "/health")
        # One of them gets its 408 in time, and the end of its connection.
        ready, _, _ = select.select([peers[0]], [], [], PATIENCE_SECONDS)
        check(ready and peers[0].recv(4096).startswith(b"HTTP/1.1 408"), "no 408")
    finally:
        for peer in peers:
            peer.close()


def connections_name_their_clients(server):
    with wire.Connection(server.port, timeout=PATIENCE_SECONDS) as connection:
        say_hello(connection, "admin-test", "1.2.3")
        peer = "127.0.0.1:%d" % connection.local_port()
        page = json.loads(ask(server, "GET", "/connections")[1])
        mine = [entry for entry in page["connections"] if entry["peer"] == peer]
        check_equal(len(mine), 1, "connections of %s" % peer)
        check_equal((mine[0]["client_software_name"], mine[0]["client_software_version"]),
                    ("admin-test", "1.2.3"), "the client's software")
        check_equal((mine[0]["listener"], mine[0]["state"], mine[0]["in_flight"]), ("PLAINTEXT", "idle", 0), "state")
        check(mine[0]["received_bytes"] > 0 and mine[0]["sent_bytes"] > 0, "no bytes: %r" % mine[0])


def metrics_tell_what_happens(server):
    create(server.port, "admin-metrics", 1)
    with wire.Connection(server.port, timeout=PATIENCE_SECONDS) as connection:
        error, offset = connection.produce("admin-metrics", 0, wire.batch([(None, b"x" * 100)]))
        check_equal(error, 0, "produce")
        connection.fetch("admin-metrics", 0, offset)
        # An answer is counted when it has left, and the next request is taken after that.
        connection.api_versions()
        text = ask(server, "GET", "/metrics")[1]
    for name in ("kafka_network_requestmetrics_totaltimems_count{request=\"Produce\"}",
                 "kafka_network_requestmetrics_totaltimems{request=\"Fetch\",quantile=\"0.99\"}",
                 "kafka_network_processor_idle_percent{networkprocessor=\"0\"}",
                 "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                 "kafka_network_acceptor_acceptorblocked_percent{listener=\"PLAINTEXT\"}",
                 "kafka_server_delayedoperationpurgatory_purgatorysize{delayedoperation=\"Fetch\"}",
                 "kafka_network_requestchannel_responsequeuesize{processor=\"0\"}",
                 "kafka_network_requestmetrics_errors_total{request=\"Produce\",error=\"NONE\"}",
                 "kafka_server_brokertopicmetrics_messagesin_total",
                 "kafka_server_brokertopicmetrics_bytesout_total",
                 "kafka_server_socket_server_metrics_connection_accept_total{listener=\"PLAINTEXT\"}",
                 "kafka_server_socket_server_metrics_connection_accept_throttletimems_total{listener=\"PLAINTEXT\"}",
                 "kafka_server_socket_server_metrics_ip_connection_accept_total{ip=\"127.0.0.1\"}",
                 "gyre_uring_worker_threads",
                 "gyre_uring_enters_total{thread=\"log-io\"}", "process_open_fds"):
        check("\n" + name + " " in text, "no " + name)


def the_metrics_text_is_well_formed(server):
    text = ask(server, "GET", "/metrics")[1]
    check(text.endswith("\n"), "no newline at the end")
    seen, family, kind = set(), None, None
    sample = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
                        r'(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? ([-+0-9.eE]+|NaN|[-+]Inf)')
    samples = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            check(family not in seen, "%s comes twice" % family)
            seen.add(family)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:4]
            check_equal(name, family, "the name in TYPE")
            check(kind in ("counter", "gauge", "untyped", "summary", "histogram"), line)
            check(kind != "counter" or name.endswith("_total"), "a counter without _total: " + name)
        else:
            match = sample.fullmatch(line)
            check(match, "no sample: " + line)
            name = match.group(1)
            suffixes = {"summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}.get(kind, ("",))
            check(name in [family + suffix for suffix in suffixes], "%s among %s" % (name, family))
            check((name, match.group(2)) not in samples, "twice: " + line)
            samples.add((name, match.group(2)))
    return "%d samples" % len(samples)


def promtool_finds_no_fault(server):
    promtool = shutil.which("promtool")
    if not promtool:
        raise Skip("no promtool (tools/dev/setup --optional)")
    run = subprocess.run([promtool, "check", "metrics"], input=ask(server, "GET", "/metrics")[1].encode(),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    check_equal((run.returncode, run.stdout.decode()), (0, ""), "promtool check metrics")


def scrapes_do_not_stop_the_traffic(server):
    create(server.port, "admin-scraped", 1)
    done = threading.Event()

    def scrape():
        while not done.is_set():
            ask(server, "GET", "/metrics")
            ask(server, "GET", "/connections")
    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        with wire.Connection(server.port, timeout=PATIENCE_SECONDS) as connection:
            for i in range(200):
                check_equal(connection.produce("admin-scraped", 0, wire.batch([(None, b"v")]))[0], 0, "produce")
    finally:
        done.set()
        thread.join(PATIENCE_SECONDS)


def the_pages_outlive_the_drain_and_end_with_it(server):
    with wire.Connection(server.port, timeout=PATIENCE_SECONDS):
        check_equal(server.stop(), 0, "exit code")
    try:
        socket.create_connection(("127.0.0.1", server.admin_port), timeout=2).close()
        raise AssertionError("the admin listener is still there")
    except OSError:
        pass


ALL = [
    pages_answer,
    curl_reads_and_writes,
    bad_writes_change_nothing,
    bad_http_is_answered,
    slow_requests_do_not_hold_the_pages,
    connections_name_their_clients,
    metrics_tell_what_happens,
    the_metrics_text_is_well_formed,
    promtool_finds_no_fault,
    scrapes_do_not_stop_the_traffic,
    the_pages_outlive_the_drain_and_end_with_it,
]


def a_live_write_is_no_laxer_than_a_start(binary, scratch, flags):
    limits = ["--memory_limit_bytes=200000000", "--socket_request_max_bytes=1000000"]
    with AdminGyred(binary, os.path.join(scratch, "lax"), list(flags) + limits) as server:
        status, text = ask(server, "PUT", "/flags/socket_request_max_bytes", "1000000000")
        check_equal(status, 400, "a request larger than the memory limit leaves: " + text)
        match = re.search(r"memory_limit_bytes leave for a request is (\d+)", text)
        check(match, "it does not say why: " + text)
        most = int(match.group(1))
        check_equal(ask(server, "PUT", "/flags/socket_request_max_bytes", str(most))[0], 200, "the most")
        check_equal(ask(server, "PUT", "/flags/socket_request_max_bytes", str(most + 1))[0], 400, "one more")
        for threads in (6, 12):
            check_equal(ask(server, "PUT", "/flags/num_network_threads", str(threads))[0], 200, "%d threads" % threads)
        for flag, value in (("num_network_threads", "24"),
                            ("listener_overrides", "PLAINTEXT.num_network_threads=24")):
            status, text = ask(server, "PUT", "/flags/" + flag, value)
            check_equal(status, 400, "more threads than there is memory for: " + text)
            check("memory_limit_bytes=200000000" in text, "it does not say why: " + text)
        check("num_network_threads=12" in ask(server, "GET", "/flags/num_network_threads")[1], "it changed")
        check_equal(server.stop(), 0, "exit code")


def run_all(runner, binary, scratch, flags):
    flags = list(flags) + ["--admin_listener=127.0.0.1:0"]
    with AdminGyred(binary, os.path.join(scratch, "admin"), flags) as server:
        for test in ALL:
            runner.run("admin/" + test.__name__, test, server)
    test = a_live_write_is_no_laxer_than_a_start
    runner.run("admin/" + test.__name__, test, binary, scratch, flags)
