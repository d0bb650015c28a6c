#!/usr/bin/python3
"""gyre_load as a user runs it: against a gyred, through its kill -9, interrupted, and misled.

  load.py GYRE_LOAD GYRED [--only TEXT] [gyred flags...]

Exit codes (0 valid, 1 invalid, 2 could not run), one line for what cannot run, no hang, and zero
records lost with acks=all when the broker is killed and comes back. Prints one line PASS, FAIL or
SKIP a test.
"""
import argparse
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from harness import Gyred, Runner, TemporaryDirectory, check, check_equal

SHORT = ["--duration=1s", "--warmup=200ms", "--progress=off"]


class Load:
    """The gyre_load under test."""

    def __init__(self, binary, scratch):
        self.binary, self.scratch = binary, scratch

    def command(self, port, *flags):
        return [self.binary, "--brokers=127.0.0.1:%d" % port] + list(flags)

    def run(self, port, *flags, timeout=60):
        return self.run_raw(*self.command(port, *flags)[1:], timeout=timeout)

    def run_raw(self, *flags, timeout=60):
        result = subprocess.run([self.binary] + list(flags), timeout=timeout, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def measure(self, port, *flags):
        """A run's exit code and JSON."""
        path = os.path.join(self.scratch, "result.json")
        code, out, err = self.run(port, "--json=" + path, *SHORT, *flags)
        check(code in (0, 1), "exit code %d: %s" % (code, err))
        check_equal(out.strip().splitlines()[-1].split(" ")[0].rstrip(":"),
                    "VALID" if code == 0 else "INVALID", "the last line's verdict")
        with open(path) as file:
            return code, json.load(file)

    def refuses(self, words, *flags):
        """Ends with 2 and one line that holds `words`."""
        code, _, err = self.run_raw(*flags, timeout=30)
        check_equal(code, 2, "exit code (%s)" % err)
        check_equal(len(err.splitlines()), 1, "lines on stderr (%s)" % err)
        check(words in err, "stderr %r does not say %r" % (err, words))


def no_loss(part):
    checks = part["checks"]
    check(checks["done"] and checks["checked"] > 0, "nothing was checked")
    for what in ("lost", "duplicated", "reordered", "corrupted"):
        check_equal(checks[what], 0, what)


# ---- against a gyred --------------------------------------------------------------------------


def produces(load, server):
    _, result = load.measure(server.port, "--workload=produce", "--topic=produced", "--rate=500",
                             "--min_rate_percent=50")
    no_loss(result["parts"][0])
    check_equal(result["verdict"], "VALID", "verdict")


def each_codec_end_to_end(load, server):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        _, result = load.measure(server.port, "--workload=end-to-end", "--topic=codec-" + codec, "--rate=300",
                                 "--min_rate_percent=50", "--compression=" + codec, "--keys=10", "--linger=5ms",
                                 "--duration=500ms", "--record_size=uniform:40:900")
        no_loss(result["parts"][0])
        check_equal(result["verdict"], "VALID", codec)


def consumes_what_was_produced(load, server):
    _, written = load.measure(server.port, "--workload=produce", "--topic=read", "--connections=2", "--threads=2")
    code, read = load.measure(server.port, "--workload=consume", "--topic=read", "--connections=3", "--warmup=0",
                              "--duration=1m")
    check_equal(code, 0, "exit code")
    no_loss(read["parts"][0])
    check_equal(read["parts"][0]["checks"]["checked"], written["parts"][0]["checks"]["checked"],
                "records read and written")


def acks_zero_and_one(load, server):
    for acks in ("0", "1"):
        _, result = load.measure(server.port, "--workload=produce", "--topic=acks" + acks, "--acks=" + acks,
                                 "--rate=200", "--min_rate_percent=0")
        no_loss(result["parts"][0])


def a_scenario_runs_its_parts_at_once(load, server):
    path = os.path.join(load.scratch, "scenario")
    with open(path, "w") as file:
        file.write("# both at once\n[writers]\nworkload = produce\nrate=200\nmin_rate_percent=0\ntopic=mixed\n"
                   "[churn]\nworkload=connect\nrate=50\nconnections=8\nmin_rate_percent=0\n")
    code, result = load.measure(server.port, "--workload=mixed", "--scenario=" + path)
    check_equal([part["name"] for part in result["parts"]], ["writers", "churn"], "parts")
    check_equal(code, 0, result["verdict"])
    for part in result["parts"]:
        check(part["operations"] > 0, part["name"] + " did nothing")


def the_highest_rate_is_found(load, server):
    path = os.path.join(load.scratch, "max.json")
    code, out, err = load.run(server.port, "--workload=connect", "--find_max", "--p99_ms=0.000001", "--rate=4",
                              "--step=100ms", "--warmup=0", "--connections=4", "--json=" + path)
    check_equal(code, 1, "exit code when no rate keeps the bound: %s%s" % (out, err))
    # A bound that nothing breaks would double for ever: the search is bounded by the schedule.
    code, out, err = load.run(server.port, "--workload=produce", "--topic=max", "--find_max", "--p99_ms=60000",
                              "--rate=100000", "--step=200ms", "--warmup=0", "--drain=2s", "--buffer_bytes=1000000", "--noverify",
                              "--json=" + path, timeout=150)
    check(code in (0, 1), "exit code %d: %s" % (code, err))
    with open(path) as file:
        search = json.load(file)["find_max"]
    check(search["steps"], "no steps")
    for step in search["steps"]:
        check(not step["kept"] or step["valid"], "an invalid step was kept")
    if code == 0:
        check_equal(search["confirmations"], 3, "confirmations")
        check(any(s["kept"] and s["rate"] == search["found_rate"] for s in search["steps"]), "the found rate")


class Metrics(http.server.BaseHTTPRequestHandler):
    """A /metrics whose counters move."""
    served = 0

    def do_GET(self):
        Metrics.served += 1
        body = ("# HELP x y\nrequests_total{request=\"Produce\"} %d\n"
                "request_time_seconds_sum{request=\"Produce\"} %f\n"
                "request_time_seconds_count{request=\"Produce\"} %d\n" %
                (100 * Metrics.served, 0.5 * Metrics.served, 10 * Metrics.served)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_): pass


def the_report_shows_the_brokers_metrics(load, server):
    with http.server.HTTPServer(("127.0.0.1", 0), Metrics) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        page = os.path.join(load.scratch, "out.html")
        url = "http://127.0.0.1:%d/metrics" % web.server_port
        code, result = load.measure(server.port, "--workload=produce", "--topic=reported", "--rate=100",
                                    "--min_rate_percent=0", "--report=" + page, "--metrics_url=" + url)
        web.shutdown()
    check_equal(code, 0, result["verdict"])
    means = result["server_metrics"]["means"]
    check_equal([(m["name"], m["count"]) for m in means], [('request_time_seconds{request="Produce"}', 10)], "means")
    check(abs(means[0]["mean"] - 0.05) < 1e-9, "mean %r" % means)
    with open(page) as file:
        text = file.read()
    for words in ("<svg", "50.0 ms", "requests_total", "VALID", "Latency by percentile"):
        check(words in text, "the page lacks %r" % words)
    check("http://" not in text.replace(url, ""), "the page asks for something from elsewhere")


def results_are_compared(load, server):
    paths = []
    for name in ("a", "b"):
        paths.append(os.path.join(load.scratch, name + ".json"))
        code, _, err = load.run(server.port, "--workload=connect", "--rate=100", "--connections=8", "--warmup=0",
                                "--duration=3s", "--progress=off", "--min_rate_percent=0", "--json=" + paths[-1])
        check_equal(code, 0, err)
    code, out, err = load.run_raw("--compare", *paths)
    check_equal(code, 0, err)
    for words in ("throughput", "p99", "B/A"):
        check(words in out, "%r lacks %r" % (out, words))
    load.refuses("is no result", "--compare", paths[0], __file__)


def a_killed_broker_that_returns_loses_nothing(load, server):
    """The kill and the restart fall into the measured time; the port stays."""
    path = os.path.join(load.scratch, "killed.json")
    process = subprocess.Popen(
        load.command(server.port, "--workload=produce", "--topic=killed", "--rate=2000", "--acks=all", "--warmup=200ms",
                     "--duration=3s", "--connections=3", "--record_size=300", "--allow_reconnects", "--progress=off",
                     "--min_rate_percent=0", "--json=" + path),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        time.sleep(1.2)
        check_equal(process.poll(), None, "exit code before the kill")
        server.kill()
        time.sleep(0.2)
        server.start()
        out = process.communicate(timeout=90)[0].decode()
    finally:
        process.kill()
    check_equal(process.returncode, 0, "exit code: %s" % out)
    with open(path) as file:
        part = json.load(file)["parts"][0]
    no_loss(part)
    check_equal(part["unanswered"], 0, "unanswered")
    check(part["connections_lost"] >= 3, "only %d connections were lost" % part["connections_lost"])
    check("lost" in out, "the lost connections are not in the table")
    return "%d records, %d sent again, %d of them twice there" % (
        part["checks"]["checked"], part["checks"]["sent_again"], part["checks"]["duplicated_by_retry"])


def a_broker_that_stays_away_is_not_waited_for(load, server):
    process = subprocess.Popen(
        load.command(server.port, "--workload=produce", "--topic=away", "--rate=500", "--warmup=200ms", "--duration=2s",
                     "--drain=1s", "--timeout=2s", "--progress=off"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        time.sleep(1)
        server.kill()
        out = process.communicate(timeout=60)[0].decode()
    finally:
        process.kill()
        server.start()
    check_equal(process.returncode, 1, "exit code: %s" % out)
    check("never answered" in out and "INVALID" in out, out[-400:])


def an_interrupted_run_prints_what_it_has(load, server):
    for sign in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            load.command(server.port, "--workload=end-to-end", "--topic=interrupted", "--rate=300", "--warmup=100ms",
                         "--duration=1h", "--progress=off"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            time.sleep(1.5)
            process.send_signal(sign)
            out = process.communicate(timeout=30)[0].decode()
        finally:
            process.kill()
        check_equal(process.returncode, 1, "exit code")
        check("INVALID (interrupted" in out, out[-300:])
        check("p50" in out, "what was measured is not shown: " + out)


def what_cannot_run_ends_with_two(load, server):
    port = server.port
    at = "--brokers=127.0.0.1:%d" % port
    load.refuses("--workload", at)
    load.refuses("no such flag", "--workload=produce", "--speed=9", at)
    load.refuses("expected HOST:PORT", "--workload=produce", "--brokers=nowhere")
    load.refuses("--brokers", "--workload=produce", "--brokers=no.such.host.invalid:9092")
    load.refuses("expected a number", "--workload=produce", "--rate=fast", at)
    load.refuses("INVALID_TOPIC_EXCEPTION", "--workload=produce", "--topic=no/topic", at)
    load.refuses("is not there", "--workload=consume", "--topic=never-made", at)
    load.refuses("is not there", "--workload=produce", "--topic=never-made", "--nocreate_topic", at)
    load.refuses("INVALID_REPLICATION_FACTOR", "--workload=produce", "--topic=three", "--replication_factor=3", at)
    load.refuses("cannot be written", "--workload=produce", "--json=/no/such/directory/x", at)
    load.refuses("--metrics_url", "--workload=produce", "--metrics_url=http://127.0.0.1:1/metrics", at)
    load.refuses("file descriptors", "--workload=idle", "--connections=4000000", at)
    load.refuses("come after a [name]", "--workload=mixed", "--scenario=" + __file__, at)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        load.refuses("Connection refused", "--workload=echo", "--brokers=127.0.0.1:%d" % silent.getsockname()[1])
        silent.listen(1)  # It connects, and nothing ever comes.
        for workload in ("produce", "connect", "end-to-end"):
            load.refuses("within", "--workload=" + workload, "--timeout=500ms",
                         "--brokers=127.0.0.1:%d" % silent.getsockname()[1])


def help_teaches(load, _):
    code, out, _ = load.run_raw("--help")
    check_equal(code, 0, "exit code")
    for words in ("Examples", "--workload=produce", "--find_max", "--compare", "What makes a run valid"):
        check(words in out, "the help lacks %r" % words)


ALL = [produces, each_codec_end_to_end, consumes_what_was_produced, acks_zero_and_one,
       a_scenario_runs_its_parts_at_once, the_highest_rate_is_found, the_report_shows_the_brokers_metrics,
       results_are_compared, a_killed_broker_that_returns_loses_nothing,
       a_broker_that_stays_away_is_not_waited_for, an_interrupted_run_prints_what_it_has,
       what_cannot_run_ends_with_two, help_teaches]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gyre_load")
    parser.add_argument("gyred")
    parser.add_argument("--only")
    options, flags = parser.parse_known_args()
    runner = Runner("load")
    runner.only = options.only
    with TemporaryDirectory() as scratch:
        load = Load(options.gyre_load, scratch)
        with Gyred(options.gyred, os.path.join(scratch, "data"), flags) as server:
            # Restarted, it must be found where it was.
            server.flags.append("--listeners=PLAINTEXT://127.0.0.1:%d" % server.port)
            for test in ALL:
                runner.run("load/" + test.__name__, test, load, server)
            if runner.failed:
                print("---- end of gyred's stderr\n%s\n----" % server.stderr()[-2000:])
    return runner.finish()


if __name__ == "__main__":
    sys.exit(main())
