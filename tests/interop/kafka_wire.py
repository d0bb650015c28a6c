"""A small raw client of the Kafka protocol, for tests that must control every byte.

Only what the tests need, in the classic (not flexible) encodings unless a function says so. It
shares no code with the server: a mistake would have to be made twice to go unseen.
"""
import socket
import struct
import time

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 10, 18, 19, 20
DESCRIBE_CLUSTER = 60

NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
COORDINATOR_NOT_AVAILABLE = 15
INVALID_TOPIC_EXCEPTION = 17
RECORD_LIST_TOO_LARGE = 18
INVALID_REQUIRED_ACKS = 21
UNSUPPORTED_VERSION = 35
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REQUEST = 42
FETCH_SESSION_ID_NOT_FOUND = 70
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
INVALID_RECORD = 87


def _crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


# ---- primitives -------------------------------------------------------------------------

def int8(n): return struct.pack(">b", n)
def int16(n): return struct.pack(">h", n)
def int32(n): return struct.pack(">i", n)
def int64(n): return struct.pack(">q", n)


def string(s):
    if s is None:
        return int16(-1)
    s = s.encode() if isinstance(s, str) else s
    return int16(len(s)) + s


def data(b): return int32(-1) if b is None else int32(len(b)) + b
def array(items): return int32(-1) if items is None else int32(len(items)) + b"".join(items)


def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def varint(n): return uvarint((n << 1) if n >= 0 else ((-n << 1) - 1))
def compact_string(s): return b"\0" if s is None else uvarint(len(s) + 1) + s.encode()


class Reader:
    def __init__(self, buffer):
        self.buffer, self.position = buffer, 0

    def take(self, size):
        if size < 0 or self.position + size > len(self.buffer):
            raise ValueError("answer ends at byte %d of %d, %d more wanted" %
                             (self.position, len(self.buffer), size))
        self.position += size
        return self.buffer[self.position - size:self.position]

    def int8(self): return struct.unpack(">b", self.take(1))[0]
    def int16(self): return struct.unpack(">h", self.take(2))[0]
    def int32(self): return struct.unpack(">i", self.take(4))[0]
    def int64(self): return struct.unpack(">q", self.take(8))[0]

    def string(self):
        size = self.int16()
        return None if size < 0 else self.take(size).decode()

    def data(self):
        size = self.int32()
        return None if size < 0 else self.take(size)

    def array(self, element):
        count = self.int32()
        return None if count < 0 else [element() for _ in range(count)]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def varint(self):
        value = self.uvarint()
        return (value >> 1) ^ -(value & 1)

    def rest(self): return len(self.buffer) - self.position


# ---- record batches -----------------------------------------------------------------------

def record(offset_delta, key, value, timestamp_delta=0, headers=()):
    body = int8(0) + varint(timestamp_delta) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name
        body += varint(-1) if content is None else varint(len(content)) + content
    return varint(len(body)) + body


def batch(records, *, count=None, last_offset_delta=None, attributes=0, magic=2, base_offset=0,
          timestamp=None, producer_id=-1, producer_epoch=-1, base_sequence=-1,
          crc=None, leader_epoch=-1, length=None):
    """A v2 batch of (key, value) pairs, or of raw bytes; every header field can be falsified."""
    if isinstance(records, bytes):
        payload, number = records, count or 0
    else:
        payload = b"".join(record(i, k, v) for i, (k, v) in enumerate(records))
        number = len(records)
    timestamp = int(time.time() * 1000) if timestamp is None else timestamp
    tail = (int16(attributes) +
            int32(number - 1 if last_offset_delta is None else last_offset_delta) +
            int64(timestamp) + int64(timestamp) + int64(producer_id) + int16(producer_epoch) +
            int32(base_sequence) + int32(number if count is None else count) + payload)
    checksum = crc32c(tail) if crc is None else crc
    return (int64(base_offset) + int32(len(tail) + 9 if length is None else length) +
            int32(leader_epoch) + int8(magic) + struct.pack(">I", checksum) + tail)


class Batch:
    """One v2 batch as stored: its header fields, its CRC checked, its records where not compressed."""

    def __init__(self, raw):
        reader = Reader(raw)
        self.base_offset, self.length = reader.int64(), reader.int32()
        self.leader_epoch, self.magic = reader.int32(), reader.int8()
        self.crc = struct.unpack(">I", reader.take(4))[0]
        self.crc_ok = crc32c(raw[21:]) == self.crc
        self.attributes, self.last_offset_delta = reader.int16(), reader.int32()
        self.base_timestamp, self.max_timestamp = reader.int64(), reader.int64()
        self.producer_id, self.producer_epoch = reader.int64(), reader.int16()
        self.base_sequence, self.count = reader.int32(), reader.int32()
        self.codec = self.attributes & 7
        self.payload = reader.take(reader.rest())

    def records(self):
        """(offset, key, value) of each."""
        reader = Reader(self.payload)
        for _ in range(self.count):
            reader.varint()
            reader.int8()
            reader.varint()
            offset = self.base_offset + reader.varint()
            size = reader.varint()
            key = None if size < 0 else reader.take(size)
            size = reader.varint()
            value = None if size < 0 else reader.take(size)
            for _ in range(reader.varint()):
                reader.take(reader.varint())
                size = reader.varint()
                if size > 0:
                    reader.take(size)
            yield offset, key, value


def split_batches(buffer):
    """The whole batches of a fetched or stored range; a cut one at the end is left out."""
    position = 0
    while position + 17 <= len(buffer):
        total = struct.unpack_from(">i", buffer, position + 8)[0] + 12
        if position + total > len(buffer):
            break
        yield Batch(buffer[position:position + total])
        position += total


# ---- a connection -------------------------------------------------------------------------

class Closed(Exception):
    """The server closed or reset the connection."""


class Connection:
    def __init__(self, port, host="127.0.0.1", timeout=20):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self): return self
    def __exit__(self, *_): self.close()
    def close(self): self.socket.close()
    def local_port(self): return self.socket.getsockname()[1]

    def header(self, api_key, version, flexible=False):
        self.correlation_id += 1
        return (int16(api_key) + int16(version) + int32(self.correlation_id) + string("gyre-test") +
                (b"\0" if flexible else b""))

    def send_raw(self, content):
        try:
            self.socket.sendall(content)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error))

    def send(self, api_key, version, body, flexible=False):
        frame = self.header(api_key, version, flexible) + body
        self.send_raw(int32(len(frame)) + frame)
        return self.correlation_id

    def read_exactly(self, size):
        parts = []
        while size > 0:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionError as error:
                raise Closed(str(error))
            if not part:
                raise Closed("end of stream")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self):
        """The next response: (correlation id, reader after it)."""
        size = struct.unpack(">i", self.read_exactly(4))[0]
        if size < 4:
            raise ValueError("a response of %d bytes" % size)
        reader = Reader(self.read_exactly(size))
        return reader.int32(), reader

    def request(self, api_key, version, body, flexible=False):
        wanted = self.send(api_key, version, body, flexible)
        got, reader = self.receive()
        if got != wanted:
            raise ValueError("correlation id %d instead of %d" % (got, wanted))
        if flexible and api_key != API_VERSIONS:
            reader.take(1)  # No tagged field is ever in a response header.
        return reader

    def closed_within(self, seconds):
        """True if the server closes without sending anything first."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False

    # -- the few APIs the tests call --

    def api_versions(self):
        reader = self.request(API_VERSIONS, 0, b"")
        error = reader.int16()
        ranges = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
        return error, {key: (low, high) for key, low, high in ranges}

    def brokers(self):
        """Metadata v1 of no topic: [(host, port)]."""
        reader = self.request(METADATA, 1, array([]))
        found = reader.array(lambda: (reader.int32(), reader.string(), reader.int32(), reader.string()))
        return [(host, port) for _, host, port, _ in found]

    def metadata(self, topics):
        """Metadata v1: {topic: (error, {partition: (error, leader)})}."""
        reader = self.request(METADATA, 1, array(None if topics is None else [string(t) for t in topics]))
        reader.array(lambda: (reader.int32(), reader.string(), reader.int32(), reader.string()))
        reader.int32()
        result = {}
        for _ in range(reader.int32()):
            error, name = reader.int16(), reader.string()
            reader.int8()
            partitions = {}
            for _ in range(reader.int32()):
                code, index, leader = reader.int16(), reader.int32(), reader.int32()
                reader.array(reader.int32)
                reader.array(reader.int32)
                partitions[index] = (code, leader)
            result[name] = (error, partitions)
        return result

    def create_topic(self, name, partitions=1, factor=1, configs=None):
        """CreateTopics v2; returns the topic's error code."""
        settings = array([string(k) + string(v) for k, v in (configs or {}).items()])
        topic = string(name) + int32(partitions) + int16(factor) + array([]) + settings
        reader = self.request(CREATE_TOPICS, 2, array([topic]) + int32(15000) + int8(0))
        reader.int32()
        (_, error, _), = reader.array(lambda: (reader.string(), reader.int16(), reader.string()))
        return error

    def delete_topic(self, name):
        reader = self.request(DELETE_TOPICS, 1, array([string(name)]) + int32(15000))
        reader.int32()
        (_, error), = reader.array(lambda: (reader.string(), reader.int16()))
        return error

    @staticmethod
    def produce_body(topic, partition, records, acks=-1, timeout_ms=15000, transactional_id=None):
        part = int32(partition) + data(records)
        return (string(transactional_id) + int16(acks) + int32(timeout_ms) +
                array([string(topic) + array([part])]))

    @staticmethod
    def produce_result(reader, version):
        """(error, base offset) of the only partition in a Produce response."""
        reader.int32()
        reader.string()
        reader.int32()
        reader.int32()
        error, base = reader.int16(), reader.int64()
        reader.int64()
        if version >= 5:
            reader.int64()
        return error, base

    def produce(self, topic, partition, records, acks=-1, version=7, **kw):
        body = self.produce_body(topic, partition, records, acks, **kw)
        return self.produce_result(self.request(PRODUCE, version, body), version)

    def fetch(self, topic, partition, offset, max_bytes=1 << 20, max_wait_ms=500, min_bytes=1,
              isolation=0):
        """Fetch v4: (error, high watermark, records bytes)."""
        part = int32(partition) + int64(offset) + int32(max_bytes)
        body = (int32(-1) + int32(max_wait_ms) + int32(min_bytes) + int32(max(max_bytes, 1 << 20)) +
                int8(isolation) + array([string(topic) + array([part])]))
        reader = self.request(FETCH, 4, body)
        reader.int32()
        reader.int32()
        reader.string()
        reader.int32()
        reader.int32()
        error, watermark = reader.int16(), reader.int64()
        reader.int64()
        reader.array(lambda: (reader.int64(), reader.int64()))
        return error, watermark, reader.data()

    def list_offset(self, topic, partition, timestamp):
        """ListOffsets v1: (error, timestamp, offset)."""
        part = int32(partition) + int64(timestamp)
        reader = self.request(LIST_OFFSETS, 1, int32(-1) + array([string(topic) + array([part])]))
        reader.int32()
        reader.string()
        reader.int32()
        reader.int32()
        return reader.int16(), reader.int64(), reader.int64()

    def read_all(self, topic, partition, start=0):
        """Every batch from `start` to the high watermark at the time of the call."""
        error, _, end = self.list_offset(topic, partition, -1)
        if error != NONE:
            raise ValueError("ListOffsets answers %d" % error)
        offset, batches = start, []
        while offset < end:
            error, _, content = self.fetch(topic, partition, offset, max_bytes=4 << 20)
            if error != NONE:
                raise ValueError("Fetch at %d answers %d" % (offset, error))
            found = [b for b in split_batches(content) if b.base_offset + b.last_offset_delta >= offset]
            if not found:
                raise ValueError("nothing at offset %d of %d" % (offset, end))
            batches += found
            offset = found[-1].base_offset + found[-1].last_offset_delta + 1
        return batches
