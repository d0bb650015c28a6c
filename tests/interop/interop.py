#!/usr/bin/python3
"""Real clients, bad input and start-up errors against a gyred that this starts itself.

  interop.py GYRED [--quick] [--only TEXT] [gyred flags...]
  interop.py --bootstrap PORT [--quick] [--only TEXT]

--quick writes 50,000 messages where the full run writes 1,000,000. --only keeps the tests whose
name contains TEXT. --bootstrap tests a fresh broker that is there already (an Apache Kafka, to know
that the tests themselves are right). Prints one line PASS, FAIL or SKIP a test.
"""
import argparse
import os
import sys

import admin_pages
import bad_input
import clients
import data_health
import live_flags
import standby
import starting
import startup
import stopping
import takeover
from harness import Gyred, Runner, TemporaryDirectory, check_equal


def run_clients(runner, port, scale, scratch):
    for test in clients.ALL:
        runner.run("clients/" + test.__name__, test, port, scale, scratch)
    for codec in clients.CODECS:
        runner.run("clients/codec_%s_both_clients" % codec, clients.each_codec_both_clients, port, scale,
                   scratch, codec)


def run_restart(runner, server, scale, scratch):
    def restart():
        clients.kept_over_restart_before(server.port, scale, scratch)
        check_equal(server.stop(), 0, "exit code")
        server.start()
        clients.kept_over_restart_after(server.port, scale, scratch)
    runner.run("clients/topics_configs_and_records_survive_a_restart", restart)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gyred", nargs="?")
    parser.add_argument("--bootstrap", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only")
    options, flags = parser.parse_known_args()
    scale = 50_000 if options.quick else 1_000_000
    runner = Runner("interop")
    runner.only = options.only

    with TemporaryDirectory() as scratch:
        if options.bootstrap:
            run_clients(runner, options.bootstrap, scale, scratch)
            bad_input.run_all(runner, options.bootstrap, None)
            return runner.finish()
        if not options.gyred:
            parser.error("name the gyred to test")
        for test in startup.ALL:
            runner.run("startup/" + test.__name__, test, options.gyred, scratch)
        for test in starting.ALL:
            runner.run("starting/" + test.__name__, test, options.gyred, scratch)
        for test in stopping.ALL:
            runner.run("stopping/" + test.__name__, test, options.gyred, scratch)
        for test in data_health.ALL:
            runner.run("data_health/" + test.__name__, test, options.gyred, scratch)
        for test in takeover.ALL:
            runner.run("takeover/" + test.__name__, test, options.gyred, scratch)
        for test in standby.ALL:
            runner.run("standby/" + test.__name__, test, options.gyred, scratch)
        try:
            admin_pages.run_all(runner, options.gyred, scratch, flags)
            live_flags.run_all(runner, options.gyred, scratch, flags)
            with Gyred(options.gyred, os.path.join(scratch, "data"), flags) as server:
                run_clients(runner, server.port, scale, scratch)
                run_restart(runner, server, scale, scratch)
                bad_input.run_all(runner, server.port, server)

                def ends_well():
                    check_equal(server.process.poll(), None, "exit code before it was asked to end")
                    check_equal(server.stop(), 0, "exit code")
                runner.run("clients/the_server_ends_with_zero_after_all_that", ends_well)
                if runner.failed:
                    print("---- end of gyred's stderr\n%s\n----" % server.stderr()[-4000:])
        except AssertionError as error:
            runner.run("start", lambda: (_ for _ in ()).throw(error))
        return runner.finish()


if __name__ == "__main__":
    sys.exit(main())
