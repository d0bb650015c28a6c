#!/usr/bin/python3
"""Lets Apache Kafka's kafka-dump-log.sh read a data directory that gyred wrote.

  log_dump.py GYRED DIRECTORY_OF_KAFKA_DUMP_LOG [gyred flags...]
  log_dump.py --directory DATA DIRECTORY_OF_KAFKA_DUMP_LOG    only reads what is there

Segments, their indexes and the metadata log must be read to the end, with exit code 0 and
without a complaint, and the counts must be those of what was written.
"""
import glob
import os
import re
import sys

import kafka_wire as wire
from clients import create, kcat
from harness import Gyred, Runner, TemporaryDirectory, check, check_equal, run_command

COMPLAINTS = re.compile(r"mismatch|corrupt|exception|invalid|isvalid: false|not found|error|could not|"
                        r"non-consecutive|out of order|is empty\.$", re.I)


def dump(tool, *arguments):
    code, out, err = run_command([tool] + list(arguments), timeout=120, ok=False)
    err = "\n".join(line for line in err.splitlines() if not line.startswith("SLF4J"))
    # Of a segment that does not start at 0 the tool always says that its first offset follows -1.
    err = re.sub(r"Non-consecutive offsets in \S*?0*(\d+)\.log\s+-1 is followed by \1(?!\d)", "", err)
    text = re.sub(r"\bpayload: .*", "payload", out)  # What users wrote is no complaint.
    found = COMPLAINTS.search(text) or COMPLAINTS.search(err)
    check(code == 0 and not found and not err.strip(), "kafka-dump-log %s: exit %d, complaint %r, stderr %s" %
          (" ".join(arguments), code, found and text[max(0, found.start() - 200):found.end() + 100], err[-300:]))
    return out


def segments_are_read(tool, topic_directory, records=None):
    total = 0
    logs = sorted(glob.glob(os.path.join(topic_directory, "*.log")))
    check(logs, "no segment in " + topic_directory)
    for path in logs:
        with open(path, "rb") as file:
            batches = list(wire.split_batches(file.read()))
        for flags in (["--print-data-log"], ["--deep-iteration"]):
            out = dump(tool, "--files", path, *flags)
            check_equal(len(re.findall(r"(?m)^baseOffset: .*isvalid: true", out)), len(batches), "valid batches")
            check_equal(len(re.findall(r"(?m)^\| offset: ", out)), sum(b.count for b in batches), "records")
        total += sum(b.count for b in batches)
    if records is not None:
        check_equal(total, records, "records in all segments")
        check(len(logs) > 1, "the log has one segment only")
    return "%d segments, %d records" % (len(logs), total)


def indexes_are_read(tool, topic_directory, entries_wanted):
    entries = 0
    indexes = sorted(glob.glob(os.path.join(topic_directory, "*.index")))
    check(indexes, "no index in " + topic_directory)
    for path in indexes:
        out = dump(tool, "--files", path, "--index-sanity-check")
        check("passed sanity check" in out, "sanity check of %s: %s" % (path, out[-200:]))
        out = dump(tool, "--files", path)
        entries += len(re.findall(r"(?m)^offset: \d+ position: \d+", out))
        dump(tool, "--files", path, "--verify-index-only")
    check(entries >= entries_wanted, "%d index entries, %d wanted" % (entries, entries_wanted))
    return "%d indexes, %d entries" % (len(indexes), entries)


def the_metadata_log_is_read(tool, directory, wanted):
    path = os.path.join(directory, "__cluster_metadata-0", "0" * 20 + ".log")
    out = dump(tool, "--cluster-metadata-decoder", "--files", path)
    for pattern in wanted:
        check(re.search(pattern, out), "the metadata log does not hold %s: %s" % (pattern, out[-600:]))
    return "%d records" % len(re.findall(r'"type":"', out))


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    runner = Runner("log_dump")
    if sys.argv[1] == "--directory":
        directory, tool = sys.argv[2], os.path.join(sys.argv[3], "kafka-dump-log.sh")
        for topic in sorted(glob.glob(os.path.join(directory, "[a-zA-Z]*-[0-9]"))):
            runner.run("log_dump/segments/" + os.path.basename(topic), segments_are_read, tool, topic)
        runner.run("log_dump/metadata", the_metadata_log_is_read, tool, directory, [])
        return runner.finish()

    binary, tool, flags = sys.argv[1], os.path.join(sys.argv[2], "kafka-dump-log.sh"), sys.argv[3:]
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lines = b"".join(b"key%d:value %d %s\n" % (n, n, b"z" * (n % 200)) for n in range(10000))
    with TemporaryDirectory() as scratch, Gyred(binary, os.path.join(scratch, "data"), flags) as server:
        create(server.port, "dumped", partitions=1, segment_bytes=1048576, max_message_bytes=2000000)
        create(server.port, "removed")
        for codec in codecs:
            kcat(server.port, "-P", "-t", "dumped", "-p", "0", "-K:", "-z", codec, "-H", "h=1",
                 "-X", "batch.num.messages=50", stdin=lines)
        with wire.Connection(server.port) as connection:
            check_equal(connection.delete_topic("removed"), 0, "DeleteTopics")
            check_equal(connection.list_offset("dumped", 0, -1)[2], 10000 * len(codecs), "end offset")
        topic = os.path.join(server.directory, "dumped-0")
        check_equal(server.stop(), 0, "exit code")
        metadata = ['"type":"TOPIC_RECORD".*"name":"dumped"', '"type":"PARTITION_RECORD"', '"type":"CONFIG_RECORD"',
                    '"type":"REMOVE_TOPIC_RECORD"', '"max.message.bytes"']
        for moment in ("a_clean_end", "a_kill"):
            runner.run("log_dump/segments_after_" + moment, segments_are_read, tool, topic, 10000 * len(codecs))
            runner.run("log_dump/indexes_after_" + moment, indexes_are_read, tool, topic, 20)
            runner.run("log_dump/metadata_after_" + moment, the_metadata_log_is_read, tool, server.directory,
                       metadata)
            if moment == "a_clean_end":
                server.start()
                server.kill()
                server.start()  # Recovery; what it left is read next.
                check_equal(server.stop(), 0, "exit code")
    return runner.finish()


if __name__ == "__main__":
    sys.exit(main())
