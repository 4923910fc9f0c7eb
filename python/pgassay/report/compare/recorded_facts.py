"""Facts recorded with the trials as tables: what differs between arms first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgassay.model.arm import Arm
from pgassay.model.build import Build
from pgassay.record.experiment import StoredExperiment
from pgassay.report.compare import summary
from pgassay.report.compare.material import Material
from pgassay.report.labels import arm_name, described
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    Block,
    Cell,
    Column,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    plain_table,
)
from pgassay.words import figure

# A fact with more distinct values within one arm than this (a time, a process id) is summarised.
_VALUES_SHOWN_MAX = 3
# With more arms than this the values stand below each other, each with the arms that have it.
_COLUMNS_MAX = 8


@dataclass(frozen=True)
class FactRow:
    """One fact: `values` in the order of the table's arms; `differs` when two arms disagree.

    `holders`, of a row that differs: each value with the arms that have it in words.
    """

    name: str
    values: tuple[str, ...]
    differs: bool
    holders: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FactTable:
    """Facts of one subject over the arms; rows that differ come first."""

    title: str
    arms: tuple[str, ...]
    rows: tuple[FactRow, ...]

    @property
    def differing(self) -> tuple[FactRow, ...]:
        """The rows on which two arms disagree."""
        return tuple(row for row in self.rows if row.differs)

    @property
    def alike(self) -> tuple[FactRow, ...]:
        """The rows on which all arms agree."""
        return tuple(row for row in self.rows if not row.differs)


def flatten(value: object, prefix: str = "") -> dict[str, str]:
    """A nested JSON value as dotted names with text values.

    A row of a view, as the counters hold them, is named after its text columns.
    """
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        value = _rows_by_name(value)
    if isinstance(value, Mapping):
        flat: dict[str, str] = {}
        for key, item in value.items():
            flat |= flatten(item, f"{prefix}.{key}" if prefix else str(key))
        return flat
    return {prefix: plain(value)}


def _rows_by_name(rows: list[Mapping[str, object]]) -> dict[str, object]:
    named: dict[str, object] = {}
    for number, row in enumerate(rows, start=1):
        words = [item for item in row.values() if isinstance(item, str)]
        figures = {key: item for key, item in row.items() if not isinstance(item, str)}
        name = " ".join(words) or (str(number) if len(rows) > 1 else "")
        named[name if name not in named else f"{name} {number}"] = figures
    alone = named.get("")
    return alone if len(named) == 1 and isinstance(alone, dict) else named


def plain(value: object) -> str:
    """One fact as a person reads it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return figure(value, 6)
    if isinstance(value, list | tuple):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            return ", ".join(plain(item) for item in value) or "none"
        return "; ".join(
            " ".join(f"{name}={text}" for name, text in flatten(item).items())
            if isinstance(item, Mapping)
            else plain(item)
            for item in value
        )
    return str(value)


def trial_tables(stored: StoredExperiment, part: str) -> list[FactTable]:
    """Tables of `facts`, `counters` or `verification`: one per nested object, and one of the rest.

    Raises AttributeError for another name of `part`: it is a field of TrialRecord.
    """
    arms = {arm.id: arm for arm in stored.experiment.arms}
    subjects: dict[str, dict[str, dict[str, dict[str, None]]]] = {}
    seen_arms: dict[str, None] = {}
    for trial in stored.trials:
        if trial.record.status != "ok" or trial.record.arm_id not in arms:
            continue
        seen_arms[trial.record.arm_id] = None
        for key, value in getattr(trial.record, part).items():
            is_nested = isinstance(value, Mapping) or (isinstance(value, list) and len(flatten(value)) > 1)
            subject = str(key) if is_nested else ""
            flat = flatten(value) if subject else {str(key): plain(value)}
            for name, text in flat.items():
                by_arm = subjects.setdefault(subject, {}).setdefault(name, {})
                by_arm.setdefault(trial.record.arm_id, {})[text] = None
    order = [arm_id for arm_id in arms if arm_id in seen_arms]
    names = tuple(arm_name(arms[arm_id]) for arm_id in order)
    return [
        FactTable(title=subject, arms=names, rows=_rows(facts, [arms[arm_id] for arm_id in order]))
        for subject, facts in sorted(
            subjects.items(), key=lambda item: (item[0] == "", item[0] != "settings")
        )
    ]


def _rows(facts: dict[str, dict[str, dict[str, None]]], arms: list[Arm]) -> tuple[FactRow, ...]:
    rows = []
    for name in sorted(facts):
        sets = [tuple(facts[name].get(arm.id, {})) for arm in arms]
        # A value that changes from trial to trial within one arm is no difference between arms.
        steady = all(len(values) <= 1 for values in sets)
        differs = steady and len(set(sets)) > 1
        values = tuple(_summary(found) for found in sets)
        rows.append(FactRow(name, values, differs, _holders(values, arms) if differs else ()))
    return tuple(sorted(rows, key=lambda row: not row.differs))


def _holders(values: tuple[str, ...], arms: list[Arm]) -> tuple[tuple[str, str], ...]:
    members: dict[str, list[Arm]] = {}
    for value, arm in zip(values, arms, strict=True):
        members.setdefault(value, []).append(arm)
    return tuple((value, described(found, arms)) for value, found in members.items())


def _summary(values: tuple[str, ...]) -> str:
    if not values:
        return "not recorded"
    if len(values) <= _VALUES_SHOWN_MAX:
        return " | ".join(values)
    try:
        numbers = [float(value.replace(",", "")) for value in values]
    except ValueError:
        return f"{len(values)} different values"
    return f"{figure(min(numbers), 6)} … {figure(max(numbers), 6)}"


def environment_tables(stored: StoredExperiment) -> list[tuple[str, list[tuple[str, str]]]]:
    """The machine's facts and the probe's ceilings: (title, [(name, value)])."""
    tables: list[tuple[str, list[tuple[str, str]]]] = []
    for title, facts in (("", stored.experiment.environment), ("ceilings", stored.experiment.ceilings)):
        scalars = [(str(key), plain(value)) for key, value in facts.items() if not isinstance(value, Mapping)]
        if scalars:
            tables.append((title or "machine", scalars))
        for key, value in facts.items():
            if isinstance(value, Mapping) and value:
                heading = f"{title}: {key}" if title else str(key)
                tables.append((heading, list(flatten(value).items())))
    return tables


def builds(stored: StoredExperiment) -> list[list[tuple[str, str]]]:
    """Every build of the experiment once, as (name, value) lines."""
    unique = {arm.spec.build.bin_directory: arm.spec.build for arm in stored.experiment.arms}
    return [
        [
            ("version", build.version),
            ("origin", build.origin),
            ("binaries", build.bin_directory),
            ("io_uring", "yes" if build.has_io_uring else "no"),
            ("CFLAGS", build.cflags or "unknown"),
            ("configure", build.configure or "unknown"),
            ("sha256 of postgres", build.binary_sha256 or "unknown"),
            *_tree(build),
        ]
        for build in unique.values()
    ]


def _tree(build: Build) -> list[tuple[str, str]]:
    """What a build from source was made of, and how."""
    source = build.source
    if source is None:
        return []
    return [
        ("built from", source.name),
        ("commit", source.commit or "none"),
        ("tree", source.tree),
        ("compiler", source.compiler),
        ("options of its build", " ".join(source.options)),
        ("formats of its data", build.data_format or "unknown"),
    ]


def verification(material: Material) -> Section:
    """What was checked after every trial."""
    tables = trial_tables(material.stored, "verification")
    return Section("Verification", "verification", tuple(_blocks(tables, "Checked after every trial")))


def settings(material: Material) -> Section:
    """The settings in force and every other fact of the trials, what differs first; then the counters."""
    blocks = _blocks(trial_tables(material.stored, "facts"), "Other facts")
    if not blocks:
        blocks = [Paragraph("Not recorded by any valid trial yet.")]
    counters = _blocks(trial_tables(material.stored, "counters"), "Counters")
    if counters:
        title = "Differences of the server's and the machine's counters"
        blocks += [Subheading("Counters over the measured part"), Fold(title, tuple(counters))]
    return Section("Effective settings and facts", "settings", tuple(blocks), link="Settings")


def protocol(material: Material) -> Section:
    """How it was measured and how it is judged, fixed before the first trial."""
    experiment = material.stored.experiment
    prepared = flatten(experiment.protocol.model_dump())
    if material.result.baseline is not None:
        prepared["baseline"] = material.result.baseline
    return Section(
        "Protocol and contract",
        "protocol",
        (
            Fold(
                "How every trial was prepared and measured",
                (_pairs(prepared.items()),),
            ),
            Fold(
                "How the experiment is judged, fixed before its first trial",
                (_pairs(flatten(experiment.contract.model_dump()).items()),),
            ),
        ),
    )


def environment(material: Material) -> Section:
    """The machine and the binaries; in Markdown their main facts in one line."""
    stored = material.stored
    folds = [
        Fold(title, (_pairs(rows),), is_open=number == 0, where=HTML)
        for number, (title, rows) in enumerate(environment_tables(stored))
    ]
    folds += [
        Fold(f"PostgreSQL {build[0][1]} ({build[1][1]})", (_pairs(build),), where=HTML)
        for build in builds(stored)
    ]
    line = Paragraph(_environment_line(material), where=MARKDOWN)
    return Section("Environment", "environment", (line, *folds), link="Environment", titled=HTML)


def _environment_line(material: Material) -> str:
    """PostgreSQL's version and origin, and the machine's main facts."""
    experiment = material.stored.experiment
    found = dict.fromkeys(
        f"PostgreSQL {arm.spec.build.version} ({arm.spec.build.origin})" for arm in experiment.arms
    )
    machine = experiment.environment.machine
    known = {name: machine.get(name) for name in ("cpu_model", "cores_online", "kernel")}
    lines = [f"{name.replace('_', ' ')} {value}" for name, value in known.items() if value]
    caps = summary.caps(material.stored)
    lines += [f"caps on the server: {caps}"] if caps else []
    return "; ".join([*found, *lines, f"pgassay {experiment.pgassay_version}"])


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    return plain_table(("", ""), rows, names=2)


def _blocks(tables: list[FactTable], fallback: str) -> list[Block]:
    blocks: list[Block] = []
    for table in tables:
        blocks.append(Subheading(table.title or fallback))
        if table.differing:
            blocks += [Paragraph("These differ between arms:"), _differing(table)]
        if table.alike:
            none = "" if table.differing else "; none differs"
            rows = [(row.name, " | ".join(dict.fromkeys(row.values))) for row in table.alike]
            blocks.append(Fold(f"{len(rows)} the same in all arms{none}", (_pairs(rows),)))
    return blocks


def _differing(table: FactTable) -> Table:
    if len(table.arms) > _COLUMNS_MAX:
        groups = tuple(
            Group(tuple(Row((Cell(value), Cell(arms))) for value, arms in row.holders), heading=row.name)
            for row in table.differing
        )
        return Table((Column("", is_figure=False), Column("", is_figure=False)), groups)
    columns = tuple(Column(name, is_figure=False) for name in ("", *table.arms))
    rows = tuple(
        Row((Cell(row.name), *(Cell(value) for value in row.values)), differs=True) for row in table.differing
    )
    return Table(columns, (Group(rows),))
