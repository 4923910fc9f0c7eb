"""Evidence of made-up trials for the tests of the causes: each figure can be set by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import report_examples
from pgassay.analysis.accounts.threads import Span
from pgassay.analysis.accounts.work_times import WorkTimes
from pgassay.analysis.causes.evidence import (
    DeviceFlow,
    Evidence,
    EvidenceCaps,
    EvidenceMachine,
    Observed,
    Processors,
    Work,
)
from pgassay.analysis.causes.trial_evidence import load_of_trial
from pgassay.model.account import Account, AccountItem
from pgassay.model.arm import Arm
from pgassay.model.experiment import ArmCeiling
from pgassay.model.trial import (
    Counters,
    LoadObservation,
    OpenLoop,
    StatementObservation,
    TrialFacts,
    TrialRecord,
)
from pgassay.model.workload import LoadSpec, PoolerUse

S = 1_000_000_000
NOTHING = WorkTimes(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {})
ELAPSED_S = 10.0
# A device that gives its limit.
READ = 160e6
FLOW = DeviceFlow(READ, 16.0, 120.0, ELAPSED_S, 0.5)
LIMIT = ArmCeiling(read_mb_s=16.777, read_mb_s_from="limit", read_iops=1000, read_iops_from="probe")


def item(kind: str, seconds: float, event: str = "", state: str = "asleep") -> AccountItem:
    """One item of an account of ELAPSED_S; `event` as 'IO:DataFileRead'."""
    event_type, _, name = event.partition(":")
    return AccountItem(
        kind=kind,
        state=state,
        wait_event_type=event_type,
        wait_event=name,
        seconds=seconds,
        share=seconds / ELAPSED_S,
    )


def account(process: str, *items: AccountItem, threads: float = 1.0) -> Account:
    """An account of `threads` threads over ELAPSED_S."""
    wall_s = threads * ELAPSED_S
    return Account(
        process=process,
        threads=threads,
        wall_s=wall_s,
        items=items,
        residue_s=wall_s - sum(each.seconds for each in items),
        sampling_error_s=0.0,
        samples=500,
    )


def arm(levels: dict[str, str] | None = None, **spec: Any) -> Arm:
    """An arm, with these fields of its ArmSpec changed."""
    members = report_examples.arms(["sync", "worker"], [""])
    changed = members[1].spec.model_copy(update=spec)
    return members[1].model_copy(update={"spec": changed, "levels": levels or {"work_mem": "4MB"}})


def record(**changes: Any) -> TrialRecord:
    """A trial of one statement, ELAPSED_S long, that read nothing from a device."""
    statement = StatementObservation(name="scan", elapsed_s=ELAPSED_S, rows=1, cold=True, aio=True)
    base = TrialRecord(
        number=0,
        attempt=1,
        block=0,
        position=0,
        arm_id="arm-001",
        status="ok",
        started_at="2026-03-01T12:00:00.000+00:00",
        ended_at="2026-03-01T12:00:10.000+00:00",
        wall_s=ELAPSED_S,
        host="host",
        boot_id="boot",
        statements=(statement,),
    )
    if "facts" in changes:
        changes["facts"] = TrialFacts.model_validate(changes["facts"])
    return base.model_copy(update=changes)


def load_record(transactions: int = 1000, client_cpu_s: float = 1.0, **changes: Any) -> TrialRecord:
    """A trial of a load instead."""
    load = load_observation(transactions=transactions, client_cpu_s=client_cpu_s)
    return record(**{"statements": (), "load": load} | changes)


def load_observation(**changes: Any) -> LoadObservation:
    """What a load of 1,000 transactions did whose client computed for a second."""
    usual = {"transactions": 1000, "elapsed_s": ELAPSED_S, "errors": 0, "client_cpu_s": 1.0}
    return LoadObservation(**usual | changes)


def paced_record(queued: int) -> TrialRecord:
    """An open loop of 1,000 transactions that were due and done, and so many that were due and waited."""
    opened = OpenLoop(scheduled=1000 + queued, done=1000, failed=0, skipped=0, queued=queued)
    return load_record(load=load_observation(open_loop=opened))


def pooled_record(cpu_s: float, waited_s: float) -> TrialRecord:
    """A load through a pooler whose thread computed and waited for a processor so long."""
    use = PoolerUse(
        version="1.18.0",
        size=20,
        elapsed_s=ELAPSED_S,
        cpu_s=cpu_s,
        waited_s=waited_s,
        transactions=1000,
        client_wait_s=1.0,
        server_connections_max=20,
        waiting_clients_max=100,
    )
    return load_record(load=load_observation(pooler=use))


def checkpoints(requested: float) -> dict[str, Any]:
    """Of a record: what the server counted of them."""
    return {"counters": {"pg_stat_checkpointer": [{"num_requested": requested, "num_timed": 0.0}]}}


def load_arm(clients: int = 8, **spec: Any) -> Arm:
    """An arm whose workload is a load of so many clients."""
    made = arm(**spec)
    load = LoadSpec(script="tpcb", clients=clients, duration_s=ELAPSED_S)
    workload = made.spec.workload.model_copy(update={"kind": "load", "statements": (), "load": load})
    return made.model_copy(update={"spec": made.spec.model_copy(update={"workload": workload})})


def _of_trial(measured: TrialRecord, tried: Arm) -> dict[str, Any]:
    return {
        "version": tried.spec.build.version,
        "settings": measured.facts.settings,
        "asked_for": tried.spec.settings,
        "compared": frozenset(tried.levels),
        "counters": Counters(measured.counters),
        "caps": EvidenceCaps(tried.spec.cpus, tried.spec.memory_bytes),
        "load": load_of_trial(measured, tried),
        "statements": measured.statements,
    }


def evidence(*, total_s: float = ELAPSED_S, **changes: Any) -> Evidence:
    """Evidence of one busy connection; times by name (`read_s=6`), all else as in Evidence.

    Of processors there are two; the server and its client use as much as `cpu_s` says. `arm`, `record`: what
    the trial is said to be, of which a stored trial's own figures are made.
    """
    names = WorkTimes.__dataclass_fields__
    times = replace(
        NOTHING, total_s=total_s, **{name: changes.pop(name) for name in list(changes) if name in names}
    )
    base: dict[str, Any] = {
        **_of_trial(changes.pop("record", record()), changes.pop("arm", arm())),
        "folder": Path("/nowhere"),
        "elapsed_s": ELAPSED_S,
        "accounts": {"backend": account("backend")},
        "times": times,
        "device": DeviceFlow(0.0, 0.0, 0.0, 0.0, 0.0),
        "ceiling": ArmCeiling(),
        "processors": Processors(2.0, 2 * ELAPSED_S, times.cpu_s, 0.1),
        "bytes_read": 0.0,
        "bytes_hit": 1e9,
        "group": {},
        "spans": (Span(0, ELAPSED_S * S, False),),
    }
    given = base | changes
    parts: dict[str, Any] = {}
    for name, part in (("server", Observed), ("machine", EvidenceMachine), ("work", Work)):
        parts[name] = part(**{key: given.pop(key) for key in list(given) if key in part.__dataclass_fields__})
    return Evidence(**parts, **given)


def on_machine(found: Evidence, **changes: Any) -> Evidence:
    """The same evidence with another machine."""
    return replace(found, machine=replace(found.machine, **changes))


# What was planted, and what of it made harmless: it rests for half of the time, so the client is waited for.
FULL_POOLER: tuple[dict[str, Any], dict[str, Any]] = (
    {
        "client_s": 60.0,
        "cpu_s": 5.0,
        "total_s": 80.0,
        "arm": load_arm(),
        "record": pooled_record(9.0, 0.4),
    },
    {"record": pooled_record(4.0, 0.4), "client_s": 20.0},
)
