"""Makes a capture: the native proxy stands between clients and a server, until it is told to end."""

import ipaddress
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgassay.environment.remote.connection_parameters import Resolved, resolve
from pgassay.errors import MeasurementError, UsageError, first_line
from pgassay.native.process import NativeProcess, StatementError
from pgassay.traffic import manifest

# The proxy itself needs no more of a server than the protocol's version 3.
_MAJOR_MIN = 10
_PORT_MAX = 65535
_CHANNEL_BINDING = (
    "the connection to the server is encrypted, so SCRAM can't bind to its channel: clients that use TLS to "
    "this proxy connect with channel_binding=disable"
)


@dataclass(frozen=True)
class CaptureRequest:
    """What was asked for. `max_s` None: until it is interrupted."""

    listen: str
    connection: str
    folder: Path
    max_s: float | None = None
    copy_data: bool = True
    users: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class CaptureStart:
    """A capture that runs: where clients connect, the server, what is not as in a direct connection."""

    listen: str
    server: str
    notes: list[str]


@dataclass(frozen=True)
class CaptureProgress:
    """The numbers of a moment; see `pgassay-native capture` for what each counts."""

    elapsed_s: float
    totals: Mapping[str, Any]
    statements_per_s: float


def capture(
    request: CaptureRequest,
    on_start: Callable[[CaptureStart], None],
    on_progress: Callable[[CaptureProgress], None],
) -> dict[str, Any]:
    """Capture until the time is over or Ctrl-C (KeyboardInterrupt), and return the totals.

    Raises UsageError for what can't be done as typed, MeasurementError where the proxy ended by itself.
    """
    listen = listening(request.listen, has_tls=request.certificate is not None)
    is_new = not request.folder.exists()
    make_folder(request.folder)
    try:
        return _captured(request, listen, on_start, on_progress)
    except UsageError:
        if is_new:
            with suppress(OSError):
                request.folder.rmdir()
        raise


def _captured(
    request: CaptureRequest,
    listen: str,
    on_start: Callable[[CaptureStart], None],
    on_progress: Callable[[CaptureProgress], None],
) -> dict[str, Any]:
    resolved = resolve(request.connection, "DSN", major_min=_MAJOR_MIN, needs_database=False)
    notes = [_CHANNEL_BINDING] if resolved.parameters.get("sslmode") != "disable" else []
    try:
        with psycopg.connect(
            request.connection, autocommit=True, application_name="pgassay capture"
        ) as session:
            server = manifest.described(session)
    except psycopg.Error as error:
        raise UsageError(
            f"DSN: {resolved.server.name} gave no answer ({first_line(error)}): try again"
        ) from None
    process = NativeProcess("capture")
    try:
        process.send(_document(request, listen, resolved))
        try:
            ready = process.receive()["ready"]
        except StatementError as error:
            raise _refused(request, error.message) from None
        options = {
            "copy_data": request.copy_data,
            "users": list(request.users),
            "databases": list(request.databases),
        }
        begun = manifest.begun("proxy", int(ready["started_unix_ns"]), server, options, notes)
        manifest.write(request.folder, begun)
        on_start(CaptureStart(ready["listen"], resolved.server.name, notes))
        totals = _until_over(process, request.max_s, on_progress)
        try:
            manifest.write(request.folder, begun | {"ended_at": manifest.now(), "totals": totals})
        except OSError as error:
            # Of a full disk, say: what was recorded until then can be read without it.
            totals["failure"] = totals["failure"] or str(error.strerror)
        return totals
    finally:
        process.end()


def _refused(request: CaptureRequest, message: str) -> UsageError:
    """What the proxy says of its settings, with the option that it is about."""
    if "can't be listened on" in message:
        return UsageError(f"--listen {request.listen}: {message}: name another address or port")
    files = [str(each.resolve()) for each in (request.certificate, request.key) if each is not None]
    if any(f"the file {each} " in message for each in files):
        return UsageError(
            f"--tls-certificate, --tls-key: {message}: name a certificate and its own key, both as PEM"
        )
    return UsageError(message)


def listening(text: str, *, has_tls: bool) -> str:
    """HOST:PORT with an address; raises UsageError for what is none, and for other hosts without TLS."""
    host, _, port = text.strip().rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > _PORT_MAX:
        raise UsageError(f"--listen {text}: write an address and a port, as 127.0.0.1:6432")
    try:
        address = ipaddress.ip_address(socket.gethostbyname(host) if host == "localhost" else host)
    except (OSError, ValueError):
        raise UsageError(
            f"--listen {text}: {host} is not an address: write one, as 127.0.0.1:{port}"
        ) from None
    if not address.is_loopback and not has_tls:
        raise UsageError(
            f"--listen {text} can be reached from other hosts, where statements and passwords would "
            "be sent unencrypted: add --tls-certificate FILE --tls-key FILE, or listen on 127.0.0.1"
        )
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def refuse_full(folder: Path) -> None:
    """Raise UsageError for a folder that holds something."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"--out {folder} is not empty: name a new folder")


def make_folder(folder: Path) -> None:
    """Make the capture's folder, for its owner alone; raises UsageError for one that holds something."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_full(folder)
        folder.chmod(0o700)
    except OSError as error:
        raise UsageError(f"--out {folder} can't be used ({error.strerror}): name another folder") from None


@contextmanager
def made_whole(folder: Path) -> Iterator[None]:
    """Make the folder as `make_folder` does; what fills it and fails, or is interrupted, leaves nothing."""
    is_new = not folder.exists()
    make_folder(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for path in folder.iterdir():
                path.unlink()
            if is_new:
                folder.rmdir()
        raise


def _document(request: CaptureRequest, listen: str, resolved: Resolved) -> dict[str, object]:
    document: dict[str, object] = {
        "listen": listen,
        # The proxy authenticates nobody: clients do, through it.
        "connect": {**resolved.parameters, "password": None},
        "folder": str(request.folder.resolve()),
        "copy_data": request.copy_data,
        "users": list(request.users),
        "databases": list(request.databases),
    }
    if request.certificate is not None and request.key is not None:
        files = {"certificate": request.certificate, "key": request.key}
        document["tls"] = {name: str(path.resolve()) for name, path in files.items()}
    return document


def _until_over(
    process: NativeProcess, max_s: float | None, on_progress: Callable[[CaptureProgress], None]
) -> dict[str, Any]:
    begun = before = time.monotonic()
    statements = 0
    try:
        while max_s is None or time.monotonic() - begun < max_s:
            line = process.receive()
            totals = line.get("progress")
            if totals is None:
                break
            now = time.monotonic()
            rate = (totals["statements"] - statements) / max(now - before, 1e-3)
            statements, before = totals["statements"], now
            on_progress(CaptureProgress(now - begun, totals, rate))
    except KeyboardInterrupt:
        # The usual way to end it: what was captured is whole.
        pass
    for line in process.last_words():
        if "ended" in line:
            ended: dict[str, Any] = line["ended"]
            return ended
    raise MeasurementError(
        "the proxy ended unexpectedly: what it wrote until then is complete, read it with pgassay capture "
        "show"
    )
