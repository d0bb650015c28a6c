"""What real clients do: kcat 1.7.1 (librdkafka 2.0.2) and Debian's python3-kafka 2.0.2."""
import hashlib
import json
import os
import time

import kafka
from kafka.admin import KafkaAdminClient, NewTopic
from kafka import errors

import kafka_wire
from harness import check, check_equal, run_command

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def digest(lines):
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def kcat(port, *arguments, stdin=None, timeout=300, ok=True):
    return run_command(["kcat", "-b", "127.0.0.1:%d" % port] + list(arguments), stdin=stdin,
                       timeout=timeout, ok=ok)


def consume_lines(port, topic, *arguments, timeout=300):
    """All messages of a topic as printed by kcat, one a line."""
    _, out, _ = kcat(port, "-q", "-C", "-t", topic, "-o", "beginning", "-e", *arguments, timeout=timeout)
    return out.encode().splitlines()


def producer(port, **settings):
    return kafka.KafkaProducer(bootstrap_servers="127.0.0.1:%d" % port, **settings)


def consumer(port, topic, partition=0, **settings):
    """A consumer without a group, at the beginning of one partition."""
    settings.setdefault("consumer_timeout_ms", 20000)
    client = kafka.KafkaConsumer(bootstrap_servers="127.0.0.1:%d" % port, group_id=None,
                                 enable_auto_commit=False, auto_offset_reset="earliest", **settings)
    part = kafka.TopicPartition(topic, partition)
    client.assign([part])
    client.seek_to_beginning(part)
    return client


def take(client, count):
    """The next `count` messages; fails when they do not come."""
    got = []
    for message in client:
        got.append(message)
        if len(got) == count:
            return got
    raise AssertionError("consumed %d of %d messages" % (len(got), count))


def admin(port):
    return KafkaAdminClient(bootstrap_servers="127.0.0.1:%d" % port)


def create(port, topic, partitions=1, **configs):
    with kafka_wire.Connection(port) as connection:
        settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
        check_equal(connection.create_topic(topic, partitions, 1, settings), 0, "CreateTopics " + topic)
        # A real cluster needs a moment until the topic has its leaders.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            error, parts = connection.metadata([topic])[topic]
            if error == 0 and len(parts) == partitions and all(
                    connection.list_offset(topic, p, -1)[0] == 0 for p in parts):
                return
            time.sleep(0.05)
    raise AssertionError("topic %s has no leader after 10 s" % topic)


# ---- the tests; each gets the port, the scale (messages of the large one) and a scratch directory


def lists_itself(port, scale, scratch):
    _, out, _ = kcat(port, "-L", "-J")
    brokers = json.loads(out)["brokers"]
    check_equal([b["name"] for b in brokers], ["127.0.0.1:%d" % port], "brokers of kcat -L")


def many_messages_in_and_out_by_kcat(port, scale, scratch):
    create(port, "many", partitions=4)
    path = os.path.join(scratch, "many.txt")
    with open(path, "wb") as file:
        for n in range(scale):
            file.write(b"%08d %s\n" % (n, b"0123456789abcdef" * 5))
    start = time.monotonic()
    kcat(port, "-P", "-t", "many", "-l", path, timeout=600)
    wrote = time.monotonic() - start
    start = time.monotonic()
    lines = consume_lines(port, "many", "-f", "%p %s\\n", timeout=600)
    read = time.monotonic() - start
    last = {}
    for line in lines:
        partition, number = line[0:1], line[2:10]
        check(last.get(partition, b"") < number, "partition %s is out of order at %s" % (partition, number))
        last[partition] = number
    with open(path, "rb") as file:
        wanted = file.read().splitlines()
    got = sorted(line[2:] for line in lines)
    check_equal(len(got), scale, "messages")
    check_equal(digest(got), digest(wanted), "sha256 of all messages")
    os.remove(path)
    return "%d messages in %d partitions, in %.1f s and out %.1f s" % (scale, len(last), wrote, read)


def each_codec_both_clients(port, scale, scratch, codec):
    """kcat and python-kafka write to one topic, each of them reads what both wrote."""
    count, python_count = 50000, 50000 if scale > 50000 else 5000
    topic = "codec-" + codec
    create(port, topic)
    path = os.path.join(scratch, topic)
    wanted = [b"kcat %s %06d %s" % (codec.encode(), n, b"x" * (n % 97)) for n in range(count)]
    with open(path, "wb") as file:
        file.write(b"\n".join(wanted) + b"\n")
    kcat(port, "-P", "-t", topic, "-p", "0", "-z", codec, "-l", path)
    os.remove(path)
    with kafka_wire.Connection(port) as connection:
        check_equal(connection.list_offset(topic, 0, -1)[2], count, "end offset after kcat")
    client = producer(port, compression_type=None if codec == "none" else codec, linger_ms=5, acks="all")
    for n in range(python_count):
        wanted.append(b"python %s %06d %s" % (codec.encode(), n, b"y" * (n % 89)))
        client.send(topic, wanted[-1], partition=0)
    client.flush(60)
    client.close()
    lines = consume_lines(port, topic)
    check_equal(len(lines), len(wanted), "messages read by kcat")
    check_equal(digest(lines), digest(wanted), "sha256 of what kcat read")
    reader = consumer(port, topic)
    got = take(reader, len(wanted))
    reader.close()
    check_equal(digest([m.value for m in got]), digest(wanted), "sha256 of what python read")
    check_equal([m.offset for m in got], list(range(len(wanted))), "offsets")
    # librdkafka silently sends uncompressed when it distrusts the broker: look at the bytes. (A batch
    # of few messages may be plain in any case: compressed it would be larger.)
    with kafka_wire.Connection(port) as connection:
        batches = connection.read_all(topic, 0)
    check(all(b.crc_ok for b in batches), "a stored batch has a wrong CRC")
    for whose, mine in (("kcat", [b for b in batches if b.base_offset < count]),
                        ("python", [b for b in batches if b.base_offset >= count])):
        codecs = {b.codec for b in mine if b.count >= 10}
        check_equal(codecs, {CODECS[codec]}, "codecs of %s's batches of 10 messages and more" % whose)
    return "%d by kcat, %d by python" % (count, python_count)


def keys_headers_and_nulls(port, scale, scratch):
    create(port, "records")
    client = producer(port, acks="all")
    wanted = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"tombstone", None, []),
        (b"", b"", []),
        (b"with headers", b"v", [("a", b"1"), ("a", b"2"), ("empty", b""), ("n\u00fc", b"\x00\xff")]),
    ]
    for key, value, headers in wanted:
        client.send("records", key=key, value=value, headers=headers, partition=0).get(20)
    client.close()
    reader = consumer(port, "records")
    got = take(reader, len(wanted))
    reader.close()
    check_equal([(m.key, m.value, m.headers) for m in got], wanted, "records read by python")
    # kcat: -Z makes an empty value a null, -H without '=' a null header.
    kcat(port, "-P", "-t", "records", "-p", "0", "-K:", "-Z", "-H", "h=v", "-H", "nothing",
         stdin=b"k1:v1\nk2:\n")
    _, out, _ = kcat(port, "-C", "-t", "records", "-q", "-p", "0", "-o", "beginning", "-e", "-J")
    rows = [json.loads(line) for line in out.splitlines()]
    check_equal([(r["key"], r["payload"]) for r in rows[-2:]], [("k1", "v1"), ("k2", None)], "by kcat")
    check_equal(rows[-1]["headers"], ["h", "v", "nothing", None], "headers by kcat")
    check_equal(rows[2]["payload"], None, "python's null value read by kcat")
    check_equal(rows[3]["payload"], "", "python's empty value read by kcat")


def raises(error, function):
    try:
        function()
    except error:
        return
    except errors.KafkaError as other:
        raise AssertionError("%s instead of %s" % (type(other).__name__, error.__name__))
    raise AssertionError("%s did not come" % error.__name__)


def topics_are_created_and_deleted(port, scale, scratch):
    client = admin(port)
    client.create_topics([NewTopic("made", 3, 1), NewTopic("made-too", 1, 1)])
    time.sleep(0.5)
    check({"made", "made-too"} <= set(client.list_topics()), "created topics are not listed")
    described = client.describe_topics(["made"])[0]
    check_equal(sorted(p["partition"] for p in described["partitions"]), [0, 1, 2], "partitions")
    check_equal({p["leader"] for p in described["partitions"]},
                {b["node_id"] for b in client.describe_cluster()["brokers"]}, "leaders")
    raises(errors.TopicAlreadyExistsError, lambda: client.create_topics([NewTopic("made", 3, 1)]))
    raises(errors.InvalidReplicationFactorError, lambda: client.create_topics([NewTopic("r3", 1, 3)]))
    raises(errors.InvalidTopicError, lambda: client.create_topics([NewTopic("no/slash", 1, 1)]))
    raises(errors.InvalidPartitionsError, lambda: client.create_topics([NewTopic("none", 0, 1)]))
    kcat(port, "-P", "-t", "made", "-p", "2", stdin=b"old\n")
    client.delete_topics(["made"])
    time.sleep(0.5)
    check("made" not in client.list_topics(), "a deleted topic is still listed")
    raises(errors.UnknownTopicOrPartitionError, lambda: client.delete_topics(["made"]))
    client.create_topics([NewTopic("made", 3, 1)])
    client.close()
    time.sleep(0.5)
    check_equal(consume_lines(port, "made"), [], "messages in a topic created again under an old name")


def broker_defaults_are_taken_for_minus_one(port, scale, scratch):
    with kafka_wire.Connection(port) as connection:
        for version in (2, 3, 4):
            topic = kafka_wire.string("defaults-%d" % version) + kafka_wire.int32(-1) + \
                kafka_wire.int16(-1) + kafka_wire.array([]) + kafka_wire.array([])
            body = kafka_wire.array([topic]) + kafka_wire.int32(15000) + kafka_wire.int8(0)
            reader = connection.request(kafka_wire.CREATE_TOPICS, version, body)
            reader.int32()
            (_, error, message), = reader.array(lambda: (reader.string(), reader.int16(), reader.string()))
            check_equal(error, 0, "CreateTopics v%d with -1, -1 (%s)" % (version, message))


def a_topic_is_created_when_first_written_to(port, scale, scratch):
    kcat(port, "-P", "-t", "auto-made", stdin=b"hello\n")
    check_equal(consume_lines(port, "auto-made"), [b"hello"], "messages")
    _, _, err = kcat(port, "-C", "-t", "never-made", "-o", "beginning", "-e", ok=False)
    check("nknown topic" in err, "a consumer of a missing topic is told: " + err[-200:])
    with kafka_wire.Connection(port) as connection:
        check("never-made" not in connection.metadata(None), "a consumer created a topic")


def ten_megabytes_where_the_topic_allows_it(port, scale, scratch):
    create(port, "large", max_message_bytes=11000000)
    create(port, "small")
    big = os.urandom(1 << 20) * 10
    client = producer(port, acks="all", max_request_size=12000000, buffer_memory=1 << 26)
    sent = client.send("large", big, partition=0).get(60)
    check_equal(sent.offset, 0, "offset of the 10 MB message")
    raises(errors.MessageSizeTooLargeError, lambda: client.send("small", big, partition=0).get(60))
    check_equal(client.send("small", b"fits", partition=0).get(20).offset, 0, "offset after a refusal")
    client.close()
    path = os.path.join(scratch, "big")
    with open(path, "wb") as file:
        file.write(big)
    kcat(port, "-P", "-t", "large", "-p", "0", "-X", "message.max.bytes=12000000", path)
    code, _, err = kcat(port, "-P", "-t", "small", "-p", "0", "-X", "message.max.bytes=12000000", path,
                        ok=False)
    check("size too large" in err, "kcat is told of the refusal: exit %d, %s" % (code, err[-300:]))
    os.remove(path)
    reader = consumer(port, "large", max_partition_fetch_bytes=1 << 20)
    got = take(reader, 2)
    reader.close()
    check([hashlib.sha256(m.value).digest() for m in got] == [hashlib.sha256(big).digest()] * 2,
          "the 10 MB messages came back changed")
    check_equal(consume_lines(port, "small"), [b"fits"], "messages of the small topic")


def offsets_by_timestamp(port, scale, scratch):
    create(port, "timed")
    base = int(time.time()) * 1000 - 7_200_000
    client = producer(port, acks="all", linger_ms=50)
    for n in range(5000):
        client.send("timed", b"%d" % n, partition=0, timestamp_ms=base + n * 1000)
    client.flush(60)
    client.close()
    part = kafka.TopicPartition("timed", 0)
    reader = consumer(port, "timed")
    check_equal((reader.beginning_offsets([part])[part], reader.end_offsets([part])[part]), (0, 5000),
                "beginning and end")
    for stamp, wanted in ((0, 0), (base, 0), (base + 1, 1), (base + 1000, 1), (base + 2_345_000, 2345),
                          (base + 2_345_001, 2346), (base + 4_999_000, 4999)):
        found = reader.offsets_for_times({part: stamp})[part]
        check_equal((found.offset, found.timestamp), (wanted, base + wanted * 1000), "at %d" % stamp)
    check_equal(reader.offsets_for_times({part: base + 4_999_001})[part], None, "after the last")
    reader.seek(part, 2345)
    check_equal(next(reader).value, b"2345", "message at the offset found")
    reader.close()
    _, out, _ = kcat(port, "-Q", "-t", "timed:0:%d" % (base + 77_500))
    check("offset 78" in out, "kcat -Q prints: " + out)


def a_waiting_consumer_gets_a_message_at_once(port, scale, scratch):
    create(port, "waited")
    with kafka_wire.Connection(port) as reader, kafka_wire.Connection(port) as writer:
        start = time.monotonic()
        error, _, content = reader.fetch("waited", 0, 0, max_wait_ms=400)
        waited = time.monotonic() - start
        check_equal((error, content), (0, b""), "an empty fetch has empty records, not null")
        check(0.3 < waited < 2, "max_wait_ms=400 waited %.2f s" % waited)
        part = kafka_wire.int32(0) + kafka_wire.int64(0) + kafka_wire.int32(1 << 20)
        reader.send(kafka_wire.FETCH, 4, kafka_wire.int32(-1) + kafka_wire.int32(10000) +
                    kafka_wire.int32(1) + kafka_wire.int32(1 << 20) + kafka_wire.int8(0) +
                    kafka_wire.array([kafka_wire.string("waited") + kafka_wire.array([part])]))
        time.sleep(0.3)
        start = time.monotonic()
        check_equal(writer.produce("waited", 0, kafka_wire.batch([(None, b"news")])), (0, 0), "produce")
        reader.receive()
        took = time.monotonic() - start
        check(took < 2, "the waiting fetch was answered %.2f s after the produce" % took)


def requests_of_a_megabyte_do_not_stall(port, scale, scratch):
    create(port, "megabyte", max_message_bytes=3000000)
    with kafka_wire.Connection(port) as connection:
        for size in (999_000, 1_048_576, 1_048_577, 2_500_000):
            content = kafka_wire.batch([(None, os.urandom(1000) * (size // 1000))])
            start = time.monotonic()
            error, _ = connection.produce("megabyte", 0, content)
            check_equal(error, 0, "produce of %d bytes" % size)
            check(time.monotonic() - start < 5, "%d bytes took more than 5 s" % size)


def pipelined_requests_are_answered_in_order(port, scale, scratch):
    create(port, "pipelined")
    with kafka_wire.Connection(port) as connection:
        frames, wanted = b"", []
        content = kafka_wire.batch([(None, b"x" * 100)])
        for n in range(200):
            if n % 2:
                body = connection.produce_body("pipelined", 0, content)
                frame = connection.header(kafka_wire.PRODUCE, 7) + body
            else:
                frame = connection.header(kafka_wire.METADATA, 1) + kafka_wire.array([])
            wanted.append(connection.correlation_id)
            frames += kafka_wire.int32(len(frame)) + frame
        connection.send_raw(frames)
        offsets = []
        for number in wanted:
            got, reader = connection.receive()
            check_equal(got, number, "correlation id")
            if got % 2 == 0:
                offsets.append(connection.produce_result(reader, 7))
        check_equal(offsets, [(0, n) for n in range(100)], "(error, offset) of the produces")


def acks_zero_sends_no_answer(port, scale, scratch):
    create(port, "acks-zero")
    with kafka_wire.Connection(port) as connection:
        content = kafka_wire.batch([(None, b"silent")])
        connection.send(kafka_wire.PRODUCE, 7, connection.produce_body("acks-zero", 0, content, acks=0))
        error, _ = connection.api_versions()
        check_equal(error, 0, "the next answer on the connection")
        deadline = time.monotonic() + 10
        while connection.list_offset("acks-zero", 0, -1)[2] < 1:
            check(time.monotonic() < deadline, "the record did not appear within 10 s")
            time.sleep(0.05)


def advertises_what_clients_look_up(port, scale, scratch):
    with kafka_wire.Connection(port) as connection:
        error, ranges = connection.api_versions()
        check_equal(error, 0, "error")
        for key, version in ((0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (1, 11), (2, 1), (3, 0), (3, 1),
                             (3, 4), (10, 0), (18, 0), (18, 3), (19, 2), (20, 1)):
            low, high = ranges.get(key, (1, 0))
            check(low <= version <= high, "api %d is advertised as %d-%d, without %d" %
                  (key, low, high, version))


def kept_over_restart_before(port, scale, scratch):
    """First half of the restart test: what must still be there afterwards."""
    create(port, "kept", partitions=2, max_message_bytes=11000000)
    create(port, "doomed")
    kcat(port, "-P", "-t", "kept", "-p", "1", "-z", "gzip", stdin=b"one\ntwo\nthree\n")
    with kafka_wire.Connection(port) as connection:
        check_equal(connection.delete_topic("doomed"), 0, "DeleteTopics")


def kept_over_restart_after(port, scale, scratch):
    with kafka_wire.Connection(port) as connection:
        topics = connection.metadata(None)
        check_equal(topics["kept"], (0, topics["kept"][1]), "topic")
        check_equal(sorted(topics["kept"][1]), [0, 1], "partitions")
        check("doomed" not in topics, "a deleted topic is back after a restart")
        check_equal(connection.list_offset("kept", 1, -1), (0, -1, 3), "end offset")
        big = kafka_wire.batch([(None, bytes(2_000_000))])
        check_equal(connection.produce("kept", 1, big), (0, 3), "max.message.bytes after the restart")
    check_equal(consume_lines(port, "kept", "-p", "1")[:3], [b"one", b"two", b"three"], "messages")


ALL = [
    lists_itself,
    advertises_what_clients_look_up,
    keys_headers_and_nulls,
    topics_are_created_and_deleted,
    broker_defaults_are_taken_for_minus_one,
    a_topic_is_created_when_first_written_to,
    ten_megabytes_where_the_topic_allows_it,
    offsets_by_timestamp,
    a_waiting_consumer_gets_a_message_at_once,
    requests_of_a_megabyte_do_not_stall,
    pipelined_requests_are_answered_in_order,
    acks_zero_sends_no_answer,
    many_messages_in_and_out_by_kcat,
]
