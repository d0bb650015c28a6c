"""Data structures against the libraries one would otherwise take. Each figure is a run of a Google
Benchmark program (benchmarks/micro) with one benchmark selected, so that candidates interleave."""
import glob
import json
import subprocess

from harness import Unavailable, pinned, CLIENT_CORE


def one(suite, program, benchmark, package="", preload="", core=None):
    """The single benchmark of that exact name: {"rate": items a second, "cpu_ns", "real_ns"}."""
    seconds = 0.02 if suite.options.smoke else 0.05 if suite.options.quick else 0.3
    command = [suite.binary("micro/" + program, package), "--benchmark_format=json",
               "--benchmark_min_time=%g" % seconds, "--benchmark_filter=^%s$" % benchmark]
    result = subprocess.run(["env", "LD_PRELOAD=" + preload] + pinned(core, command), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    if result.returncode != 0:
        raise RuntimeError("%s: %s" % (program, result.stderr.decode().strip()))
    found = json.loads(result.stdout)["benchmarks"]
    if len(found) != 1:
        raise RuntimeError("%s has %d benchmarks %s" % (program, len(found), benchmark))
    return {"rate": found[0].get("items_per_second"), "cpu_ns": found[0]["cpu_time"], "real_ns": found[0]["real_time"]}


def queue(suite):
    """Does the request queue pass more elements than boost::lockfree::queue, and nearly as many as
    moodycamel::ConcurrentQueue, which keeps no order between producers?"""
    package = "libboost-dev and libconcurrentqueue-dev"
    for threads, shape, bound in ((2, "1x1", True), (4, "2x2", True), (8, "4x4", False)):
        run = lambda kind, threads=threads: one(suite, "queue_peers_benchmark", "BM_PushPop<%s>/real_time/threads:%d" % (
            kind, threads), package)["rate"] / 1e6
        got = suite.rounds({kind: lambda kind=kind: run(kind) for kind in ("Ours", "Boost", "Moodycamel")})
        for kind, peer, target in (("Boost", "boost::lockfree::queue", 1.0),
                                   ("Moodycamel", "moodycamel::ConcurrentQueue", 0.8)):
            suite.add("MPMC queue %s vs %s" % (shape, kind.lower()), "M elements/s", got["Ours"], got[kind],
                      target if bound else None, False, peer)


def timers(suite):
    """Is the timing wheel faster than a std::set of deadlines with 1,000,000 timeouts pending?"""
    for what, name, target in (("add and cancel", "AddCancel", 5.0), ("expire", "Expire", 2.0)):
        run = lambda kind, name=name: 1e3 / one(suite, "timing_wheel_benchmark", "BM_%s%s/1000000" % (kind, name),
                                                core=CLIENT_CORE)["cpu_ns"]
        got = suite.rounds({kind: lambda kind=kind: run(kind) for kind in ("Wheel", "Set")})
        unit = "M pairs/s" if name == "AddCancel" else "M steps of 1 ms/s, each expiring and adding 33"
        suite.add("timing wheel, 1,000,000 pending: %s" % what, unit, got["Wheel"], got["Set"], target, False,
                  "std::set of deadlines")


def slab(suite):
    """Are slab buffers as fast to take and give back as malloc's and jemalloc's, also when another
    thread gives them back?"""
    jemalloc = (glob.glob("/usr/lib/*/libjemalloc.so.2") or [""])[0]
    if not jemalloc:
        suite.skip("slab pool vs jemalloc", "needs Debian's libjemalloc2")
    sizes = ((512, "512 B", 1.0), (4096, "4 KiB", 1.0), (64 << 10, "64 KiB", 2.0), (256 << 10, "256 KiB", 2.0))
    if suite.options.smoke:
        sizes = sizes[1:3]
    for where, name, threads in (("one thread", "Local", 1), ("two threads", "Local", 2),
                                 ("handed over", "HandOver", 2)):
        for size, title, target in sizes:
            full = lambda kind: "BM_%s<%s>/%d/real_time/threads:%d" % (name, kind, size, threads)
            core = CLIENT_CORE if threads == 1 else None
            run = lambda kind, preload="": one(suite, "slab_pool_benchmark", full(kind), preload=preload,
                                               core=core)["rate"] / 1e6
            candidates = {"slab": lambda: run("Slab"), "malloc": lambda: run("Malloc")}
            if jemalloc:
                candidates["jemalloc"] = lambda: run("Malloc", jemalloc)
            got = suite.rounds(candidates, divide=2)
            for peer in list(candidates)[1:]:
                suite.add("slab pool, %s, %s, vs %s" % (title, where, peer), "M take-and-give-back/s", got["slab"],
                          got[peer], target, False, "glibc malloc" if peer == "malloc" else "jemalloc")


def crc(suite):
    """How much faster is the accelerated CRC-32C than the table?"""
    for size, title in ((1024, "1 KiB"), (1 << 20, "1 MiB")):
        run = lambda kind, size=size: size / one(suite, "crc32c_benchmark", "BM_%s/%d" % (kind, size),
                                                 core=CLIENT_CORE)["cpu_ns"]
        got = suite.rounds({kind: lambda kind=kind: run(kind) for kind in ("Accelerated", "Table")}, divide=3)
        suite.add("CRC-32C of %s vs its table" % title, "GB/s", got["Accelerated"], got["Table"], None, False,
                  "slicing table")


BENCHMARKS = {"queue": queue, "timers": timers, "slab": slab, "crc": crc}
__all__ = ["BENCHMARKS", "Unavailable"]
