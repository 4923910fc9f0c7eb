"""A proxy that can't begin: the option that it is about is named."""

import argparse
import errno
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from pgassay.cli.commands.traffic import capture as command
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import RemoteServer
from pgassay.native.process import StatementError
from pgassay.traffic import capturing
from pgassay.traffic import redacting as redacting_module
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


def test_a_server_without_a_free_connection_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already")

    monkeypatch.setattr(capturing, "resolve", lambda *_, **__: Resolved(SERVER, {"sslmode": "disable"}))
    monkeypatch.setattr(capturing.psycopg, "connect", refuse)
    with pytest.raises(UsageError, match=r"^DSN: db1:5432/shop gave no answer \(FATAL:  sorry, too many"):
        capture(CaptureRequest("127.0.0.1:6432", "dbname=shop", tmp_path / "c"), print, print)
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


def redacting(tmp_path: Path) -> argparse.Namespace:
    """A capture with its values, to be handed out."""
    (tmp_path / "out.values").mkdir()
    (tmp_path / "out.values" / "a.pgcap").write_bytes(b"values")
    return argparse.Namespace(redact=True, out=tmp_path / "out")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UsageError("--out out is not empty: name another")])
def test_whoever_stops_before_the_values_are_out_hears_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    arguments = redacting(tmp_path)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command, "_redacted", fail)
    with pytest.raises((KeyboardInterrupt, MeasurementError)) as raised:
        command._take_values_out(arguments, tmp_path / "out.values")
    said = f"{raised.value}{capsys.readouterr().err}"
    assert f"the capture is in {tmp_path / 'out.values'} with its values".lower() in said.lower()
    assert f"write pgassay capture redact {tmp_path / 'out.values'} --out {tmp_path / 'out'}" in said
    assert (tmp_path / "out.values" / "a.pgcap").exists()


@pytest.mark.parametrize("has_folder", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MeasurementError("no space")])
def test_a_part_of_a_redacted_copy_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, *, has_folder: bool
) -> None:
    """It has no manifest, by which a capture without values is known."""
    out = tmp_path / "out"
    if has_folder:
        out.mkdir()

    def write(_: Path, to: Path) -> None:
        (to / "a.pgcap").write_bytes(b"a part")
        raise error

    monkeypatch.setattr(redacting_module, "files", lambda _: [])
    monkeypatch.setattr(redacting_module, "_written", write)
    with pytest.raises(type(error)):
        redacting_module.redact(tmp_path, out)
    assert out.exists() is has_folder and not list(out.glob("*"))


def test_counts_are_handed_out_and_no_folder_s_name() -> None:
    known: dict[str, object] = {
        "format": 1, "totals": {"sessions": 2, "failure": "/home/jo/monday: No space left on device"},
        "server": {"version": "18", "settings": {"cluster_name": "acme"}},
        "options": {"files": ["/home/jo/a"]},
    }  # fmt: skip
    made = redacting_module.redacted_manifest(known)
    assert made["totals"] == {"sessions": 2} and made["redacted"] is True
    assert "jo" not in str(made) and "acme" not in str(made)
    assert "totals" not in redacting_module.redacted_manifest({"format": 1})


def test_a_log_without_statements_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-11-27 18:32:25.535 UTC [7] LOG:  checkpoint starting: time\n")
    arguments = argparse.Namespace(
        out=tmp_path / "c", only=[], redact=True, log=[tmp_path / "a.log"], log_prefix=None, json=False
    )
    with pytest.raises(UsageError, match="no statement was logged"):
        command._convert(arguments)
    assert {each.name for each in tmp_path.iterdir()} == {"a.log"}
