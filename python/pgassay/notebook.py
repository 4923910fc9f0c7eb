"""An experiment's folder as data frames, for notebooks: `pgassay.open(folder)`.

Tables are Arrow's: `.to_pandas()` where pandas is installed, `polars.from_arrow(table)` where polars
is. Nothing is copied out of the folder, and nothing in it is changed.
"""

from functools import cached_property
from pathlib import Path

import pyarrow as pa

from pgassay.analysis.accounts.arm_accounts import connection_accounts, trial_accounts
from pgassay.analysis.verdicts.blocks import contract_measure
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.model.account import Account
from pgassay.model.arm import Arm
from pgassay.model.result import CompareResult
from pgassay.record import observations
from pgassay.record.experiment import StoredExperiment, StoredTrial, load

_TRIAL_KEYS = ("number", "attempt", "block", "position", "status", "reason", "started_at", "wall_s")
_STATEMENT_KEYS = (
    "elapsed_s",
    "rows",
    "cold",
    "aio",
    "postgres_read_bytes",
    "postgres_hit_bytes",
    "device_read_bytes",
    "server_device_read_bytes",
    "device_read_requests",
    "server_cpu_s",
    "least_s",
)


class OpenedExperiment:
    """One stored experiment. `stored` is what was read, `result` its analysis, made when asked for."""

    def __init__(self, folder: str | Path) -> None:
        """Read the folder; raises UsageError when it holds no experiment or a newer one."""
        self.stored: StoredExperiment = load(Path(folder))
        self._arms = {arm.id: arm for arm in self.stored.experiment.arms}

    @cached_property
    def result(self) -> CompareResult:
        """The analysis, as `pgassay report --json` prints it."""
        return analyse(self.stored)

    @property
    def arms(self) -> pa.Table:
        """One row per compared arm and control: verdict, ratio, interval, median; a column per factor.

        Times and throughputs are in the metric's unit; an end that is not bounded is null.
        """
        factors = list(dict.fromkeys(name for arm in self.result.arms for name in arm.levels))
        rows = []
        for arm in self.result.arms:
            low, high = arm.interval or (None, None)
            rows.append(
                {
                    "arm": arm.name,
                    "stratum": arm.stratum,
                    **{factor: arm.levels.get(factor) for factor in factors},
                    "verdict": arm.verdict,
                    "ratio": arm.ratio,
                    "interval_low": low,
                    "interval_high": high,
                    "median": arm.median,
                    "trials": arm.trials,
                    "failures": arm.failures,
                    "withheld": arm.withheld,
                    "note": arm.note,
                }
            )
        return pa.Table.from_pylist(rows)

    @property
    def trials(self) -> pa.Table:
        """One row per attempt, failed ones included; `value` is the primary metric in its unit.

        The columns after `value` are the load's, null for statements.
        """
        measure = contract_measure(self.stored.experiment.contract)
        rows = []
        for trial in self.stored.trials:
            record = trial.record
            load_seen = record.load
            rows.append(
                {
                    **{key: getattr(record, key) for key in _TRIAL_KEYS},
                    **self._arm_columns(trial),
                    "canary_s": record.canary_s,
                    "steal_s": record.steal_s,
                    "server_cpu_s": record.server_cpu_s,
                    "value": measure.value(record) if record.status == "ok" else None,
                    "transactions": load_seen.transactions if load_seen else None,
                    "elapsed_s": load_seen.elapsed_s if load_seen else None,
                    "errors": load_seen.errors if load_seen else None,
                    "folder": str(trial.folder),
                }
            )
        return _table(rows, (*_TRIAL_KEYS, "arm", "role", "stratum", "value"))

    @property
    def statements(self) -> pa.Table:
        """One row per statement of every attempt, with times in seconds and volumes in bytes."""
        rows = [
            {
                "number": trial.record.number,
                "attempt": trial.record.attempt,
                "block": trial.record.block,
                "status": trial.record.status,
                **self._arm_columns(trial),
                "statement": statement.name,
                **{key: getattr(statement, key) for key in _STATEMENT_KEYS},
            }
            for trial in self.stored.trials
            for statement in trial.record.statements
        ]
        return _table(rows, ("number", "attempt", "block", "status", "arm", "statement", "elapsed_s"))

    @property
    def accounts(self) -> pa.Table:
        """One row per item of every valid trial's accounts, in seconds: where the time of its threads went.

        `process` is the kind of thread; `pid` null in the sum over them, else the connection. The residue
        is an item of its own, and each account's items add up to its `wall_s`.
        """
        rows: list[dict[str, object]] = []
        for trial in self.stored.trials:
            if trial.record.status != "ok":
                continue
            found: list[tuple[int | None, Account]] = [(None, each) for each in trial_accounts(trial)]
            found += connection_accounts(trial).items()
            own = {"number": trial.record.number, "block": trial.record.block, **self._arm_columns(trial)}
            for pid, account in found:
                common = {**own, "process": account.process, "pid": pid, "wall_s": account.wall_s}
                rows += [{**common, **item.model_dump(exclude={"share"})} for item in account.items]
                rows.append({**common, "kind": "residue", "seconds": account.residue_s})
        names = (
            "number",
            "block",
            "arm",
            "process",
            "pid",
            "wall_s",
            "kind",
            "state",
            "wait_event",
            "seconds",
        )
        return _table(rows, names)

    @property
    def series_names(self) -> list[str]:
        """The samplers that left observations."""
        return observations.names([trial.folder for trial in self.stored.trials])

    def series(self, name: str) -> pa.Table:
        """All trials' observations of one sampler under each other, with number, attempt and arm.

        Raises UsageError for a name that no trial has, or a damaged file.
        """
        parts = []
        for trial in self.stored.trials:
            found = observations.columns(trial.folder, name)
            if found is None:
                continue
            rows = max(map(len, found.values()), default=0)
            own = {
                "number": trial.record.number,
                "attempt": trial.record.attempt,
                "block": trial.record.block,
                **self._arm_columns(trial),
            }
            columns: dict[str, object] = {key: [value] * rows for key, value in own.items()}
            parts.append(pa.table(columns | dict(found)))
        if not parts:
            known = ", ".join(self.series_names) or "none"
            raise UsageError(f"no trial of {self.stored.folder} has a series {name!r}: there are {known}")
        return pa.concat_tables(parts, promote_options="permissive")

    def _arm_columns(self, trial: StoredTrial) -> dict[str, object]:
        """The arm's name, role, stratum and levels; a row of an unknown arm has its id alone."""
        arm: Arm | None = self._arms.get(trial.record.arm_id)
        if arm is None:
            return {"arm": trial.record.arm_id, "role": None, "stratum": None}
        return {"arm": arm.name, "role": arm.role, "stratum": arm.stratum}


def _table(rows: list[dict[str, object]], columns: tuple[str, ...]) -> pa.Table:
    """The rows as a table; one without rows still has its main columns."""
    return pa.Table.from_pylist(rows) if rows else pa.table({name: [] for name in columns})
