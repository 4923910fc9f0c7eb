"""A probe as a page for a terminal, as Markdown, and as one JSON document; pure."""

from pydantic import BaseModel

from pgassay.model.probe import CellResult, ProbeComparison, ProbeResult
from pgassay.probe.analysis.analyse import cell_name
from pgassay.probe.analysis.recommend import shell_lines
from pgassay.report import text
from pgassay.report.compare.json import render_document
from pgassay.report.markdown import escape

Table = tuple[str, list[str], list[list[str]]]
# The newest major whose settings the lines are for, and the one with a pool of workers that grows.
_MAJORS = (18, 19)
_WORKS = {
    "cold-scan": "cold scan of 1 GB",
    "cached-scan": "cached scan of 1 GB",
    "bitmap-scan": "bitmap scan, a tenth of 1 GB",
    "index-lookups": "10,000 index lookups",
}


def render_json(document: BaseModel) -> str:
    """One JSON document; schema of a result in schemas/probe.schema.json."""
    return render_document(document)


def render(result: ProbeResult, comparison: ProbeComparison | None = None, *, unicode: bool = True) -> str:
    """What it means, what to set, the limits, the predictions; then what is missing and the warnings."""
    lines = [*_comparison_lines(comparison), *map(text.clean, result.sentences), "", *facts(result)]
    for heading, header, rows in tables(result, comparison):
        lines += ["", heading, *text.aligned([header, *rows])]
    for major, settings in settings_lines(result):
        lines += ["", f"For PostgreSQL {major}:", *(f"  {line}" for line in settings)]
    notes = [*result.warnings, *result.missing.values()]
    if notes:
        lines += ["", "Warnings", *(f"- {text.clean(each)}" for each in notes)]
    page = "\n".join(lines) + "\n"
    return page if unicode else text.ascii_only(page)


def render_markdown(result: ProbeResult, comparison: ProbeComparison | None = None) -> str:
    """The same for an issue or a wiki."""
    parts = [
        f"**{escape(line)}**" for line in (*_comparison_lines(comparison), *result.sentences[:1]) if line
    ]
    parts += [escape(line) for line in (*result.sentences[1:], *facts(result))]
    for heading, header, rows in tables(result, comparison):
        cells = [
            header,
            ["---"] + ["--:"] * (len(header) - 1),
            *([escape(cell) for cell in row] for row in rows),
        ]
        parts += [escape(heading), "\n".join(f"| {' | '.join(row)} |" for row in cells)]
    for major, settings in settings_lines(result):
        parts += [f"For PostgreSQL {major}:", "\n".join(f"    {text.clean(line)}" for line in settings)]
    notes = [*result.warnings, *result.missing.values()]
    if notes:
        parts.append("\n".join(f"- {escape(line)}" for line in notes))
    return "\n\n".join(parts) + "\n"


def _comparison_lines(comparison: ProbeComparison | None) -> list[str]:
    if comparison is None:
        return []
    against = f"Against {text.clean(comparison.old)} of {comparison.old_measured_at[:16].replace('T', ' ')}:"
    return [against, *map(text.clean, comparison.sentences), ""]


def facts(result: ProbeResult) -> list[str]:
    """The device in one line, its ceilings in another, the processor in a third."""
    device = result.device
    name = device.get("disk") or device.get("name") or "no block device"
    model = f" ({device['model']})" if device.get("model") else ""
    kb = device.get("read_ahead_kb")
    read_ahead = "unknown" if kb is None else f"{kb} kB"
    lines = [
        text.clean(
            f"{result.path}: {name}{model}, {device.get('file_system', 'unknown file system')}, read-ahead "
            f"{read_ahead}"
        )
    ]
    made = result.ceilings
    limits = []
    if made.sequential_read_mb_s is not None:
        limits.append(f"sequential reads {made.sequential_read_mb_s:,.0f} MB/s")
    if made.latency_us_depth_1:
        told = ", ".join(f"{name} {value:,.0f} µs" for name, value in made.latency_us_depth_1.items())
        limits.append(f"a random read of 8 kB {told}")
    if made.fdatasync_per_s is not None:
        limits.append(f"{made.fdatasync_per_s:,.0f} fdatasync a second")
    if limits:
        lines.append(f"Ceilings: {'; '.join(limits)}.")
    if result.checksum_gb_s is not None:
        lines.append(f"One core verifies {result.checksum_gb_s:.3g} GB/s of pages.")
    low, high = result.executor.interval
    lines.append(
        f"The executor takes {result.executor.ns_per_page / 1000:.2g} µs a page ({low / 1000:.2g} to "
        f"{high / 1000:.2g} µs; {text.clean(result.executor.source)})."
    )
    return lines


def tables(result: ProbeResult, comparison: ProbeComparison | None) -> list[Table]:
    """The tables that have rows, in the page's order."""
    made = [
        _ratios(comparison),
        _recommended(result),
        _random(result),
        _predicted(result),
        _cells(result),
    ]
    return [table for table in made if table[2]]


def _ratios(comparison: ProbeComparison | None) -> Table:
    rows = [
        [
            f"{each.name} ({each.unit})",
            text.quantity(each.old, ""),
            text.quantity(each.new, ""),
            text.ratio(each.ratio),
            text.interval(each.interval) or "none",
            each.verdict,
        ]
        for each in (comparison.ratios if comparison else ())
    ]
    return (
        "The new probe against the old one",
        ["ceiling", "old", "new", "ratio", "interval", "verdict"],
        rows,
    )


def _recommended(result: ProbeResult) -> Table:
    rows = [
        [
            name,
            each.value if each.value != each.default else f"{each.value} (as it is)",
            ", ".join(f"{other.value} {other.regret:+.0%}" for other in each.alternatives if other.regret),
        ]
        for name, each in result.recommend.items()
    ]
    return (
        "Recommended, and the time that other values cost beyond the best",
        ["setting", "value", "others"],
        rows,
    )


def _random(result: ProbeResult) -> Table:
    rows = [[depth, f"{iops:,.0f}"] for depth, iops in result.ceilings.random_read_iops.items()]
    return "Random reads of 8 kB", ["in flight", "a second"], rows


def _predicted(result: ProbeResult) -> Table:
    methods = list(dict.fromkeys(each.method for each in result.predictions))
    by_place = {(each.work, each.connections, each.method): each for each in result.predictions}
    rows = []
    for work, connections in dict.fromkeys((each.work, each.connections) for each in result.predictions):
        shown = []
        for method in methods:
            each = by_place.get((work, connections, method))
            shown.append("" if each is None else f"{text.seconds(each.time_s)} ({_ends(each.interval)})")
        rows.append([_WORKS[work], str(connections), *shown])
    return "Predicted time, with its interval in seconds", ["work", "connections", *methods], rows


def _ends(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{low:.3g} to {high:.3g}"


def _cells(result: ProbeResult) -> Table:
    rows = [_cell(cell) for cell in result.cells]
    header = ["cell", "runs", "MB/s", "± 95 %", "IOPS", "p50 µs", "p99 µs", "CPU s/GB"]
    return "All cells", header, rows


def _cell(cell: CellResult) -> list[str]:
    half = (cell.interval[1] / cell.interval[0]) ** 0.5 - 1 if cell.interval[0] > 0 else 0.0
    name = cell_name(cell.spec)
    cost = "" if cell.cpu_s_per_gb is None else f"{cell.cpu_s_per_gb:.2g}"
    return [
        name if cell.steady else f"{name} (NOT STEADY)",
        str(cell.runs),
        f"{cell.mb_s:,.0f}" if cell.mb_s >= 10 else f"{cell.mb_s:.2g}",
        f"{half:.0%}",
        f"{cell.iops:,.0f}",
        *(f"{cell.latency_us[each]:,.0f}" if each in cell.latency_us else "" for each in ("p50", "p99")),
        cost,
    ]


def settings_lines(result: ProbeResult) -> list[tuple[int, list[str]]]:
    """For each major version the lines that differ from its defaults; empty where nothing does."""
    disk = result.device.get("disk")
    made = [(major, shell_lines(result.recommend, major, str(disk) if disk else None)) for major in _MAJORS]
    return [(major, lines) for major, lines in made if lines]
