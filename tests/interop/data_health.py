"""What a gyred says of data that is missing, cannot be made or is taken from under it."""
import os
import re
import shutil

import kafka_wire as wire
from admin_pages import AdminGyred, ask
from harness import Skip, check, check_equal

KAFKA_STORAGE_ERROR = 56


def start(binary, scratch, name):
    return AdminGyred(binary, os.path.join(scratch, name), ["--admin_listener=127.0.0.1:0"])


def unwell(server, mention):
    status, text = ask(server, "GET", "/health")
    check_equal(status, 503, "/health: " + text)
    check(re.search(mention, text), "/health does not say why: " + text)
    return text.strip()


def a_topic_beyond_the_descriptors_is_an_error_and_named(binary, scratch):
    if os.environ.get("GYRE_CONFIG", "opt") != "opt":
        raise Skip("sanitizers need descriptors themselves, to look into memory and to name functions")
    limited = os.path.join(scratch, "limited-to-100")
    with open(limited, "w") as file:
        file.write('#!/bin/sh\nulimit -n 100\nexec %s "$@"\n' % os.path.abspath(binary))
    os.chmod(limited, 0o755)
    with start(limited, scratch, "few-descriptors") as server:
        with wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("wide", 60), KAFKA_STORAGE_ERROR, "CreateTopics")
            line = unwell(server, r"\d+ of 60 partitions of topic wide cannot be made .*ulimit -n")
            metrics = ask(server, "GET", "/metrics")[1]
            count = re.search(r"^kafka_server_replicamanager_offlinereplicacount (\d+)$", metrics, re.M)
            check(count and 0 < int(count.group(1)) < 60, "the gauge: %s" % count)
            check_equal(connection.delete_topic("wide"), 0, "DeleteTopics")
            check_equal(ask(server, "GET", "/health"), (200, "well\n"), "/health when it is gone")
        check_equal(server.stop(), 0, "exit code")
    return line


def a_partition_whose_directory_is_gone_is_not_empty(binary, scratch):
    with start(binary, scratch, "gone") as server:
        with wire.Connection(server.port) as connection:
            for topic in ("lost", "kept"):
                check_equal(connection.create_topic(topic), 0, "CreateTopics")
                check_equal(connection.produce(topic, 0, wire.batch([(None, b"x")])), (0, 0), "produce")
        check_equal(server.stop(), 0, "exit code")
    shutil.rmtree(os.path.join(server.directory, "lost-0"))
    with start(binary, scratch, "gone") as server:
        line = unwell(server, r"lost-0: is missing, but was synced up to 1: .*restore")
        with wire.Connection(server.port) as connection:
            batch = wire.batch([(None, b"y")])
            check_equal(connection.produce("lost", 0, batch)[0], KAFKA_STORAGE_ERROR, "produce")
            check_equal(connection.produce("kept", 0, batch), (0, 1), "produce to the other")
            check_equal(connection.delete_topic("lost"), 0, "DeleteTopics")
            check_equal(connection.create_topic("lost"), 0, "CreateTopics")
            check_equal(connection.produce("lost", 0, batch), (0, 0), "produce to a new one")
        check_equal(ask(server, "GET", "/health"), (200, "well\n"), "/health")
        check_equal(server.stop(), 0, "exit code")
    return line


def a_data_directory_that_is_moved_away_is_named(binary, scratch):
    with start(binary, scratch, "moved") as server:
        os.rename(server.directory, server.directory + "-away")
        line = unwell(server, r"was removed or replaced under this process")
        os.rename(server.directory + "-away", server.directory)
        check_equal(ask(server, "GET", "/health"), (200, "well\n"), "/health when it is back")
        check_equal(server.stop(), 0, "exit code")
    return line


ALL = [
    a_topic_beyond_the_descriptors_is_an_error_and_named,
    a_partition_whose_directory_is_gone_is_not_empty,
    a_data_directory_that_is_moved_away_is_named,
]
