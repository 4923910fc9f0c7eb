"""What changed within trials and what happened then: the log, the threads, the matching, the sentences."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cause_samples
import report_examples as examples
from pgassay.analysis.changes.arm_changes import moments
from pgassay.analysis.changes.events import trial_events
from pgassay.analysis.changes.rate_series import by_second
from pgassay.analysis.changes.server_log import log_events
from pgassay.analysis.changes.timeline import timeline
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.changes import Change, Event
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import LoadObservation, TrialRecord
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report.compare import page as comparison
from pgassay.report.compare.explanations import change_sentences

S = 1_000_000_000
# The measured part begins at 12:00:00 UTC on this day, 1000 s after the machine's start.
ZERO_NS = 1_772_366_400 * S
BEGIN_NS = 1000 * S
SECONDS = 20
LOG = """\
2026-03-01 12:00:02.500 GMT [77] LOG:  checkpoint complete: wrote 8 buffers; total=6.000 s; sync files=2
2026-03-01 12:00:04.000 GMT [80] LOG:  automatic vacuum of table "postgres.public.branches": index scans: 0
\tpages: 0 removed, 9 remain, 9 scanned (100.00% of total)
\tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 1.25 s
2026-03-01 12:00:08.100 GMT [77] LOG:  checkpoint starting: wal
2026-03-01 12:00:09.000 GMT [81] WARNING:  there is "something" wrong
\tLOG:  checkpoint starting: this line continues the one before
not a line of the server's
2026-03-01 12:00:12.000 GMT [77] LOG:  checkpoint complete: wrote 9 buffers (0.1%); total=3.900 s
2026-03-01 12:00:19.000 GMT [77] LOG:  checkpoint starting: time
"""


def record(**changes: Any) -> TrialRecord:
    """A trial of SECONDS whose clocks are known."""
    known = {
        "clock_ns": (BEGIN_NS, BEGIN_NS + SECONDS * S),
        "clock_offset_ns": (ZERO_NS - BEGIN_NS, ZERO_NS - BEGIN_NS + 1000),
    }
    return cause_samples.load_record(**known | changes)


def told(log: str, of: TrialRecord) -> list[tuple[str, str, float | None, float | None]]:
    return [(each.kind, each.what, each.began_s, each.ended_s) for each in log_events(log, of).events]


def test_a_log_s_lines_become_events_on_the_trial_s_clock() -> None:
    assert told(LOG, record()) == [
        ("checkpoint", "a checkpoint", -3.5, 2.5),
        ("autovacuum", "automatic vacuum of postgres.public.branches", 2.75, 4.0),
        ("checkpoint", "a checkpoint (wal)", 8.1, 12.0),
        ("log", 'WARNING: there is "something" wrong', 9.0, 9.0),
        ("checkpoint", "a checkpoint (time)", 19.0, None),
    ]
    assert log_events(LOG, record()).workers == {80}


def test_a_log_of_another_time_zone_is_read_by_its_setting() -> None:
    log = "2026-03-01 13:00:08.000 CET [77] LOG:  checkpoint starting: wal\n"
    facts = {"settings": {"log_timezone": "Europe/Berlin"}}
    assert told(log, record(facts=facts)) == [("checkpoint", "a checkpoint (wal)", 8.0, None)]
    assert told(log, record(facts={"settings": {"log_timezone": "Nowhere/Nothing"}})) == []


@pytest.mark.parametrize(
    ("log", "changes"),
    [
        (LOG, {"clock_offset_ns": None}),
        (LOG, {"clock_offset_ns": (ZERO_NS, ZERO_NS + S)}),
        (LOG, {"clock_ns": None}),
        (LOG.replace("2026-03-01 12:00:", "line "), {}),
        ("2026-02-31 12:00:08.000 GMT [7] LOG:  checkpoint starting: wal\n", {}),
        ("", {}),
    ],
    ids=["older record", "clock was set", "no clock", "another prefix", "no such day", "empty"],
)
def test_a_log_that_can_not_be_placed_in_time_tells_nothing(log: str, changes: dict[str, Any]) -> None:
    assert told(log, record(**changes)) == []


def write(folder: Path, name: str, columns: dict[str, list[Any]]) -> None:
    file = folder / "observations" / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(to_parquet(columns, sampler=name, version=1))


def clocks(*seconds: float) -> list[int]:
    return [round(BEGIN_NS + second * S) for second in seconds]


def threads(*lives: tuple[int, str, float, float, bool]) -> dict[str, list[Any]]:
    """Rows of processes: id, kind, start and last sight in seconds, whether it was there then."""
    return {
        "clock_ns": clocks(*(seen for _, _, _, seen, _ in lives)),
        "pid": [pid for pid, *_ in lives],
        "kind": [kind for _, kind, *_ in lives],
        "start_ns": clocks(*(start for _, _, start, _, _ in lives)),
        "alive": [int(alive) for *_, alive in lives],
    }


def test_processes_groups_and_devices_tell_of_events(tmp_path: Path) -> None:
    seen = threads(
        (70, "autovacuum", -30, 20, True),
        (80, "autovacuum", 2.75, 4.0, False),
        (82, "autovacuum", 15.0, 20, True),
        (83, "autovacuum", 16.0, 16.1, False),
        (90, "io worker", -30, 20, True),
        (91, "io worker", 5.0, 12.0, False),
        (92, "io worker", 5.2, 20, True),
    )
    write(tmp_path, "threads", seen)
    half_seconds = [place / 2 for place in range(2 * SECONDS + 1)]
    write(
        tmp_path,
        "control_group",
        {
            "clock_ns": clocks(*half_seconds),
            "throttled_s": [min(max(0.0, second - 6.0), 4.0) * 0.5 for second in half_seconds],
        },
    )
    reads = [100e6 * max(0.0, second - 3.0) for second in half_seconds]
    write(
        tmp_path,
        "device",
        {"clock_ns": clocks(*half_seconds), "read_bytes": reads, "reads": [read / 8192 for read in reads]},
    )
    (tmp_path / "server.log").write_text(LOG)
    found = trial_events(StoredTrial(record(), {}, tmp_path), ArmCeiling(read_mb_s=102.0, read_iops=1e6))
    without_log = [
        (each.kind, each.what, each.began_s, each.ended_s)
        for each in found
        if each.kind not in ("checkpoint", "log")
    ]
    assert without_log == [
        ("autovacuum", "automatic vacuum of postgres.public.branches", 2.75, 4.0),
        ("device limit", "reading at the device's maximum (102 MB/s)", 3.0, None),
        ("I/O workers", "the number of I/O workers went from 1 to 3", 5.0, 5.0),
        ("throttling", "throttling by the CPU quota", 6.0, 10.0),
        ("I/O workers", "the number of I/O workers went from 3 to 2", 12.0, 12.0),
        ("autovacuum", "an autovacuum worker", 15.0, None),
    ]
    assert len([each for each in found if each.kind == "checkpoint"]) == 3
    disproved = trial_events(StoredTrial(record(), {}, tmp_path), ArmCeiling(read_mb_s=70.0))
    assert not [each for each in disproved if each.kind == "device limit"]


def test_writes_count_with_reads_where_the_storage_counts_both(tmp_path: Path) -> None:
    """50 MB/s read, from second 5 on 50 written: a volume of 102 MB/s is full, a limit of reads is not."""
    half_seconds = [place / 2 for place in range(2 * SECONDS + 1)]
    read, written = ([50e6 * max(0.0, second - since) for second in half_seconds] for since in (0.0, 5.0))
    flushes = [5000 * max(0.0, second - 10.0) for second in half_seconds]
    counters = {"read_bytes": read, "reads": [each / 8192 for each in read], "write_bytes": written}
    counters |= {"writes": [each / 8192 for each in written], "flushes": flushes}
    counters["discards"] = [0.0] * len(flushes)
    write(tmp_path, "device", {"clock_ns": clocks(*half_seconds), **counters})
    trial = StoredTrial(record(), {}, tmp_path)
    full = ArmCeiling(read_mb_s=102.0, read_mb_s_from="limit", read_iops=17_000, read_iops_from="limit")
    told = [(each.what, each.began_s) for each in trial_events(trial, full, shares_ceiling=True)]
    words = "reading and writing at the device's maximum"
    assert told == [(f"{words} (102 MB/s)", 5.0), (f"{words} (17,000 requests/s)", 10.0)]
    assert trial_events(trial, full) == ()
    # A device that a probe found to read 50 MB/s takes the writes beside them.
    (probed,) = trial_events(trial, ArmCeiling(read_mb_s=50.0, read_mb_s_from="probe"))
    assert (probed.what, probed.began_s) == ("reading at the device's maximum (50 MB/s)", None)


def test_a_rate_that_flickers_around_a_threshold_is_one_span(tmp_path: Path) -> None:
    """Throttled from 5 s on with a break of a second, and for half a second at 1 s."""
    half_seconds = [place / 2 for place in range(2 * SECONDS + 1)]
    throttled_s = [0.0]
    for begin in half_seconds[:-1]:
        is_throttled = begin == 1 or (begin >= 5 and not 9 <= begin < 10)
        throttled_s.append(throttled_s[-1] + 0.1 * is_throttled)
    write(tmp_path, "control_group", {"clock_ns": clocks(*half_seconds), "throttled_s": throttled_s})
    (event,) = trial_events(StoredTrial(record(), {}, tmp_path))
    assert (event.kind, event.began_s, event.ended_s) == ("throttling", 5.0, None)


def test_a_trial_without_observations_has_no_events(tmp_path: Path) -> None:
    assert trial_events(StoredTrial(record(), {}, tmp_path)) == ()
    assert timeline(StoredTrial(record(clock_ns=None), {}, tmp_path)) is None


def change(at_s: float, series: Any = "throughput") -> Change:
    return Change(series=series, unit="transactions/s", at_s=at_s, before=5200, after=3100)


def event(began_s: float | None, ended_s: float | None, kind: Any = "checkpoint", what: str = "it") -> Event:
    return Event(kind=kind, what=what, began_s=began_s, ended_s=ended_s)


def test_a_change_is_matched_to_what_lies_near_it_in_time() -> None:
    events = [
        event(3.0, 9.0, what="ended long before"),
        event(None, None, "throttling", what="throughout"),
        event(10.9, 11.0, "autovacuum", what="too short to tell"),
        event(12.1, 30.0, what="began"),
        event(13.9, 13.9, "log", what="said"),
        event(4.0, 14.1, "statement", what="a statement on the way"),
        event(2.0, 40.0, what="around it"),
        event(14.1, 15.0, what="too late"),
    ]
    (moment,) = moments([change(12.0)], events)
    assert [(each.relation, each.event.what) for each in moment.meanwhile] == [
        ("under way", "throughout"),
        ("under way", "around it"),
        ("began", "began"),
        ("at", "said"),
    ]


def test_changes_near_each_other_are_one_moment() -> None:
    found = moments([change(6), change(8, "device reads"), change(9)], [event(8.5, None)])
    assert [[each.at_s for each in moment.changes] for moment in found] == [[6, 8], [9]]
    assert all(moment.meanwhile for moment in found)


def loads(folder: Path, seconds: tuple[int, ...], log: str = LOG) -> StoredExperiment:
    """Three blocks whose arms but the control's go through these transactions a second, with latencies."""
    stored = examples.stored(levels=["sync", "worker"], blocks=3)
    control = next(arm.id for arm in stored.experiment.arms if arm.role == "control")
    trials = []
    for trial in stored.trials:
        counts = (5000, 5100) * 10 if trial.record.arm_id == control else seconds
        latencies = tuple(8000 / count for count in counts)
        load = LoadObservation(
            transactions=sum(counts),
            elapsed_s=len(counts),
            errors=0,
            client_cpu_s=1,
            per_second=counts,
            per_second_mean_ms=latencies,
            per_second_p99_ms=tuple(3 * value for value in latencies),
        )
        where = folder / f"{trial.record.number}"
        where.mkdir(parents=True, exist_ok=True)
        (where / "server.log").write_text(log)
        clocked = record().model_dump(include={"clock_ns", "clock_offset_ns"})
        trials.append(
            replace(trial, record=trial.record.model_copy(update={"load": load, **clocked}), folder=where)
        )
    return replace(stored, trials=tuple(trials))


FELL = (5200, 5210) * 4 + (3100, 3110) * 6


def test_every_report_tells_when_and_what_happened_then(tmp_path: Path) -> None:
    stored = loads(tmp_path, FELL, LOG.replace('there is "something" wrong', "<img src=x onerror=alert(1)>"))
    result = analyse(stored)
    arm, twin = result.within_trials
    assert (arm.role, twin.role) == ("arm", "twin")
    assert [(each.series, each.trials) for each in arm.changed] == [("throughput", 3), ("latency p99", 3)]
    sentence = change_sentences(result)[0]
    assert (
        "the throughput changed within 3 of 3 trials, the latency (p99) within 3. In trials/" in sentence
    ), sentence
    assert (
        ", at 8 s the throughput fell from 5,205 to 3,105 transactions/s, the latency (p99) rose from 4.611 "
        "to 7.729 ms; a checkpoint (wal) began at 8.1 s; "
        "the log says “WARNING: <img src=x onerror=alert(1)>” at 9.0 s."
    ) in sentence
    assert change_sentences(result)[1].startswith("the twin: ")
    for page in (comparison.page_of(result, stored).html(), comparison.page_of(result, stored).markdown()):
        assert "began at 8.1 s" in page
        assert "onerror=alert(1)" in page
        assert "<img" not in page
    assert "began at 8.1 s" in " ".join(
        comparison.page_of(result, stored).terminal(width=100, unicode=False).split()
    )


def test_checkpoints_that_no_log_tells_of_are_counted(tmp_path: Path) -> None:
    stored = loads(tmp_path, FELL, log="")
    counters = {"pg_stat_checkpointer": [{"num_timed": 1.0, "num_requested": 2.0}]}
    trials = tuple(
        replace(each, record=each.record.model_copy(update={"counters": counters})) for each in stored.trials
    )
    told = change_sentences(analyse(replace(stored, trials=trials)))[0]
    assert told.endswith(
        "The server counted 3 checkpoints meanwhile; its log does not say when (log_checkpoints)."
    )
    assert "counted" not in change_sentences(analyse(stored))[0]


def test_what_is_steady_or_too_short_is_not_told(tmp_path: Path) -> None:
    assert analyse(loads(tmp_path / "steady", (5000, 5100) * 10)).within_trials == ()
    short = loads(tmp_path / "short", FELL[4:14])
    clocked = {"clock_ns": (BEGIN_NS, BEGIN_NS + 10 * S)}
    trials = tuple(replace(each, record=each.record.model_copy(update=clocked)) for each in short.trials)
    assert analyse(replace(short, trials=trials)).within_trials == ()


def test_the_series_of_a_trial_are_by_whole_seconds(tmp_path: Path) -> None:
    seconds = [second / 5 for second in range(-10, 5 * SECONDS + 10)]
    bytes_read = [1e6 * (100 * second if second < 10 else 1000 + 50 * (second - 10)) for second in seconds]
    device = {"clock_ns": clocks(*seconds), "read_bytes": bytes_read, "write_bytes": [0.0] * len(seconds)}
    write(tmp_path, "device", device)
    load = LoadObservation(
        transactions=10, elapsed_s=19.5, errors=0, client_cpu_s=1, per_second=(7,) * 19 + (3,),
        per_second_p99_ms=(1.5,) * 19 + (None,),
    )  # fmt: skip
    half = (BEGIN_NS, BEGIN_NS + SECONDS * S - S // 2)
    found = {
        each.name: each.values
        for each in by_second(StoredTrial(record(load=load, clock_ns=half), {}, tmp_path))
    }
    assert found["throughput"] == (7.0,) * 19, "the last second was not whole"
    assert found["latency p99"] == (1.5,) * 19
    assert found["device reads"] == pytest.approx([100.0] * 10 + [50.0] * 9)
    damaged = tmp_path / "observations" / "device.parquet"
    damaged.write_bytes(b"no columns")
    names = [each.name for each in by_second(StoredTrial(record(load=load), {}, tmp_path))]
    assert "device reads" not in names


def test_a_timeline_adds_up_to_what_was_sampled(tmp_path: Path) -> None:
    """One backend has a processor half of the time; another session waits for I/O a quarter of its time."""
    seconds = [second / 5 for second in range(5 * SECONDS + 1)]
    count = len(seconds)
    write(
        tmp_path,
        "threads",
        {
            **threads(*((50, "backend", -1.0, second, True) for second in seconds)),
            "thread": [50] * count,
            "seen_ns": clocks(*seconds),
            "run_ns": [round(second * S / 2) for second in seconds],
        },
    )
    waits: dict[str, list[Any]] = {
        name: [] for name in ("from_ns", "clock_ns", "pid", "kind", "wait_event_type", "samples")
    }
    for begin, end in pairwise(seconds):
        for pid, wait, samples in ((50, "", 4), (51, "IO", 1), (51, "", 3), (70, "Activity", 4)):
            row = (*clocks(begin, end), pid, "backend" if pid < 60 else "checkpointer", wait, samples)
            for name, value in zip(waits, row, strict=True):
                waits[name].append(value)
    write(tmp_path, "waits", waits)
    load = LoadObservation(
        transactions=200, elapsed_s=20, errors=0, client_cpu_s=1, per_second=(10,) * SECONDS
    )
    shown = timeline(StoredTrial(record(load=load), {}, tmp_path))
    assert shown is not None
    panels = {panel.title: panel for panel in shown.panels}
    assert list(panels) == [
        "transactions/s",
        "sessions and parallel workers, by wait",
        "server CPU, processors",
    ]
    cpu = panels["server CPU, processors"].points
    assert {point.series for point in cpu} == {"backend"}
    assert [point.value for point in cpu] == pytest.approx([0.5] * SECONDS)
    by_wait: dict[str, list[float]] = {}
    for point in panels["sessions and parallel workers, by wait"].points:
        by_wait.setdefault(point.series, []).append(point.value)
    assert np.mean(by_wait["at work"]) == pytest.approx(1.75)
    assert np.mean(by_wait["I/O"]) == pytest.approx(0.25)
