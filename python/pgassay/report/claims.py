"""Published claims with what was found of them."""

from collections import Counter
from functools import partial
from itertools import groupby
from typing import get_args

from pgassay.model.further_results.claims import ClaimedExperiment, ClaimsResult, ClaimVerdict, JudgedClaim
from pgassay.report.page import Page
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    QUIET,
    STRONG,
    TERMINAL,
    Block,
    Cell,
    Column,
    Group,
    Paragraph,
    Row,
    Section,
    Table,
)
from pgassay.words import duration_rounded, interval, join, plural, ratio

_TONES = {
    "reproduced": "faster",
    "refuted": "slower",
    "no difference here": "equivalent",
    "undecided": "inconclusive",
}
# A terminal has no room for six columns, two of them of sentences.
_PAGES = MARKDOWN | HTML
_COLUMNS = (
    Column("claim", is_figure=False),
    Column("published"),
    Column("here"),
    Column("interval", where=_PAGES),
    Column("verdict", is_figure=False, where=_PAGES),
    Column("why", is_figure=False, where=_PAGES),
    Column("verdict", is_figure=False, where=TERMINAL),
)
_LISTED = (Column("claim", is_figure=False), Column("published"), Column("needs", is_figure=False))
_NOT_RUN = "not run"
_RATIOS = (
    "Ratios are speeds relative to the arm compared with: above 1 is faster. For blocks, figures and prices "
    "above 1 is more."
)
# Of so few each has a sentence at the top; of more those that differ from what was published.
_EACH_AT_THE_TOP = 3
_NOT_AS_PUBLISHED: tuple[ClaimVerdict, ...] = ("refuted", "no difference here", "same direction, other size")
_CONTINUE = (
    "The same command continues: undecided claims get more blocks, and experiments that were not run are "
    "run. Use a larger --max-time for experiments that take longer."
)


def page_of(result: ClaimsResult) -> Page:
    """The claims, a row for each."""
    return Page("Published claims", result, partial(_sections, result))


def _sections(result: ClaimsResult) -> list[Section]:
    is_judged = bool(result.folder)
    is_told = bool(_shared_reason(result))
    groups = []
    for file, claims in groupby(result.claims, key=lambda claim: claim.file):
        rows = tuple(Row(tuple(_cells(claim, is_judged=is_judged, is_told=is_told))) for claim in claims)
        groups.append(Group(rows, heading="" if result.file else file))
    table = Table(_COLUMNS if is_judged else _LISTED, tuple(groups), grouped_by="" if result.file else "file")
    opening = _opening(result) if is_judged else []
    return [
        Section("", "answer", tuple(opening)),
        Section("Claims", "claims", (table,)),
        Section("About these figures", "notes", tuple(_notes(result)), titled=HTML),
    ]


def _opening(result: ClaimsResult) -> list[Block]:
    """The answer: of few claims each with its figure, of many how many have which verdict."""
    if len(result.claims) <= _EACH_AT_THE_TOP:
        return [Paragraph(_sentence(claim), STRONG) for claim in result.claims]
    shared = _shared_reason(result)
    opening: list[Block] = [Paragraph("; ".join(filter(None, (_summary(result), shared))), STRONG)]
    for verdict in _NOT_AS_PUBLISHED:
        named = [claim.id for claim in result.claims if claim.verdict == verdict]
        if named:
            opening.append(Paragraph(f"{verdict.capitalize()}: {', '.join(named)}."))
    return opening


def _shared_reason(result: ClaimsResult) -> str:
    """Why none of many claims was tried, where it is one reason for all: it stands once at the top."""
    reasons = {(claim.verdict, claim.why) for claim in result.claims}
    if len(result.claims) <= _EACH_AT_THE_TOP or len(reasons) > 1:
        return ""
    ((verdict, why),) = reasons
    return why if verdict in (None, "can't be tried here") and result.folder else ""


def _sentence(claim: JudgedClaim) -> str:
    """'sort-in-memory: reproduced, 1.49 × as fast here (1.31 – 1.66); published: 1.32×'."""
    parts = claim.why.split("; ")
    # Of what is counted or paid for the figures come first, and the interval is that of their ratio.
    of_ratio = (each for each in parts if each.endswith(" here") or " here, " in each)
    reason = next(of_ratio, parts[0]) or "no time was left for it"
    found = "" if claim.interval is None else f" ({interval(claim.interval)})"
    if claim.verdict == "undecided" and claim.here is not None:
        reason, found = f"{ratio(claim.here)} here{found}: {reason}", ""
    published = "" if claim.published is None else f"; published: {ratio(claim.published)}"
    return f"{claim.id}: {claim.verdict or _NOT_RUN}, {reason}{found}{published}"


def _summary(result: ClaimsResult) -> str:
    """How many claims have which verdict: '19 claims: 5 reproduced, 2 refuted'."""
    counted = Counter(claim.verdict or _NOT_RUN for claim in result.claims)
    words = (*get_args(ClaimVerdict), _NOT_RUN)
    found = ", ".join(f"{counted[word]} {word}" for word in words if counted[word])
    return f"{plural(len(result.claims), 'claim')}: {found}"


def _notes(result: ClaimsResult) -> list[Block]:
    sources = dict.fromkeys(_source(claim) for claim in result.claims)
    notes: list[Block] = [Paragraph(f"Published: {source}.", QUIET) for source in sources]
    if not result.folder:
        unread = [f"{each.file} can't be run here: {each.note}" for each in result.experiments]
        return [*notes, *map(Paragraph, unread)]
    # Of the results of 'pgassay run' the folder is the experiment's own, and that command ended.
    is_of_a_run = any(each.folder != result.folder for each in result.experiments)
    if is_of_a_run and any(claim.verdict in (None, "undecided") for claim in result.claims):
        notes.append(Paragraph(_CONTINUE))
    notes.append(Paragraph(_RATIOS, QUIET))
    notes.append(Paragraph(result.family, QUIET))
    caveats: dict[str, list[str]] = {}
    for experiment in result.experiments:
        for caveat in experiment.caveats:
            caveats.setdefault(caveat, []).append(experiment.file)
    for caveat, files in caveats.items():
        notes.append(Paragraph(caveat if result.file else f"{caveat} So in {join(files)}.", QUIET))
    commands = dict.fromkeys((claim.file, claim.command) for claim in result.claims)
    took = {each.file: _took(each) for each in result.experiments}
    notes += [Paragraph(f"Again: {command}{took.get(file, '')}", QUIET) for file, command in commands]
    return notes


def _took(experiment: ClaimedExperiment) -> str:
    if not experiment.blocks:
        return ""
    caches = f"; caches: {experiment.cache}" if experiment.cache else ""
    blocks = plural(experiment.blocks, "block")
    took = f" ({blocks} in {duration_rounded(experiment.seconds_used)}{caches})"
    return f"{took}; {experiment.note}" if experiment.note else took


def _source(claim: JudgedClaim) -> str:
    source = claim.source
    return ", ".join(part for part in (source.title, source.date, source.url) if part)


def _cells(claim: JudgedClaim, *, is_judged: bool, is_told: bool) -> list[Cell]:
    """The cells of a row; `is_told`: the reason is that of all claims and stands at the top."""
    published = "" if claim.published is None else ratio(claim.published)
    name = Cell(f"{claim.id}: {claim.text}")
    if not is_judged:
        return [name, Cell(published), Cell(claim.why)]
    here = "" if claim.here is None else ratio(claim.here)
    found = "" if claim.interval is None else interval(claim.interval)
    verdict = claim.verdict or _NOT_RUN
    why = "" if is_told else claim.why
    return [
        name,
        Cell(published),
        Cell(here),
        Cell(found),
        Cell(verdict, _TONES.get(verdict, "")),
        Cell(why),
        Cell(_in_words(verdict, found, why), _TONES.get(verdict, "")),
    ]


def _in_words(verdict: str, found: str, why: str) -> str:
    """A verdict with its interval and reason, for one column; the reason may end in figures of its own."""
    named = f"{verdict} ({found})" if found else verdict
    return f"{named}: {why}" if why else named
