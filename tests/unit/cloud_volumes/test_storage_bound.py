"""The bound of what faster storage could gain on a server elsewhere: looks whose answer is known."""

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis_samples as samples
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.descriptive.storage_bound import (
    Looked,
    gain_of,
    kind_of,
    looked,
    share_interval,
    storage_bounds,
    timed_share,
    together,
)
from pgassay.cloud_volumes.catalogue import load_catalogue
from pgassay.errors import UsageError
from pgassay.model.arm import Arm, RemoteServer
from pgassay.model.experiment import Experiment
from pgassay.model.trial import TrialFacts
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report import schema
from pgassay.report.size import size_page
from pgassay.sizing.size import Wanted, bounded
from pgassay.sizing.size_sentences import warnings_of_bound

SECOND = 10**9
LOOKS = 20
READ = ("IO", "DataFileRead")
Seen = dict[tuple[str, str], int]


def waits(*windows: Seen, clients: int = 1, kind: str = "backend") -> dict[str, list[object]]:
    """Windows of a second with so many looks at each client; what isn't named works."""
    columns: dict[str, list[object]] = {
        name: []
        for name in (
            "from_ns",
            "clock_ns",
            "pid",
            "kind",
            "activity",
            "wait_event_type",
            "wait_event",
            "samples",
        )
    }
    for number, seen in enumerate(windows):
        for pid in range(clients):
            rest = LOOKS - sum(seen.values())
            for (event_type, event), count in {**seen, ("", ""): rest}.items():
                row = (number * SECOND, (number + 1) * SECOND, pid, kind, "active", event_type, event, count)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return columns


def test_each_wait_is_of_its_kind() -> None:
    """All that is not certainly something else counts: the bound is one from above."""
    kinds = {
        ("IO", "DataFileRead"): "reads",
        ("IO", "AioIoCompletion"): "reads",
        ("IPC", "BufferIo"): "reads",
        ("IO", "WalSync"): "wal",
        ("IO", "WALWrite"): "wal",
        ("IO", "BuffileRead"): "temporary",
        ("IO", "DataFileExtend"): "files",
        ("LWLock", "WALWrite"): "wal",
        ("LWLock", "BufferContent"): "others",
        ("Lock", "transactionid"): "others",
        ("IPC", "ExecuteGather"): "others",
        ("Extension", "Extension"): "others",
        ("Client", "ClientRead"): None,
        ("Timeout", "PgSleep"): None,
        ("Activity", "WalWriterMain"): None,
        ("", ""): None,
    }
    assert {pair: kind_of(*pair) for pair in kinds} == kinds


def test_looks_are_shares_of_the_connections_time() -> None:
    seen: Seen = {READ: 8, ("IO", "WalSync"): 2, ("Lock", "tuple"): 4, ("Client", "ClientRead"): 3}
    (found,) = looked(waits(seen, seen, clients=3), [Span(0, 2 * SECOND, False)], 3)
    assert found == Looked(connections=120, reads=48, wal=12, others=24)
    assert found.share == pytest.approx(14 / 20)
    assert gain_of(found.share) == pytest.approx(20 / 6)
    # What lies outside of what was measured, and who is no connection, does not count.
    (inside,) = looked(waits(seen, {READ: 20}, clients=3), [Span(0, SECOND, False)], 3)
    assert inside.share == found.share
    assert looked(waits(seen, kind="io worker"), [Span(0, SECOND, False)], 1) == []


def test_behind_a_pooler_those_that_are_seen_have_the_time() -> None:
    """Thirty clients over three connections: a share of thirty would be too low, and so no bound."""
    (found,) = looked(waits({READ: 10}, clients=3), [Span(0, SECOND, False)], 30)
    assert found.share == pytest.approx(0.5)
    # Of a workload with one connection others' waits are in it; they can't be more than all of the time.
    (crowd,) = looked(waits({READ: 10}, clients=9), [Span(0, SECOND, False)], 1)
    assert crowd.share == 1 and gain_of(crowd.share) is None


def test_parts_are_all_of_it() -> None:
    windows: list[Seen] = [{READ: number} for number in range(10)]
    columns = waits(*windows)
    parts = looked(columns, [Span(0, 10 * SECOND, False)], 1, parts=5)
    assert len(parts) == 5 and [part.reads for part in parts] == [1, 5, 9, 13, 17]
    assert together(parts) == looked(columns, [Span(0, 10 * SECOND, False)], 1)[0]


def test_none_seen_is_not_none() -> None:
    low, high = share_interval([Looked(connections=100)])
    assert low == 0 and 0.02 < high < 0.06
    assert share_interval([Looked(connections=100, reads=100)])[1] == 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12))
def test_an_interval_holds_its_share_and_is_one(reads: list[int]) -> None:
    units = [Looked(connections=50.0, reads=float(count)) for count in reads]
    low, high = share_interval(units)
    assert 0 <= low <= together(units).share <= high <= 1
    wider_low, wider_high = share_interval(units, 0.99)
    assert wider_low <= low and high <= wider_high


@pytest.mark.parametrize(("trials", "spread"), [(3, 0.05), (5, 0.1), (8, 0.0)])
def test_the_interval_covers_the_share(trials: int, spread: float) -> None:
    """Trials differ among themselves, and looks come in runs: a wait that lasts is seen more than once."""
    generator = np.random.default_rng(7)
    truth, runs, covered, times = 0.4, 4, 0, 1000
    for _ in range(times):
        units = []
        for share in np.clip(generator.normal(truth, spread, trials), 0, 1):
            seen = generator.binomial(100, share) * runs
            units.append(Looked(connections=100.0 * runs, reads=float(seen)))
        low, high = share_interval(units)
        covered += low <= truth <= high
    assert covered / times > 0.95 - 3 * math.sqrt(0.05 * 0.95 / times)


def elsewhere(plan: Experiment) -> Experiment:
    server = RemoteServer(
        name="db:5432/d",
        connection="host=db",
        host="db",
        port=5432,
        dbname="d",
        user="u",
        version="18.1",
        major=18,
    )

    def there(arm: Arm) -> Arm:
        return arm.model_copy(update={"spec": arm.spec.model_copy(update={"server": server})})

    return plan.model_copy(update={"arms": tuple(there(arm) for arm in plan.arms)})


def stored(
    folder: Path, trials: int, *, reads: int, timed_ms: float = 0.0, others: int = 0
) -> StoredExperiment:
    """Trials of two statements; of each look at their connection so many of twenty found it reading."""
    plan = elsewhere(samples.experiment())
    arm = next(each.id for each in plan.arms if each.role == "control")
    made = []
    for number in range(trials):
        place = folder / str(number)
        (place / "observations").mkdir(parents=True)
        columns = waits(*[{READ: reads}] * 10)
        (place / "observations" / "waits.parquet").write_bytes(
            to_parquet(columns, sampler="waits", version=1)
        )  # type: ignore[arg-type]  # columns of a mapping
        facts = TrialFacts.model_validate({"server": {"name": "db", "other_active_sessions": others}})
        row = {
            "backend_type": "client backend",
            "object": "relation",
            "context": "normal",
            "read_time": timed_ms,
        }
        record = samples.record(
            plan,
            number,
            number,
            arm,
            0.2,
            clock_ns=(0, 10 * SECOND),
            facts=facts,
            counters={"pg_stat_io": (row,)},
        )
        made.append(StoredTrial(record, {}, place))
    return StoredExperiment(folder, plan, tuple(made), "blocks")


def test_a_bound_of_trials_and_of_parts_of_them(tmp_path: Path) -> None:
    (few,) = storage_bounds(stored(tmp_path / "few", 1, reads=10))
    (many,) = storage_bounds(stored(tmp_path / "many", 4, reads=10))
    assert (few.interval_of, many.interval_of) == ("parts of trials", "trials")
    for bound in (few, many):
        assert bound.share == pytest.approx(0.5) and bound.gain_at_most == pytest.approx(2)
        assert bound.reads_share == pytest.approx(0.5) and bound.wal_share == 0
        low, high = bound.gain_interval
        assert high is not None and low < 2 < high
        assert bound.seconds_per_unit == pytest.approx(10) and bound.unit == "run"


def test_the_servers_own_clock_is_not_below_the_looks(tmp_path: Path) -> None:
    """Two statements of 5 s each: 8 s of reads by the server's clock are more than half of the time."""
    (bound,) = storage_bounds(stored(tmp_path, 3, reads=10, timed_ms=8000.0))
    assert bound.timed_share == pytest.approx(0.8) and bound.share == pytest.approx(0.8)
    assert bound.gain_at_most == pytest.approx(5)
    low, high = bound.gain_interval
    assert high is not None and low <= 5 <= high * 1.000001
    experiment = stored(tmp_path / "less", 1, reads=10, timed_ms=2000.0)
    (arm, *_rest) = experiment.experiment.arms
    assert timed_share(arm, experiment.trials[0].record) == pytest.approx(0.2)


def test_a_server_that_times_and_had_nothing_to_time_is_not_told_to_time(tmp_path: Path) -> None:
    for setting, share in (("on", 0.0), ("off", None)):
        experiment = stored(tmp_path / setting, 3, reads=0)
        trials = tuple(
            replace(
                each,
                record=each.record.model_copy(
                    update={"facts": each.record.facts.updated(settings={"track_io_timing": setting})}
                ),
            )
            for each in experiment.trials
        )
        (bound,) = storage_bounds(replace(experiment, trials=trials))
        assert bound.timed_share == share
        told = " ".join(warnings_of_bound(bound))
        assert ("track_io_timing=on" in told) == (share is None) and "uses its timing" not in told


def test_what_is_said_of_a_bound(tmp_path: Path) -> None:
    experiment = stored(tmp_path, 3, reads=15, others=2)
    wanted = Wanted(slow_down=0.1, size_gib=100)
    result = bounded(experiment, storage_bounds(experiment), wanted, load_catalogue())
    shown = size_page.page_of(result).terminal(width=100)
    assert "at most 4 × as fast" in result.sentences[0] and "75 % for pages" in result.sentences[1]
    assert "This is only an upper bound of the gain" in " ".join(result.sentences)
    assert "2 other sessions worked on" in " ".join(result.warnings)
    assert "At most" in shown and "75.0 %" in shown and "cheapest" not in shown
    assert (
        size_page.page_of(result).html().startswith("<!doctype html>")
        and "75.0" in size_page.page_of(result).markdown()
    )
    document = json.loads(size_page.page_of(result).json())
    jsonschema.validate(document, schema.SIZE.schema(), cls=jsonschema.Draft202012Validator)
    assert document["groups"] == [] and document["bounds"][0]["gain_at_most"] == pytest.approx(4)


def test_without_looks_there_is_no_bound(tmp_path: Path) -> None:
    plan = elsewhere(samples.experiment())
    arm = plan.arms[0].id
    nothing = StoredExperiment(
        tmp_path, plan, (StoredTrial(samples.record(plan, 0, 0, arm, 1.0), {}, tmp_path),)
    )
    with pytest.raises(UsageError, match="without --observe off"):
        storage_bounds(nothing)


def test_the_table_names_each_of_several_servers(tmp_path: Path) -> None:
    experiment = stored(tmp_path, 3, reads=15)
    (bound,) = storage_bounds(experiment)
    both = [bound, bound.model_copy(update={"server": "standby"})]
    result = bounded(experiment, both, Wanted(slow_down=0.1, size_gib=100), load_catalogue())
    table = size_page.page_of(result).markdown().partition("At most")[2]
    assert "standby" in table and bound.server in table and "the workload |" not in table
