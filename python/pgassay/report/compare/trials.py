"""The trials of an experiment as rows, in the order they ran."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pgassay.analysis.verdicts.blocks import contract_measure
from pgassay.model.arm import Arm
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.report import text
from pgassay.report.compare.material import Material
from pgassay.report.labels import arm_name, compared_factors, short_name
from pgassay.report.section import (
    QUIET,
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
    plain_table,
)

_ROWS_OPEN_MAX = 12


@dataclass(frozen=True)
class TrialRow:
    """One attempt: `order` counts from 1 in run order; `value` is the primary metric, None unless ok.

    `name` is the arm's name, with the twin's role said; `group` the arm's name as a chart's colour.
    """

    order: int
    block: int
    position: int
    attempt: int
    name: str
    group: str
    stratum: str
    status: str
    reason: str
    value: float | None
    started_at: str
    wall_s: float
    steal_s: float | None
    canary_s: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ReadRow:
    """What one statement read in one arm, as medians over its valid trials (bytes; None: not known).

    `device_fraction_min` is the smallest share of PostgreSQL's reads that the device delivered in
    any trial, `cold_trials` how many of `trials` began cold.
    """

    statement: str
    arm: str
    trials: int
    cold_trials: int
    postgres_read_bytes: float | None
    postgres_hit_bytes: float | None
    device_read_bytes: float | None
    device_fraction_min: float | None
    server_cpu_s: float | None


def in_run_order(stored: StoredExperiment) -> list[StoredTrial]:
    """Attempts by the time they started; second attempts run at the end of their block."""
    return sorted(stored.trials, key=lambda trial: (trial.record.started_at, trial.record.number))


def trial_rows(stored: StoredExperiment) -> list[TrialRow]:
    """Every attempt of the experiment, failed ones included; raises UsageError for an unknown unit."""
    arms = {arm.id: arm for arm in stored.experiment.arms}
    factors = compared_factors(stored.experiment.arms)
    measure = contract_measure(stored.experiment.contract)
    rows = []
    for order, trial in enumerate(in_run_order(stored), start=1):
        record = trial.record
        arm = arms.get(record.arm_id)
        rows.append(
            TrialRow(
                order=order,
                block=record.block,
                position=record.position,
                attempt=record.attempt,
                name=arm_name(arm) if arm else record.arm_id,
                group=_group(arm, factors) if arm else record.arm_id,
                stratum=arm.stratum if arm else "",
                status=record.status,
                reason=record.reason,
                value=measure.value(record) if record.status == "ok" else None,
                started_at=record.started_at,
                wall_s=record.wall_s,
                steal_s=record.steal_s,
                canary_s=record.canary_s,
                warnings=record.warnings,
            )
        )
    return rows


def arm_groups(arms: Sequence[Arm]) -> list[str]:
    """The names that stand for the arms in a drawing, alike for the same level in every stratum."""
    factors = compared_factors(arms)
    return list(dict.fromkeys(_group(arm, factors) for arm in arms))


def _group(arm: Arm, factors: tuple[str, ...]) -> str:
    return "twin" if arm.role == "twin" else short_name(arm, factors)


def read_rows(stored: StoredExperiment) -> list[ReadRow]:
    """Bytes by PostgreSQL beside bytes by the device, per statement and arm."""
    arms = {arm.id: arm for arm in stored.experiment.arms}
    seen: dict[tuple[str, str], list[tuple[int | None, ...]]] = {}
    cold: dict[tuple[str, str], int] = {}
    cpu: dict[tuple[str, str], list[float]] = {}
    for trial in stored.trials:
        if trial.record.status != "ok" or trial.record.arm_id not in arms:
            continue
        for statement in trial.record.statements:
            key = (statement.name, trial.record.arm_id)
            counts = (
                statement.postgres_read_bytes,
                statement.postgres_hit_bytes,
                statement.delivered_bytes,
            )
            seen.setdefault(key, []).append(counts)
            cold[key] = cold.get(key, 0) + int(statement.cold)
            if statement.server_cpu_s is not None:
                cpu.setdefault(key, []).append(statement.server_cpu_s)
    statements = list(dict.fromkeys(name for name, _ in seen))
    rows = []
    for name in statements:
        for arm_id, arm in arms.items():
            counts_list = seen.get((name, arm_id))
            if counts_list is None:
                continue
            reads, hits, device = (_median_of(values) for values in zip(*counts_list, strict=True))
            cpu_values = cpu.get((name, arm_id))
            rows.append(
                ReadRow(
                    statement=name,
                    arm=arm_name(arm),
                    trials=len(counts_list),
                    cold_trials=cold[(name, arm_id)],
                    postgres_read_bytes=reads,
                    postgres_hit_bytes=hits,
                    device_read_bytes=device,
                    device_fraction_min=_fraction_min(counts_list),
                    server_cpu_s=median(cpu_values) if cpu_values else None,
                )
            )
    return rows


def _median_of(values: tuple[int | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def _fraction_min(counts: list[tuple[int | None, ...]]) -> float | None:
    """The smallest device share; a statement that read nothing has none."""
    shares = [device / read for read, _, device in counts if read and device is not None]
    return min(shares) if shares else None


def section(material: Material) -> Section:
    """Every trial in the order they ran, drawn and in figures."""
    rows = trial_rows(material.stored)
    metric = material.result.metric
    columns = (
        Column("arm", is_figure=False),
        *(Column(name) for name in ("#", "block", "place")),
        Column("status", is_figure=False),
        *(Column(name) for name in (metric.name, "canary", "steal", "took", "started")),
    )
    table = Table(columns, (Group(tuple(_row(row, metric.unit) for row in rows)),))
    title = f"Table of {text.plural(len(rows), 'trial')}"
    folded = Fold(title, (table,), is_open=len(rows) <= _ROWS_OPEN_MAX)
    return Section("Trials", "trials", (Figure("trials"), folded), link="Trials")


def _row(row: TrialRow, unit: str) -> Row:
    status = "" if row.status == "ok" else row.status
    attempt = f"attempt {row.attempt}" if row.attempt > 1 else ""
    return Row(
        (
            Cell(row.name, notes=(*([row.reason] if row.reason else []), *row.warnings)),
            *(Cell(str(number)) for number in (row.order, row.block + 1, row.position + 1)),
            Cell(f"{status} {attempt}".strip(), status),
            Cell(text.quantity(row.value, unit)),
            *(Cell(text.quantity(value, "s")) for value in (row.canary_s, row.steal_s, row.wall_s)),
            Cell(row.started_at[:19].replace("T", " ")),
        )
    )


def reads(material: Material) -> Section:
    """What was read, by PostgreSQL's count and by the device's."""
    heads = (
        *("statement", "arm", "cold trials", "PostgreSQL read", "buffer hits", "device read"),
        *("least share", "server CPU"),
    )
    rows = [
        (
            row.statement,
            row.arm,
            f"{row.cold_trials} of {row.trials}",
            text.size(row.postgres_read_bytes),
            text.size(row.postgres_hit_bytes),
            text.size(row.device_read_bytes),
            "" if row.device_fraction_min is None else text.percent(row.device_fraction_min),
            text.quantity(row.server_cpu_s, "s"),
        )
        for row in read_rows(material.stored)
    ]
    note = Paragraph(
        "Bytes that PostgreSQL read, next to what the device delivered for them, medians over valid "
        "trials. A share far below 100 % means that a page cache answered.",
        QUIET,
    )
    return Section("What was read", "cache", (note, plain_table(heads, rows, names=2)) if rows else ())
