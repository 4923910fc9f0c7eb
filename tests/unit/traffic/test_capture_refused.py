"""A proxy that can't begin: the option that it is about is named."""

import errno
from contextlib import nullcontext
from pathlib import Path

import pytest

from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import UsageError
from pgassay.model.arm import RemoteServer
from pgassay.native.process import StatementError
from pgassay.traffic import capturing
from pgassay.traffic.capturing import CaptureRequest, capture

SERVER = RemoteServer(
    name="db1:5432/shop", connection="dbname=shop", host="db1", port=5432, dbname="shop", user="app",
    version="18.0", major=18, encryption="disable",
)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "begins", "ends"),
    [
        (
            "127.0.0.1:6432 can't be listened on: Address already in use (os error 98)",
            "--listen 127.0.0.1:6432: ",
            "name another address or port",
        ),
        ("the file /k can't be used: no items found", "--tls-certificate, --tls-key: ", "both as PEM"),
        ('the host "db1" has no address: correct the DSN', "the host ", "correct the DSN"),
    ],
)
def test_the_option_that_a_refusal_is_about_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, begins: str, ends: str
) -> None:
    class Refusing:
        def __init__(self, command: str) -> None:
            assert command == "capture"

        def send(self, _: object) -> None:
            pass

        def receive(self) -> None:
            raise StatementError(said, None)

        def end(self) -> None:
            pass

    monkeypatch.setattr(capturing, "NativeProcess", Refusing)
    monkeypatch.setattr(capturing, "resolve", lambda *_, **__: Resolved(SERVER, {"sslmode": "disable"}))
    monkeypatch.setattr(capturing.psycopg, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(capturing.manifest, "described", lambda _: {})
    request = CaptureRequest(
        "127.0.0.1:6432", "dbname=shop", tmp_path / "c", certificate=Path("/c"), key=Path("/k")
    )
    with pytest.raises(UsageError) as found:
        capture(request, print, print)
    assert str(found.value).startswith(begins) and str(found.value).endswith(ends)
    assert not (tmp_path / "c").exists()


def test_a_disk_that_is_full_at_the_end_is_told_with_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recording:
        def __init__(self, _: str) -> None: ...

        def send(self, _: object) -> None: ...

        def receive(self) -> dict[str, object]:
            return {"ready": {"started_unix_ns": 1, "listen": "127.0.0.1:6432"}}

        def last_words(self) -> list[dict[str, object]]:
            return [{"ended": {"sessions": 2, "failure": None}}]

        def end(self) -> None: ...

    def write(_: Path, manifest: dict[str, object]) -> None:
        if manifest.get("ended_at"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(capturing, "NativeProcess", Recording)
    monkeypatch.setattr(capturing, "resolve", lambda *_, **__: Resolved(SERVER, {"sslmode": "disable"}))
    monkeypatch.setattr(capturing.psycopg, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(capturing.manifest, "described", lambda _: {})
    monkeypatch.setattr(capturing.manifest, "write", write)
    request = CaptureRequest("127.0.0.1:6432", "dbname=shop", tmp_path / "c", max_s=0.0)
    totals = capture(request, print, print)
    assert (totals["sessions"], totals["failure"]) == (2, "No space left on device")
