"""What must not hurt: malformed frames, other protocols, impossible counts, damaged batches.

Each gets Kafka's answer or a closed connection, while another client works undisturbed.
"""
import os
import random
import re
import signal
import struct
import threading
import time
import zlib

import kafka_wire as wire
from clients import create
from harness import check, check_equal
from kafka_wire import array, data, int8, int16, int32, int64, string, uvarint

CLOSE_SECONDS = 10


class Bystander:
    """Another client: writes and reads one topic all along and notes what goes wrong."""

    def __init__(self, port, topic):
        self.port, self.topic = port, topic
        self.error, self.rounds, self.slowest = None, 0, 0.0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join(30)

    def work(self):
        try:
            with wire.Connection(self.port, timeout=20) as connection:
                while not self.done.is_set():
                    start = time.monotonic()
                    value = b"round %d" % self.rounds
                    error, offset = connection.produce(self.topic, 0, wire.batch([(None, value)]))
                    check_equal(error, 0, "the bystander's produce")
                    error, _, content = connection.fetch(self.topic, 0, offset)
                    got = [r for b in wire.split_batches(content) for r in b.records()][0]
                    check_equal(got, (offset, None, value), "the bystander's record")
                    self.slowest = max(self.slowest, time.monotonic() - start)
                    self.rounds += 1
                    time.sleep(0.01)
        except Exception as error:  # Reported by the test that owns the bystander.
            self.error = error


def expect_closed(port, content, what, then_shut=False):
    with wire.Connection(port) as connection:
        try:
            connection.send_raw(content)
        except wire.Closed:
            return
        if then_shut:
            connection.socket.shutdown(1)
        check(connection.closed_within(CLOSE_SECONDS), what + ": answered, or not closed within %d s" %
              CLOSE_SECONDS)


def frame(api_key, version, body, flexible=False, correlation_id=1):
    content = int16(api_key) + int16(version) + int32(correlation_id) + string("bad") + \
        (b"\0" if flexible else b"") + body
    return int32(len(content)) + content


def expect_request_closed(port, api_key, version, body, what, flexible=False):
    expect_closed(port, frame(api_key, version, body, flexible), what)


def expect_an_answer_or_the_end(connection, content, what):
    try:
        connection.send_raw(content)
        connection.socket.shutdown(1)
        connection.socket.recv(65536)
    except (ConnectionError, wire.Closed):
        pass
    except OSError as error:  # A timeout: the request hangs.
        raise AssertionError("%s: %s" % (what, error))


def oversized_and_negative_frames(port, gyred):
    for size in (0x7FFFFFFF, 104857601, -1, -0x80000000):
        expect_closed(port, int32(size) + b"xxxx", "frame size %d" % size)


def refusals_are_logged_with_the_peer(port, gyred):
    before = len(gyred.stderr())
    with wire.Connection(port) as connection:
        peer = "127.0.0.1:%d" % connection.local_port()
        connection.send_raw(int32(0x7FFFFFFF))
        check(connection.closed_within(CLOSE_SECONDS), "not closed")
    deadline = time.monotonic() + 5
    while peer not in gyred.stderr()[before:]:
        check(time.monotonic() < deadline, "no log line names %s: %r" % (peer, gyred.stderr()[before:][-300:]))
        time.sleep(0.1)
    lines = [line for line in gyred.stderr()[before:].splitlines() if peer in line]
    check_equal(len(lines), 1, "log lines about one refused connection")
    # A flood of the same must not flood the log.
    before = len(gyred.stderr().splitlines())
    for _ in range(300):
        with wire.Connection(port) as connection:
            connection.send_raw(int32(-5))
            check(connection.closed_within(CLOSE_SECONDS), "not closed")
    time.sleep(0.5)
    wrote = len(gyred.stderr().splitlines()) - before
    check(wrote <= 60, "300 bad connections wrote %d log lines" % wrote)
    return lines[0][-120:]


def frames_shorter_than_their_header(port, gyred):
    for size in (0, 1, 3, 7):
        expect_closed(port, int32(size) + b"\0" * size, "a frame of %d bytes" % size)


def a_frame_cut_by_the_end_of_the_connection(port, gyred):
    for content in (b"\0", b"\0\0", int32(1000), int32(1000) + b"x" * 999):
        expect_closed(port, content, "%d bytes, then end" % len(content), then_shut=True)
    for _ in range(50):  # The same with a reset instead of an end.
        connection = wire.Connection(port)
        connection.send_raw(int32(100000) + b"x" * 5000)
        connection.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER
        connection.close()


def unknown_apis_and_versions(port, gyred):
    for key, version in ((999, 0), (-1, 0), (32767, 32767), (7, 0), (4, 0), (5, 1), (6, 0),
                         (wire.METADATA, 99), (wire.METADATA, -1), (wire.FETCH, 3), (wire.PRODUCE, 99)):
        expect_request_closed(port, key, version, b"\0" * 64, "api %d version %d" % (key, version))


def produce_before_version_3_is_closed_on(port, gyred):
    content = int16(1) + int32(1000) + array([string("bystander") + array([int32(0) + data(b"")])])
    for version in (0, 1, 2):
        expect_request_closed(port, wire.PRODUCE, version, content, "Produce v%d" % version)


def an_unknown_api_versions_version_is_answered(port, gyred):
    for version in (6, 99, 32767):
        with wire.Connection(port) as connection:
            reader = connection.request(wire.API_VERSIONS, version, b"\0\0\0", flexible=True)
            check_equal(reader.int16(), wire.UNSUPPORTED_VERSION, "error for v%d" % version)
            ranges = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
            check_equal(reader.rest(), 0, "bytes after the v0 body")
            own = [r for r in ranges if r[0] == wire.API_VERSIONS]
            check(own and own[0][1] == 0 and own[0][2] >= 4, "range of ApiVersions itself: %r" % own)
            check_equal(connection.api_versions()[0], 0, "the connection goes on after it")


def other_protocols_on_the_port(port, gyred):
    expect_closed(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP GET")
    expect_closed(port, b"POST /topics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP POST")
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(193)
    expect_closed(port, hello, "TLS hello")
    expect_closed(port, b"SSH-2.0-OpenSSH_9.2\r\n", "SSH")
    # Kafka knows no PROXY header either: its first bytes are a length far beyond the limit.
    expect_closed(port, b"PROXY TCP4 10.1.2.3 10.1.2.4 40000 9092\r\n", "PROXY 1")
    expect_closed(port, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12), "PROXY 2")
    expect_closed(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 preface")


def array_bombs(port, gyred):
    before = gyred.resident_bytes() if gyred else 0
    for count in (0x7FFFFFFF, 0x10000000, 100000):
        expect_request_closed(port, wire.METADATA, 1, int32(count), "Metadata with %d topics" % count)
        expect_request_closed(port, wire.METADATA, 12, uvarint(count + 1), "Metadata v12 bomb", flexible=True)
        expect_request_closed(port, wire.PRODUCE, 7, string(None) + int16(1) + int32(1000) + int32(count),
                              "Produce with %d topics" % count)
        expect_request_closed(port, wire.PRODUCE, 7, string(None) + int16(1) + int32(1000) +
                              array([string("bystander") + int32(count)]), "Produce: %d partitions" % count)
        expect_request_closed(port, wire.FETCH, 4, int32(-1) + int32(0) + int32(0) + int32(1) + int8(0) +
                              int32(count), "Fetch with %d topics" % count)
        expect_request_closed(port, wire.CREATE_TOPICS, 2, int32(count), "CreateTopics with %d" % count)
        expect_request_closed(port, wire.LIST_OFFSETS, 1, int32(-1) + int32(count), "ListOffsets %d" % count)
    expect_request_closed(port, wire.PRODUCE, 7, string(None) + int16(1) + int32(1000) + int32(-7), "-7 topics")
    expect_request_closed(port, wire.METADATA, 1, array([int16(-9)]), "a string length of -9")
    expect_request_closed(port, wire.METADATA, 12, b"\xff" * 5 + b"\x0f", "a varint of 6 bytes", flexible=True)
    expect_request_closed(port, wire.METADATA, 12, b"\0\1\1" + uvarint(1) + uvarint(0) +
                          uvarint(0x7FFFFFFF), "a tagged field larger than the request", flexible=True)
    if gyred:
        grown = gyred.resident_bytes() - before
        check(grown < 256 << 20, "the bombs grew the process by %d MiB" % (grown >> 20))


def bodies_that_end_early(port, gyred):
    whole = wire.Connection.produce_body("bystander", 0, wire.batch([(None, b"x")]))
    for size in (0, 1, 5, 9, 20, 30, len(whole) - 1):
        expect_request_closed(port, wire.PRODUCE, 7, whole[:size], "%d of %d bytes" % (size, len(whole)))


def gzip(plain):
    compressor = zlib.compressobj(wbits=31)
    return compressor.compress(plain) + compressor.flush()


def damaged_batches_get_kafkas_answers(port, gyred):
    create(port, "damaged")
    good = wire.batch([(None, b"a"), (None, b"b")])
    flipped = bytearray(good)
    flipped[-1] ^= 1
    gzip_garbage = wire.batch(b"this is no gzip stream", count=1, last_offset_delta=0, attributes=1)
    gzipped = gzip(wire.record(0, None, b"a") + wire.record(1, None, b"b"))
    cases = [
        ("a flipped bit", bytes(flipped), {wire.CORRUPT_MESSAGE}),
        ("a wrong CRC", wire.batch([(None, b"a")], crc=12345), {wire.CORRUPT_MESSAGE}),
        ("two batches", good + good, {wire.INVALID_RECORD}),
        ("no record", wire.batch([], last_offset_delta=0), {wire.INVALID_RECORD}),
        ("base offset 7", wire.batch([(None, b"a")], base_offset=7), {wire.INVALID_RECORD}),
        ("a count above the last delta", wire.batch([(None, b"a")], count=5), {wire.INVALID_RECORD}),
        ("a last delta above the count", wire.batch([(None, b"a")], last_offset_delta=9), {wire.INVALID_RECORD}),
        ("gzipped offset deltas 0, 5", wire.batch(gzip(wire.record(0, None, b"a") + wire.record(5, None, b"b")),
                                                  count=2, attributes=1), {wire.INVALID_RECORD, -1}),
        ("fewer records than the count", wire.batch(wire.record(0, None, b"a"), count=2),
         {wire.INVALID_RECORD, wire.CORRUPT_MESSAGE}),
        ("bytes after the last record", wire.batch(wire.record(0, None, b"a") + b"\0\0", count=1),
         {wire.INVALID_RECORD, wire.CORRUPT_MESSAGE}),
        ("a control batch", wire.batch([(b"\0\0\0\1", b"\0\0\0\0\0\0")], attributes=0x20), {wire.INVALID_RECORD}),
        ("gzip garbage", gzip_garbage, {wire.CORRUPT_MESSAGE, wire.INVALID_RECORD, -1}),
        ("fewer gzipped records than the count",
         wire.batch(gzipped, count=3, attributes=1), {wire.INVALID_RECORD, wire.CORRUPT_MESSAGE}),
        ("a producer id without a sequence", wire.batch([(None, b"a")], producer_id=5, producer_epoch=0),
         {wire.INVALID_RECORD}),
    ]
    with wire.Connection(port) as connection:
        for what, content, allowed in cases:
            error, base = connection.produce("damaged", 0, content)
            check(error in allowed, "%s: error %d, wanted one of %s" % (what, error, sorted(allowed)))
            check_equal(base, -1, "base offset of the refused " + what)
        check_equal(connection.produce("damaged", 0, wire.batch(gzipped, count=2, attributes=1)), (0, 0),
                    "the right gzip batch after all those")
        check_equal([b.count for b in connection.read_all("damaged", 0)], [2], "what is in the log")


def batches_cut_or_of_another_magic(port, gyred):
    create(port, "magics")
    good = wire.batch([(None, b"a"), (None, b"b")])
    cases = [("a cut batch", good[:-3]), ("a cut batch header", good[:20]), ("a length of 5", good[:8] + int32(5)
             + good[12:]), ("a negative length", good[:8] + int32(-1) + good[12:]),
             ("magic 3", wire.batch([(None, b"a")], magic=3)), ("magic 1", wire.batch([(None, b"a")], magic=1)),
             ("magic -1", wire.batch([(None, b"a")], magic=-1)), ("no bytes", b"")]
    for what, content in cases:
        with wire.Connection(port) as connection:
            try:
                error, base = connection.produce("magics", 0, content)
            except wire.Closed:
                continue
            check(error in (wire.CORRUPT_MESSAGE, wire.INVALID_RECORD, wire.INVALID_REQUEST, 43, 76, -1),
                  "%s: error %d" % (what, error))
    with wire.Connection(port) as connection:
        check_equal(connection.list_offset("magics", 0, -1)[2], 0, "end offset after refusals alone")


def unknown_topics_partitions_and_offsets(port, gyred):
    create(port, "known")
    content = wire.batch([(None, b"a")])
    with wire.Connection(port) as connection:
        check_equal(connection.produce("known", 0, content), (0, 0), "produce")
        for topic, partition in (("unknown-topic", 0), ("known", 1), ("known", -1), ("known", 0x7FFFFFFF)):
            what = "%s-%d" % (topic, partition)
            unknown = wire.UNKNOWN_TOPIC_OR_PARTITION
            check_equal(connection.produce(topic, partition, content)[0], unknown, "produce to " + what)
            check_equal(connection.fetch(topic, partition, 0)[0], unknown, "fetch of " + what)
            check_equal(connection.list_offset(topic, partition, -1)[0], unknown, "offsets of " + what)
        for offset in (2, 100, 0x7FFFFFFFFFFFFFFF, -1, -5):
            check_equal(connection.fetch("known", 0, offset)[0], wire.OFFSET_OUT_OF_RANGE, "fetch at %d" % offset)
        for acks in (2, -2, 7):
            check_equal(connection.produce("known", 0, content, acks=acks)[0], wire.INVALID_REQUIRED_ACKS,
                        "acks=%d" % acks)
        error, _ = connection.metadata(["in valid"])["in valid"]
        check_equal(error, wire.INVALID_TOPIC_EXCEPTION, "metadata of an illegal name")
        check_equal(connection.create_topic("x" * 250), wire.INVALID_TOPIC_EXCEPTION, "a name of 250")
        check_equal(connection.create_topic(".."), wire.INVALID_TOPIC_EXCEPTION, "the name ..")
        check_equal(connection.create_topic("../../escape"), wire.INVALID_TOPIC_EXCEPTION, "a path as name")
        check_equal(connection.create_topic(""), wire.INVALID_TOPIC_EXCEPTION, "an empty name")


def a_failed_acks_zero_produce_closes(port, gyred):
    body = wire.Connection.produce_body("no-such-topic-at-all", 0, wire.batch([(None, b"a")]), acks=0)
    expect_request_closed(port, wire.PRODUCE, 7, body, "acks=0 to an unknown topic")


def a_byte_at_a_time_is_a_request(port, gyred):
    with wire.Connection(port) as connection:
        for byte in frame(wire.API_VERSIONS, 0, b"", correlation_id=77):
            connection.send_raw(bytes([byte]))
            time.sleep(0.005)
        check_equal(connection.receive()[0], 77, "correlation id")


def a_half_closed_connection_gets_its_answer_and_ends(port, gyred):
    with wire.Connection(port) as connection:
        connection.send_raw(frame(wire.API_VERSIONS, 0, b"", correlation_id=78))
        connection.socket.shutdown(1)
        check_equal(connection.receive()[0], 78, "correlation id")
        check(connection.closed_within(CLOSE_SECONDS), "not closed after the client's end")


def random_requests_never_hang(port, gyred):
    seed = int(os.environ.get("GYRE_SEED", "20240607"))
    source = random.Random(seed)
    keys = [0, 1, 2, 3, 10, 18, 19, 20, 60]
    for n in range(400):
        body = bytearray(source.randbytes(source.randrange(0, 300)))
        key, version = source.choice(keys), source.randrange(0, 13)
        with wire.Connection(port, timeout=15) as connection:
            what = "seed %d, request %d (api %d v%d)" % (seed, n, key, version)
            expect_an_answer_or_the_end(connection, frame(key, version, bytes(body), source.random() < 0.5), what)
    return "seed %d" % seed


def mutated_produces_never_hang_or_land(port, gyred):
    seed = int(os.environ.get("GYRE_SEED", "20240608"))
    source = random.Random(seed)
    create(port, "mutated")
    whole = frame(wire.PRODUCE, 7, wire.Connection.produce_body(
        "mutated", 0, wire.batch([(b"key", b"value %d" % n) for n in range(20)])))
    for n in range(300):
        content = bytearray(whole)
        for _ in range(source.randrange(1, 5)):
            content[source.randrange(4, len(content))] = source.randrange(256)
        with wire.Connection(port, timeout=15) as connection:
            expect_an_answer_or_the_end(connection, bytes(content), "seed %d, request %d" % (seed, n))
    with wire.Connection(port) as connection:
        for stored in connection.read_all("mutated", 0):
            check(stored.crc_ok and stored.count == 20, "a damaged batch is in the log")
    return "seed %d" % seed


def many_idle_connections_cost_nothing(port, gyred):
    idle = [wire.Connection(port) for _ in range(300)]
    try:
        with wire.Connection(port) as connection:
            check_equal(connection.api_versions()[0], 0, "a client beside 300 idle connections")
    finally:
        for connection in idle:
            connection.close()


ALL = [
    oversized_and_negative_frames,
    frames_shorter_than_their_header,
    a_frame_cut_by_the_end_of_the_connection,
    unknown_apis_and_versions,
    produce_before_version_3_is_closed_on,
    an_unknown_api_versions_version_is_answered,
    other_protocols_on_the_port,
    array_bombs,
    bodies_that_end_early,
    damaged_batches_get_kafkas_answers,
    batches_cut_or_of_another_magic,
    unknown_topics_partitions_and_offsets,
    a_failed_acks_zero_produce_closes,
    a_byte_at_a_time_is_a_request,
    a_half_closed_connection_gets_its_answer_and_ends,
    random_requests_never_hang,
    mutated_produces_never_hang_or_land,
    many_idle_connections_cost_nothing,
]


def nothing_is_held_of_it(gyred):
    """Of all those requests no byte is charged, and no connection is left."""
    deadline = time.monotonic() + 20
    while True:
        before = len(gyred.stderr())
        gyred.process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        told = dict(re.findall(r"(?m)^(kafka_network_socketserver_memorypoolused|network_connections|"
                               r"network_response_memory_bytes|gyre_memory_pool_waiters) (\S+)$",
                               gyred.stderr()[before:]))
        if len(told) == 4 and set(told.values()) == {"0"}:
            return
        check(time.monotonic() < deadline, "something is left: %r" % told)


def run_all(runner, port, gyred):
    """Runs every test beside a bystander, whose own health is the last test."""
    if gyred:
        runner.run("bad_input/refusals_are_logged_with_the_peer", refusals_are_logged_with_the_peer, port, gyred)
    create(port, "bystander")
    with Bystander(port, "bystander") as bystander:
        for test in ALL:
            runner.run("bad_input/" + test.__name__, test, port, gyred)

    def undisturbed():
        if bystander.error:
            raise bystander.error
        check(bystander.rounds > 0, "the bystander did nothing")
        check(bystander.slowest < 5, "its slowest round took %.1f s" % bystander.slowest)
        return "%d rounds, the slowest %.0f ms" % (bystander.rounds, bystander.slowest * 1000)

    runner.run("bad_input/another_client_is_undisturbed", undisturbed)
    if gyred:
        runner.run("bad_input/nothing_is_held_of_it", nothing_is_held_of_it, gyred)
