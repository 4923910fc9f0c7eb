"""A comparison as plain text for a mailing list: nothing is wider than 72 columns, all of it is ASCII.

What somebody needs who reads it in a year: the verdict, each arm's figure with its interval, the functions
that differ, the machine, the builds, and the command that repeats it.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence

from pgassay.analysis.profile.result import function_name, time_words
from pgassay.model.profile.result import CountedEvent, ProfileResult
from pgassay.model.result import ArmResult
from pgassay.record.experiment import StoredExperiment
from pgassay.report import text
from pgassay.report.compare import summary, verdicts
from pgassay.report.compare.material import Material
from pgassay.report.labels import levels_alone
from pgassay.report.profile.functions import counted_words, wait_name

COLUMNS = 72
INDENT = "  "
# A longer name stands on a line of its own, and its figures below it.
NAME_MAX = 30
# A longer level at the head of a column would take the room of its figures.
HEAD_MAX = 12
FUNCTIONS_MAX = 12
WAITS_MAX = 6
Cells = tuple[str, ...]


def render(material: Material) -> str:
    """The mail's text, with a line feed at its end."""
    parts = [
        _paragraphs(verdicts.headline_lines(material.result)),
        *_arms(material),
        *_statements(material),
        *_secondary(material),
        *_functions(material),
        _basis(material),
        _machine(material),
    ]
    said = text.ascii_only(re.sub(r"(?<=\d) %", "%", "\n\n".join(part for part in parts if part)))
    return f"{said}\n\n{_command(material.stored)}\n"


def _paragraphs(lines: Iterable[str], first: str = "", rest: str = "") -> str:
    return "\n".join(
        textwrap.fill(
            text.clean(line),
            COLUMNS,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=True,
            break_on_hyphens=False,
        )
        for line in lines
    )


def table(heads: Cells, rows: Sequence[Cells]) -> str:
    """Names to the left, figures to the right; a name that has no room stands above its figures.

    Columns that would still not fit are wrapped below each other by their heads.
    """
    names = [row[0] for row in rows if len(row[0]) <= NAME_MAX]
    name_width = max(map(len, (heads[0], *names)))
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(1, len(heads))]
    room = COLUMNS - len(INDENT)
    if name_width + sum(2 + width for width in widths) > room:
        return _listed(heads, rows)

    def line(name: str, cells: Sequence[str]) -> str:
        figures = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        return f"{INDENT}{name:<{name_width}}{figures}".rstrip()

    lines = [line(heads[0], heads[1:]), INDENT + "-" * (name_width + sum(2 + width for width in widths))]
    for row in rows:
        if len(row[0]) > name_width:
            lines.append(_paragraphs([row[0]], INDENT, INDENT))
            lines.append(line("", row[1:]))
        else:
            lines.append(line(row[0], row[1:]))
    return "\n".join(lines)


def _listed(heads: Cells, rows: Sequence[Cells]) -> str:
    """Each row as a line for its name and one for each of its figures."""
    width = max(map(len, heads[1:]))
    lines = []
    for row in rows:
        lines.append(_paragraphs([row[0]], INDENT, INDENT))
        for head, cell in zip(heads[1:], row[1:], strict=True):
            if cell:
                lines.append(_paragraphs([f"{head:<{width}}  {cell}"], INDENT * 2, INDENT * 3))
    return "\n".join(lines)


def _verdict(arm: ArmResult, margin: float) -> str:
    return "-" if arm.verdict == "control" else text.verdict_word(arm, margin)


def _row(material: Material, arm: ArmResult, unit: str) -> Cells:
    is_control = arm.verdict == "control"
    ends = "" if is_control else text.interval_or_why(arm.interval, arm.ratio)
    ratio = "" if is_control else text.ratio(arm.ratio)
    return (
        material.label(arm),
        text.bare_quantity(arm.median, unit),
        ratio,
        ends.replace(" – ", "-"),
        _verdict(arm, material.result.margin),
    )


def _arms(material: Material) -> list[str]:
    """A table for each stratum."""
    result = material.result
    unit = result.metric.unit
    found = []
    for stratum in dict.fromkeys(arm.stratum for arm in result.arms):
        heading = f"{result.metric.name} ({unit}, {result.metric.better} is better)"
        heading += f" at {stratum}" if stratum else ""
        rows = [_row(material, arm, unit) for arm in material.members(stratum)]
        heads = ("arm", "median", "speed", "interval", "verdict")
        found.append(f"{_paragraphs([f'{heading}:'])}\n{table(heads, rows)}")
    return found


def _statements(material: Material) -> list[str]:
    """Each statement's arms, where there are several statements."""
    statements = material.result.statements
    if len(statements) < 2:
        return []
    found = []
    for statement in statements:
        rows = [_row(material, arm, "s") for arm in statement.arms]
        heads = ("arm", "median", "speed", "interval", "verdict")
        found.append(f"{_paragraphs([f'Statement {statement.name}:'])}\n{table(heads, rows)}")
    return found


def _secondary(material: Material) -> list[str]:
    """Server CPU and other secondary metrics: of these the ratio is of the metric, and less is less."""
    found = []
    for metric in material.result.secondary:
        rows = [
            (material.label_at(arm), *_row(material, arm, metric.unit)[1:4], arm.verdict)
            for arm in metric.arms
            if arm.verdict != "control"
        ]
        heads = ("arm", "median", "ratio", "interval", "verdict")
        found.append(f"{_paragraphs([f'{metric.name}:'])}\n{table(heads, rows)}")
    return found


def _functions(material: Material) -> list[str]:
    """What the profile found: its sentences, and a table where two arms are compared."""
    found = material.result.profile
    if found is None:
        return []
    lines = found.sentences or (f"no function is found to differ per {found.unit}",)
    title = f"Functions (CPU time per {found.unit}, {text.plural(found.rounds, 'round')} with perf):"
    parts = [_paragraphs([title]) + "\n" + _paragraphs((f"{line}." for line in lines), "- ", "  ")]
    rows = _function_rows(found)
    if rows:
        controls_first = sorted(material.result.arms, key=lambda arm: arm.verdict != "control")
        names = [levels_alone(arm, material.factors) for arm in controls_first]
        if len(names) != 2 or max(map(len, names)) > HEAD_MAX:
            names = ["control", "arm"]
        parts.append(table(("function", *names, "ratio", "interval"), rows))
    if found.counted:
        parts.append(_paragraphs(map(counted_line, found.counted)))
    if found.waits:
        heads = ("wait", *(["control", "arm"] if len(found.arms) == 2 else [arm.name for arm in found.arms]))
        waits = [
            (wait_name(wait), *("-" if us is None else time_words(us) for us in wait.us))
            for wait in found.waits[:WAITS_MAX]
        ]
        parts.append(f"Waits of the connections per {found.unit} (sampled):\n{table(heads, waits)}")
    return parts


def counted_line(counted: CountedEvent) -> str:
    """'Instructions: 41,000 in A; 38,950 in B (0.950x, 0.949-0.951).'."""
    parts = []
    for arm in counted.arms:
        ends = text.interval_or_why(arm.interval, arm.ratio).replace(" – ", "-")
        compared = "" if arm.verdict == "control" else f" ({text.ratio(arm.ratio)}, {ends})"
        parts.append(f"{counted_words(arm.count)} in {arm.name}{compared}")
    return f"{counted.event.capitalize()}: {'; '.join(parts)}."


def _function_rows(found: ProfileResult) -> list[Cells]:
    """Those that differ first, then those with most time."""
    rows: list[Cells] = []
    functions = [each for each in found.functions if len(each.arms) == 2]
    functions.sort(key=lambda each: (each.arms[1].verdict == "inconclusive", -each.share))
    for function in functions[:FUNCTIONS_MAX]:
        control, arm = sorted(function.arms, key=lambda each: each.verdict != "control")
        ends = text.interval_or_why(arm.interval, arm.ratio).replace(" – ", "-")
        times = time_words(control.us), time_words(arm.us)
        rows.append((function_name(function), *times, text.ratio(arm.ratio), ends))
    return rows


def _basis(material: Material) -> str:
    """Why the figures may be trusted, and what speaks against it."""
    result = material.result
    lines = [
        f"{text.plural(result.blocks, 'block')} of randomised trials with a hidden duplicate of the "
        f"control; {summary.ended(result)}. Intervals hold at any time; over all comparisons the "
        f"chance of an error is at most {text.percent(result.alpha)}. Differences within "
        f"{text.percent(result.margin)} count as equivalent."
    ]
    if result.failures:
        lines.append(f"{text.plural(result.failures, 'trial')} failed and were repeated.")
    warned = [*result.confounds, *result.warning_sentences]
    return "\n".join(part for part in (_paragraphs(lines), _paragraphs(warned, "- ", "  ")) if part)


def _machine(material: Material) -> str:
    """The workload, the builds and the machine."""
    experiment = material.stored.experiment
    machine = experiment.environment.machine
    facts = [
        machine.cpu_model or "",
        f"{machine.cores_online} cores" if machine.cores_online else "",
        text.size(machine.memory_bytes),
        machine.virtualisation or "",
        machine.distribution or "",
        f"kernel {machine.kernel}" if machine.kernel else "",
    ]
    caps = summary.caps(material.stored)
    lines = [("Workload", f"{material.result.workload}, cache {material.result.cache}")]
    builds = {arm.spec.build.bin_directory: arm.spec.build for arm in experiment.arms}
    for build in builds.values():
        words = [f"PostgreSQL {build.version} ({build.origin})"]
        if build.source is not None:
            words += [build.source.commit[:12] or build.source.tree[:12], build.source.compiler]
        # Warnings make no code; the rest may be what the difference is.
        flags = [flag for flag in build.cflags.split() if not flag.startswith("-W")]
        words += [" ".join(flags)] if flags else []
        lines.append(("Build", ", ".join(words)))
    lines.append(("Machine", ", ".join(fact for fact in facts if fact) or "not known"))
    lines += [("Caps", caps)] if caps else []
    lines.append(("Tool", f"pgassay {experiment.pgassay_version}, {experiment.created_at[:10]}"))
    return "\n".join(_paragraphs([f"{name + ':':<10}{words}"], "", " " * 10) for name, words in lines)


def _command(stored: StoredExperiment) -> str:
    """The command line that repeats it, over as many lines as it takes, to be pasted as it is."""
    lines = text.command_lines(stored.experiment.command, COLUMNS - len(INDENT), is_ascii=True)
    return "\n".join(["To repeat it:", *(f"{INDENT}{line}" for line in lines)])
