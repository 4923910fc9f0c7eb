"""What `pgassay size` found."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from pgassay.model.volumes.size import Knee, SizedGroup, SizedVolume, SizeResult
from pgassay.report.charts import size_charts
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    bullets,
    plain_table,
)
from pgassay.words import duration, figure, percent_fixed, quantity, ratio, seconds

_AMOUNTS = {"operations": "IOPS", "throughput": "MiB/s", "latency": "ms"}
_DIMENSIONS = {"operations": "operations", "throughput": "throughput", "latency": "latency, no more than"}
# With what else than a name a sentence begins.
_BEGINNINGS = (
    *("the ", "beyond ", "no ", "improving ", "cheaper, ", "predictions ", "on "),
    *("enough ", "if ", "there ", "of "),
)
# A terminal shows the volumes that somebody may buy or has, or few; a page shows all.
_FEW = 6


def page_of(result: SizeResult) -> Page:
    """What to buy, the volumes worth their price, the knees, the checks."""
    subject, done = (
        ("What faster storage may gain", "Measured") if result.bounds else ("Volumes", "Predicted")
    )
    return Page(
        f"{subject} for {result.workload}",
        result,
        partial(sections, result),
        partial(size_charts.drawings, result),
        footer=f"{done} by pgassay {result.pgassay_version}.",
    )


def sections(result: SizeResult) -> list[Section]:
    """The sections of the report, in order."""
    return [
        Section("", "verdict", tuple(Paragraph(_begun(line), STRONG) for line in result.sentences)),
        Section(
            "",
            "notes",
            (bullets(result.warnings, title="Warnings", tone=WARNING),) if result.warnings else (),
        ),
        Section("At most", "bounds", _bounds(result)),
        Section("Volumes", "volumes", _of_groups(result, _volumes)),
        Section("Sufficient volumes", "knees", _of_groups(result, _knees)),
        Section("Checked", "checks", _of_groups(result, _checks)),
        Section("Recorded", "recorded", _of_groups(result, _recorded)),
        Section("", "facts", (Paragraph(_facts(result), QUIET),)),
    ]


def _begun(line: str) -> str:
    """A sentence with a capital; one that begins with a setting's name stays as it is."""
    return line[:1].upper() + line[1:] if line.startswith(_BEGINNINGS) else line


def _of_groups(result: SizeResult, make: Callable[[SizedGroup, int], list[Block]]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for number, group in enumerate(result.groups):
        made = make(group, number)
        if made and len(result.groups) > 1:
            blocks.append(Subheading(group.name))
        blocks += made
    return tuple(blocks)


def _bounds(result: SizeResult) -> tuple[Block, ...]:
    """Of servers elsewhere: what connections waited for, and what that bounds."""
    if not result.bounds:
        return ()
    rows = []
    has_servers = len({each.server for each in result.bounds}) > 1
    for each in result.bounds:
        low, high = each.gain_interval
        ends = f"{figure(low)} – {'∞' if high is None else figure(high)}"
        rows.append(
            (
                " ".join(filter(None, (each.server if has_servers else "", each.name))) or "the workload",
                percent_fixed(each.reads_share, 1),
                percent_fixed(each.wal_share, 1),
                percent_fixed(each.other_files_share, 1),
                percent_fixed(each.others_share, 1),
                "" if each.timed_share is None else percent_fixed(each.timed_share, 1),
                "∞" if each.gain_at_most is None else f"{figure(each.gain_at_most)}×",
                ends,
            )
        )
    heads = ("", "reads", "WAL", "files", "others", "by its clock", "at most", "95 %")
    return (plain_table(heads, rows),)


def _volumes(group: SizedGroup, number: int) -> list[Block]:
    # One without a price is there because it was named.
    shown = [
        each
        for each in group.volumes
        if each.is_recommended
        or each.is_on_front
        or each.volume == group.against
        or each.price_per_month is None
        or len(group.volumes) <= _FEW
    ]
    blocks: list[Block] = [Figure(size_charts.figure_name("pareto", number)), _volume_table(group, shown)]
    if len(shown) < len(group.volumes):
        blocks.append(
            Fold(f"All {len(group.volumes)} volumes", (_volume_table(group, group.volumes),), where=HTML)
        )
    return blocks


def _volume_table(group: SizedGroup, volumes: Sequence[SizedVolume]) -> Table:
    has_bursts = any(each.burst_seconds_per_unit is not None for each in volumes)
    columns = (
        Column("volume", is_figure=False),
        Column("a month"),
        Column(f"time of a {group.unit}", short="time"),
        Column("slow-down"),
        Column("range of latency", short="range"),
        Column("within"),
        Column(f"per million {group.unit}s", short="per million", where=HTML),
        *([Column("while credits last", where=HTML)] if has_bursts else []),
    )
    rows = tuple(_volume_row(each, has_bursts=has_bursts) for each in volumes)
    return Table(columns, (Group(rows),))


def _volume_row(volume: SizedVolume, *, has_bursts: bool) -> Row:
    low, high = volume.slow_down_low, volume.slow_down_high
    span = "" if low is None or high is None else f"{_change(low)} … {_change(high)}"
    price = (
        "no price" if volume.price_per_month is None else f"{volume.price_per_month:,.2f} {volume.currency}"
    )
    million = quantity(volume.price_per_million, volume.currency or "")
    burst_s, last_s = volume.burst_seconds_per_unit, volume.credits_last_s
    burst = "" if burst_s is None or last_s is None else f"{seconds(burst_s)} for {duration(last_s)}"
    cells = (
        volume.volume,
        price,
        seconds(volume.seconds_per_unit),
        _change(volume.slow_down),
        span,
        volume.within,
        million,
        *([burst] if has_bursts else []),
    )
    tone = STRONG if volume.is_recommended else ""
    return Row(tuple(Cell(cell, tone if place == 0 else "") for place, cell in enumerate(cells)))


def _change(share: float) -> str:
    return percent_fixed(share, 1 if abs(share) < 0.0995 else 0, signed=True)


def _knees(group: SizedGroup, number: int) -> list[Block]:
    rows = [(_DIMENSIONS[knee.dimension], _value(knee), *_around(knee)) for knee in group.knees]
    return [
        plain_table(("of", "enough", "with half of it", "with twice"), rows),
        Figure(size_charts.figure_name("knees", number)),
    ]


def _value(knee: Knee) -> str:
    if knee.value is None:
        return "none is"
    return f"{figure(knee.value)} {_AMOUNTS[knee.dimension]}"


def _around(knee: Knee) -> tuple[str, str]:
    """How much slower it is with half and with twice as much, between the curve's points."""
    if knee.value is None:
        return "", ""
    best = min(point.seconds_per_unit for point in knee.curve)

    def at(value: float) -> str:
        for before, after in pairwise(knee.curve):
            if before.value <= value <= after.value:
                share = math.log(value / before.value) / math.log(after.value / before.value)
                grown = after.seconds_per_unit / before.seconds_per_unit
                return _change(before.seconds_per_unit * grown**share / best - 1)
        return ""

    return at(knee.value / 2), at(knee.value * 2)


def _checks(group: SizedGroup, _number: int) -> list[Block]:
    if not group.checks:
        return []
    rows = [
        (
            check.storage,
            check.recorded_on,
            seconds(check.predicted_s),
            seconds(check.measured_s),
            ratio(check.ratio),
            "yes" if check.is_fair else "trace alone",
        )
        for check in group.checks
    ]
    heads = ("measured on", "recorded on", "predicted", "measured", "ratio", "representative")
    return [plain_table(heads, rows, names=2)]


def _recorded(group: SizedGroup, _number: int) -> list[Block]:
    rows = [
        (
            each.storage,
            f"{each.reads + each.writes:,}",
            f"{each.writes:,}",
            f"{each.lanes:,}",
            f"{figure(each.computing_s)} s",
            seconds(each.seconds_per_unit),
            "yes" if each.is_used else "",
        )
        for each in group.recordings
    ]
    heads = (
        "volume",
        "requests",
        "writes",
        "at once",
        "computing",
        f"time of a {group.unit}",
        "predicted from",
    )
    return [plain_table(heads, rows)]


def _facts(result: SizeResult) -> str:
    files = f" with {', '.join(result.catalogue.files)}" if result.catalogue.files else ""
    if result.bounds:
        return (
            f"{result.workload}, measured in {result.folder} by SQL only. Shares are of the "
            "connections' time; no requests were recorded."
        )
    return (
        f"{result.workload}, recorded in {result.folder}; {result.size_gib:,} GiB to be stored. Catalogue of "
        f"{result.catalogue.date}{files}. Times are predicted for {_processors(result)} as fast as those of "
        "the recording, unless they are said to be measured."
    )


def _processors(result: SizeResult) -> str:
    """On how many the workload computed: with more of them, or faster ones, more of a volume may be used."""
    used = [each.processors for group in result.groups for each in group.recordings if each.is_used]
    least, most = min(used), max(used)
    count = figure(most) if least == most else f"{figure(least)} to {figure(most)}"
    return f"{count} {'processor' if most == 1 else 'processors'}"
