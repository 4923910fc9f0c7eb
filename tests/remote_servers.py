"""What stands in for a managed service: a server on TCP with TLS and SCRAM, and a proxy that adds a delay."""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from native_servers import NativeTestServer

PASSWORD = "s3cret-pässword '%@,:/"
USER = "bench"
DATABASE = "bench"
HOST = "localhost"
SCALE = 1
CHUNK_BYTES = 1 << 16


def openssl(*words: str) -> None:
    """Run openssl."""
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_authority(folder: Path, name: str = "root") -> tuple[Path, Path]:
    """A certificate authority: its certificate and its key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    openssl(
        *("req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=an authority of a test"),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    return certificate, key


def make_certificate(
    folder: Path, authority: tuple[Path, Path], names: str = f"DNS:{HOST}", subject: str = "/CN=server"
) -> tuple[Path, Path]:
    """A server's certificate for `names` ('' for none), signed by the authority, and its key."""
    certificate, key, request = folder / "server.crt", folder / "server.key", folder / "server.csr"
    openssl("req", "-new", "-nodes", "-subj", subject, "-keyout", str(key), "-out", str(request))
    extensions = folder / "extensions"
    extensions.write_text("basicConstraints=CA:FALSE\n" + (f"subjectAltName={names}\n" if names else ""))
    openssl(
        *("x509", "-req", "-in", str(request), "-CA", str(authority[0]), "-CAkey", str(authority[1])),
        *("-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", str(certificate)),
    )
    return certificate, key


class RemoteTestServer(NativeTestServer):
    """With TLS on TCP, the role `bench` that authenticates by SCRAM, and a database with tables."""

    def start(self) -> None:
        super().start()
        self.pki = self.folder / "pki"
        self.pki.mkdir()
        self.authority = make_authority(self.pki)
        self.use_certificate(*make_certificate(self.pki, self.authority))
        quoted = PASSWORD.replace("'", "''")
        with self.query_connection() as connection:
            connection.execute(f"create role {USER} login password '{quoted}'")
            connection.execute(f"create database {DATABASE} owner {USER}")
            connection.execute("alter system set ssl = on")
        places = ("-h", str(self.folder), "-p", str(self.port), "-U", USER)
        self.run("pgbench", "-i", "-q", "-s", str(SCALE), *places, DATABASE)
        rules = f"local all all trust\nhostssl {DATABASE},nowhere {USER} 127.0.0.1/32 scram-sha-256\n"
        (self.folder / "data" / "pg_hba.conf").write_text(rules)
        self.reload()

    def reload(self) -> None:
        """Have the server read its files again, and wait until it has."""
        loaded = "select pg_conf_load_time()"
        before = self.query(loaded)
        self.run("pg_ctl", "-D", str(self.folder / "data"), "reload")
        deadline = time.monotonic() + 120
        while self.query(loaded) == before:
            assert time.monotonic() < deadline, "the server did not read its files again"
            time.sleep(0.02)

    def use_certificate(self, certificate: Path, key: Path) -> None:
        """Give the server a certificate, which it takes up when it reads its files."""
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            target = self.folder / "data" / name
            target.write_bytes(source.read_bytes())
            target.chmod(0o600)
            if self.account:
                os.chown(target, self.account["user"], self.account["group"])

    @property
    def root(self) -> Path:
        """The certificate of the authority."""
        return self.authority[0]

    def uri(
        self, port: int | None = None, *, password: bool = True, database: str = DATABASE, **options: str
    ) -> str:
        """A URI with the password in it, or without."""
        secret = f":{quote(PASSWORD, safe='')}" if password else ""
        query = "&".join(f"{name}={quote(value)}" for name, value in options.items())
        place = f"{HOST}:{port or self.port}{database and f'/{database}'}"
        return f"postgresql://{USER}{secret}@{place}{'?' if query else ''}{query}"

    def pairs(self, port: int | None = None, **options: str) -> str:
        """The same in keywords and values, without a password."""
        return " ".join(
            [f"host={HOST} port={port or self.port} dbname={DATABASE} user={USER}"]
            + [f"{name}={value}" for name, value in options.items()]
        )


class _Delay:
    """Forwards every byte both ways, each `one_way_s` later; throughput stays as it is."""

    def __init__(self, port: int, one_way_s: float) -> None:
        self.port = port
        self.one_way_s = one_way_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.forward(reader, far_writer), self.forward(far_reader, writer))

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError, asyncio.CancelledError):
            while chunk := await reader.read(CHUNK_BYTES):
                loop.call_later(self.one_way_s, _write, writer, chunk)
        loop.call_later(self.one_way_s, writer.close)


def _write(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    if not writer.is_closing():
        writer.write(chunk)


async def _cancel(tasks: set["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def delayed(port: int, round_trip_s: float) -> Iterator[int]:
    """A port on this host behind which the server answers, later by `round_trip_s`."""
    loop = asyncio.new_event_loop()
    delay = _Delay(port, round_trip_s / 2)
    server = loop.run_until_complete(asyncio.start_server(delay.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_cancel(asyncio.all_tasks(loop)))
        loop.close()
