"""What the proxy of `pgassay capture` costs: round trips through it against direct ones, and its CPU.

    python benchmarks/capture_cost.py [--pairs 20000] [--rate 10000] [--seconds 10]

Starts a private server on TCP with pgbench's data, and a proxy before it. First one client asks for a row by
a prepared statement, directly, through the proxy and through PgBouncer (mode session) in turn; printed are
the medians, the median of the differences of neighbours (target: at most 25 µs more), and that of the proxy
over PgBouncer's: how long waking one more process takes is the machine's. Then 16 clients of pgbench ask
through the proxy at a fixed rate; printed is the proxy's CPU as a share of one core (target: at most 30 % at
10,000 a second), and how many bytes of the capture a statement takes.
"""

import argparse
import os
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from _own_server import select_only, server_on_loopback
from pgassay.environment.builds.registry import resolve
from pgassay.environment.debian.toolbox import tool
from pgassay.native.process import NativeProcess

ROUND_TRIP_US_MAX = 25.0
CPU_SHARE_MAX = 0.30
CLIENTS = 16
WARM_UP = 500
STARTUP = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0"
SYNC = b"S\0\0\0\x04"


def message(tag: bytes, body: bytes) -> bytes:
    """A message of the protocol."""
    return tag + struct.pack("!i", len(body) + 4) + body


class Client:
    """One session that knows a prepared statement."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask(struct.pack("!i", len(STARTUP) + 4) + STARTUP)
        text = b"s\0SELECT abalance FROM pgbench_accounts WHERE aid = $1\0\0\x01\0\0\0\x17"
        self._ask(message(b"P", text) + SYNC)

    def _ask(self, request: bytes) -> None:
        self._socket.sendall(request)
        while not self._socket.recv(65536).endswith(b"Z\0\0\0\x05I"):
            pass

    def round_trip_s(self, key: int) -> float:
        """Ask for one row."""
        bind = b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x04" + struct.pack("!i", key) + b"\0\x01\0\x01"
        request = message(b"B", bind) + message(b"D", b"P\0") + message(b"E", b"\0\0\0\0\0") + SYNC
        begun = time.perf_counter()
        self._ask(request)
        return time.perf_counter() - begun


@contextmanager
def pgbouncer(folder: Path, port: int) -> Iterator[int]:
    """PgBouncer before the server, which gives each client a server's connection for itself; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own_port = int(free.getsockname()[1])
    folder.chmod(0o755)
    place = folder / "pgbouncer.ini"
    place.write_text(
        f"[databases]\n* = host=127.0.0.1 port={port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {own_port}\nauth_type = any\npool_mode = session\nunix_socket_dir =\n"
    )
    user = ("setpriv", "--reuid=nobody", "--clear-groups", "--regid=nogroup") if os.getuid() == 0 else ()
    process = subprocess.Popen([*user, str(tool("pgbouncer")), str(place)], stderr=subprocess.DEVNULL)
    try:
        ends_at = time.monotonic() + 10
        while True:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", own_port)) == 0:
                    break
            if time.monotonic() > ends_at or process.poll() is not None:
                raise SystemExit("PgBouncer did not start")
            time.sleep(0.05)
        yield own_port
    finally:
        process.terminate()
        process.wait()


def round_trips(clients: Sequence[Client], count: int) -> None:
    """Print what the proxy, and PgBouncer, add to a round trip: directly, by the one, by the other."""
    seen: list[list[float]] = [[] for _ in clients]
    for number in range(count + WARM_UP):
        for turn in range(len(clients)):
            place = (number + turn) % len(clients)
            took = clients[place].round_trip_s(number % 100_000 + 1)
            if number >= WARM_UP:
                seen[place].append(took * 1e6)
    direct, proxied, pooled = (statistics.median(each) for each in seen)
    more, of_other = (
        statistics.median(one - alone for alone, one in zip(seen[0], each, strict=True)) for each in seen[1:]
    )
    verdict = "within" if more <= ROUND_TRIP_US_MAX else "ABOVE"
    print(
        f"round trip, {count:,} of each: direct {direct:.1f} µs, through the proxy {proxied:.1f} µs, "
        f"through PgBouncer {pooled:.1f} µs"
    )
    print(f"  {more:+.1f} µs at the median, {verdict} {ROUND_TRIP_US_MAX:g} µs")
    print(f"  PgBouncer {of_other:+.1f} µs: the proxy adds {more / of_other:.2f} times as much")


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    arguments = parser.parse_args()
    programs = Path(resolve(None).bin_directory)
    with tempfile.TemporaryDirectory() as folder, server_on_loopback(programs) as server:
        port = int(server["port"])
        process = NativeProcess("capture")
        connect = {"host": "127.0.0.1", "port": port, "user": "postgres", "dbname": "postgres"}
        capture = Path(folder) / "capture"
        process.send({"listen": "127.0.0.1:0", "connect": connect, "folder": str(capture)})
        proxy_port = int(process.receive()["ready"]["listen"].rpartition(":")[2])
        with pgbouncer(Path(folder), port) as pooler_port:
            round_trips([Client(each) for each in (port, proxy_port, pooler_port)], arguments.pairs)
        before_s = cpu_s(process.pid)
        said = select_only(programs, proxy_port, CLIENTS, arguments.seconds, "-R", str(arguments.rate))
        used_s = cpu_s(process.pid) - before_s
        done = next(line for line in said.splitlines() if "actually processed" in line)
        count = int(done.rpartition(":")[2])
        share = used_s / arguments.seconds * arguments.rate / (count / arguments.seconds)
        verdict = "within" if share <= CPU_SHARE_MAX else "ABOVE"
        print(f"{count / arguments.seconds:,.0f} statements/s of {CLIENTS} clients: {used_s:.2f} s of CPU")
        print(f"  {share:.1%} of a core at {arguments.rate:,}/s, {verdict} {CPU_SHARE_MAX:.0%}")
        totals = process.last_words()[-1]["ended"]
        each = totals["written_bytes"] / totals["statements"]
        statements, dropped = totals["statements"], totals["dropped"]
        print(f"capture: {statements:,} statements, {each:.1f} bytes each, {dropped} dropped")
        process.end()


if __name__ == "__main__":
    main()
