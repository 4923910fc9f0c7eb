"""From a stored diagnosis to statements: those that it names, with the values that somebody gives them.

A diagnosis knows statements as pg_stat_statements shows them, without their constants, and cuts long texts.
So a statement is taken as it is where it has no parameter, and with the values of a file of statements where
one there is the same but for its constants, by the fingerprint of PostgreSQL's grammar.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from pglast import fingerprint
from pglast.parser import ParseError

from pgassay.errors import UsageError
from pgassay.model.build import major_of
from pgassay.model.running_server.diagnosis import QUERY_CHARACTERS_MAX, Diagnosis
from pgassay.model.workload import Statement
from pgassay.record.documents import read_result
from pgassay.sql_text import REDACTED, without_literals
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.inputs.base import Start, workload_named
from pgassay.tune.tuned_statements import checked, parameters_in, statements_of
from pgassay.workloads.registry import parse_workload

# How much of a statement's text names it in a sentence.
_NAMED_BY = 60
NO_VALUES = "has parameters whose values are not known"


def read_diagnosis(file: Path) -> Diagnosis:
    """The document of `pgassay diagnose --json`; raises UsageError for another version's."""
    return read_result(file, Diagnosis, "diagnosis", "run diagnose again")


def start_of_diagnosis(file: Path, workload: str | None) -> tuple[str, Start]:
    """(the server's major version, its statements that can be run), by `workload` the file of values.

    Each counts as often as it was called meanwhile. Raises UsageError where none can be run.
    """
    diagnosis = read_diagnosis(file)
    server = diagnosis.server.name
    typed = () if workload is None else statements_of(parse_workload(workload))
    taken, left_out = _matched(_queries(diagnosis), typed)
    if not taken:
        raise UsageError(
            f"{file} has no statement whose values are known: write the slow ones into a file, each "
            "with a line '-- parameters: 42, 'open'', and use --workload sql:FILE"
            + ("" if not left_out else f" ({'; '.join(left_out)})")
        )
    notes = [f"the statements are those of {server}, diagnosed {diagnosis.started_at}", *left_out]
    notes += [
        f"the diagnosis of {server} says {cause.cause} ({cause.layer})"
        + ("" if cause.share is None else f", {cause.share:.0%} of the time")
        for cause in diagnosis.causes[:1]
    ]
    if diagnosis.statements is None:
        notes.append(
            f"{server} had no pg_stat_statements, so it is not known how often each statement runs: "
            "all have the same weight"
        )
    text = f"statements of {server}"
    return str(major_of(diagnosis.server.version)), Start(
        workload_named(text, taken), taken, None, tuple(notes)
    )


def _queries(diagnosis: Diagnosis) -> list[tuple[str, float]]:
    """Each statement's text with how often it ran; 1 where only samples tell of it."""
    if diagnosis.statements is not None:
        return [(each.query, float(each.calls)) for each in diagnosis.statements if each.query]
    return [(each.query, 1.0) for each in diagnosis.sampled if each.query]


def _matched(
    queries: Sequence[tuple[str, float]], typed: Sequence[TunedStatement]
) -> tuple[tuple[TunedStatement, ...], list[str]]:
    """The statements that can be run, and a sentence for those that can't, and for those typed in vain."""
    by_print = {print_: each for each in typed if (print_ := _print(each.sql))}
    taken: dict[str, TunedStatement] = {}
    reasons: dict[str, list[str]] = {}
    for number, (query, calls) in enumerate(queries, start=1):
        found = by_print.get(_print(query)) or _beginning_so(query, typed)
        if found is not None:
            before = taken.get(found.name)
            weight = calls + (before.weight if before else 0.0)
            taken[found.name] = found.model_copy(update={"weight": weight})
            continue
        name = _name(number, typed)
        reason = _why_not(query)
        if not reason:
            try:
                taken[name] = checked(Statement(name=name, sql=query), "", "the diagnosis").model_copy(
                    update={"weight": calls}
                )
                continue
            except UsageError as error:
                reason = (
                    "accesses something outside the database"
                    if "accesses something outside" in str(error)
                    else "has no plan"
                )
        reasons.setdefault(reason, []).append(f"'{' '.join(without_literals(query).split())[:_NAMED_BY]}'")
    sentences = [f"left out, since each {reason}: {', '.join(names)}" for reason, names in reasons.items()]
    idle = [each.name for each in typed if each.name not in taken]
    if idle:
        sentences.append(f"left out, since the diagnosis has no figures for them: {', '.join(idle)}")
    return tuple(taken.values()), sentences


def _name(number: int, typed: Sequence[TunedStatement]) -> str:
    """A name for a statement of the diagnosis that none of the file has, whose own are `statement-N` too."""
    name = f"statement-{number}"
    while any(each.name == name for each in typed):
        name += "-diagnosed"
    return name


def _why_not(query: str) -> str:
    if len(query) >= QUERY_CHARACTERS_MAX:
        return f"was cut at {QUERY_CHARACTERS_MAX} characters"
    try:
        return NO_VALUES if parameters_in(query) else ""
    except UsageError:
        return NO_VALUES if REDACTED in query and _print(query) else "is not SQL that can be parsed"


def _print(sql: str) -> str:
    """What two texts have in common that differ in constants alone; '' for what can't be parsed.

    A sampled statement has a mark in the place of each constant.
    """
    for text in (sql, sql.replace(REDACTED, "1")):
        with contextlib.suppress(ParseError, ValueError):
            return str(fingerprint(text))
    return ""


def _beginning_so(query: str, typed: Sequence[TunedStatement]) -> TunedStatement | None:
    """The statement of the file whose text begins as one that was cut."""
    if len(query) < QUERY_CHARACTERS_MAX:
        return None
    wanted = " ".join(query.split()).lower()
    return next((each for each in typed if " ".join(each.sql.split()).lower().startswith(wanted)), None)
