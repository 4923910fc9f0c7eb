"""Sessions and programs on a source: what they are opened with, and what is said where one fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Self, cast

import psycopg
import pytest

import report_examples
import tune_samples
from finder_samples import facts
from pgassay.environment.remote.read_only import READING
from pgassay.environment.server.programs import run_program
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import MeasurementError, UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.tuning.source import TuneSource
from pgassay.progress import NullProgress
from pgassay.tune import finder_inputs
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.run_tune import TOOLS
from pgassay.tune.source import dump, tune_server
from pgassay.tune.source.copied import settings_of
from pgassay.tune.source.gather import explained_on, types_of
from pgassay.tune.source.origin import CopyOrigin, dead_rows_kept
from pgassay.tune.source.source_server import APPLICATION, SourceServer, SourceSetting
from pgassay.tune.tune_plan import PlannedTune, TuneRequest
from source_samples import BUILD, KNOWN, source


def test_a_backslash_is_no_escape_where_pgassay_s_texts_are_read() -> None:
    """A value of the log that ends with one would end its literal otherwise, and the rest of it were SQL."""
    options = str(source().parameters(APPLICATION, READING)["options"])
    assert "-c standard_conforming_strings=on" in options and "default_transaction_read_only=on" in options
    legacy = {"standard_conforming_strings": SourceSetting("off", True, "Version and Platform Compatibility")}
    taken = settings_of(source(settings=legacy), {}, BUILD, 10 * 1024**3, KNOWN | legacy.keys())
    assert taken == {}


class Lost:
    """A session that the server has ended."""

    closed = True

    def execute(self, *_given: object, **_named: object) -> None:
        raise psycopg.OperationalError("server closed the connection unexpectedly\n\tThis probably means")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        pass

    def transaction(self, **_named: object) -> Self:
        return self


def test_a_session_that_the_server_ends_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = cast(ControlSession, Lost())
    for asked in (lambda: types_of(lost, "SELECT $1"), lambda: explained_on(lost, "SELECT 1")):
        with pytest.raises(psycopg.OperationalError):
            asked()
    monkeypatch.setattr(tune_server, "open_source", lambda _string: source())
    monkeypatch.setattr(SourceServer, "reading", lambda _source: lost)
    monkeypatch.setattr(tune_server, "plan_tune", lambda *_given: None)
    monkeypatch.setattr(tune_server, "resolve", lambda _build: BUILD)
    compare = CompareRequest(factors=(), workload="", dataset="dump:shop.dump")
    wanted = tune_server.ServerRequest("host=db", TuneRequest(compare))
    with pytest.raises(
        MeasurementError, match=r"^db:5432/shop ended the session .*unexpectedly\): try again$"
    ):
        tune_server.tune_server(wanted, TOOLS, NullProgress(), wait=False)


# --- Programs, which speak in the encoding of the data.


def test_a_program_that_speaks_latin_1_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_program(["/usr/bin/printf", r"CREATE TABLE gr\374n"], "looking")
    assert said.encode(errors="surrogateescape") == b"CREATE TABLE gr\xfcn"
    with pytest.raises(MeasurementError, match=r"gr\?n"):
        run_program(["/bin/sh", "-c", r"printf 'error: no table gr\374n' >&2; exit 1"], "looking")
    program = tmp_path / dump.PROGRAM
    program.write_bytes(b"#!/bin/sh\necho 'pg_dump: error: no table gr\xfcn' >&2\nexit 1\n")
    program.chmod(0o755)
    build = BUILD.model_copy(update={"bin_directory": str(tmp_path)})
    with pytest.raises(UsageError, match=r"can't be dumped \(no table gr\ufffdn\): fix that"):
        dump._dump(source(), build, tmp_path / dump.FILE, NullProgress(), dump.CUSTOM_FORMAT)
    locale = tmp_path / "locale"
    locale.write_bytes(b"#!/bin/sh\nprintf 'C\\nfran\\347ais\\n'\n")
    locale.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "C" in tune_server.installed_locales()


def test_dead_rows_that_somebody_keeps_are_told_of_tables_with_many() -> None:
    tables = [
        TableFacts(schema_="public", name=name, kind="table", columns=(), live_rows=1000, dead_rows=dead)
        for name, dead in (("orders", 9000), ("items", 100), ("events", 400))
    ]
    told = dead_rows_kept("prepared transaction x17, for 1.00 h", tables)
    assert "x17, for 1.00 h keeps VACUUM from removing dead rows (9,000 of orders, 400 of events)" in told
    assert not dead_rows_kept("", tables) and not dead_rows_kept("session 7", tables[1:2])


@pytest.mark.parametrize("holder", ["", "replication slot spare"])
def test_finders_learn_who_holds_the_dead_rows_of_the_source(
    holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("other_versions", "other_storages"):
        monkeypatch.setattr(finder_inputs, name, lambda *_: ())
    monkeypatch.setattr(finder_inputs, "last_probe", lambda _: None)
    request = CompareRequest(factors=(), max_time_s=600.0)
    planned = SimpleNamespace(
        statements=tune_samples.STATEMENTS, spec=report_examples.spec({}), request=request,
        has_physical_state=False, base=SimpleNamespace(protocol=SimpleNamespace(cache="cold")),
    )  # fmt: skip
    told = TuneSource(name="db", version="17", seconds=1, statements=3, share=1)
    origin = CopyOrigin(told, {}, {}, {}, is_here=False, held_by=holder)

    def held_by(origin: CopyOrigin | None) -> str:
        known = cast("PlannedTune", planned)
        return finder_inputs.symptom_for(known, tune_samples.BASELINE, {}, facts(), origin, 1.0).held_by

    assert held_by(origin) == holder
    assert held_by(None) == ""
