"""An answer of `tune` without the literals of its SQL: of statements, conditions, plans and scripts."""

import re
from collections.abc import Iterable

from pgassay.model.tuning.answer import Fix, SymptomStatement, TuneResult
from pgassay.model.tuning.source import TuneSource
from pgassay.sql_text import REDACTED, literals, without_literals

# A text literal within a sentence, no apostrophe of a word; and what a server quotes of a value that it
# refuses, which stands after a colon (`invalid input syntax for type integer: "…"`), or of a key: (id)=(…).
_QUOTED = re.compile(r"(?<![A-Za-z0-9])[EBXNebxn]?'(?:[^']|'')*'|(?<=: )\"[^\"]*\"|(?<=\)=)\([^()]*\)")


def sentence_without_literals(text: str) -> str:
    """A sentence that may quote SQL, a plan or a server's complaint, without the text literals in it."""
    return _QUOTED.sub(REDACTED, text)


# Lines of scripts whose literals are pgassay's own: limits, and what settings were.
_OF_NO_DATA = ("SET lock_timeout", "SELECT pg_catalog.")


def redacted(result: TuneResult) -> TuneResult:
    """The answer as it may be shown to others; names of tables, columns and statements stay.

    Sentences quote conditions of plans: every literal that stands anywhere in the SQL is left out of them.
    """
    known = _known_literals(result)
    return result.model_copy(
        update={
            "symptom": result.symptom.model_copy(
                update={
                    "statements": tuple(_statement(each, known) for each in result.symptom.statements),
                    "copy_notes": tuple(_without(each, known) for each in result.symptom.copy_notes),
                    "source": result.symptom.source and _source(result.symptom.source, known),
                }
            ),
            "cause": result.cause.model_copy(update={"sentence": _without(result.cause.sentence, known)}),
            "fixes": tuple(_fix(each, known) for each in result.fixes),
            "verdict": _without(result.verdict, known),
            "apply_sql": _script(result.apply_sql, known),
            "undo_sql": _script(result.undo_sql, known),
            "not_rewritten": tuple(_without(each, known) for each in result.not_rewritten),
            "warnings": tuple(_without(each, known) for each in result.warnings),
        }
    )


def _known_literals(result: TuneResult) -> tuple[str, ...]:
    """Every text literal of the SQL with its quotes and without, the longest first.

    Numbers stay in sentences, where they are figures; single letters would tear words apart.
    """
    found = set()
    for sql in _sql_of(result):
        for each in literals(sql):
            text = sql[each.begin : each.end]
            if each.kind in ("string", "unclear") and len(text.strip("'")) > 1:
                found |= {text, text.strip("'")}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _sql_of(result: TuneResult) -> Iterable[str]:
    for statement in result.symptom.statements:
        yield statement.sql
    for fix in result.fixes:
        yield from (fix.sql, fix.undo, *fix.rewritten.values())


def _statement(statement: SymptomStatement, known: tuple[str, ...]) -> SymptomStatement:
    return statement.model_copy(
        update={
            "sql": without_literals(statement.sql),
            "plan": _without(statement.plan, known),
            "unlike_source": _without(statement.unlike_source, known),
        }
    )


def _source(source: TuneSource, known: tuple[str, ...]) -> TuneSource:
    left_out = (
        each.model_copy(update={"sql": without_literals(each.sql), "reason": _without(each.reason, known)})
        for each in source.left_out
    )
    return source.model_copy(update={"left_out": tuple(left_out)})


def _fix(fix: Fix, known: tuple[str, ...]) -> Fix:
    return fix.model_copy(
        update={
            "id": _without(fix.id, known),
            "title": _without(fix.title, known),
            "reason": _without(fix.reason, known),
            "note": _without(fix.note, known),
            "sql": without_literals(fix.sql),
            "undo": without_literals(fix.undo),
            "rewritten": {name: without_literals(sql) for name, sql in fix.rewritten.items()},
        }
    )


def _script(text: str, known: tuple[str, ...]) -> str:
    """Comments hold rewritten statements and titles, so that every line is gone through by itself."""
    lines = []
    for line in text.splitlines():
        if line.startswith("-- "):
            lines.append(f"-- {_without(without_literals(line[3:]), known)}")
        else:
            lines.append(line if line.startswith(_OF_NO_DATA) else without_literals(line))
    return "\n".join(lines) + ("\n" if text else "")


def _without(text: str, known: tuple[str, ...]) -> str:
    for literal in known:
        text = text.replace(literal, REDACTED)
    return sentence_without_literals(text)
