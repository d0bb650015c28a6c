#!/usr/bin/python3
"""Runs benchmarks by name and writes report.json, machine.json and report.html; tools/dev/bench
builds and starts it. benchmarks/README.md says what the figures mean."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import broker_suite  # noqa: E402
import debian_suite  # noqa: E402
import file_suite  # noqa: E402
import micro_suite  # noqa: E402
import network_suite  # noqa: E402
from harness import PRIORITY, Suite, Unavailable, line, log, machine  # noqa: E402
from report import page  # noqa: E402

BENCHMARKS = {**network_suite.BENCHMARKS, **file_suite.BENCHMARKS, **micro_suite.BENCHMARKS,
              **debian_suite.BENCHMARKS, **broker_suite.BENCHMARKS}


def question(function):
    return " ".join(function.__doc__.split())


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; none: all of them")
    parser.add_argument("--list", action="store_true", help="the names and their questions")
    parser.add_argument("--quick", action="store_true", help="few short rounds: rough figures in a few minutes")
    parser.add_argument("--smoke", action="store_true", help="one very short round each: does everything run?")
    parser.add_argument("--realtime", action="store_true",
                        help="run servers and clients before all other work of the machine (SCHED_FIFO; root)")
    parser.add_argument("--rounds", type=int, help="rounds of each benchmark (default 10; 3 with --quick)")
    parser.add_argument("--out", metavar="DIR", help="where the report goes (default benchmarks/results)")
    parser.add_argument("--scratch", metavar="DIR", help="a directory on a real disk for files (default /var/tmp)",
                        default="/var/tmp")
    parser.add_argument("--kafka", metavar="PORT:PID", help="an Apache Kafka to produce to in the same rounds")
    parser.add_argument("--binaries", required="--list" not in arguments, help=argparse.SUPPRESS)
    parser.add_argument("--gyred", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error("no benchmark %s; there are %s" % (", ".join(unknown), ", ".join(BENCHMARKS)))
    options.quick = options.quick or options.smoke
    options.rounds = options.rounds or (1 if options.smoke else 3 if options.quick else 10)
    return options


def main(arguments):
    options = parse(arguments)
    if options.list:
        for name, function in BENCHMARKS.items():
            print("%-12s %s" % (name, question(function)))
        return 0
    if options.realtime:
        PRIORITY[:] = ["chrt", "-f", "10"]
    suite, about, failed = Suite(options), machine(), []
    about.append(["rounds", "%d%s" % (options.rounds, ", short: the figures are rough" if options.quick else "") + (
        ", under SCHED_FIFO" if options.realtime else "")])
    for name in options.names or BENCHMARKS:
        before = len(suite.rows)
        print("\n%s: %s" % (name, question(BENCHMARKS[name])), flush=True)
        try:
            BENCHMARKS[name](suite)
        except Unavailable as reason:
            suite.skip(name, str(reason))
        except Exception as error:  # One benchmark's trouble is not another's.
            log("%s: FAILED: %s: %s" % (name, type(error).__name__, error))
            failed.append(name)
            suite.skip(name, "failed: %s" % error)
        for row in suite.rows[before:]:
            row["benchmark"] = name
            row["question"] = question(BENCHMARKS[name])
    os.makedirs(options.out, exist_ok=True)
    write = lambda name, text: open(os.path.join(options.out, name), "w").write(text)
    write("report.json", json.dumps(suite.rows, indent=1) + "\n")
    write("machine.json", json.dumps({"machine": about, "skipped": suite.skipped}, indent=1) + "\n")
    write("report.txt", "".join("%s: %s\n" % tuple(pair) for pair in about) + "\n" +
          "".join(line(row) + "\n" for row in suite.rows))
    write("report.html", page.render(suite.rows, about, suite.skipped))
    aimed = [row for row in suite.rows if row["met"] is not None]
    print("\n%d of %d targets met; written: %s/report.html, report.json, report.txt, machine.json" % (
        sum(row["met"] for row in aimed), len(aimed), options.out))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
