"""The answer of an upgrade."""

from collections.abc import Sequence
from functools import partial

from pgassay.model.result import Interval
from pgassay.model.upgrades.upgrade_answer import (
    PgUpgrade,
    UpgradedStatement,
    UpgradeFinding,
    UpgradeResult,
    UpgradeState,
    UpgradeTraffic,
)
from pgassay.report.page import Page
from pgassay.report.section import (
    QUIET,
    STRONG,
    WARNING,
    Block,
    Bullets,
    Code,
    Item,
    Paragraph,
    Section,
    Subheading,
    bullets,
    plain_table,
)
from pgassay.report.text import amount, figure, percent, percent_fixed, plural, seconds, span
from pgassay.words import share

_HEADS = ("statement", "", "before", "after", "new version is", "95 % interval", "share of time")
_TITLES = (
    ("in the way", "Blockers"),
    ("work", "To do before or right after the upgrade"),
    ("changed", "What changes"),
)
_TITLES_OF_STATES = {
    "before ANALYZE": "Before ANALYZE",
    "new defaults": "What your old settings keep from you",
}
_HEADS_OF_STATES = {
    "before ANALYZE": ("statement", "", "after ANALYZE", "before", *_HEADS[4:]),
    "new defaults": ("statement", "", "your settings", "new defaults", *_HEADS[4:]),
}
_SHOWN_MAX, _WRONG_MAX, _NAMED_MAX = 40, 5, 3
_MS = 1e3
# An interval from a third to three times says nothing of a direction.
_SPAN_MAX = 10.0
_MEDIANS = (
    "Before and after are medians of all trials; how fast the new version is comes from trials of the same "
    "block, and may differ from the two."
)
_UNTOUCHED = ("as fast", "faster", "not decided")


def page_of(result: UpgradeResult) -> Page:
    """The decision first, then what is in the way, then the statements, the slower ones first."""
    title = f"Upgrade of {result.source} from {result.from_version} to {result.to_version}"
    return Page(title, result, partial(_sections, result))


def _sections(result: UpgradeResult) -> list[Section]:
    head = f"{result.source}, PostgreSQL {result.source_version}; it was only read."
    sections = [
        Section(
            "",
            "decision",
            (
                Paragraph(result.headline, STRONG),
                *_of_traffic(result),
                *_of_pg_upgrade(result.pg_upgrade),
                Paragraph(head, QUIET),
            ),
        ),
        *_findings(result.findings),
        *_statements(result),
        *map(_state, result.states),
    ]
    if result.warnings:
        sections.append(Section("Warnings", "warnings", (bullets(result.warnings, tone=WARNING),)))
    if result.experiment:
        timed = f"{plural(result.blocks, 'block')}, margin {percent(result.margin)}; all figures are in"
        sections.append(Section("", "experiment", (Paragraph(f"{timed} {result.experiment}", QUIET),)))
    return sections


def _of_pg_upgrade(found: PgUpgrade | None) -> list[Block]:
    if found is None:
        return []
    columns, extended = found.statistics, found.extended_statistics
    carried = f"it carried statistics of {columns[0]} of {plural(columns[1], 'column')}"
    if extended[1]:
        carried += f" and {extended[0]} of {extended[1]} extended ones"
    lost = columns[0] < columns[1] or extended[0] < extended[1]
    remedy = "; the rest is there after ANALYZE, and the figures below are of then" if lost else ""
    words = f"pg_upgrade --{found.mode} {found.programs} took {seconds(found.seconds)} on this machine"
    return [Paragraph(f"{words}; {carried}{remedy}.")]


def _state(state: UpgradeState) -> Section:
    """What the new version does before ANALYZE, or without the source's own settings."""
    blocks: list[Block] = [Paragraph(f"{state.sentence[:1].upper()}{state.sentence[1:]}.")]
    rows = [_row(each) for each in state.statements if each.verdict != "as fast"]
    if rows:
        blocks.append(plain_table(_HEADS_OF_STATES[state.id], rows, names=2))
    for each in state.statements:
        if each.plan and each.verdict in ("slower", "faster"):
            blocks += [Subheading(f"{each.name}: {each.verdict}"), bullets(each.plan)]
    title = _TITLES_OF_STATES[state.id]
    return Section(title, state.id.replace(" ", "-").lower(), tuple(blocks), link=title)


def _findings(findings: Sequence[UpgradeFinding]) -> list[Section]:
    made = []
    for severity, title in _TITLES:
        items = tuple(
            Item(each.sentence, detail="; ".join(part for part in (_where(each), each.remedy) if part))
            for each in findings
            if each.severity == severity
        )
        if items:
            made.append(Section(title, severity.replace(" ", "-"), (Bullets(items),), link=title))
    return made


def _where(each: UpgradeFinding) -> str:
    return "" if not each.where or each.where in each.sentence else each.where


def _statements(result: UpgradeResult) -> list[Section]:
    if not result.statements:
        return []
    run = [each for each in result.statements if each.verdict != "not run"]
    rows = [_row(each) for each in run[:_SHOWN_MAX]]
    blocks: list[Block] = [plain_table(_HEADS, rows, names=2)] if rows else []
    if any(_factor(each) and each.before_ms is not None for each in run):
        blocks.append(Paragraph(_MEDIANS, QUIET))
    if len(run) > _SHOWN_MAX:
        blocks.append(Paragraph(f"{_SHOWN_MAX} of {len(run)} statements; --json has all.", QUIET))
    for each in result.statements:
        if each.verdict not in _UNTOUCHED and each.verdict != "not run":
            blocks += _details(each)
    left = _not_run(result.statements)
    if left:
        blocks += [Subheading("Not run"), bullets(left)]
    if result.why:
        blocks += [Subheading("Where the time changed"), bullets(result.why)]
    slower = [each.name for each in result.statements if each.verdict == "slower" and not each.fix]
    if slower:
        blocks.append(
            Paragraph(
                f"To search longer for a fix for {slower[0]}: pgassay tune DSN --pg "
                f"{result.to_version}, with the connection string of the server."
            )
        )
    title = "What the upgrade brings"
    return [Section(title, "statements", tuple(blocks), link=title)]


def _not_run(statements: Sequence[UpgradedStatement]) -> list[str]:
    """A line for each statement, or one for all that have a reason in common."""
    names: dict[str, list[str]] = {}
    for each in statements:
        if each.verdict == "not run":
            names.setdefault(each.reason, []).append(each.name)
    return [
        f"{of_reason[0]}: {reason}"
        if len(of_reason) == 1
        else f"{plural(len(of_reason), 'statement')}: {reason} ({', '.join(of_reason[:_NAMED_MAX])}"
        f"{' …' if len(of_reason) > _NAMED_MAX else ''})"
        for reason, of_reason in names.items()
    ]


def _of_traffic(result: UpgradeResult) -> list[Block]:
    """What was played, how much came out otherwise, and the families that speak against the upgrade."""
    traffic = result.traffic
    if traffic is None:
        return []
    wrong = [
        _against(each) for each in result.statements if each.verdict in ("fails", "other rows", "slower")
    ]
    pace = "as fast as their order allows" if traffic.speed is None else f"at speed {figure(traffic.speed)}"
    before, after = (percent_fixed(1 - share, 2) for share in traffic.otherwise)
    played = (
        f"{traffic.folder}: {plural(traffic.statements, 'statement')} of "
        f"{plural(traffic.sessions, 'session')} in "
        f"{seconds(traffic.seconds_captured)}, played {pace}, {plural(traffic.plays[0], 'time')} on "
        f"{result.from_version} and "
        f"{traffic.plays[1]} on {result.to_version}; {before} and {after} of its time gave the "
        "captured results."
    )
    blocks: list[Block] = [bullets(wrong[:_WRONG_MAX])] if wrong else []
    return [*blocks, Paragraph(f"{_whole(result, traffic)} {played}{_untimed(traffic)}")]


def _against(each: UpgradedStatement) -> str:
    part = "" if each.share is None else f", {share(each.share)} of the time"
    if each.verdict == "slower" and each.ratio is not None and each.interval is not None:
        return f"slower: {each.name}: {amount(each.ratio)} ({span(each.interval)}){part}"
    return f"{each.verdict}: {each.name}{part}: {each.reason}"


def _whole(result: UpgradeResult, traffic: UpgradeTraffic) -> str:
    words = {"equivalent": "as fast", "inconclusive": "not decided"}.get(traffic.verdict, traffic.verdict)
    said = f"All traffic together, by its {traffic.metric}: {result.to_version} is {words}"
    if traffic.ratio is not None and (traffic.verdict != "inconclusive" or _is_narrow(traffic.interval)):
        said += f", {amount(traffic.ratio)}"
    if traffic.interval is not None:
        said += f" ({span(traffic.interval)})"
    if traffic.note:
        return f"{said} ({traffic.note})."
    undecided = sum(each.verdict == "not decided" for each in result.statements)
    if undecided:
        blocks = plural(result.blocks, "block")
        return (
            f"{said}. After {blocks} {plural(undecided, 'statement')} not decided: give a longer --max-time."
        )
    return f"{said}."


def _untimed(traffic: UpgradeTraffic) -> str:
    if not traffic.untimed:
        return ""
    return (
        f" Of {plural(traffic.untimed, 'further statement')} with {percent(traffic.untimed_share)} of the "
        "time, "
        "only errors and rows were checked."
    )


def _row(each: UpgradedStatement) -> tuple[str, ...]:
    return (
        each.name,
        each.verdict,
        _ms(each.before_ms),
        _ms(each.after_ms),
        _factor(each),
        "" if each.interval is None else span(each.interval),
        "" if each.share is None else percent(each.share),
    )


def _factor(each: UpgradedStatement) -> str:
    """How many times as fast it is; '' where that is not decided and nearly anything is possible."""
    is_known = each.verdict != "not decided" or _is_narrow(each.interval)
    return amount(each.ratio) if each.ratio is not None and is_known else ""


def _is_narrow(interval: Interval | None) -> bool:
    if interval is None or interval[0] is None or interval[1] is None:
        return False
    return interval[0] > 0 and interval[1] < _SPAN_MAX * interval[0]


def _ms(value: float | None) -> str:
    return "" if value is None else seconds(value / _MS)


def _details(each: UpgradedStatement) -> list[Block]:
    blocks: list[Block] = [Subheading(f"{each.name}: {each.verdict}"), Code(each.sql.strip())]
    if each.reason:
        blocks.append(Paragraph(each.reason))
    if each.plan:
        blocks.append(bullets(each.plan))
    if each.fix:
        blocks += [Paragraph(f"Fix: {each.fix}", STRONG), Code(each.fix_sql)]
    return blocks
