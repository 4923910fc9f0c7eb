"""The answer of `pgassay tune`: the symptom, its cause, and every fix that was tried, ranked.

Times are seconds on the copy, in the cache state that is named. Ratios are speeds: old time over new time,
so that above 1 is faster with the fix.
"""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.tuning.source import TuneSource

TUNE_SCHEMA = 1
FixLayer = Literal["design", "operations", "infrastructure"]
FixVerdict = Literal["recommended", "no help", "not needed", "worse", "unsafe", "screened out", "not decided"]
# What the verdict rests on: fresh blocks of randomised trials, the search, the planner's word, or nothing.
Evidence = Literal["proof", "search", "planner", "none"]
StatementVerdict = Literal["faster", "slower", "not decided", "measured once", "as it was"]
Ends = tuple[float | None, float | None]
VERDICTS: tuple[FixVerdict, ...] = (
    *("recommended", "not needed", "no help", "worse", "unsafe", "screened out", "not decided"),
)


class SymptomStatement(Frozen):
    """One measured statement as it was found: a statement with one set of its parameters.

    `seconds`: the least of its runs; with `at_least` it did not end in them, and they are a lower bound.
    `weight`: how often it counts; `share`: its part of all, 0 to 1. `plan`: the node of its executed plan
    that took most, by the planner's estimate of one that did not end. Of a statement that was read from a
    server: `source_ms`, its mean time there; `source_share`, its part of the time of all statements there;
    `unlike_source`: why it is not on the copy what it is on the source, so that nothing is called proven for
    it; '' where it is.
    """

    name: str
    sql: str
    seconds: float
    share: float
    weight: float = 1.0
    writes: bool = False
    plan: str = ""
    at_least: bool = False
    source_ms: float | None = None
    source_share: float | None = None
    unlike_source: str = ""


class TuneSymptom(Frozen):
    """The workload as it is. `seconds`: all statements by weight; `copy_notes`: how the copy differs.

    `at_least`: a statement did not end, so that `seconds` are a lower bound.
    `source`: the server that its statements were read from; None for statements of a file. `clients`: by how
    many sessions at once the proof executes the statements; 1: one after the other. `measured_on`: the
    machine that settings are proven on, in words, where nothing is known of the server that they are for.
    """

    workload: str
    data: str
    version: str
    cache: str
    seconds: float
    statements: tuple[SymptomStatement, ...]
    at_least: bool = False
    copy_notes: tuple[str, ...] = ()
    source: TuneSource | None = None
    clients: int = 1
    measured_on: str = ""


class TuneCause(Frozen):
    """Which layer the time is lost in, and why: a name, and a sentence with the figures it rests on."""

    layer: FixLayer
    cause: str
    sentence: str = ""


class FixStatement(Frozen):
    """What a fix does to one statement. `interval`: None for what the search alone measured.

    `at_least`: without the fix it did not end and was stopped after `waited_s`, so that the ratio is a lower
    bound; not where it was stopped with the fix as well, which bounds nothing. `before_s`, `after_s`: the
    medians of the proof's trials without and with it.
    """

    name: str
    ratio: float
    interval: Ends | None = None
    at_least: bool = False
    waited_s: float | None = None
    before_s: float | None = None
    after_s: float | None = None


class FixCost(Frozen):
    """What a fix costs. None: not known.

    `build_s`: what applying it took on the copy; `bytes`: by how much the database grew; `write_ratio`: the
    time of the statements that write with the fix over without, above 1 is slower, None as well where one of
    them was stopped with the fix; `per_month`: what another
    volume costs more, in the currency of its price list; `wal_bytes`: the WAL that applying it wrote, which
    standbys replay.
    """

    build_s: float | None = None
    bytes: int | None = None
    write_ratio: float | None = None
    per_month: float | None = None
    wal_bytes: int | None = None


class Fix(Frozen):
    """A candidate with its verdict.

    `gain`: the speed of the whole workload with it over that without, as `evidence` says: in the proof the
    chosen set against the set without this member. `predicted_gain` was stored before the first proof trial.
    `applied_by`: 'sql', 'setting', 'setting and restart', 'statement' (its text is replaced) or 'hand'.
    `rewritten`: the new text of each statement that is replaced. `note`: what qualifies the verdict.
    `reason_of`: the statement whose plan the reason is of, '' where it is of none alone.
    `at_least`: without it a statement did not end, so that the gain and its interval are lower bounds.
    """

    rank: int
    id: str
    layer: FixLayer
    kind: str
    title: str
    reason: str
    sql: str
    undo: str
    verdict: FixVerdict
    evidence: Evidence
    gain: float | None = None
    interval: Ends | None = None
    at_least: bool = False
    predicted_gain: float | None = None
    statements: tuple[FixStatement, ...] = ()
    cost: FixCost = FixCost()
    same_results: str = "not checked"
    applied_by: str = "sql"
    rewritten: dict[str, str] = Field(default_factory=dict)
    note: str = ""
    reason_of: str = ""


class TuneProof(Frozen):
    """The experiment of fresh blocks. `gain`: all chosen fixes together over the workload as it was.

    `members`: the ids of the chosen fixes; `statements`: what the set does to each statement; `slower`: the
    names of those that it was found to make slower. `at_least`: a statement of the workload as it was did not
    end and was stopped, so that the gain and its interval are lower bounds. `left_out`: the names of those
    that did not end with the chosen set either, which the proof does not have. `assumption`: what its
    verdicts assume that so few starts of a server can't show, '' where they assume nothing.
    """

    folder: str
    members: tuple[str, ...]
    blocks: int
    stopped: str
    gain: float | None
    interval: Ends | None
    verdict: str
    predicted_gain: float | None = None
    statements: tuple[FixStatement, ...] = ()
    slower: tuple[str, ...] = ()
    at_least: bool = False
    left_out: tuple[str, ...] = ()
    assumption: str = ""


class StatementAnswer(Frozen):
    """What was chosen does to one statement of the symptom, by its name: what its user reads first.

    `seconds_before`, `seconds_after`: as it is, and with all that was chosen; `ratio`: the one over the
    other. `interval`: of the proof, at the level of the family of statements; None for what was measured
    once. `verdict`: 'faster' and 'slower' are proven; 'measured once' by the search alone; 'not decided' by
    the proof so far; 'as it was' where nothing that was chosen touches it, or what does is rejected.
    `fixes`: the ids of the chosen fixes that made it faster. `unproven`: those of them that are not
    recommended. `at_least`: as in FixStatement. `share`: its part of the workload's time as it is.
    `generic_before`, `generic_after`: its seconds where it is prepared once for all values of its
    parameters, if its plan is another one then.
    """

    name: str
    seconds_before: float
    seconds_after: float | None = None
    ratio: float | None = None
    interval: Ends | None = None
    verdict: StatementVerdict = "as it was"
    fixes: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    at_least: bool = False
    share: float = 0.0
    generic_before: float | None = None
    generic_after: float | None = None


class TuneResult(Frozen):
    """The contract for scripts; schema in schemas/tune.schema.json.

    `statements`: what was chosen does to each, which is the answer. `workload_gain`: the speed of the whole
    workload, each statement as often as it is called, with all that was chosen over that without; by the
    ratios of its statements.

    `confirmation`: the second stage of the proof, of what its first left of the set, where two or more
    members did not help; its verdicts take the place of the first's.

    `nothing_to_do`: it was shown that nothing is to be done; not so where anything is not decided, could not
    be tried, or did not end, or it was stopped before its end. `verdict`: the answer in a few sentences.
    `apply_sql` and `undo_sql` hold what is recommended, '' when nothing is. `interrupted`: it was stopped
    before its end. `go_on`: the command that goes on with a proof that came to no verdict, with the time that
    this should take; '' where there is none to go on with.
    """

    schema_: int = Field(default=TUNE_SCHEMA, alias="schema")
    folder: str
    symptom: TuneSymptom
    cause: TuneCause
    fixes: tuple[Fix, ...]
    nothing_to_do: bool
    statements: tuple[StatementAnswer, ...] = ()
    workload_gain: float | None = None
    verdict: str
    proof: TuneProof | None = None
    confirmation: TuneProof | None = None
    apply_sql: str = ""
    undo_sql: str = ""
    parameter_group: tuple[str, ...] = ()
    seconds_used: float = 0.0
    interrupted: bool = False
    not_rewritten: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    go_on: str = ""
