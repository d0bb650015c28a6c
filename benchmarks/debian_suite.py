"""Whole servers of Debian beside the engine: nginx for files over HTTP, Redis for small requests.
They do more than the engine's examples do; the rows inform."""
import grp
import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time

from file_suite import scratch
from harness import CLIENT_CORE, SERVER_CORE, Server, Unavailable, accounted, per_operation, pinned
from network_suite import ECHO_UNIT, with_servers

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = 64


def installed(program, package):
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if path is None:
        raise Unavailable("no %s; Debian's %s, or tools/dev/setup --bench" % (program, package))
    return path


class DebianServer(Server):
    """A server that is told its port and takes connections once it is up."""

    def __init__(self, name, command, port, **how):
        self.name, self.port = name, port
        self.process = subprocess.Popen(pinned(SERVER_CORE, command), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)
        self.pid = self.process.pid

    def await_start(self):
        deadline = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return self
            except OSError:
                time.sleep(0.02)
        self.fail()

    def fail(self):
        self.process.kill()
        said = self.process.stdout.read().decode(errors="replace").strip()
        self.stop()
        raise RuntimeError("%s did not start: %s" % (self.name, said[-500:]))


NGINX = """
daemon off;
worker_processes 1;
user %(user)s %(group)s;
pid %(work)s/nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  open_file_cache max=16 inactive=1h;
  open_file_cache_valid 1h;
  client_body_temp_path %(work)s/body;
  proxy_temp_path %(work)s/proxy;
  fastcgi_temp_path %(work)s/fastcgi;
  uwsgi_temp_path %(work)s/uwsgi;
  scgi_temp_path %(work)s/scgi;
  server {
    listen 127.0.0.1:%(port)d;
    root %(files)s;
  }
}
"""


def nginx(work, files):
    """A master and one worker, whose process is measured. It takes over a listening socket, as it does
    when it is upgraded: so there is a free port, and the congestion control of the other servers."""
    program = installed("nginx", "nginx-light")
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        listening.bind(("127.0.0.1", 0))
        listening.listen(1024)
        port = listening.getsockname()[1]
        config = os.path.join(work, "nginx.conf")
        with open(config, "w") as file:
            file.write(NGINX % {"work": work, "files": files, "port": port, "user": pwd.getpwuid(os.geteuid()).pw_name,
                                "group": grp.getgrgid(os.getegid()).gr_name})
        server = DebianServer("nginx", [program, "-e", "stderr", "-p", work, "-c", config], port,
                              pass_fds=[listening.fileno()],
                              env=dict(os.environ, NGINX="%d;" % listening.fileno()))
    server.await_start()
    # Connections wait in the socket that was handed over, whoever will take them.
    deadline = time.monotonic() + 30
    while server.process.poll() is None and time.monotonic() < deadline:
        workers = open("/proc/{0}/task/{0}/children".format(server.process.pid)).read().split()
        if workers:
            server.pid = int(workers[0])
            return server
        time.sleep(0.02)
    server.fail()


def cpu_us(pid):
    """As clock_getcpuclockid(3) has it: all threads, ended ones and io_uring's workers included."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e3


def wrk(suite, program, server, name, size):
    """One run of wrk; what the load clients print."""
    command = [program, "-t1", "-c%d" % CONNECTIONS, "-d%ds" % max(1, round(suite.seconds(2.0))), "-s",
               os.path.join(HERE, "macro/wrk.lua"), "http://127.0.0.1:%d/%s" % (server.port, name)]
    before = cpu_us(server.pid)
    result = subprocess.run(pinned(CLIENT_CORE, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=600)
    after = cpu_us(server.pid)
    said = result.stdout.decode().strip()
    if result.returncode != 0 or not said.endswith("}"):
        raise RuntimeError("wrk: %s" % said)
    figures = json.loads(said.splitlines()[-1])
    if figures["errors"] or not figures["operations"] or figures["bytes"] < figures["operations"] * size:
        raise RuntimeError("wrk on %s: errors or short answers: %s" % (server.name, figures))
    figures["server_cpu_us"] = after - before
    return figures


def get(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/" + name)
        return connection.getresponse().read()
    finally:
        connection.close()


def http_files(suite):
    """What does a file in the page cache cost over HTTP (64 KiB and 1 MiB, 64 connections of wrk)
    on tools/examples/http_file_server beside nginx, one worker each?"""
    program = installed("wrk", "wrk")
    with scratch(suite) as work:
        files = os.path.join(work, "files")
        os.mkdir(files)
        contents = {"64k": os.urandom(64 << 10), "1m": os.urandom(1 << 20)}
        titles = {"64k": "64 KiB", "1m": "1 MiB"}
        for name, content in contents.items():
            with open(os.path.join(files, name), "wb") as file:
                file.write(content)
        peer = nginx(work, files)
        try:
            ours = Server("ours", [suite.binary("../tools/examples/http_file_server"), "--directory=" + files,
                                   "--socket_congestion_control=reno"])
        except BaseException:
            peer.stop()
            raise

        def body(named):
            for server in named.values():
                for name, content in contents.items():
                    if get(server.port, name) != content:
                        raise RuntimeError("%s answers with other bytes than the file's" % server.name)
            return {name: suite.rounds({
                who: lambda server=server: accounted(lambda: wrk(suite, program, server, name, len(contents[name])))
                for who, server in named.items()}) for name in contents}
        for name, got in with_servers([ours, peer], body).items():
            middle = lambda who: sorted(r["operations"] / r["seconds"] for r in got[who])[len(got[who]) // 2]
            suite.add("HTTP file, %s, vs nginx" % titles[name], "server CPU us per request", per_operation(got["ours"]),
                      per_operation(got["nginx"]), None, True, "nginx, one worker, sendfile, open files cached",
                      "%.0f and %.0f requests/s" % (middle("ours"), middle("nginx")))


def redis_server(work):
    program = installed("redis-server", "redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return DebianServer("redis", [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                  "--dir", work, "--loglevel", "warning"], port).await_start()


def redis(suite):
    """What does a small request cost (128 bytes echoed, 64 connections) on the engine beside Redis'
    ECHO?"""
    with tempfile.TemporaryDirectory(prefix="gyre-bench-") as work:
        peer = redis_server(work)
        try:
            ours = suite.engine(dispatch="inline", congestion="")
        except BaseException:
            peer.stop()
            raise
        protocol = {"ours": "frame", "redis": "redis"}
        got = with_servers([ours, peer], lambda named: suite.rounds({
            name: lambda server=server: suite.client("echo_client", server, seconds=suite.seconds(), congestion="",
                                                     protocol=protocol[server.name], connections=CONNECTIONS)
            for name, server in named.items()}))
    middle = lambda who: sorted(r["operations"] / r["seconds"] for r in got[who])[len(got[who]) // 2]
    suite.add("echo vs Redis", ECHO_UNIT, per_operation(got["ours"]), per_operation(got["redis"]), None, True,
              "redis-server, one I/O thread, ECHO", "%.0f and %.0f echoes/s" % (middle("ours"), middle("redis")))


BENCHMARKS = {"http_files": http_files, "redis": redis}
