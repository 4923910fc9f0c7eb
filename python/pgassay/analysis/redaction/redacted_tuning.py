"""An answer of `tune` without the literals of its SQL: of statements, conditions, plans and scripts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from pgassay.analysis.redaction.redacted_sentences import name_without_literals, sentence_without_literals
from pgassay.model.tuning.source import TuneSource
from pgassay.model.tuning.tune_answer import Fix, StatementAnswer, SymptomStatement, TuneProof, TuneResult
from pgassay.sql_text import REDACTED, literals, without_literals

# What is left of each text that sentences may quote, the longest first.
Known = Mapping[str, str]
# A literal with what stands before and around its text.
_LITERAL = re.compile(r"(?:[A-Za-z]|[uU]&)?'(.*?)'?|(\$\w*\$)(.*?)(?:\2)?", re.DOTALL)
_CONDITION = " where "
# Lines of scripts whose literals are pgassay's own: limits, and what settings were.
_OF_NO_DATA = (
    *("SET lock_timeout", "SELECT pg_catalog.", "\\set ", "SELECT 'DROP INDEX"),
    *("SELECT CASE WHEN mine.setting", "DO $pgassay$ DECLARE mine record;"),
    "SELECT 'DROP TABLE public.pgassay_settings_kept",
    *("INSERT INTO public.pgassay_settings_kept", "DELETE FROM public.pgassay_settings_kept"),
)


def redacted(result: TuneResult) -> TuneResult:
    """The answer as it may be shown to others; names of tables, columns and statements stay.

    Sentences quote conditions of plans: every literal that stands anywhere in the SQL is left out of them,
    and so are the numbers of an index's condition.
    """
    known = _known(result)
    rewritten = [sql for fix in result.fixes for sql in fix.rewritten.values()]
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
            "statements": tuple(_answer(each, known) for each in result.statements),
            "verdict": _without(result.verdict, known),
            "proof": result.proof and _proof(result.proof, known),
            "confirmation": result.confirmation and _proof(result.confirmation, known),
            "apply_sql": _script(result.apply_sql, known, rewritten),
            "undo_sql": _script(result.undo_sql, known, rewritten),
            "not_rewritten": tuple(_without(each, known) for each in result.not_rewritten),
            "warnings": tuple(_without(each, known) for each in result.warnings),
        }
    )


def _known(result: TuneResult) -> Known:
    """Every text literal of the SQL, with its quotes and without, and every condition of an index.

    Other numbers stay in sentences, where they are figures; single letters would tear words apart.
    """
    found: dict[str, str] = {}
    for sql in _sql_of(result):
        for each in literals(sql):
            if each.kind in ("string", "unclear"):
                text = sql[each.begin : each.end]
                found |= {form: REDACTED for form in (text, *_texts_in(text)) if len(form.strip("'")) > 1}
    for fix in result.fixes:
        condition = fix.id.partition(_CONDITION)[2]
        if condition:
            found[condition] = without_literals(condition)
    return dict(sorted(found.items(), key=lambda each: (-len(each[0]), each[0])))


def _texts_in(literal: str) -> Iterator[str]:
    """The text of a literal as it is written, and as it is read."""
    match = _LITERAL.fullmatch(literal)
    if match is not None:
        text = match[1] if match[1] is not None else match[3]
        yield from (text, text.replace("''", "'"), re.sub(r"\\(.)", r"\1", text))


def _sql_of(result: TuneResult) -> Iterable[str]:
    for statement in result.symptom.statements:
        yield statement.sql
    for fix in result.fixes:
        yield from (fix.sql, fix.undo, *fix.rewritten.values())


def _statement(statement: SymptomStatement, known: Known) -> SymptomStatement:
    return statement.model_copy(
        update={
            "sql": without_literals(statement.sql),
            "plan": _without(statement.plan, known),
            "unlike_source": _without(statement.unlike_source, known),
        }
    )


def _source(source: TuneSource, known: Known) -> TuneSource:
    left_out = (
        each.model_copy(update={"sql": without_literals(each.sql), "reason": _without(each.reason, known)})
        for each in source.left_out
    )
    return source.model_copy(update={"left_out": tuple(left_out)})


def _fix(fix: Fix, known: Known) -> Fix:
    return fix.model_copy(
        update={
            "id": _name(fix.id, known),
            "title": _name(fix.title, known),
            "reason": _without(fix.reason, known),
            "note": _without(fix.note, known),
            "sql": without_literals(fix.sql),
            "undo": without_literals(fix.undo),
            "rewritten": {name: without_literals(sql) for name, sql in fix.rewritten.items()},
        }
    )


def _answer(answer: StatementAnswer, known: Known) -> StatementAnswer:
    named = {key: tuple(_name(each, known) for each in getattr(answer, key)) for key in ("fixes", "unproven")}
    return answer.model_copy(update=named)


def _proof(proof: TuneProof, known: Known) -> TuneProof:
    return proof.model_copy(update={"members": tuple(_name(each, known) for each in proof.members)})


def _script(text: str, known: Known, rewritten: Iterable[str]) -> str:
    """Comments hold rewritten statements and titles, so that each of their lines is gone through by itself.

    But a literal may have several lines: statements are gone through whole.
    """
    for sql in rewritten:
        text = text.replace(_as_comment(sql), _as_comment(without_literals(sql)))
    parts = []
    for is_statement, lines in groupby(text.splitlines(), _is_statement):
        if is_statement:
            parts.append(without_literals("\n".join(lines)))
            continue
        for line in lines:
            is_comment = line.startswith("-- ")
            parts.append(f"-- {_without(without_literals(line[3:]), known)}" if is_comment else line)
    return "\n".join(parts) + ("\n" if text else "")


def _is_statement(line: str) -> bool:
    return not line.startswith(("-- ", *_OF_NO_DATA))


def _as_comment(sql: str) -> str:
    return "\n".join(f"-- {line}" for line in sql.splitlines())


def _name(text: str, known: Known) -> str:
    return _without(name_without_literals(text), known)


def _without(text: str, known: Known) -> str:
    for original, left in known.items():
        text = text.replace(original, left)
    return sentence_without_literals(text)
