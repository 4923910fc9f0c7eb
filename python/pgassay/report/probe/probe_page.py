"""What a probe says of a disk and of these cores."""

from functools import partial

from pgassay.model.probe import CellResult, ProbeComparison, ProbeProof, ProbeResult
from pgassay.probe.analysis.analyse import cell_name
from pgassay.probe.analysis.recommend import of_major, shell_lines
from pgassay.report import text
from pgassay.report.charts import probe_charts
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    QUIET,
    STRONG,
    WARNING,
    Block,
    Code,
    Figure,
    Fold,
    Paragraph,
    Section,
    bullets,
    plain_table,
)

Table = tuple[str, list[str], list[list[str]]]
_WORKS = {
    "cold-scan": "cold scan of 1 GB",
    "cached-scan": "cached scan of 1 GB",
    "parallel-cold-scan": "cold scan of 1 GB, 2 parallel workers",
    "parallel-cached-scan": "cached scan of 1 GB, 2 parallel workers",
    "buffered-scan": "scan of 1 GB, 98 % in shared buffers",
    "bitmap-scan": "bitmap scan, a tenth of 1 GB",
    "index-lookups": "10,000 index lookups",
}


def page_of(result: ProbeResult, comparison: ProbeComparison | None = None) -> Page:
    """What it means, what to set, the limits, the predictions; then all figures.

    With an older probe its document is that of the comparison.
    """
    return Page(
        f"Probe of {result.path}",
        comparison or result,
        partial(sections, result, comparison),
        partial(probe_charts.drawings, result),
        footer=f"Measured {result.measured_at} by pgassay {result.pgassay_version}.",
        is_wrapped=False,
    )


def sections(result: ProbeResult, comparison: ProbeComparison | None) -> list[Section]:
    """The sections of a probe's report, in order."""
    verdict, meaning = list(result.sentences[:1]), list(result.sentences[1:])
    if comparison is not None:
        against = f"Against {comparison.old} of {comparison.old_measured_at[:16].replace('T', ' ')}:"
        verdict, meaning = [against, *comparison.sentences], list(result.sentences)
    notes = [*result.warnings, *result.missing.values()]
    device = [(name, str(value)) for name, value in result.device.items() if value is not None]
    return [
        Section("", "verdict", tuple(Paragraph(line, STRONG) for line in verdict)),
        Section("", "notes", (bullets(notes, title="Warnings", tone=WARNING),) if notes else ()),
        Section("", "facts", tuple(Paragraph(line, QUIET) for line in facts(result))),
        Section(
            "What it means",
            "meaning",
            (bullets(meaning), Figure("predictions"), Figure("splits")) if meaning else (),
        ),
        _to_set(result),
        *([proof_section(result.proof)] if result.proof is not None else ()),
        Section(
            "Figures",
            "figures",
            (
                Figure("random"),
                *(
                    Fold(heading, (plain_table(heads, rows),), is_open=number == 0 and comparison is not None)
                    for number, (heading, heads, rows) in enumerate(tables(result, comparison))
                ),
                Fold("The device", (plain_table(("", ""), device, names=2),), where=HTML),
            ),
        ),
    ]


def _to_set(result: ProbeResult) -> Section:
    if not result.recommend:
        return Section("What to set", "settings", ())
    recommend = of_major(result.recommend, result.major)
    rows = [(name, each.value, each.default, each.reason) for name, each in recommend.items()]
    blocks: list[Block] = [
        plain_table(("setting", "value", "default or current", "why"), rows, names=4, where=HTML)
    ]
    if lines := settings_lines(result):
        blocks += [Paragraph(f"For PostgreSQL {result.major}:"), Code("\n".join(lines))]
    return Section("What to set", "settings", (*blocks, Figure("regrets")))


def proof_section(proof: ProbeProof) -> Section:
    """The recommended settings against the defaults, on real servers."""
    rows = [
        (
            work.name,
            work.verdict,
            "" if work.ratio is None else text.ratio(work.ratio),
            "unbounded" if work.interval is None else text.interval(work.interval),
        )
        for work in proof.works
    ]
    blocks: list[Block] = [Paragraph(proof.sentence, STRONG)]
    if rows:
        blocks += [
            plain_table(("work", "verdict", "speed", "95 % interval"), rows, names=2),
            Paragraph(f"Folder: {proof.folder}", QUIET),
        ]
    return Section("Proof", "proof", tuple(blocks))


def proof_page(proof: ProbeProof) -> Page:
    """The proof alone, for a terminal that shows the probe already."""
    return Page("Proof", proof, lambda: [proof_section(proof)], is_wrapped=False)


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
        latencies = ", ".join(f"{name} {value:,.0f} µs" for name, value in made.latency_us_depth_1.items())
        limits.append(f"a random read of 8 kB {latencies}")
    if made.fdatasync_per_s is not None:
        limits.append(f"{made.fdatasync_per_s:,.0f} fdatasync a second")
    if limits:
        lines.append(f"Ceilings: {'; '.join(limits)}.")
    if result.checksum_gb_s is not None:
        lines.append(f"One core verifies {text.figure(result.checksum_gb_s)} GB/s of pages.")
    low, high = result.executor.interval
    lines.append(
        f"The executor takes {text.figure(result.executor.ns_per_page / 1000, 2)} µs a page "
        f"({text.figure(low / 1000, 2)} to {text.figure(high / 1000, 2)} µs; "
        f"{text.clean(result.executor.source)})."
    )
    lines.append(
        f"Reads follow the rules of PostgreSQL {result.major}. Rates are in MB/s of 10⁶ bytes, sizes in "
        "powers of 1024."
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
            ", ".join(
                f"{other.value} {text.percent_fixed(other.regret, signed=True)}"
                for other in each.alternatives
                if other.regret
            ),
        ]
        for name, each in of_major(result.recommend, result.major).items()
    ]
    return (
        "Recommended values, and the extra time of other values",
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
    return f"{text.figure(low)} to {text.figure(high)}"


def _cells(result: ProbeResult) -> Table:
    rows = [_cell(cell) for cell in result.cells]
    header = ["cell", "runs", "MB/s", "± 95 %", "IOPS", "p50 µs", "p99 µs", "CPU s/GB"]
    return "All cells", header, rows


def _cell(cell: CellResult) -> list[str]:
    half = (cell.interval[1] / cell.interval[0]) ** 0.5 - 1 if cell.interval[0] > 0 else 0.0
    name = cell_name(cell.spec)
    cost = "" if cell.cpu_s_per_gb is None else text.figure(cell.cpu_s_per_gb, 2)
    return [
        name if cell.steady else f"{name} (NOT STEADY)",
        str(cell.runs),
        f"{cell.mb_s:,.0f}" if cell.mb_s >= 10 else text.figure(cell.mb_s, 2),
        f"{text.percent_fixed(half)}",
        f"{cell.iops:,.0f}",
        *(f"{cell.latency_us[each]:,.0f}" if each in cell.latency_us else "" for each in ("p50", "p99")),
        cost,
    ]


def settings_lines(result: ProbeResult) -> list[str]:
    """The lines that differ from the defaults of the version by whose rules it reads; empty without any."""
    disk = result.device.get("disk")
    return shell_lines(result.recommend, result.major, str(disk) if disk else None)
