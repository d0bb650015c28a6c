"""How gyred starts, refuses to start, and stops."""
import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import time

import kafka_wire
from harness import Gyred, Skip, check, check_equal, run_command


def refused(binary, arguments, mention, prefix=()):
    """gyred must end by itself, not zero, with one line that matches `mention`."""
    code, out, err = run_command(list(prefix) + [binary] + arguments, timeout=30, ok=False)
    check(code not in (0, None), "it ended with 0; stderr: " + err[-300:])
    check(0 < code < 128, "it ended by a signal or a crash (%d): %s" % (code, err[-300:]))
    lines = [line for line in err.splitlines() + out.splitlines()
             if line.strip() and not re.match(r"I\d{4,8} ", line)]
    check_equal(len(lines), 1, "lines printed")
    check(re.search(mention, lines[0], re.I), "the line does not say why: " + lines[0])
    return lines[0][:160]


def listen_flag(port=0): return "--listeners=PLAINTEXT://127.0.0.1:%d" % port


def help_prints_the_flags(binary, scratch):
    _, out, err = run_command([binary, "--help"], timeout=20)
    for flag in ("listeners", "log_dirs", "num_network_threads", "num_io_threads", "uring_disable", "log_flush"):
        check(flag in out + err, "--help does not name --" + flag)


def version_is_one_line(binary, scratch):
    _, out, _ = run_command([binary, "--version"], timeout=20)
    check(len(out.splitlines()) == 1 and "gyred" in out, "printed %r" % out)
    return out.strip()


def check_config_starts_nothing(binary, scratch):
    directory = os.path.join(scratch, "unused")
    run_command([binary, "--check_config", listen_flag(), "--log_dirs=" + directory], timeout=20)
    check(not os.path.exists(os.path.join(directory, "meta.properties")), "it formatted the directory")
    code, _, _ = run_command([binary, "--check_config", listen_flag(), "--num_network_threads=0",
                              "--log_dirs=" + directory], timeout=20, ok=False)
    check(code != 0, "--check_config accepts --num_network_threads=0")


def bad_flags_are_one_line(binary, scratch):
    place = "--log_dirs=" + os.path.join(scratch, "flags")
    refused(binary, [listen_flag(), place, "--num_network_threads=0"], r"num_network_threads.*\d")
    refused(binary, [listen_flag(), place, "--num_io_threads=-3"], r"num_io_threads.*\d")
    refused(binary, [listen_flag(), place, "--num_io_threads=many"], r"num_io_threads|many")
    refused(binary, [listen_flag(), place, "--no_such_flag=1"], r"no_such_flag")
    refused(binary, [listen_flag(), place, "--log_flush=sometimes"], r"log_flush.*group")
    refused(binary, [listen_flag(), place, "--uring_disable=warp_drive"], r"uring_disable|warp_drive")
    for flag in ("--socket_request_max_bytes=2147483647", "--queued_max_request_bytes=1",
                 "--max_connections_per_ip=0", "--connections_max_idle_ms=9223372036854775807"):
        refused(binary, ["--check_config", listen_flag(), place, flag], flag[2:].split("=")[0] + r".*\d")
    refused(binary, ["--listeners=SSL://127.0.0.1:0", place], r"SSL.*PLAINTEXT")
    refused(binary, ["--listeners=nonsense", place], r"listeners|nonsense")
    return refused(binary, ["--listeners=PLAINTEXT://127.0.0.1:70000", place], r"listeners|70000|port")


def flag_files_are_checked_line_by_line(binary, scratch):
    place = "--log_dirs=" + os.path.join(scratch, "unused")
    path, inner = os.path.join(scratch, "gyred.flags"), os.path.join(scratch, "inner.flags")

    def write(to, text):
        with open(to, "w") as file:
            file.write(text)
    for line, mention in (("--memory_limit=1000000000", r":3: .*--memory_limit;.* --memory_limit_bytes\?"),
                          ("--num_io_threads 4", r":3: .*--num_io_threads=4"),
                          ("num_io_threads=4", r":3: .*--num_io_threads=4"),
                          ("--memory_limit_bytes=10G", r":3: .*10G.*whole number, at least -1"),
                          ("--num_io_threads=0", r":3: .*num_io_threads=0 .*from 1 to 1024"),
                          ("--flagfile=/nonexistent/file", r":3: .*/nonexistent/file.*No such file"),
                          ("--flagfile=" + inner, r"gyred.flags:3: .*inner.flags:1: .*--log_flush\?")):
        write(path, "# gyred's flags\n%s\n%s\n" % (listen_flag(), line))
        write(inner, "--log_flsh=none\n")
        refused(binary, [place, "--flagfile=" + path], mention)
        refused(binary, [place, "--check_config", "--flagfile=" + path], mention)
    write(path, "# gyred's flags\n\n%s\n--num_io_threads=4\n" % listen_flag())
    run_command([binary, "--check_config", place, "--flagfile=" + path], timeout=20)
    for flag, mention in (("--flagfile=/nonexistent", r"flagfile=/nonexistent.*No such file"),
                          ("--memory_limit=5", r"gyred: there is no flag --memory_limit; .*--memory_limit_bytes\?"),
                          ("--memory_limit_bytes=10G", r"gyred: --memory_limit_bytes=10G .*at least -1")):
        line = refused(binary, [listen_flag(), place, flag], mention)
    return line


def check_config_refuses_what_a_start_refuses(binary, scratch):
    directory = os.path.join(scratch, "checked")
    with Gyred(binary, directory) as server:
        check_equal(server.stop(), 0, "exit code")
    place = "--log_dirs=" + directory
    plain = os.path.join(scratch, "plain-file")
    with open(plain, "w"):
        pass
    before = sorted(os.listdir(directory))
    for arguments, mention in (
            ([place, "--memory_limit_bytes=1"], r"memory_limit_bytes=1 .*the least is \d+"),
            ([place, "--queued_max_request_bytes=99999999999999"], r"queued_max_request_bytes.*the most is \d+"),
            ([place, "--listeners=A://127.0.0.1:19111", "--admin_listener=127.0.0.1:19111"],
             r"admin_listener.*A://127.0.0.1:19111.*9644"),
            ([place, "--listeners=A://127.0.0.1:19111", "--admin_listener=:19111"], r"admin_listener"),
            ([place, "--socket_congestion_control=nope"], r"socket_congestion_control=nope"),
            ([place, "--max_connections_per_ip_overrides=127.0.0.1"], r"max_connections_per_ip_overrides.*HOST:COUNT"),
            ([place, "--max_connection_creation_rate_per_ip_overrides=127.0.0.1:0"],
             r"max_connection_creation_rate_per_ip_overrides.*within 1\.\."),
            ([place, "--node_id=77"], r"belongs to node 1.*node 77"),
            ([place, "--cluster_id=AAAAAAAAAAAAAAAAAAAAAA"], r"belongs to cluster"),
            ([place, "--default_replication_factor=3"], r"default_replication_factor=3 .*1.*alone"),
            (["--log_dirs=" + plain], r"plain-file.*is a file.*directory"),
            (["--log_dirs=" + plain + "/below"], r"plain-file"),
            (["--log_dirs=" + os.path.join(scratch, "a/b/c")], r"only the last level is made.*mkdir -p"),
            ([place, "--admin_listener=foo"], r"--admin_listener: \"foo\".*HOST:PORT(?!.*://)"),
            ([place, "--admin_listener=ADMIN://127.0.0.1:9644"], r"--admin_listener.*expected HOST:PORT"),
            ([place, "--listeners=A://127.0.0.1:1,A://127.0.0.1:2"], r"used twice(?!.*expected)"),
            ([place, "--listeners=A://127.0.0.1:1,B://:1"], r"its address is that of(?!.*expected)")):
        arguments = ([] if any(a.startswith("--listeners") for a in arguments) else [listen_flag()]) + arguments
        refused(binary, arguments + ["--check_config"], mention)
        line = refused(binary, arguments, mention)
    check_equal(sorted(os.listdir(directory)), before, "what is in the data directory")
    return line


def the_least_memory_is_exact(binary, scratch):
    for index, flags in enumerate(([], ["--num_network_threads=7", "--socket_request_max_bytes=1000"],
                                   ["--listeners=A://127.0.0.1:0,B://127.0.0.1:0",
                                    "--control_plane_listener_name=B"])):
        arguments = [listen_flag(), "--log_dirs=" + os.path.join(scratch, "least"), "--check_config"] + flags
        line = refused(binary, arguments + ["--memory_limit_bytes=1"], r"the least is \d+")
        least = int(re.search(r"the least is (\d+)", line).group(1))
        refused(binary, arguments + ["--memory_limit_bytes=%d" % (least - 1)], r"the least is %d" % least)
        run_command([binary] + arguments + ["--memory_limit_bytes=%d" % least], timeout=20)


def a_port_in_use_is_one_line(binary, scratch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        return refused(binary, [listen_flag(port), "--log_dirs=" + os.path.join(scratch, "port")],
                       r"%d.*|in use" % port)


def a_listener_beyond_loopback_is_warned_of(binary, scratch):
    listeners = "--listeners=PLAINTEXT://127.0.0.1:0,SIX://[::1]:0,OPEN://0.0.0.0:0"
    with Gyred(binary, os.path.join(scratch, "open"), [listeners]) as server:
        lines = [line for line in server.stderr().splitlines() if "authenticates nobody" in line]
        check_equal(len(lines), 1, "warnings")
        check("listener OPEN://0.0.0.0:" in lines[0], lines[0])
        check_equal(server.stop(), 0, "exit code")


def a_locked_directory_is_one_line(binary, scratch):
    directory = os.path.join(scratch, "locked")
    with Gyred(binary, directory) as holder:
        line = refused(binary, [listen_flag(), "--log_dirs=" + directory], r"lock")
        with kafka_wire.Connection(holder.port) as connection:
            check_equal(connection.api_versions()[0], 0, "the holder of the lock")
        check_equal(holder.stop(), 0, "its exit code")
    return line


def an_unwritable_directory_is_one_line(binary, scratch):
    path = os.path.join(scratch, "file")
    with open(path, "w"):
        pass
    refused(binary, [listen_flag(), "--log_dirs=" + path], re.escape(path))
    refused(binary, [listen_flag(), "--log_dirs=" + path + "/below"], re.escape(path))
    return refused(binary, [listen_flag(), "--log_dirs=/proc/gyre"], "/proc/gyre")


def check_config_sees_what_cannot_be_written(binary, scratch):
    directory = os.path.join(scratch, "read-only")
    os.makedirs(directory)
    if run_command(["unshare", "-m", "mount", "-t", "tmpfs", "none", directory], ok=False)[0] != 0:
        raise Skip("mounting a file system needs a privileged user")
    script = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    for place in (directory, os.path.join(directory, "below")):
        line = refused(binary, [listen_flag(), "--check_config", "--log_dirs=" + place],
                       r"read-only.* is not writable \(Read-only file system\).*--log_dirs",
                       prefix=["unshare", "-m", "sh", "-c", script, directory])
    return line


def somebodys_directory_is_not_taken_over(binary, scratch):
    directory = os.path.join(scratch, "theirs")
    os.makedirs(directory)
    with open(os.path.join(directory, "thesis.tex"), "w"):
        pass
    for flags in (["--check_config"], []):
        line = refused(binary, [listen_flag(), "--log_dirs=" + directory] + flags, r'holds \"thesis.tex\"')
    check_equal(os.listdir(directory), ["thesis.tex"], "what is there")
    return line


def a_full_disk_at_start_is_one_line(binary, scratch):
    directory = os.path.join(scratch, "full")
    os.makedirs(directory)
    if run_command(["unshare", "-m", "mount", "-t", "tmpfs", "none", directory], ok=False)[0] != 0:
        raise Skip("mounting a small file system needs a privileged user")
    script = ('mount -t tmpfs -o size=64k none "$0" && dd if=/dev/zero of="$0/.fill" bs=4k 2>/dev/null; '
              'exec "$@"')
    return refused(binary, [listen_flag(), "--log_dirs=" + directory], r"space|full",
                   prefix=["unshare", "-m", "sh", "-c", script, directory])


def a_newer_directory_format_is_refused(binary, scratch):
    directory = os.path.join(scratch, "newer")
    with Gyred(binary, directory) as server:
        check_equal(server.stop(), 0, "exit code")
    path = os.path.join(directory, "meta.properties")
    with open(path) as file:
        text = file.read()
    check("cluster.id=" in text and "node.id=" in text, "meta.properties holds %r" % text)
    with open(path, "w") as file:
        file.write(re.sub(r"(?m)^version=\d+$", "version=99", text))
    return refused(binary, [listen_flag(), "--log_dirs=" + directory], r"version|99")


def sigterm_drains_and_ends_with_zero(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "drain")) as server:
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("drained"), 0, "CreateTopics")
            check_equal(connection.produce("drained", 0, kafka_wire.batch([(None, b"x")])), (0, 0), "produce")
            # A fetch that waits must neither be cut nor hold the end up.
            part = kafka_wire.int32(0) + kafka_wire.int64(1) + kafka_wire.int32(1 << 20)
            connection.send(kafka_wire.FETCH, 4, kafka_wire.int32(-1) + kafka_wire.int32(60000) +
                            kafka_wire.int32(1) + kafka_wire.int32(1 << 20) + kafka_wire.int8(0) +
                            kafka_wire.array([kafka_wire.string("drained") + kafka_wire.array([part])]))
            time.sleep(0.2)
            start = time.monotonic()
            check_equal(server.stop(40), 0, "exit code")
            took = time.monotonic() - start
        try:
            kafka_wire.Connection(server.port)
        except ConnectionRefusedError:
            return "%.1f s with a fetch waiting" % took
        raise AssertionError("the port still accepts")


def a_hangup_drains_unless_it_is_ignored(binary, scratch):
    # What this process does with the signal is what gyred starts with.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Gyred(binary, os.path.join(scratch, "hangup")) as server:
            server.process.send_signal(signal.SIGHUP)
            check_equal(server.process.wait(30), 0, "exit code")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with Gyred(binary, os.path.join(scratch, "nohup")) as server:
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            check(server.alive(), "it ended by a hang-up under nohup")
            check_equal(server.stop(), 0, "exit code")
    finally:
        signal.signal(signal.SIGHUP, before)


def connections_leave_descriptors_for_the_rest(binary, scratch):
    limited = os.path.join(scratch, "limited")
    with open(limited, "w") as file:
        file.write('#!/bin/sh\nulimit -n 80\nexec %s "$@"\n' % os.path.abspath(binary))
    os.chmod(limited, 0o755)
    server = Gyred(limited, os.path.join(scratch, "descriptors"))
    server.start()
    try:
        match = re.search(r"file descriptors: limit 80, connections take at most (\d+)", server.stderr())
        check(match, "it does not say how many: " + server.stderr()[-300:])
        most = int(match.group(1))
        check(16 <= most < 60, "%d connections" % most)
        connections = [kafka_wire.Connection(server.port) for _ in range(most)]
        for connection in connections:
            check_equal(connection.api_versions()[0], 0, "ApiVersions of one of %d" % most)
        check_equal(connections[0].create_topic("files"), 0, "CreateTopics with all connections there")
        check_equal(connections[0].produce("files", 0, kafka_wire.batch([(None, b"x")])), (0, 0), "produce")
        check_equal(connections[0].fetch("files", 0, 0)[0], 0, "fetch")
        # More of them wait; nothing else notices.
        more = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
        check_equal(connections[1].create_topic("more"), 0, "CreateTopics while others wait")
        # Each that goes lets one of them in, and accepting pauses again.
        for connection in connections + more:
            connection.close()
            time.sleep(0.01)
        check("no file descriptor" not in server.stderr(), "it ran out: " + server.stderr()[-300:])
        check(server.stderr().count("accepting pauses") <= 2, "it says so again and again")
        check_equal(server.stop(), 0, "exit code")
        return "%d connections" % most
    finally:
        server.__exit__()


def a_file_that_may_not_grow_refuses_appends_only(binary, scratch):
    directory = os.path.join(scratch, "fsize")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    server = Gyred(binary, directory)
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    try:
        with kafka_wire.Connection(server.port) as connection:
            check_equal(connection.create_topic("small"), 0, "CreateTopics")
            content = kafka_wire.batch([(None, b"x" * 40_000)])
            errors = [connection.produce("small", 0, content)[0] for _ in range(4)]
            check_equal(errors, [0, 0, 56, 56], "errors")
            check_equal(connection.fetch("small", 0, 1)[0], 0, "fetch")
            check_equal(connection.produce("small", 0, kafka_wire.batch([(None, b"y")])), (0, 2), "a small one")
        check_equal(server.stop(), 0, "exit code")
    finally:
        server.__exit__()


def a_second_signal_does_not_hang(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "twice")) as server:
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)


def closed_standard_streams_are_no_files_of_the_broker(binary, scratch):
    # Else a log line would be written into whatever got their numbers, a log segment at worst.
    directory = os.path.join(scratch, "closed")
    process = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', binary, listen_flag(),
                                "--log_dirs=" + directory])
    try:
        deadline = time.monotonic() + 20
        while not os.path.exists(os.path.join(directory, "takeover.sock")):
            check(time.monotonic() < deadline and process.poll() is None, "it does not start")
            time.sleep(0.01)
        check_equal([os.readlink("/proc/%d/fd/%d" % (process.pid, fd)) for fd in range(3)],
                    ["/dev/null"] * 3, "the standard streams")
        process.send_signal(signal.SIGTERM)
        check_equal(process.wait(30), 0, "exit code")
    finally:
        process.kill()
        process.wait()


def sigusr1_prints_metrics(binary, scratch):
    with Gyred(binary, os.path.join(scratch, "metrics")) as server:
        with kafka_wire.Connection(server.port) as connection:
            connection.api_versions()
        before = len(server.stderr())
        server.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 10
        while True:
            printed = server.stderr()[before:]
            if len(re.findall(r"(?m)^\w+(\{[^}]*\})? [0-9.e+-]+$", printed)) >= 5:
                break
            check(time.monotonic() < deadline, "no metrics on stderr: %r" % printed[-300:])
            time.sleep(0.1)
        check(server.alive(), "it died of SIGUSR1")
        check_equal(server.stop(), 0, "exit code")


def a_pipe_that_nobody_reads_holds_nothing_up(binary, scratch):
    reader, writer = os.pipe()
    process = subprocess.Popen([binary, listen_flag(), "--log_dirs=" + os.path.join(scratch, "unread")],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer)
    try:
        check(b"listening on" in process.stdout.readline(), "it does not start")
        # Opened anew: what gyred has must not become non-blocking by this.
        full = os.open("/proc/self/fd/%d" % writer, os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(full, b"x" * size)
        os.close(full)
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        check_equal(process.wait(30), 0, "exit code")
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


def a_wildcard_admin_listener_is_named_as_it_is_reached(binary, scratch):
    flags = ["sh", "-c", 'ulimit -n 700 && exec "$0" "$@"', binary, listen_flag(), "--admin_listener=:0",
             "--log_dirs=" + os.path.join(scratch, "wildcard")]
    process = subprocess.Popen(flags, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = process.stdout.readline().decode()
        check(re.match(r"gyred: admin pages on http://127\.0\.0\.1:\d+ \(every IPv4 address\)$", line), line)
        check(b"listening on" in process.stdout.readline(), "it does not start")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=30)[1].decode()
        check("listener ADMIN://" in said and "authenticates nobody" in said, "it does not warn")
        check("advertised" not in said, "nobody is sent to the admin pages")
        check("admin_max_connections=64 needs" in said, "of which limit is it? " + said[-600:])
        check_equal(process.returncode, 0, "exit code")
    finally:
        process.kill()
        process.wait()


def the_features_line_tells_the_rung(binary, scratch):
    texts = []
    for flags in ([], ["--uring_disable=all"]):
        with Gyred(binary, os.path.join(scratch, "rung%d" % len(flags)), flags) as server:
            server.stop()
            texts.append([line for line in server.stderr().splitlines() if "uring" in line])
    check(texts[0] and texts[1], "no start-up line about io_uring")
    strip = lambda line: re.sub(r"^[IWE]\S+ \S+ +\d+ \S+ ", "", line)
    check(strip(texts[0][0]) != strip(texts[1][0]), "--uring_disable=all changes nothing: " + texts[0][0])
    return strip(texts[1][0])[:160]


ALL = [
    help_prints_the_flags,
    version_is_one_line,
    check_config_starts_nothing,
    bad_flags_are_one_line,
    flag_files_are_checked_line_by_line,
    check_config_refuses_what_a_start_refuses,
    the_least_memory_is_exact,
    a_port_in_use_is_one_line,
    a_listener_beyond_loopback_is_warned_of,
    a_locked_directory_is_one_line,
    an_unwritable_directory_is_one_line,
    check_config_sees_what_cannot_be_written,
    somebodys_directory_is_not_taken_over,
    a_full_disk_at_start_is_one_line,
    a_newer_directory_format_is_refused,
    sigterm_drains_and_ends_with_zero,
    a_hangup_drains_unless_it_is_ignored,
    connections_leave_descriptors_for_the_rest,
    a_file_that_may_not_grow_refuses_appends_only,
    a_second_signal_does_not_hang,
    closed_standard_streams_are_no_files_of_the_broker,
    sigusr1_prints_metrics,
    a_pipe_that_nobody_reads_holds_nothing_up,
    a_wildcard_admin_listener_is_named_as_it_is_reached,
    the_features_line_tells_the_rung,
]
