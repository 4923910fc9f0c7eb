"""One plan, a log's list of plans, or two plans beside each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pgassay.model.plans.explained_plan import ExplainedPlan, ExplainResult
from pgassay.plans.node_wording import milliseconds
from pgassay.report.explain.plan_lines import heading, narrowed, text_lines, tree_lines
from pgassay.report.page import Page
from pgassay.report.section import (
    EVERYWHERE,
    HTML,
    MARKDOWN,
    QUIET,
    TERMINAL,
    Beside,
    Block,
    Bullets,
    Code,
    Column,
    Fold,
    Formats,
    Item,
    Paragraph,
    Section,
    Subheading,
    Table,
    Tree,
    bullets,
    plain_table,
)
from pgassay.words import percent_fixed

_STATEMENT_MAX = 2000
_TITLE_MAX = 100
_MAJOR_WORDS = "PostgreSQL"


def page_of(result: ExplainResult) -> Page:
    """The plans, or two of them beside each other."""
    title = "Two plans compared" if result.beside else "Plans with their work"
    return Page(title, result, partial(_sections, result))


def list_page(result: ExplainResult, source: str) -> Page:
    """The plans of a log, one line each, and how to look at one of them."""
    return Page(f"The plans of {source}", result, partial(_list, result.plans, source))


def _list(plans: Sequence[ExplainedPlan], source: str) -> list[Section]:
    heads = ("plan", "logged", "executed in", "nodes", "statement")
    rows = [
        (
            str(plan.number),
            plan.logged or "",
            milliseconds(plan.execution_ms) if plan.executed else "not executed",
            f"{len(plan.nodes):,}",
            _one_line(plan.statement or "", _TITLE_MAX),
        )
        for plan in plans
    ]
    made = plain_table(heads, rows, names=len(heads))
    columns = tuple(Column(head, is_figure=head in ("executed in", "nodes")) for head in heads)
    numbers = "--plan 1 shows one, --plan all shows all, --plan 1,2 compares two."
    said = Paragraph(f"{source} has {len(plans):,} plans. {numbers}")
    return [Section("", "list", (said, Table(columns, made.groups)))]


def _one_line(text: str, characters_max: int) -> str:
    words = " ".join(text.split())
    return words if len(words) <= characters_max else f"{words[:characters_max]} …"


# --- Sections.


def _sections(result: ExplainResult) -> list[Section]:
    if result.beside is None or len(result.plans) != 2:
        return [
            section
            for plan in result.plans
            for section in _plan_sections(plan, f"Plan {plan.number}" if len(result.plans) > 1 else "")
        ]
    made = result.beside
    first, second = result.plans
    blocks: list[Block] = [bullets(made.sentences)]
    if made.notes:
        blocks.append(bullets(made.notes, title="What the versions print differently"))
    changed = ({}, {}) if not made.matches else _marks(result)
    statements = list(dict.fromkeys(plan.sql or plan.statement for plan in result.plans))
    if len(statements) == 1 and statements[0]:
        blocks.append(Code(statements[0], characters_max=_STATEMENT_MAX, where=HTML))
    parts = tuple(
        tuple(_half(plan, name, marks, with_statement=len(statements) > 1))
        for plan, name, marks in ((first, "A", changed[0]), (second, "B", changed[1]))
    )
    return [
        Section("", "beside", (*blocks, Beside(parts))),
        *_plan_sections(first, "A", changed[0], where=EVERYWHERE - HTML),
        *_plan_sections(second, "B", changed[1], where=EVERYWHERE - HTML),
        _to_do(second, "What to do about B"),
    ]


def _half(plan: ExplainedPlan, name: str, marks: dict[int, str], *, with_statement: bool) -> Iterator[Block]:
    """A plan in half a page's width, beside another one."""
    yield Subheading(name)
    yield from (Paragraph(line) for line in _account(plan))
    if with_statement and (plan.sql or plan.statement):
        yield Code(str(plan.sql or plan.statement), characters_max=_STATEMENT_MAX)
    if plan.findings:
        yield bullets([finding.sentence for finding in plan.findings], title="Findings")
    lines = tuple(tree_lines(plan, marks))
    yield Tree(tuple(narrowed((heading(), *lines) if plan.executed else lines)))
    yield from (Paragraph(line, QUIET) for line in _beside_plan(plan))


def _to_do(plan: ExplainedPlan, title: str) -> Section:
    """What to do about a plan: each advice with its SQL or its command, to be copied."""
    blocks: list[Block] = []
    for advice in plan.advice:
        blocks.append(Bullets((Item(advice.sentence),)))
        if advice.sql:
            blocks.append(Code(advice.sql))
    return Section(title, "to-do", tuple(blocks))


def _marks(result: ExplainResult) -> tuple[dict[int, str], dict[int, str]]:
    mine: dict[int, str] = {}
    theirs: dict[int, str] = {}
    for match in result.beside.matches if result.beside else ():
        if not match.changed:
            continue
        if match.first is not None:
            mine[match.first] = "only in A" if match.second is None else f"B: #{match.second}"
        if match.second is not None:
            theirs[match.second] = "only in B" if match.first is None else f"A: #{match.first}"
    return mine, theirs


def _plan_sections(
    plan: ExplainedPlan, name: str, changed: dict[int, str] | None = None, where: Formats = EVERYWHERE
) -> list[Section]:
    lines = tuple(tree_lines(plan, changed))
    blocks: list[Block] = [Paragraph(line) for line in _account(plan)]
    if plan.sql or plan.statement:
        shown = Code(str(plan.sql or plan.statement), characters_max=_STATEMENT_MAX)
        blocks.append(replace(shown, where=EVERYWHERE - HTML))
        blocks.append(Fold("Statement", (shown,), where=HTML))
    if plan.findings:
        blocks.append(bullets([finding.sentence for finding in plan.findings], title="Findings"))
    if plan.executed:
        lines = (heading(), *lines)
    blocks += [
        Tree(lines, where=TERMINAL),
        Fold("Nodes with their own time", (Tree(lines),), is_open=True, where=HTML),
        Code(text_lines(lines), characters_max=200_000, where=MARKDOWN),
    ]
    blocks += [Paragraph(line, QUIET) for line in _beside_plan(plan)]
    shown_blocks = tuple(replace(block, where=block.where & where) for block in blocks)
    sections = [Section(name, f"plan-{name or '1'}".replace(" ", "-").lower(), shown_blocks)]
    return sections if changed is not None else [*sections, _to_do(plan, "What to do")]


def _account(plan: ExplainedPlan) -> list[str]:
    """The statement's time, part by part."""
    if not plan.executed:
        return [f"Not executed: estimates only{_planned(plan)}.{_version(plan)}"]
    if plan.execution_ms is None:
        head = "Executed; the text ends before the Execution Time"
        if plan.nodes_ms is not None:
            head += f": the nodes took {milliseconds(plan.nodes_ms)}"
        return [f"{head}{_planned(plan)}.{_version(plan)}"]
    parts = []
    if plan.nodes_ms is not None:
        parts.append(f"nodes {milliseconds(plan.nodes_ms)}")
    if plan.triggers_ms:
        parts.append(f"triggers {milliseconds(plan.triggers_ms)}")
    if plan.serialization_ms:
        parts.append(f"serialization {milliseconds(plan.serialization_ms)}")
    if plan.unattributed_ms is not None:
        share = (
            f" ({percent_fixed(plan.unattributed_ms / plan.execution_ms, 1)})" if plan.execution_ms else ""
        )
        parts.append(f"unattributed {milliseconds(plan.unattributed_ms)}{share}")
    account = f": {', '.join(parts)}" if parts else ", without the times of its nodes"
    lines = [f"Executed in {milliseconds(plan.execution_ms)}{account}{_planned(plan)}.{_version(plan)}"]
    if plan.rounding_ms and plan.execution_ms and plan.rounding_ms > 0.02 * plan.execution_ms:
        lines.append(
            f"EXPLAIN rounds each loop's time to a microsecond: with these loops, "
            f"{milliseconds(plan.rounding_ms)} of own times may be attributed to the wrong node."
        )
    return lines


def _planned(plan: ExplainedPlan) -> str:
    return "" if plan.planning_ms is None else f"; planned in {milliseconds(plan.planning_ms)}"


def _version(plan: ExplainedPlan) -> str:
    if plan.major_min is None or plan.major_max is None:
        return ""
    if plan.major_min == plan.major_max:
        return f" {_MAJOR_WORDS} {plan.major_min}."
    return f" Looks like {_MAJOR_WORDS} {plan.major_min} to {plan.major_max}."


def _beside_plan(plan: ExplainedPlan) -> list[str]:
    lines = []
    if plan.settings:
        lines.append("Settings: " + ", ".join(f"{name} = {value}" for name, value in plan.settings.items()))
    if plan.planning_memory_used_kb:
        lines.append(f"Planning took {plan.planning_memory_used_kb:,} kB of memory.")
    if plan.jit_functions:
        options = f" ({', '.join(plan.jit_options)})" if plan.jit_options else ""
        lines.append(
            f"JIT compiled {plan.jit_functions} functions in {milliseconds(plan.jit_ms) or '?'}{options}."
        )
    places = {
        "after": "after the plan",
        "within": "within a node's own time",
        None: "before or after its row",
    }
    for trigger in plan.triggers:
        time = f" {milliseconds(trigger.ms)}," if trigger.ms is not None else ""
        name = trigger.constraint or trigger.name
        lines.append(f"Trigger {name}:{time} {trigger.calls or 0:,.0f} calls, {places[trigger.ran]}.")
    return lines
