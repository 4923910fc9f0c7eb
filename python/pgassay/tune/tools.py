"""The parts that tune is given: who reads a schema, who proposes candidates, who compares results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import PgassayError
from pgassay.tune.candidate import Candidate, RewriteProof, StatementRewrite, Symptom, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.registry import RewriteDescription, Rewritten
from pgassay.tune.same_results.check import SameResults
from pgassay.tune.search.record import SearchRecord


class Compares(Protocol):
    """Whether two statements return the same rows: on the data, and on small instances of the schema."""

    def __call__(
        self,
        connection: ControlSession,
        original: TunedStatement,
        other_sql: str,
        facts: SchemaFacts,
        *,
        proof: RewriteProof | None,
        on_data: bool = True,
    ) -> SameResults:
        """Compare them; `proof` is the rewrite's. `on_data`: on the data too, not on instances alone."""


@dataclass(frozen=True)
class TuneTools:
    """The parts, each replaceable: `rewrites` None where no statement is to be rewritten."""

    read_facts: Callable[[ControlSession], SchemaFacts]
    find: Callable[[Symptom], tuple[Candidate, ...]]
    rewrites: Callable[[TunedStatement, SchemaFacts], Rewritten] | None = None
    same_results: Compares | None = None


# What a rewrite saves is not predicted: half of its statement's time puts it among the others.
REWRITE_SAVES = 0.5
BY_ESTIMATE = "by the planner's estimate"
# Kinds of fixes that remove dead rows, or the space that they left.
_OF_VACUUM = ("vacuum", "bloat")
NOT_ON_A_DUMP = "a dump does not preserve what this fixes: give a physical copy, --dataset folder:BASEBACKUP"
DESCRIBED = "it needs a change in the application, so it is described, not tried"


def gather(tools: TuneTools, symptom: Symptom, session: ControlSession) -> SearchRecord:
    """Ask all finders, rewrite every statement, and check what must be checked before it is tried."""
    candidates = list(found_by(tools, symptom))
    checks: dict[str, str] = {}
    unsafe: dict[str, str] = {}
    refused: list[str] = []
    if tools.rewrites is not None:
        for statement in symptom.statements:
            rewritten = tools.rewrites(statement, symptom.facts)
            refused += [f"{statement.name}, {each.kind}: {each.reason}" for each in rewritten.refused]
            candidates += [_described(statement, each) for each in rewritten.described]
            candidates += [_candidate(each, number) for number, each in enumerate(rewritten.found, start=1)]
    candidates = list({candidate.id: candidate for candidate in candidates}.values())
    candidates.sort(key=lambda each: -_expected(each, symptom))
    by_name = {statement.name: statement for statement in symptom.statements}
    for candidate in candidates:
        for rewrite in candidate.rewrites:
            said, why = _sameness(tools, session, by_name[rewrite.statement], rewrite, symptom)
            if why:
                unsafe[candidate.id] = why
            checks[candidate.id] = said
    left_out = {each.id: DESCRIBED for each in candidates if each.described}
    if not symptom.has_physical_state:
        left_out |= {each.id: NOT_ON_A_DUMP for each in candidates if each.physical}
    # What holds for the source counts before what the copy lacks.
    left_out |= {each.id: each.why_not for each in candidates if each.why_not}
    return SearchRecord(
        candidates=tuple(candidates), checks=checks, unsafe=unsafe, left_out=left_out, refused=tuple(refused)
    )


def found_by(tools: TuneTools, symptom: Symptom) -> tuple[Candidate, ...]:
    """What the finders offer; the reason of what rests on an estimated plan alone says so."""
    return tuple(
        _held(each, symptom.held_by).model_copy(update={"reason": f"{BY_ESTIMATE}: {each.reason}"})
        if each.statements and symptom.endless.issuperset(each.statements) and BY_ESTIMATE not in each.reason
        else _held(each, symptom.held_by)
        for each in tools.find(symptom)
    )


def _held(candidate: Candidate, held_by: str) -> Candidate:
    """What VACUUM does on the copy, and can't do on the source before somebody ends: told and not tried."""
    if not held_by or candidate.kind not in _OF_VACUUM:
        return candidate
    return candidate.model_copy(
        update={
            "why_not": f"on the source {held_by} keeps VACUUM from removing dead rows, which is not "
            "the case on the copy: end that first, then VACUUM"
        }
    )


def _expected(candidate: Candidate, symptom: Symptom) -> float:
    """The part of the workload's time that it may save: what is tried first when time is short."""
    if candidate.rewrites:
        return REWRITE_SAVES * sum(symptom.share.get(each.statement, 0.0) for each in candidate.rewrites)
    return sum((1 - ratio) * symptom.share.get(name, 0.0) for name, ratio in candidate.predicted.items())


def _candidate(rewrite: StatementRewrite, number: int) -> Candidate:
    words = rewrite.kind.replace("-", " ").replace("_", " ")
    return Candidate(
        id=f"rewrite:{rewrite.statement}:{rewrite.kind}:{number}",
        layer="design",
        kind=rewrite.kind,
        title=f"Rewrite {rewrite.statement} ({words})",
        reason="; ".join(filter(None, (rewrite.problem, f"the same rows: {rewrite.condition.rstrip('.')}"))),
        statements=(rewrite.statement,),
        rewrites=(rewrite,),
    )


def _described(statement: TunedStatement, description: RewriteDescription) -> Candidate:
    return Candidate(
        id=f"described:{statement.name}:{description.kind}",
        layer="design",
        kind=description.kind,
        title=f"Application change for {statement.name} ({description.kind})",
        reason=description.text,
        statements=(statement.name,),
        described=True,
    )


def _sameness(
    tools: TuneTools,
    session: ControlSession,
    statement: TunedStatement,
    rewrite: StatementRewrite,
    symptom: Symptom,
) -> tuple[str, str]:
    """(what is said of the same results, why the rewrite is not to be used or '')."""
    if tools.same_results is None:
        return ("proven", "") if rewrite.proof == "proven" else ("not checked", "its rows were not compared")
    try:
        found = tools.same_results(
            session,
            statement,
            rewrite.sql,
            symptom.facts,
            proof=rewrite.proof,
            on_data=statement.name not in symptom.endless,
        )
    except PgassayError as error:
        return "not checked", f"whether it returns the same rows could not be checked: {error}"
    if found.accepted:
        return found.words, ""
    return "not checked", f"{found.words}: {found.reason}"
