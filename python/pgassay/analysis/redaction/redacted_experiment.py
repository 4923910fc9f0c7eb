"""A stored experiment without the literals of its SQL, before anything is made of it.

Statements, `--prepare`, plans, and what servers said of failures: whatever is analysed or shown afterwards
can tell no more. Names of tables, columns, files and statements stay, and so do all figures.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pgassay.analysis.redaction.redacted_sentences import name_without_literals
from pgassay.model.experiment import Experiment
from pgassay.model.plans.executed_plan import WorkPlan
from pgassay.model.result import CompareResult
from pgassay.plans.redacted_plans import redacted_document
from pgassay.record.experiment import StoredExperiment, StoredTrial
from pgassay.sql_text import without_literals

# Keys of experiment.json below which every text is SQL, or a list of it.
_SQL_KEYS = frozenset({"sql", "before", "prepare"})
# The factor of a proof of tune's, whose levels are called by the ids of fixes.
_FIXES = "fixes"
_FILE = re.compile(r"\S+\.sql(,writes=\w+)?|none|")
# What servers said stands in parentheses or after a colon, and may quote the data.
_SAID = re.compile(r"\(.*\)|: .*", re.DOTALL)
_SAID_BY_SERVERS = ("the server refused it", "the data could not be restored", "whether it could write")
_FAILURE = re.compile(r"\bfailed\b|\bwas lost\b")
_LEFT_OUT = " (left out)"


def redacted(stored: StoredExperiment) -> StoredExperiment:
    """The experiment as it may be shown to others; its arms keep their order, ids and figures."""
    document = stored.experiment.model_dump(mode="json", by_alias=True)
    texts = _texts_of(document)
    warnings = tuple(_with_texts(sentence, texts) for sentence in stored.warnings)
    return replace(
        stored,
        experiment=Experiment.model_validate(_replaced(document, texts)),
        trials=tuple(_redacted_trial(trial, texts) for trial in stored.trials),
        warnings=warnings,
    )


def redacted_result(result: CompareResult) -> CompareResult:
    """The result of a redacted experiment, without the literals in statements that the server counted.

    pg_stat_statements replaces constants in most of them, not in utility commands.
    """
    arms = tuple(
        arm.model_copy(
            update={
                "statements": tuple(
                    each.model_copy(update={"query": without_literals(each.query)}) for each in arm.statements
                )
            }
        )
        for arm in result.server_statements
    )
    return result.model_copy(update={"server_statements": arms})


# --- The plan of the experiment.


def _texts_of(document: object) -> dict[str, str]:
    """Every SQL text of experiment.json that changes → what is left of it, the longest first.

    Levels that differ in literals alone are numbered: what is told of one is not another's.
    """
    found: dict[str, str] = {}
    levels: set[str] = set()
    for key, text, is_level in _sql_of(document):
        if key in _SQL_KEYS and not _FILE.fullmatch(text):
            found[text] = without_literals(text)
        elif key == _FIXES and is_level:
            found[text] = name_without_literals(text)
        levels |= {text} if is_level and text in found else set()
    seen: Counter[str] = Counter()
    for text, left in found.items():
        if text in levels:
            seen[left] += 1
            found[text] = left if seen[left] == 1 else f"{left} ({seen[left]})"
    ordered = sorted(found.items(), key=lambda each: -len(each[0]))
    return {text: left for text, left in ordered if left != text}


def _sql_of(value: object, key: str = "", above: str = "") -> Iterator[tuple[str, str, bool]]:
    """Each text with the key that it stands below, and whether it is an arm's level."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _sql_of(item, str(name), key)
    elif isinstance(value, list):
        for item in value:
            yield from _sql_of(item, key, above)
    elif isinstance(value, str):
        yield key, value, above == "levels"


def _replaced(value: object, texts: Mapping[str, str], key: str = "") -> object:
    """The document with these texts replaced, wherever they stand: in names, titles and sentences as well."""
    if isinstance(value, dict):
        return {name: _replaced(item, texts, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return _command(value, texts) if key == "command" else [_replaced(item, texts, key) for item in value]
    return _with_texts(value, texts) if isinstance(value, str) else value


def _command(words: Iterable[object], texts: Mapping[str, str]) -> list[str]:
    """The command line: what --prepare and prepare= were given may be written otherwise than it is stored."""
    made: list[str] = []
    for word in map(str, words):
        name, equals, value = word.partition("=")
        if made and made[-1] == "--prepare":
            made.append(word if _FILE.fullmatch(word) else without_literals(word))
        elif equals and name.strip().lower() in ("--prepare", "prepare"):
            made.append(f"{name}={without_literals(value)}")
        else:
            made.append(_with_texts(word, texts))
    return made


def _with_texts(text: str, texts: Mapping[str, str]) -> str:
    for original, left in texts.items():
        text = text.replace(original, left)
    return text


# --- Trials.


def _redacted_trial(trial: StoredTrial, texts: Mapping[str, str]) -> StoredTrial:
    record = trial.record
    changes: dict[str, object] = {
        "warnings": tuple(
            _SAID.sub(_LEFT_OUT, each) if _FAILURE.search(each) else each for each in record.warnings
        )
    }
    if record.load is not None:
        changes["load"] = record.load.model_copy(update={"failure_examples": {}})
    if record.reason:
        changes["reason"] = _SAID.sub(_LEFT_OUT, _with_texts(record.reason, texts))
    return replace(
        trial,
        record=record.model_copy(update=changes),
        plans={name: _plan(plan) for name, plan in trial.plans.items()},
        work_plans={name: _work(work) for name, work in trial.work_plans.items()},
    )


def _plan(plan: object) -> object:
    if isinstance(plan, list):
        return [_plan(each) for each in plan]
    return redacted_document(plan) if isinstance(plan, Mapping) else None


def _work(work: WorkPlan) -> WorkPlan:
    document = None if work.document is None else redacted_document(work.document)
    reason = work.reason
    if reason.startswith(_SAID_BY_SERVERS):
        reason = _SAID.sub(_LEFT_OUT, reason)
    return work.model_copy(update={"document": document, "reason": reason})
