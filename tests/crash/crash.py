#!/usr/bin/python3
"""Kills a gyred with SIGKILL under load and looks at what it kept; then damages its files.

  crash.py GYRED [--rounds N] [--seconds S] [--seed N] [--only TEXT] [gyred flags...]

Each round, producers with several requests in flight write numbered records and note every
acknowledgement, a consumer notes what it was shown, and the process is killed at a moment drawn
from the seed. After the restart
  - every acknowledged batch is at its acknowledged offset, with its own records (also acks=1:
    the kernel outlives the process);
  - a batch that was not acknowledged is there once or not at all: nobody sent it twice;
  - each producer's records are in the order of its sending, and offsets have no gap;
  - what a consumer was shown is still there;
  - the leader epoch of later batches is higher.
Then, with the process stopped, the tail of a log is torn and indexes are cut or removed: all
whole batches must be readable at every offset. A power cut is not this test's subject (a killed
process leaves its page cache): the fault-injecting file system is, in the unit tests.
"""
import argparse
import glob
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import kafka_wire as wire  # noqa: E402
from harness import Gyred, Runner, TemporaryDirectory, check, check_equal  # noqa: E402

IN_FLIGHT = 5


class Producer(threading.Thread):
    """Writes batches of numbered records until the connection breaks, IN_FLIGHT at a time."""

    def __init__(self, port, name, topic, partition, acks, first, seed):
        super().__init__(daemon=True)
        self.port, self.name_, self.topic, self.partition, self.acks = port, name, topic, partition, acks
        self.next, self.source = first, random.Random(seed)
        self.acknowledged = []  # (base offset, values)
        self.sent = 0
        self.error = None

    def run(self):
        pending = []
        try:
            with wire.Connection(self.port) as connection:
                while True:
                    while len(pending) < IN_FLIGHT:
                        count = self.source.randrange(1, 8)
                        values = [b"%s/%d/%s" % (self.name_, self.next + i, b"." * self.source.randrange(200))
                                  for i in range(count)]
                        self.next += count
                        body = connection.produce_body(self.topic, self.partition,
                                                       wire.batch([(None, v) for v in values]), self.acks)
                        self.sent += 1
                        pending.append((connection.send(wire.PRODUCE, 7, body), values))
                    wanted, values = pending.pop(0)
                    got, reader = connection.receive()
                    check_equal(got, wanted, "correlation id")
                    error, base = connection.produce_result(reader, 7)
                    check_equal(error, 0, "produce error")
                    self.acknowledged.append((base, values))
        except (wire.Closed, OSError):
            pass  # The kill.
        except Exception as error:
            self.error = error


class Consumer(threading.Thread):
    """Follows one partition from its start and notes every record shown."""

    def __init__(self, port, topic, partition):
        super().__init__(daemon=True)
        self.port, self.topic, self.partition = port, topic, partition
        self.shown = {}
        self.error = None

    def run(self):
        offset = 0
        try:
            with wire.Connection(self.port) as connection:
                while True:
                    error, _, content = connection.fetch(self.topic, self.partition, offset)
                    check_equal(error, 0, "fetch error at %d" % offset)
                    for stored in wire.split_batches(content):
                        for position, _, value in stored.records():
                            self.shown[position] = value
                            offset = max(offset, position + 1)
        except (wire.Closed, OSError):
            pass
        except Exception as error:
            self.error = error


PARTITIONS = 3


class Load:
    """What all rounds wrote and were told."""

    def __init__(self, seed):
        self.source = random.Random(seed)
        self.acknowledged = {p: {} for p in range(PARTITIONS)}  # base offset -> values
        self.next = {}
        self.epochs = {p: -1 for p in range(PARTITIONS)}  # highest leader epoch seen
        self.verified_end = {p: 0 for p in range(PARTITIONS)}
        self.shown = {p: {} for p in range(PARTITIONS)}

    def run_round(self, server, seconds):
        # Two producers share partition 0; partition 2 is written with acks=1.
        plan = [(b"a", 0, -1), (b"b", 0, -1), (b"c", 1, -1), (b"d", 2, 1)]
        producers = [Producer(server.port, name, "load", partition, acks, self.next.get(name, 0),
                              self.source.random()) for name, partition, acks in plan]
        consumers = [Consumer(server.port, "load", p) for p in range(PARTITIONS)]
        for thread in producers + consumers:
            thread.start()
        time.sleep(self.source.uniform(0.5, 1) * seconds)
        for thread in producers + consumers:
            if thread.error:
                raise thread.error
        check(server.alive(), "gyred ended by itself")
        server.kill()
        for thread in producers + consumers:
            thread.join(30)
            check(not thread.is_alive(), "a client hangs on a dead server")
            if thread.error:
                raise thread.error
        for producer in producers:
            check(producer.acknowledged, "producer %s got no acknowledgement" % producer.name_.decode())
            self.next[producer.name_] = producer.next
            for base, values in producer.acknowledged:
                check(base not in self.acknowledged[producer.partition], "offset %d given twice" % base)
                self.acknowledged[producer.partition][base] = values
        for consumer in consumers:
            self.shown[consumer.partition].update(consumer.shown)
        return sum(len(p.acknowledged) for p in producers)

    def verify(self, port):
        with wire.Connection(port) as connection:
            for partition in range(PARTITIONS):
                batches = connection.read_all("load", partition)
                self.verify_partition(partition, batches)

    def verify_partition(self, partition, batches):
        where = "load-%d" % partition
        stored, by_base, expected = {}, {}, 0
        for found in batches:
            check(found.crc_ok, "%s: bad CRC at %d" % (where, found.base_offset))
            check_equal(found.base_offset, expected, where + ": offset of the next batch")
            expected = found.base_offset + found.last_offset_delta + 1
            rows = list(found.records())
            by_base[found.base_offset] = [value for _, _, value in rows]
            for offset, _, value in rows:
                stored[offset] = value
        for base, values in self.acknowledged[partition].items():
            check(base in by_base, "%s: the batch acknowledged at %d is lost (the log ends at %d)" %
                  (where, base, expected))
            check_equal(by_base[base], values, "%s: records acknowledged at %d" % (where, base))
        last = {}
        for offset in range(expected):
            name, number = stored[offset].split(b"/")[:2]
            check(last.get(name, -1) < int(number), "%s: %s out of order or twice at %d" %
                  (where, stored[offset][:20], offset))
            last[name] = int(number)
        for offset, value in self.shown[partition].items():
            check(stored.get(offset) == value, "%s: a consumer was shown %r at %d, now %r" %
                  (where, value[:20], offset, stored.get(offset, b"nothing")[:20]))
        # Batches written after the last unclean end must carry a higher epoch.
        fresh = {b.leader_epoch for b in batches if b.base_offset >= self.verified_end[partition]}
        if fresh:
            check(min(fresh) > self.epochs[partition], "%s: leader epoch %d after %d" %
                  (where, min(fresh), self.epochs[partition]))
            check_equal(len(fresh), 1, where + ": leader epochs within one run")
            self.epochs[partition] = max(fresh)
        self.verified_end[partition] = expected


def kill_under_load(runner, binary, directory, flags, rounds, seconds, seed):
    load = Load(seed)
    server = Gyred(binary, directory, flags)
    with server:
        with wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("load", PARTITIONS, 1, {"segment.bytes": "1048576"}), 0,
                        "CreateTopics")
        for number in range(rounds):
            def one_round():
                if not server.alive():
                    server.start()
                acknowledged = load.run_round(server, seconds)
                start = time.monotonic()
                server.start()
                up = time.monotonic() - start
                load.verify(server.port)
                return "%d batches acknowledged, seed %d, up again in %.2f s" % (acknowledged, seed, up)
            runner.run("crash/kill_under_load_round_%d" % (number + 1), one_round)

        def ends_cleanly():
            check_equal(server.stop(), 0, "exit code")
            server.start()
            load.verify(server.port)
            check_equal(server.stop(), 0, "exit code")
        runner.run("crash/a_clean_end_after_the_kills_keeps_all", ends_cleanly)


def starts_again_after_every_kill(binary, directory, flags):
    """What runs at a start beside each other (recovery, registration, handlers) must never wait for itself."""
    with Gyred(binary, directory, flags) as server:
        with wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("again", 4), 0, "CreateTopics")
        slowest = 0
        for number in range(40):
            server.kill()
            start = time.monotonic()
            server.start()
            slowest = max(slowest, time.monotonic() - start)
            if number % 10 == 9:
                with wire.Connection(server.port) as connection:
                    check_equal(connection.produce("again", 0, wire.batch([(None, b"x")]))[0], 0, "produce")
        return "40 starts, the slowest %.2f s" % slowest


# ---- damage with the process stopped --------------------------------------------------------


class Damage:
    """One log of several segments, a way to damage it, and what must still be readable."""

    def __init__(self, binary, scratch, name, flags):
        self.server = Gyred(binary, os.path.join(scratch, name), flags)
        self.topic = os.path.join(self.server.directory, "torn-0")

    def segments(self, suffix): return sorted(glob.glob(os.path.join(self.topic, "*" + suffix)))

    def fill(self):
        with wire.Connection(self.server.port) as connection:
            check_equal(connection.create_topic("torn", 1, 1, {"segment.bytes": "1048576"}), 0, "CreateTopics")
            padding = b"p" * 8000
            for n in range(300):
                content = wire.batch([(b"%d" % n, b"%d" % i + padding) for i in range(1)])
                check_equal(connection.produce("torn", 0, content, acks=-1 if n % 50 == 49 else 1)[0], 0, "produce")
            before = connection.read_all("torn", 0)
        check_equal(sum(b.count for b in before), 300, "records before the damage")
        return before

    def verify(self, before, kept):
        """The first `kept` batches are as they were, each found by its offset; the log goes on after."""
        with wire.Connection(self.server.port) as connection:
            after = connection.read_all("torn", 0)
            check_equal(len(after), kept, "batches after the damage")
            for old, new in zip(before, after):
                check(new.crc_ok and (old.base_offset, old.crc, old.payload) ==
                      (new.base_offset, new.crc, new.payload), "batch at %d changed" % old.base_offset)
            for batch in before[:kept:7]:
                error, _, content = connection.fetch("torn", 0, batch.base_offset, max_bytes=1)
                check_equal(error, 0, "fetch at %d" % batch.base_offset)
                check_equal(next(wire.split_batches(content)).base_offset, batch.base_offset, "its first batch")
            end = before[kept].base_offset if kept < len(before) else \
                before[-1].base_offset + before[-1].last_offset_delta + 1
            check_equal(connection.produce("torn", 0, wire.batch([(None, b"after")])), (0, end), "the next produce")
            error, _, content = connection.fetch("torn", 0, end)
            check_equal([r for b in wire.split_batches(content) for r in b.records()], [(end, None, b"after")],
                        "the record written after the repair")

    def run(self, damage, lost, clean=False):
        with self.server as server:
            before = self.fill()
            if clean:
                check_equal(server.stop(), 0, "exit code")
            else:
                server.kill()
            damage(self)
            server.start()
            self.verify(before, len(before) - lost)
            check_equal(server.stop(), 0, "exit code")
            server.start()
            with wire.Connection(server.port) as connection:
                check_equal(len(connection.read_all("torn", 0)), len(before) - lost + 1, "after a clean restart")


def append(content):
    def damage(target):
        with open(target.segments(".log")[-1], "ab") as file:
            file.write(content)
    return damage


def cut(count):
    def damage(target):
        path = target.segments(".log")[-1]
        os.truncate(path, os.path.getsize(path) - count)
    return damage


def flip_in_the_last_batch(target):
    path = target.segments(".log")[-1]
    with open(path, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-100, os.SEEK_END)
        file.write(bytes([byte ^ 4]))


def each_index(change):
    def damage(target):
        indexes = target.segments(".index")
        check(len(indexes) > 1, "the log has one index only: %r" % indexes)
        for path in indexes:
            change(path)
    return damage


def halve(path):
    os.truncate(path, os.path.getsize(path) // 2 // 8 * 8)


def cut_in_an_entry(path):
    os.truncate(path, max(0, min(os.path.getsize(path), 64) - 3))


def scribble(path):
    with open(path, "r+b") as file:
        file.write(bytes(range(255, 255 - 64, -1)))


DAMAGES = [
    # name, damage, batches lost, after a clean end
    ("garbage_after_the_last_batch", append(b"garbage! " * 20), 0, False),
    ("zeros_after_the_last_batch", append(bytes(5000)), 0, False),
    ("half_a_batch_after_the_last", append(wire.batch([(None, b"half")], base_offset=300)[:40]), 0, False),
    ("a_batch_of_a_wrong_offset_after_the_last", append(wire.batch([(None, b"w")], base_offset=5)), 0, False),
    ("the_last_batch_cut_in_its_records", cut(7), 1, False),
    ("the_last_batch_cut_in_its_header", cut(8070), 1, False),
    ("a_flipped_bit_in_the_last_batch", flip_in_the_last_batch, 1, False),
    ("indexes_cut_in_half", each_index(halve), 0, False),
    ("indexes_cut_within_an_entry", each_index(cut_in_an_entry), 0, False),
    ("indexes_removed", each_index(os.remove), 0, False),
    ("indexes_scribbled_over", each_index(scribble), 0, False),
    ("indexes_removed_after_a_clean_end", each_index(os.remove), 0, True),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gyred")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--only")
    options, flags = parser.parse_known_args()
    runner = Runner("crash")
    runner.only = options.only
    with TemporaryDirectory() as scratch:
        try:
            kill_under_load(runner, options.gyred, os.path.join(scratch, "load"), flags, options.rounds,
                            options.seconds, options.seed)
        except AssertionError as error:
            runner.run("crash/kill_under_load", lambda: (_ for _ in ()).throw(error))
        runner.run("crash/starts_again_after_every_kill", starts_again_after_every_kill, options.gyred,
                   os.path.join(scratch, "again"), flags)
        for name, damage, lost, clean in DAMAGES:
            runner.run("crash/" + name, Damage(options.gyred, scratch, name, flags).run, damage, lost, clean)
        return runner.finish()


if __name__ == "__main__":
    sys.exit(main())
