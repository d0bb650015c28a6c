"""Ranges of files: hot ones against sendfile and pread, and what cold ones do to other clients."""
import os
import statistics
import subprocess
import tempfile
import time

from harness import CLIENT_CORE, Unavailable, per_operation, pinned
from network_suite import with_servers


def make_file(directory, size):
    """A clean file of bytes that do not repeat from page to page."""
    path = os.path.join(directory, "file")
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return path


def scratch(suite):
    return tempfile.TemporaryDirectory(prefix="gyre-bench-", dir=suite.options.scratch)


def files(suite):
    """What does a range of a file in the page cache cost, behind the same header, beside a header
    and sendfile (64 KiB, 1 MiB) or pread and sendmsg (4 KiB)? 64 connections, each with a request
    under way; with 4 the server is not busy, and answers in batches leave it idle in between."""
    with scratch(suite) as directory:
        path = make_file(directory, 64 << 20)
        for size, title, method, connections, target in (
                (4 << 10, "4 KiB", "pread", 64, 1.0), (64 << 10, "64 KiB", "sendfile", 64, 1.2),
                (1 << 20, "1 MiB", "sendfile", 64, 1.2), (4 << 10, "4 KiB, 4 connections", "pread", 4, None),
                (64 << 10, "64 KiB, 4 connections", "sendfile", 4, None)):
            peer = suite.peer("sendfile_server", method=method, file=path)
            got = with_servers([suite.engine(file=path, dispatch="inline"), peer], lambda named: suite.rounds({
                name: lambda server=server: suite.client("range_client", server, file=path, range_bytes=size,
                                                         connections=connections, seconds=suite.seconds(1.0))
                for name, server in named.items()}))
            rate = lambda name: sorted(r["bytes"] / r["seconds"] for r in got[name])[len(got[name]) // 2] / 1e6
            suite.add("hot file range, %s, vs %s" % (title, "pread + sendmsg" if method == "pread" else
                                                     "header + sendfile"),
                      "server CPU us per response", per_operation(got["ours"]), per_operation(got["sendfile_server"]),
                      target, True, "peers/sendfile_server --method=" + method,
                      "%.0f and %.0f MB/s" % (rate("ours"), rate("sendfile_server")))


def cold(suite):
    """What does a client that reads cold files do to the p99 of an echo client of the same server?
    The reader asks for 256 KiB ranges that are not in the page cache, at a given speed; the echoes
    are due at a fixed rate and their latency counts from then."""
    megabytes_per_second = 100
    with scratch(suite) as directory:
        if subprocess.run(["stat", "-f", "-c", "%T", directory], stdout=subprocess.PIPE).stdout.strip() in (
                b"tmpfs", b"ramfs"):
            raise Unavailable("%s is in memory, where nothing is cold; see --scratch" % directory)
        path = make_file(directory, 256 << 20 if suite.options.quick else 1 << 30)
        speeds = []

        def run(server, read_from):
            reader = None
            if read_from:
                reader = subprocess.Popen(pinned(CLIENT_CORE, [
                    "nice", "-n", "5", suite.binary("macro/range_client"), "--port=%d" % read_from.port,
                    "--server_pid=%d" % read_from.pid, "--file=" + path, "--connections=1",
                    "--range_bytes=%d" % (256 << 10), "--cold", "--seconds=-1",
                    "--megabytes_per_second=%d" % megabytes_per_second]), stdin=subprocess.DEVNULL)
            try:
                before, start = device_bytes(read_from), time.monotonic()
                result = suite.client("latency_client", server, rate=2000, seconds=suite.seconds(3.0))
                if reader is not None:
                    if reader.poll() is not None:
                        raise RuntimeError("the cold reader ended early")
                    if read_from is server:
                        speeds.append((device_bytes(read_from) - before) / (time.monotonic() - start) / 1e6)
                return result
            finally:
                if reader is not None:
                    reader.kill()
                    reader.wait()
        got = with_servers(
            [suite.engine(file=path, dispatch="inline"), suite.peer("sendfile_server", file=path)],
            lambda named: suite.rounds({
                "alone": lambda: run(named["ours"], None), "beside": lambda: run(named["ours"], named["ours"]),
                "elsewhere": lambda: run(named["ours"], named["sendfile_server"])}))
        p99 = {name: [r["p99_us"] for r in results] for name, results in got.items()}
        unit = "us, p99 from the time due"
        suite.add("p99 of echoes beside a reader of cold files vs alone", unit, p99["beside"], p99["alone"], 1.3, True,
                  "the same echo client alone",
                  "the server reads %.0f MB/s from the disk; p99.9 %.0f and %.0f us; late sends %d of %d" % (
                      statistics.median(speeds), *(statistics.median(r["p999_us"] for r in got[n])
                                                   for n in ("beside", "alone")),
                      sum(r["late"] for r in got["beside"]), sum(r["operations"] for r in got["beside"])))
        suite.add("p99 of echoes while another process on the core reads the files vs alone", unit, p99["elsewhere"],
                  p99["alone"], None, True, "the same echo client alone",
                  "what the machine alone does: the reader's server is peers/sendfile_server")


def device_bytes(server):
    """Bytes that the server, its io_uring workers included, had read from storage."""
    if server is None:
        return 0
    for line in open("/proc/%d/io" % server.pid):
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


BENCHMARKS = {"files": files, "cold": cold}
