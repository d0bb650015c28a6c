"""The engine's network layer against the least servers that do the same framing and the same work
(benchmarks/peers), and against itself in another mode."""
import resource
import select
import subprocess
import time

from harness import CLIENT_CORE, Unavailable, per_operation, pinned

ECHO_UNIT = "server CPU us per 128-byte echo"
MANY = 10000


def with_servers(servers, body):
    try:
        return body({server.name: server for server in servers})
    finally:
        for server in servers:
            server.stop()


def echo(suite):
    """What does a framed echo cost on the engine (64 connections, one processor, inline dispatch)
    beside a minimal io_uring server, a minimal epoll server and Asio?"""
    servers = [suite.peer("epoll_echo"), suite.peer("uring_echo"), suite.engine(dispatch="inline")]
    try:
        servers.append(suite.peer("asio_echo", "libasio-dev"))
    except Unavailable as reason:
        suite.skip("echo vs Asio", str(reason))
    control = suite.peer("epoll_echo")
    control.name = "epoll_echo again"
    servers.append(control)
    got = with_servers(servers, lambda named: suite.rounds({
        name: lambda server=server: suite.client("echo_client", server, seconds=suite.seconds())
        for name, server in named.items()}))
    cost = {name: per_operation(results) for name, results in got.items()}
    rate = lambda name: "%.0f and %.0f echoes/s" % tuple(
        sorted(r["operations"] / r["seconds"] for r in got[n])[len(got[n]) // 2] for n in ("ours", name))
    suite.add("echo vs minimal io_uring", ECHO_UNIT, cost["ours"], cost["uring_echo"], 1.15, True,
              "peers/uring_echo", rate("uring_echo"))
    suite.add("echo vs minimal epoll", ECHO_UNIT, cost["ours"], cost["epoll_echo"], 0.95, True, "peers/epoll_echo",
              rate("epoll_echo"))
    if "asio_echo" in cost:
        suite.add("echo vs Asio", ECHO_UNIT, cost["ours"], cost["asio_echo"], 0.8, True, "peers/asio_echo",
                  rate("asio_echo"))
        suite.add("echo: minimal io_uring vs Asio", ECHO_UNIT, cost["uring_echo"], cost["asio_echo"], None, True,
                  "peers/asio_echo", "what io_uring alone makes of the row above; `ours` is peers/uring_echo")
    suite.add("echo: the epoll peer vs itself", ECHO_UNIT, cost["epoll_echo again"], cost["epoll_echo"], None, True,
              "peers/epoll_echo", "how far from 1 is how far to trust the rows above")


def dispatch(suite):
    """What does the hand-over to a handler thread and back cost per request at saturation?"""
    pool = suite.engine(dispatch="pool", num_io_threads=1)
    pool.name = "pool"
    got = with_servers([pool, suite.engine(dispatch="inline")], lambda named: suite.rounds({
        name: lambda server=server: suite.client("echo_client", server, seconds=suite.seconds())
        for name, server in named.items()}))
    suite.add("pool dispatch vs inline", ECHO_UNIT, per_operation(got["pool"]), per_operation(got["ours"]), 1.5, True,
              "the engine, --dispatch=inline", "`ours` is the pool; 64 connections")


def latency(suite):
    """How long does one request take on an otherwise idle server, one at a time?"""
    pool = suite.engine(dispatch="pool", num_io_threads=1)
    pool.name = "pool"
    got = with_servers([suite.peer("epoll_echo"), suite.engine(dispatch="inline"), pool], lambda named: suite.rounds({
        name: lambda server=server: suite.client("latency_client", server, seconds=suite.seconds(1.0))
        for name, server in named.items()}))
    p50 = {name: [r["p50_us"] for r in results] for name, results in got.items()}
    suite.add("latency of one connection, inline, vs minimal epoll", "us, p50", p50["ours"], p50["epoll_echo"], 1.1,
              True, "peers/epoll_echo")
    suite.add("latency of one connection, pool, vs minimal epoll", "us, p50", p50["pool"], p50["epoll_echo"], None,
              True, "peers/epoll_echo")


def many_connections():
    """Twice MANY descriptors are needed, in two processes; says how many there may be."""
    wanted = MANY + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Unavailable("%d connections need a descriptor limit of %d; `ulimit -Hn` is %d" % (MANY, wanted, hard))
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return "descriptor limit %d" % max(soft, wanted)


def connections(suite):
    """Does a request cost more on a server with 10,000 connections than with 64? 64 requests are
    under way in both, and go round all connections."""
    note = many_connections()
    servers = []
    for name, kind in (("ours", None), ("epoll", "epoll_echo"), ("uring", "uring_echo")):
        for count in (MANY, 64):
            servers.append(suite.peer(kind) if kind else suite.engine(dispatch="inline"))
            servers[-1].name = "%s %d" % (name, count)

    def run(server, in_flight=64):
        return suite.client("echo_client", server, connections=int(server.name.split()[1]), in_flight=in_flight,
                            seconds=suite.seconds(), warmup_seconds=suite.seconds(0.6))

    def body(named):
        candidates = {name: lambda server=server: run(server) for name, server in named.items()}
        candidates["busy"] = lambda: run(named["ours %d" % MANY], in_flight=0)
        return suite.rounds(candidates, divide=2)
    cost = {name: per_operation(results) for name, results in with_servers(servers, body).items()}
    many, few = cost["ours %d" % MANY], cost["ours 64"]
    factor = lambda name: "its own factor from 64 connections is %.2f" % (
        sum(cost["%s %d" % (name, MANY)]) / sum(cost[name + " 64"]))
    suite.add("echo with 10,000 connections vs 64", ECHO_UNIT, many, few, 1.3, True,
              "the engine with 64 connections", note)
    suite.add("echo with 10,000 connections, all with a frame under way, vs 64", ECHO_UNIT, cost["busy"], few, None,
              True, "the engine with 64 connections")
    suite.add("echo with 10,000 connections vs minimal epoll's", ECHO_UNIT, many, cost["epoll %d" % MANY], None, True,
              "peers/epoll_echo with 10,000 connections", factor("epoll"))
    suite.add("echo with 10,000 connections vs minimal io_uring's", ECHO_UNIT, many, cost["uring %d" % MANY], None,
              True, "peers/uring_echo with 10,000 connections", factor("uring"))


def memory(suite):
    """How much user memory does an idle connection take, 10,000 of them, each after one echo?"""
    note = many_connections()

    def run(start):
        with start() as server:
            suite.client("echo_client", server, connections=64, seconds=0.2)  # what is made once is made
            time.sleep(0.2)
            before = server.resident_bytes()
            holder = subprocess.Popen(
                pinned(CLIENT_CORE, [suite.binary("macro/connect_client"), "--mode=hold", "--port=%d" % server.port,
                                     "--server_pid=%d" % server.pid, "--connections=%d" % MANY]),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                if not select.select([holder.stdout], [], [], 120)[0] or not holder.stdout.readline():
                    raise RuntimeError("connect_client did not hold its connections")
                return (server.resident_bytes() - before) / MANY
            finally:
                holder.stdin.close()
                holder.wait(60)
                holder.stdout.close()
    got = suite.rounds({"ours": lambda: run(lambda: suite.engine(dispatch="inline")),
                        "epoll": lambda: run(lambda: suite.peer("epoll_echo"))}, divide=4)
    suite.add("user memory per idle connection", "bytes (proportional set size)", got["ours"], got["epoll"], None, True,
              "peers/epoll_echo, whose connections keep a buffer of 16 KiB", note, bound=1024)


def accept(suite):
    """How many connections are accepted and closed for a second of CPU?"""
    modes = ("acceptor", "reuseport")
    servers = [suite.peer("epoll_echo")]
    for mode in modes:
        servers.append(suite.engine(dispatch="inline", accept_mode=mode))
        servers[-1].name = mode
    got = with_servers(servers, lambda named: suite.rounds({
        name: lambda server=server: suite.client("connect_client", server, seconds=suite.seconds())
        for name, server in named.items()}))
    rate = {name: [1e3 / c for c in per_operation(results)] for name, results in got.items()}
    best = max(modes, key=lambda mode: sum(rate[mode]))
    for mode in modes:
        suite.add("connections accepted and closed, %s mode" % mode, "thousand a CPU second", rate[mode],
                  rate["epoll_echo"], 1.0 if mode == best else None, False, "peers/epoll_echo",
                  "the better mode" if mode == best else "")


BENCHMARKS = {"echo": echo, "dispatch": dispatch, "latency": latency, "connections": connections, "memory": memory,
              "accept": accept}
