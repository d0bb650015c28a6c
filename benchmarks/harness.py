"""What every benchmark of the suite uses: servers and clients pinned to different cores, rounds
that interleave the candidates, and rows of ratios with their spread."""
import json
import os
import platform
import re
import select
import statistics
import subprocess
import sys
import time

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = CORES[0], CORES[-1]


class Unavailable(Exception):
    """A benchmark cannot run on this machine; the reason is the message."""


# Set by --realtime: before whatever else wants the cores (SCHED_FIFO).
PRIORITY = []


def pinned(core, command):
    """`core` None: on all of them."""
    return PRIORITY + (["taskset", "-c", str(core)] if core is not None else []) + command


class Server:
    """A process on the server's core; its port is read from the line it prints."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(pinned(SERVER_CORE, command), stdin=subprocess.DEVNULL,
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()

    def resident_bytes(self):
        """User memory: pages of the process, none of the kernel's."""
        for line in open("/proc/%d/smaps_rollup" % self.pid):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no Pss of process %d" % self.pid)


def accounted(run, attempts=5):
    """The first result of `run` that has operations and CPU time of the server. A virtual machine
    takes stolen time off the threads that run next, so a short run may have cost nothing."""
    for attempt in range(attempts):
        result = run()
        if result["operations"] > 0 and result["server_cpu_us"] > 0:
            return result
        log("a run without operations or without CPU time accounted to the server is made again: %s" % result)
    raise Unavailable("in %d runs no CPU time was accounted to the server; longer runs may help" % attempts)


class Suite:
    """Runs benchmarks and keeps their rows. `binaries` is bazel-bin/benchmarks."""

    def __init__(self, options):
        self.options = options
        self.rows = []
        self.skipped = []

    def binary(self, name, package=""):
        path = os.path.join(self.options.binaries, name)
        if not os.access(path, os.X_OK):
            raise Unavailable("%s was not built%s" % (name, package and " (needs Debian's %s)" % package))
        return path

    def engine(self, **flags):
        return Server("ours", [self.binary("macro/engine_server")] +
                      ["--%s=%s" % pair for pair in flags.items()])

    def peer(self, name, package="", **flags):
        return Server(name, [self.binary("peers/" + name, package)] +
                      ["--%s=%s" % pair for pair in flags.items()])

    def client(self, program, server, core=CLIENT_CORE, **flags):
        """One run of a load client; the JSON it prints."""
        return accounted(lambda: self.run_client(program, server, core, **flags))

    def run_client(self, program, server, core, **flags):
        command = [self.binary("macro/" + program), "--port=%d" % server.port, "--server_pid=%d" % server.pid]
        result = subprocess.run(pinned(core, command + ["--%s=%s" % pair for pair in flags.items()]),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        if result.returncode != 0:
            raise RuntimeError("%s: %s" % (program, result.stderr.decode().strip()))
        return json.loads(result.stdout)

    def seconds(self, full=1.5):
        return full / (15 if self.options.smoke else 6 if self.options.quick else 1)

    def rounds(self, candidates, divide=1):
        """{name: [result of each round]} of {name: function}. Every round runs each candidate once,
        the order rotates, and the first round, which warms up, is dropped."""
        count = max(1 if self.options.smoke else 3, self.options.rounds // divide)
        results = {name: [] for name in candidates}
        names = list(candidates)
        for number in range(0 if self.options.smoke else -1, count):
            shift = number % len(names)
            for name in names[shift:] + names[:shift]:
                result = candidates[name]()
                if number >= 0:
                    results[name].append(result)
        return results

    def skip(self, name, reason):
        self.skipped.append({"name": name, "reason": reason})
        print("%-56s skipped: %s" % (name, reason), flush=True)

    def add(self, name, unit, ours, peer, target, at_most, against, note="", bound=None):
        """A row from the figure of each round, `ours` and `peer` in the same order. The ratio is
        the median of the rounds' own ratios ours / peer. `target` bounds it (from above where
        `at_most`), None where the row only informs. `bound` is a target of `ours` itself, for
        figures that have no peer."""
        ratios = [a / b for a, b in zip(ours, peer)] if peer else []
        measured = statistics.median(ratios) if ratios else None
        compared, limit = (measured, target) if bound is None else (statistics.median(ours), bound)
        met = None if limit is None or compared is None else compared <= limit if at_most else compared >= limit
        row = {"name": name, "ours": significant(statistics.median(ours)),
               "peer": significant(statistics.median(peer)) if peer else None,
               "ratio": significant(measured), "target": limit, "unit": unit, "met": met,
               "target_is": "none" if limit is None else ("at most" if at_most else "at least"),
               "target_of": "ours" if bound is not None else "ratio", "against": against,
               "spread": {"ours": spread(ours), "peer": spread(peer), "ratio": spread(ratios)},
               "rounds": {"ours": [significant(v) for v in ours], "peer": [significant(v) for v in peer or []]},
               "note": note}
        self.rows.append(row)
        print(line(row), flush=True)


def significant(value):
    return None if value is None else float("%.4g" % value)


def spread(values):
    return [significant(min(values)), significant(max(values))] if values else None


def line(row):
    """One row as text."""
    pair = lambda values: "(%g..%g)" % tuple(values) if values else ""
    verdict = {True: "met", False: "MISSED", None: "informs"}[row["met"]]
    goal = "" if row["target"] is None else " %s %g" % ("<=" if row["target_is"] == "at most" else ">=", row["target"])
    middle = "ratio %g %s" % (row["ratio"], pair(row["spread"]["ratio"])) if row["ratio"] is not None else ""
    return "%-56s %9g %-17s %9s %-17s %-28s%-8s %-7s %s%s" % (
        row["name"], row["ours"], pair(row["spread"]["ours"]), "-" if row["peer"] is None else "%g" % row["peer"],
        pair(row["spread"]["peer"]), middle, goal, verdict, row["unit"], "  " + row["note"] if row["note"] else "")


def per_operation(results, key="server_cpu_us"):
    return [r[key] / r["operations"] for r in results]


def machine():
    """What the figures depend on, as [(what, value)]."""
    def read(path, otherwise="unknown"):
        try:
            return open(path).read().strip()
        except OSError:
            return otherwise
    cpu = re.search(r"model name\s*: (.*)", read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", read("/proc/meminfo"))
    hypervisor = " (virtual)" if re.search(r"^flags.*\bhypervisor\b", read("/proc/cpuinfo"), re.M) else ""
    return [
        ["CPU", "%s, %d in use%s" % (cpu.group(1) if cpu else platform.machine(), len(CORES), hypervisor)],
        ["memory", "%.1f GiB" % (int(memory.group(1)) / 2**20) if memory else "unknown"],
        ["kernel", platform.release()],
        ["frequency governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not visible")],
        ["huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled")],
        ["mitigations", read("/sys/devices/system/cpu/vulnerabilities/spectre_v2")],
        ["placement", "server on core %d, client on core %d" % (SERVER_CORE, CLIENT_CORE)],
        ["network", "loopback, MTU %s, congestion control reno on both ends (the system's: %s)" % (
            read("/sys/class/net/lo/mtu"), read("/proc/sys/net/ipv4/tcp_congestion_control"))],
        ["load before the run", " ".join(read("/proc/loadavg").split()[:3])],
        ["CPU time stolen since boot", "%s ticks" % (read("/proc/stat").split("\n")[0].split() + ["0"] * 9)[8]],
        ["started", time.strftime("%Y-%m-%d %H:%M:%S %z")],
    ]


def log(text):
    print(text, file=sys.stderr, flush=True)
