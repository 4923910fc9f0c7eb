"""From the files of trials to the causes of an arm: one limit each, faults of most trials, older folders."""

from pathlib import Path
from typing import Any

import pytest

import report_examples
from pgassay.analysis.causes import registry
from pgassay.analysis.causes.base import Found, Rule
from pgassay.analysis.causes.rank import arm_causes, limit_with_faults, trial_causes
from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.analysis.causes.trial_evidence import evidence_of_trial
from pgassay.analysis.verdicts.checks.load_checks import short_trial_warnings
from pgassay.analysis.verdicts.compare import analyse
from pgassay.model.cause import Cause
from pgassay.model.experiment import ArmCeiling, PlannedCeilings
from pgassay.model.trial import TrialRecord
from pgassay.record.columns import to_parquet
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report import schema
from pgassay.report.compare.causes import cause_rows, sentence

S = 1_000_000_000
BEGIN, END = 10 * S, 20 * S
# Of ten seconds: on a processor, and looks that found the connection waiting for reads.
READING, COMPUTING = (1.0, 90), (9.5, 5)


def write(folder: Path, **files: dict[str, list[Any]]) -> None:
    (folder / "observations").mkdir(parents=True)
    for name, columns in files.items():
        content = to_parquet(columns, sampler=name, version=1)
        (folder / "observations" / f"{name}.parquet").write_bytes(content)


def observed(trial: StoredTrial, folder: Path, what: tuple[float, int], **changes: Any) -> StoredTrial:
    """The trial with one connection that was seen for ten seconds; its device delivered 16 MB/s."""
    cpu_s, reading = what
    both = [BEGIN, END]
    threads: dict[str, list[Any]] = {
        "clock_ns": both,
        "from_ns": both,
        "seen_ns": both,
        "edge": [1, 1],
        "alive": [1, 1],
        "pid": [7, 7],
        "thread": [7, 7],
        "kind": ["backend"] * 2,
        "start_ns": [S, S],
        "run_ns": [0, round(cpu_s * S)],
        "delay_ns": [0, 0],
        "children_cpu_ns": [0, 0],
        "slices": [1, 2],
        "process_cpu_ns": [0, 0],
        "read_bytes": [0, 0],
        "write_bytes": [0, 0],
        "block_delay_ns": [0, 0],
    }
    waits: dict[str, list[Any]] = {
        "from_ns": [BEGIN] * 2,
        "clock_ns": [END] * 2,
        "edge": [0, 0],
        "pid": [7, 7],
        "thread": [7, 7],
        "kind": ["backend"] * 2,
        "activity": ["active"] * 2,
        "samples": [reading, 100 - reading],
        "wait_event_type": ["IO", ""],
        "wait_event": ["DataFileRead", ""],
        "scheduler_state": ["D", "R"],
    }
    processors: dict[str, list[Any]] = {"clock_ns": both}
    for name in ("user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"):
        processors[name] = [0.0, {"user": cpu_s, "idle": 20 - cpu_s}.get(name, 0.0)]
    device: dict[str, list[Any]] = {"clock_ns": both, "weighted_ms": [0.0, 500.0]}
    write(folder, threads=threads, waits=waits, host_cpu=processors, device=device)
    statement = trial.record.statements[0].model_copy(
        update={
            "elapsed_s": 10.0,
            "clock_ns": (BEGIN, END),
            "device_read_bytes": 160_000_000,
            "device_read_requests": 1200,
            "aio": True,
            "server_device_read_bytes": 160_000_000,
        }
    )
    record: TrialRecord = trial.record.model_copy(update={"statements": (statement,), **changes})
    return StoredTrial(record, trial.plans, folder)


def experiment(folder: Path, kinds: list[tuple[float, int] | None], **changes: Any) -> StoredExperiment:
    """An experiment of one block for each kind: what all its trials did, or None for one not observed."""
    stored = report_examples.stored(levels=["worker", "sync"], blocks=len(kinds), statement_names=("scan",))
    trials = []
    for place, trial in enumerate(stored.trials):
        what = kinds[trial.record.block]
        trials.append(observed(trial, folder / str(place), what, **changes) if what else trial)
    ceilings = {
        arm.name: {"read_mb_s": 16.777, "read_mb_s_from": "limit", "read_iops": 9000.0}
        for arm in stored.experiment.arms
    }
    plan = stored.experiment.model_copy(update={"ceilings": PlannedCeilings(by_arm=ceilings)})
    return StoredExperiment(folder, plan, tuple(trials), stored.stopped)


def test_each_arm_has_one_limit_with_its_figures(tmp_path: Path) -> None:
    causes = arm_causes(experiment(tmp_path, [READING] * 3))
    assert [(cause.arm, cause.kind, cause.cause) for cause in causes] == [
        ("io_method=worker", "limit", "storage-throughput"),
        ("io_method=sync", "limit", "storage-throughput"),
    ]
    first = causes[0]
    assert first.seconds == pytest.approx(9.0, rel=0.05)
    assert first.share == pytest.approx(0.9, rel=0.05)
    assert first.gain_if_lifted == pytest.approx(10, rel=0.5)
    assert first.gain_interval is not None
    assert 1 <= first.gain_interval[0] <= first.gain_if_lifted <= first.gain_interval[1]
    assert first.evidence["read_mb_s"] == pytest.approx(16.0)
    assert (first.trials, first.observed) == (3, 3)


def test_a_gain_of_one_trial_has_no_interval(tmp_path: Path) -> None:
    alone = arm_causes(experiment(tmp_path, [READING]))[0]
    assert alone.gain_if_lifted is not None
    assert alone.gain_interval is None


def test_the_limit_is_the_one_of_most_trials(tmp_path: Path) -> None:
    causes = arm_causes(experiment(tmp_path, [READING, COMPUTING, COMPUTING]))
    assert {cause.cause for cause in causes} == {"backend-core"}
    assert {(cause.trials, cause.observed) for cause in causes} == {(2, 3)}


def test_a_fault_is_one_of_more_than_half_of_the_trials(tmp_path: Path) -> None:
    spilling = {"counters": {"pg_stat_database": [{"temp_bytes": 5e8, "temp_files": 1.0}]}}
    causes = arm_causes(experiment(tmp_path / "all", [COMPUTING] * 2, **spilling))
    assert [cause.cause for cause in causes] == ["backend-core", "temp-spill"] * 2, "the limit comes first"
    half = experiment(tmp_path / "half", [COMPUTING] * 2, **spilling)
    bare = [
        trial
        if trial.record.block
        else StoredTrial(trial.record.model_copy(update={"counters": {}}), trial.plans, trial.folder)
        for trial in half.trials
    ]
    causes = arm_causes(StoredExperiment(half.folder, half.experiment, tuple(bare), half.stopped))
    assert {cause.kind for cause in causes} == {"limit"}


def test_what_was_not_observed_is_unknown_and_says_so(tmp_path: Path) -> None:
    causes = arm_causes(experiment(tmp_path, [None, None]))
    assert {(cause.kind, cause.cause, cause.observed) for cause in causes} == {("limit", "unknown", 0)}
    assert len(causes) == 2
    assert all("not_known" in cause.evidence for cause in causes)


def test_where_a_fault_takes_a_quarter_nobody_reads_that_no_rule_does() -> None:
    """ "No rule explains a quarter of it", and below it "others took the processors: 6.7 s, 28 %"."""
    limit = Cause(
        arm="a", kind="limit", cause="unknown", layer="measurement", seconds=None, share=None, evidence={},
        gain_if_lifted=None, remedy="Check where the time went: no rule explains a quarter of it.",
        trials=3, observed=3,
    )  # fmt: skip
    fault = limit.model_copy(
        update={"kind": "fault", "cause": "noise", "seconds": 6.7, "share": 0.28, "remedy": ""}
    )
    told = limit_with_faults([limit, fault])
    assert "no rule" not in told[0].remedy and "the fault below" in told[0].remedy
    assert limit_with_faults([limit, fault.model_copy(update={"share": 0.1})])[0] == limit
    assert limit_with_faults([limit]) == (limit,)


def test_a_damaged_file_costs_its_trial_and_no_more(tmp_path: Path) -> None:
    stored = experiment(tmp_path, [READING, READING])
    for trial in stored.trials:
        if trial.record.block == 0:
            (trial.folder / "observations" / "host_cpu.parquet").write_bytes(b"nothing")
            (trial.folder / "observations" / "threads.parquet").write_bytes(b"nothing")
    assert {(cause.cause, cause.observed) for cause in arm_causes(stored)} == {("storage-throughput", 1)}


def test_a_new_cause_is_one_rule_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found, said in reports, known to the schema, and a running server is given its next step."""
    toy = Rule(
        cause="toy",
        kind="limit",
        layer="design",
        phrase="a toy that nobody put away",
        remedy="Put the toy away.",
        next_step="Look under the table.",
        find=lambda evidence: Found(evidence.times.total_s, {"toys": 1.0}),
    )
    monkeypatch.setattr(registry, "RULES", (toy, *registry.RULES))
    stored = experiment(tmp_path, [READING])
    assert {cause.cause for cause in arm_causes(stored) if cause.kind == "limit"} == {"toy"}
    row = cause_rows(analyse(stored))[0]
    assert "was limited by a toy that nobody put away: 10.00 s, 100 % of its time" in row.sentence
    assert row.sentence.endswith("Put the toy away.")
    assert row.figures == "toys 1"
    names = schema.COMPARE.schema()["$defs"]["Cause"]["properties"]["cause"]["enum"]
    assert (names[0], names[-1]) == ("storage-throughput", "toy"), "published names keep their places"
    assert registry.next_step("toy") == "Look under the table."


def test_a_cause_that_this_version_does_not_know_is_called_by_its_name() -> None:
    cause = Cause.model_validate(
        {
            "arm": "a",
            "kind": "fault",
            "cause": "from-the-future",
            "layer": "design",
            "seconds": None,
            "share": None,
            "gain_if_lifted": None,
            "remedy": "Wait.",
            "trials": 1,
            "observed": 1,
        }
    )
    assert sentence(cause, "a") == "a: from-the-future."


def test_trials_with_few_looks_are_warned_of(tmp_path: Path) -> None:
    """Of all trials of an arm together: 100 looks are enough, and 20 are not, however long they took."""
    assert short_trial_warnings(experiment(tmp_path / "long", [READING] * 2)) == ()
    stored = experiment(tmp_path / "short", [READING] * 2)
    for trial in stored.trials:
        file = trial.folder / "observations" / "waits.parquet"
        columns: dict[str, Any] = {**read_columns(trial.folder, "waits"), "samples": [4, 16]}
        file.write_bytes(to_parquet(columns, sampler="waits", version=1))
    (said,) = short_trial_warnings(stored)
    assert said.startswith(
        "Trials are too short to tell what limits the server, or by which share: io_method="
    )
    looks = 20 * len({each.record.block for each in stored.trials})
    assert f"with {looks} looks at its processes in all, where 50 are the least" in said


def test_statements_that_only_write_fill_a_device_too(tmp_path: Path) -> None:
    """A volume of 20 MB/s takes 19.6 of them while one session commits: that was told as a wait for WAL."""
    stored = experiment(tmp_path, [READING])
    trial, arm = stored.trials[0], stored.experiment.arms[0]
    names = ("reads", "read_bytes", "read_ms", "flushes", "discards", "weighted_ms")
    grown = {"writes": 3000.0, "write_bytes": 196e6, "write_ms": 9000.0}
    device: dict[str, Any] = {"clock_ns": [BEGIN, END], **{name: [0.0, 0.0] for name in names}}
    columns = device | {name: [0.0, value] for name, value in grown.items()}
    waits: dict[str, Any] = {**read_columns(trial.folder, "waits"), "wait_event": ["WalSync", ""]}
    for name, content in (("device", columns), ("waits", waits)):
        file = trial.folder / "observations" / f"{name}.parquet"
        file.write_bytes(to_parquet(content, sampler=name, version=1))
    nothing_read = {"device_read_bytes": 0, "device_read_requests": 0, "server_device_read_bytes": 0}
    statement = trial.record.statements[0].model_copy(update=nothing_read)
    record = trial.record.model_copy(update={"statements": (statement,)})
    storage = arm.spec.storage.model_copy(update={"kind": "volume"})
    on_volume = arm.model_copy(update={"spec": arm.spec.model_copy(update={"storage": storage})})
    ceiling = ArmCeiling(read_mb_s=20.0, read_mb_s_from="limit", read_iops=500.0, read_iops_from="limit")
    found = evidence_of_trial(StoredTrial(record, {}, trial.folder), on_volume, {arm.name: ceiling})
    assert found is not None and found.machine.device is not None
    assert found.machine.device.write_mb_s == pytest.approx(19.6)
    limit = trial_causes(found).limit
    assert limit is not None and limit[0].cause == "storage-throughput"
    assert limit[1].figures["share_of_ceiling"] == pytest.approx(0.98)
