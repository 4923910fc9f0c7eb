"""A synchronous standby that confirms late, for whom commits wait.

It is a receiver of the WAL that speaks the protocol of replication (doc/src/sgml/protocol.sgml, "Streaming
Replication Protocol"), as pg_receivewal does, and keeps nothing: a whole standby on this machine would take
its processors and its disk, which are none of the plant. It is attached in both arms; whether commits wait
for it is what differs.
"""

import select
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg import pq

from plants.base import MARK, Outside, Plant
from plants.outside import planted_process
from plants.writing import trigger

_NAME = "late"
_POLL_S = 0.02
# Of 1 January 2000 in seconds of Unix.
_EPOCH_S = 946_684_800


def late_standby(confirms_s: float) -> Outside:
    """While the servers run: whoever marks itself gets a receiver that confirms so much later."""

    @contextmanager
    def attached(home: Path) -> Iterator[Mapping[str, str]]:
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(_POLL_S):
                pid = planted_process(home)
                if pid is not None:
                    # The server may start, or end, at any moment.
                    with suppress(OSError, ValueError, ConnectionError):
                        _receive(_connection(pid), confirms_s, ended)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield {}
        finally:
            ended.set()
            thread.join()

    return attached


def _connection(pid: int) -> pq.PGconn:
    """A connection for replication to the server of which this is a process; raises ConnectionError."""
    lines = Path(f"/proc/{pid}/cwd/postmaster.pid").read_text().splitlines()
    words = f"host={lines[4]} port={lines[3]} user=postgres dbname=postgres replication=database"
    made = pq.PGconn.connect(f"{words} application_name={_NAME}".encode())
    if made.status != pq.ConnStatus.OK:
        raise ConnectionError(made.get_error_message())
    return made


def _receive(connection: pq.PGconn, confirms_s: float, ended: threading.Event) -> None:
    """Take the WAL from where it ends now, and confirm each message late; returns when the server ends."""
    place = connection.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2)
    if place is None:
        raise ConnectionError("the server does not say where its WAL ends")
    begun = connection.exec_(b"START_REPLICATION PHYSICAL " + place)
    if begun.status != pq.ExecStatus.COPY_BOTH:
        raise ConnectionError(connection.get_error_message())
    high, low = (int(part, 16) for part in place.decode().split("/"))
    waiting: deque[tuple[float, int]] = deque([(0.0, (high << 32) + low)])
    while not ended.is_set() and connection.status == pq.ConnStatus.OK:
        due = max(0.0, waiting[0][0] - time.monotonic()) if waiting else _POLL_S
        select.select([connection.socket], [], [], min(due, _POLL_S))
        connection.consume_input()
        while True:
            count, message = connection.get_copy_data(1)
            if count < 0:
                return
            if count == 0:
                break
            waiting.append((time.monotonic() + confirms_s, _end_of(bytes(message))))
        confirmed = 0
        while waiting and waiting[0][0] <= time.monotonic():
            confirmed = waiting.popleft()[1]
        if confirmed:
            now_us = round((time.time() - _EPOCH_S) * 1e6)
            connection.put_copy_data(b"r" + struct.pack(">QQQQB", confirmed, confirmed, confirmed, now_us, 0))
            connection.flush()
    connection.finish()


def _end_of(message: bytes) -> int:
    """Where the WAL of a message ends: of data, or of what the server has sent by a keep-alive."""
    begin = int.from_bytes(message[1:9])
    return begin + len(message) - 25 if message[:1] == b"w" else begin


def synchronous_replication(confirms_s: float) -> Plant:
    """Commits wait for the standby, or are only sent to it."""
    return Plant(
        "synchronous-replication",
        f"confirmed after {1000 * confirms_s:g} ms",
        f"synchronous_standby_names={_NAME},''",
        "simple-update:clients=8,duration=3s,warmup=1s",
        options=("--prepare", "work.sql"),
        # A commit's own way to the disk is none of the plant.
        settings={"fsync": "off", "synchronous_commit": "on", "cluster_name": MARK},
        files={"work.sql": trigger("PERFORM pg_sleep(0.03);")},
        outside=late_standby(confirms_s),
    )


PLANTS = (synchronous_replication(0.04), synchronous_replication(0.02))
