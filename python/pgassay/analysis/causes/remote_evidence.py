"""The evidence of trials on servers that run already: what SQL told, and what all trials show of a server.

A trial's load is mostly the same from its beginning to its end, so that its reads in flight hardly vary:
only trials of other arms on the same server, with more clients or fewer, tell a ceiling from the time of each
read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from pgassay.analysis.accounts.arm_accounts import RecordKey, measured_spans
from pgassay.analysis.accounts.samples import sampled_accounts
from pgassay.analysis.accounts.threads import BACKEND, Span
from pgassay.analysis.accounts.work_times import WorkTimes, work_times
from pgassay.analysis.causes.evidence import Evidence
from pgassay.analysis.causes.read_series import ReadCeiling, read_ceiling
from pgassay.analysis.causes.sampler_files import read_columns
from pgassay.analysis.causes.sql_evidence import SqlEvidence, looks_of, sql_evidence
from pgassay.model.account import Account
from pgassay.model.trial import TrialRecord
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.record.observations import Columns, floats

_AIO_VERSION_MIN = 180000


@dataclass(frozen=True)
class KnownOfServer:
    """What is known of a server beside one trial: its processors, as given, and its storage's ceiling."""

    vcpus: float | None = None
    ceiling: ReadCeiling | None = None


def known_of_servers(stored: StoredExperiment) -> dict[str, KnownOfServer]:
    """By the server's name; {} where pgassay started the servers itself."""
    arms = stored.experiment.arms
    names = {arm.id: arm.spec.server.name for arm in arms if arm.spec.server is not None}
    series: dict[str, list[SqlEvidence]] = {name: [] for name in names.values()}
    for trial in stored.trials:
        name = names.get(trial.record.arm_id)
        seen = _seen(trial) if name is not None and trial.record.status == "ok" else None
        if name is not None and seen is not None:
            series[name].append(seen.sql)
    facts = stored.experiment.environment.servers
    known = {}
    for name, seen_of_server in series.items():
        vcpus = facts[name].vcpus if name in facts else None
        intervals = [interval for each in seen_of_server for interval in each.intervals]
        known[name] = KnownOfServer(None if vcpus is None else float(vcpus), read_ceiling(intervals))
    return known


def with_sql(evidence: Evidence, trial: StoredTrial, known: KnownOfServer) -> Evidence:
    """The evidence of a remote trial with what looks at its sessions say; as it is where there were none.

    The whole of the time is the client's, as far as sessions were not seen at work for all of it: between two
    statements a connection waits for its client or for the network, of which the round trips are known.
    """
    seen = _seen(trial)
    if seen is None:
        return evidence
    outside = evidence.times
    sampled = work_times(seen.accounts)
    backends_s = sum(account.wall_s for account in seen.accounts if account.process == BACKEND)
    total_s = sampled.total_s + max(0.0, outside.total_s - backends_s)
    times: WorkTimes = replace(sampled, total_s=total_s, network_s=outside.network_s, client_s=0.0)
    sql = replace(seen.sql, vcpus=known.vcpus, ceiling=known.ceiling or seen.sql.ceiling)
    server = replace(evidence.server, accounts={each.process: each for each in seen.accounts})
    return replace(evidence, server=server, times=times, sql=sql)


@dataclass(frozen=True)
class _Seen:
    """What looks at the sessions of one trial tell."""

    sql: SqlEvidence
    accounts: tuple[Account, ...]


def _seen(trial: StoredTrial) -> _Seen | None:
    return _of_key(trial.folder, trial.record.started_at, RecordKey(trial.record))


@lru_cache(maxsize=4096)
def _of_key(folder: Path, _started_at: str, key: RecordKey) -> _Seen | None:
    record = key.record
    spans = _spans(record)
    method = record.facts.settings.get("io_method", _default_method(record))
    sql = sql_evidence(
        folder, spans, uses_uring=method == "io_uring", reads_by_workers=method == "worker", vcpus=None
    )
    if sql is None:
        return None
    waits = _within(read_columns(folder, "waits"), spans)
    looks = round(float(looks_of(waits, None).count.sum())) if waits.get("clock_ns") else 0
    if not looks:
        return None
    accounts, _ = sampled_accounts(waits, looks, sql.seconds)
    return _Seen(sql, accounts)


def _default_method(record: TrialRecord) -> str:
    """Settings that have their default are not recorded."""
    version = record.facts.server_version or ""
    return "worker" if version.isdecimal() and int(version) >= _AIO_VERSION_MIN else ""


def _spans(record: TrialRecord) -> list[Span]:
    """The measured part: of statements, from the first to the last."""
    found = measured_spans(record)
    return found if found or record.clock_ns is None else [Span(*record.clock_ns, False)]


def _within(waits: Columns, spans: Sequence[Span]) -> Columns:
    """The rows of the windows whose middle is in a span."""
    middle = (floats(waits, "from_ns") + floats(waits, "clock_ns")) / 2
    inside = np.zeros(middle.shape, dtype=bool)
    for span in spans:
        inside |= (middle >= span.begin_ns) & (middle <= span.end_ns)
    rows = np.flatnonzero(inside).tolist()
    return {name: [values[row] for row in rows] for name, values in waits.items()}
