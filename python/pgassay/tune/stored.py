"""What the search came to, as search.json keeps it, and the answer that follows from it and from a proof."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ConfigDict, Field

from pgassay.durable import replace_file
from pgassay.environment.cleanup.source_copies import is_dump_of_a_run
from pgassay.errors import UsageError
from pgassay.model.base import Frozen
from pgassay.model.tuning.answer import Fix, StatementAnswer, TuneCause, TuneProof, TuneResult, TuneSymptom
from pgassay.record.documents import read_result, to_json
from pgassay.record.experiment import StoredExperiment
from pgassay.record.layout import SEARCH_FILE, TUNE_FILE
from pgassay.tune.answer.by_statement import answers, workload_gain
from pgassay.tune.answer.judged import Judged
from pgassay.tune.answer.parameter_group import parameter_group
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.answer.sentences import PROOF_REFUSED, has_nothing_to_do, summary
from pgassay.tune.answer.side_costs import side_costs, writing_elsewhere
from pgassay.tune.answer.verdicts import proof_of, ranked
from pgassay.tune.arms import SharedArms
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.effects import Proved, read_proof, remaining_of
from pgassay.tune.endless.limits import as_proven, proof_limits, unsolved
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.search.proof_time import FIRST_STAGE_SHARE, STAGED_MEMBERS_MIN, TrialTime, more_s, typed
from pgassay.tune.search.search import Searched
from pgassay.tune.search.selection import Baseline, Seconds, Selection, Tried, faster_of, gain_over, total_s
from pgassay.tune.search.turns import predicted_gains
from pgassay.tune.statements import measured
from pgassay.tune.symptom import cause_of_trials, told_cause
from pgassay.tune.tools import Gathered


class StoredSearch(Frozen):
    """The statements as they were, every candidate, what was tried, and what was taken. Seconds by name.

    `remaining`: of what was taken, the ids that a second stage of the proof confirms; () before it begins.
    What was stopped took infinite seconds, which JSON has no number for: they are stored as a text.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    statements: tuple[TunedStatement, ...]
    seconds: dict[str, float]
    candidates: tuple[Candidate, ...]
    checks: dict[str, str]
    unsafe: dict[str, str]
    left_out: dict[str, str]
    refused: tuple[str, ...]
    tried: dict[str, Tried]
    screened: dict[str, str]
    notes: dict[str, str]
    selection: Selection
    predicted: dict[str, float]
    predicted_together: float | None
    facts: SchemaFacts | None
    margin: float
    # By the name of a measured statement why it is not what it is on the server that it was read from.
    unlike: dict[str, str] = Field(default_factory=dict)
    remaining: tuple[str, ...] = ()
    # By the arm's name the workload's seconds in each round, which `predicted` follows from; {} without any.
    rounds: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    # By the id of what was not taken the one that was, where their gains could not be told apart.
    alike: dict[str, str] = Field(default_factory=dict)
    # What a block of its proof takes by the search's figures, and making the data of its arms, in seconds.
    block_s: float = 0.0
    data_s: float = 0.0
    # The measured statements that did not end as they are in the time that they were given, their `seconds`.
    endless: tuple[str, ...] = ()
    # The arms of a proof that take turns in one server; None where each has data and a server of its own.
    shared: SharedArms | None = None
    # What was said until the proof began: what was left out, and what did not end.
    warnings: tuple[str, ...] = ()

    @property
    def members(self) -> list[Candidate]:
        """What was chosen, in order."""
        return self._named(self.selection.ids)

    @property
    def remaining_members(self) -> list[Candidate]:
        """What the second stage confirms, in order."""
        return self._named(self.remaining)

    @property
    def chosen_seconds(self) -> Seconds:
        """The seconds of the statements with all that was chosen; as they were without."""
        steps = self.selection.steps
        return steps[-1].seconds if steps else self.seconds

    @property
    def made_faster(self) -> dict[str, frozenset[str]]:
        """By the id of what was tried the statements that it made faster, by a tenth and more.

        Of a proof in one server, the statements that each member touches while the others are in place.
        """
        if self.shared is not None:
            return {name: frozenset(touched) for name, touched in self.shared.touched.items()}
        return {name: faster_of(tried.seconds, self.seconds) for name, tried in self.tried.items()}

    @property
    def unsolved(self) -> tuple[str, ...]:
        """The statements that do not end with what was chosen either."""
        return unsolved(self.endless, self.seconds, self.chosen_seconds)

    @property
    def proof_limits(self) -> dict[str, float]:
        """After how many seconds a trial of the proof stops those that end with what was chosen."""
        return proof_limits(self.endless, self.seconds, self.chosen_seconds)

    def ended_with(self, name: str) -> bool:
        """Whether a statement that did not end as it is ended with something that was tried."""
        able = (each for each in self.tried.values() if not each.refused and each.id not in self.unsafe)
        found = (each.seconds.get(name) for each in able)
        return any(each is not None and each < self.seconds[name] for each in found)

    def _named(self, ids: Sequence[str]) -> list[Candidate]:
        by_id = {candidate.id: candidate for candidate in self.candidates}
        return [by_id[name] for name in ids]


@dataclass(frozen=True)
class Told:
    """What an answer says beside its fixes. `plan_cause`: by the plans, where no trial tells."""

    folder: Path
    symptom: TuneSymptom
    plan_cause: TuneCause
    seconds_used: float
    is_interrupted: bool = False
    warnings: Sequence[str] = field(default=())


def stored_search(
    statements: tuple[TunedStatement, ...],
    baseline: Baseline,
    gathered: Gathered,
    searched: Searched,
    facts: SchemaFacts | None,
    margin: float,
    unlike: Mapping[str, str] | None = None,
    trial: TrialTime | None = None,
    shared: SharedArms | None = None,
) -> StoredSearch:
    """What is to be kept of a search, with what each chosen fix is predicted to gain."""
    proven, selection = as_proven(baseline, searched.selection)
    steps = selection.steps
    together, predicted = None, dict[str, float]()
    if steps and searched.rounds:
        by_id = {each.id: each for each in gathered.candidates}
        together, predicted = predicted_gains(searched.rounds, [by_id[step.id] for step in steps])
    elif steps:
        # No time to time them in turn: by what each gained on top of those before it.
        before = total_s(proven.weights, proven.seconds)
        together = before / steps[-1].total_s
        for step in steps:
            predicted[step.id] = before / step.total_s
            before = step.total_s
    if shared is not None and steps:
        predicted = {
            name: gain_over(proven.weights, proven.seconds, steps[-1].seconds, shared.touched[name])
            for name in predicted
        }
    trial, count = trial or TrialTime(), len(steps)
    return StoredSearch(
        block_s=trial.block_s(selection, proven.seconds, count) if count else 0.0,
        data_s=trial.data_s(selection, count) if count else 0.0,
        endless=baseline.endless,
        statements=statements,
        seconds=dict(baseline.seconds),
        candidates=gathered.candidates,
        checks=gathered.checks | searched.checks,
        unsafe=gathered.unsafe,
        left_out=gathered.left_out,
        refused=gathered.refused,
        tried=searched.tried,
        screened=searched.screened,
        notes=searched.notes,
        selection=searched.selection,
        rounds=searched.rounds,
        alike=searched.alike,
        predicted=predicted,
        predicted_together=together,
        facts=facts,
        margin=margin,
        unlike=dict(unlike or {}),
        shared=shared,
    )


def compose(
    search: StoredSearch,
    told: Told,
    stored: StoredExperiment | None,
    second: StoredExperiment | None = None,
) -> TuneResult:
    """The answer, with the verdicts of a proof at any moment of it; without one nothing is recommended.

    `second`: the stage that confirms what the first left of the set.
    """
    judged = _judged(search, stored, second)
    proved, confirmed = judged.proved, judged.confirmed
    fixes = ranked(judged)
    recommended = {fix.id for fix in fixes if fix.verdict == "recommended"}
    # As they were proven: one upon the other, in the order in which they were chosen.
    chosen = [each for each in search.members if each.id in recommended]
    left_out = search.unsolved
    by_statement = answers(
        judged.baseline,
        search.chosen_seconds,
        search.remaining or search.selection.ids,
        search.made_faster,
        fixes,
        confirmed or proved,
    )
    proof = proof_of(proved, search.selection.ids, search.predicted_together, left_out) if proved else None
    confirmation = proof_of(confirmed, search.remaining, None, left_out) if confirmed else None
    cause = cause_of_trials(proved.result) if proved else None
    can_go_on = stored is not None and _has_its_data(stored) and _can_be_decided(judged, stored, second)
    go_on = _command(search, told.folder, fixes, stored, second) if can_go_on and stored else ""
    settings = {name: value for each in chosen for name, value in each.settings.items()}
    measured_on = told.symptom.measured_on
    return TuneResult(
        schema=1,
        folder=str(told.folder),
        symptom=told.symptom,
        cause=told_cause(cause, told.plan_cause, fixes),
        fixes=fixes,
        statements=by_statement,
        workload_gain=workload_gain(by_statement, judged.baseline.calls),
        nothing_to_do=has_nothing_to_do(fixes, is_interrupted=told.is_interrupted) and not left_out,
        verdict=_summary(search, told, fixes, by_statement, confirmation or proof, go_on),
        proof=proof,
        confirmation=confirmation,
        apply_sql=apply_script(chosen, search.facts, measured_on),
        undo_sql=undo_script(chosen, search.facts, measured_on),
        go_on=go_on,
        parameter_group=parameter_group(settings),
        seconds_used=round(told.seconds_used, 1),
        interrupted=told.is_interrupted,
        not_rewritten=search.refused,
        warnings=_warnings(search, told, proved, confirmed),
    )


def _summary(
    search: StoredSearch,
    told: Told,
    fixes: Sequence[Fix],
    statements: Sequence[StatementAnswer],
    proof: TuneProof | None,
    go_on: str,
) -> str:
    return summary(
        fixes,
        proof,
        told.symptom.seconds,
        statements=statements,
        margin=search.margin,
        members=search.selection.ids,
        go_on=go_on,
        endless={name: search.seconds[name] for name in search.unsolved},
        ended_unproven=[name for name in search.unsolved if search.ended_with(name)],
        is_refused=any(each.startswith(PROOF_REFUSED) for each in told.warnings),
        clients=told.symptom.clients,
        is_interrupted=told.is_interrupted,
    )


def _warnings(search: StoredSearch, told: Told, *stages: Proved | None) -> tuple[str, ...]:
    """What the search and the run warn of, and both stages of the proof; each sentence once."""
    of_stages = (words for each in stages if each for words in each.result.warning_sentences)
    return tuple(dict.fromkeys([*search.warnings, *told.warnings, *of_stages]))


def _has_its_data(stored: StoredExperiment) -> bool:
    """Whether its copies can be made again: a dump that was made of a server goes with the run."""
    return not any(is_dump_of_a_run(arm.spec.dataset.source) for arm in stored.experiment.arms)


def _can_be_decided(judged: Judged, stored: StoredExperiment | None, second: StoredExperiment | None) -> bool:
    """Whether more blocks may say more: a stage that is decided has none to come, but a second after it."""
    if second is None and judged.remaining:
        return True
    last = second or stored
    return last is not None and last.stopped != "decided"


def _command(
    search: StoredSearch,
    folder: Path,
    fixes: Sequence[Fix],
    stored: StoredExperiment,
    second: StoredExperiment | None,
) -> str:
    """The command that goes on with a proof that came to no verdict on a member; '' where it has them all."""
    ids = {*search.selection.ids}
    if not any(fix.id in ids and fix.verdict == "not decided" for fix in fixes):
        return ""
    last = second or stored
    blocks = len({each.record.block for each in last.trials})
    # A block was begun: so long one takes, whatever was expected.
    block_s = max(last.seconds_used / blocks, search.block_s) if blocks else search.block_s
    share = FIRST_STAGE_SHARE if second is None and len(ids) >= STAGED_MEMBERS_MIN else 1.0
    time_s = more_s(block_s, search.data_s, blocks, share)
    return f"pgassay tune {shlex.quote(str(folder))} --max-time {typed(time_s)}"


def _judged(search: StoredSearch, stored: StoredExperiment | None, second: StoredExperiment | None) -> Judged:
    """What is known of all candidates, by the search and by both stages of the proof."""
    members = search.members
    baseline = Baseline(measured(search.statements), search.seconds, {}, endless=search.endless)
    proved = read_proof(stored, members, search.shared) if stored is not None and members else None
    found: tuple[str, ...] = ()
    if proved is not None and search.shared is None:
        found = remaining_of(proved, search.margin, search.made_faster)
    confirmed = read_proof(second, search.remaining_members) if second is not None else None
    return Judged(
        candidates=search.candidates,
        baseline=baseline,
        searched=Searched(
            tried=search.tried,
            notes=search.notes,
            screened=search.screened,
            selection=search.selection,
            alike=search.alike,
        ),
        members=search.selection.ids,
        predicted=search.predicted,
        proved=proved,
        remaining=search.remaining or found,
        confirmed=confirmed,
        margin=search.margin,
        checks=search.checks,
        notes=search.notes,
        side_costs={
            each.id: side_costs(each, tried.wal_bytes, search.statements, search.facts)
            for each in search.candidates
            if (tried := search.tried.get(each.id)) is not None
        },
        writing_elsewhere={
            each.id: writing_elsewhere(each, search.statements, search.facts) for each in search.candidates
        },
        unsafe=search.unsafe,
        left_out=search.left_out,
        unlike=search.unlike,
    )


def write_search(folder: Path, search: StoredSearch) -> None:
    """search.json, whole or not at all; it holds the predictions, so it is older than the first trial."""
    replace_file(folder / SEARCH_FILE, to_json(search))


def write_result(folder: Path, result: TuneResult) -> None:
    """tune.json, whole or not at all, and the two scripts where something is recommended."""
    replace_file(folder / TUNE_FILE, to_json(result))
    for name, text in (("apply.sql", result.apply_sql), ("undo.sql", result.undo_sql)):
        if text:
            replace_file(folder / name, text.encode())
        else:
            (folder / name).unlink(missing_ok=True)


def read_folder(folder: Path) -> tuple[StoredSearch, TuneResult]:
    """What tune stored in a folder; raises UsageError for one that holds none, or another version's."""
    if not folder.exists():
        raise UsageError(
            f"there is no folder {folder}: name the results of an earlier tune, or a server by a "
            f"connection string, such as dbname={folder.name}"
        )
    if not (folder / SEARCH_FILE).is_file() or not (folder / TUNE_FILE).is_file():
        raise UsageError(
            f"{folder} holds no search of tune that came to its end: name the folder of one, or start anew "
            "with --workload"
        )
    return (
        read_result(folder / SEARCH_FILE, StoredSearch, "search of tune", "run tune again"),
        read_result(folder / TUNE_FILE, TuneResult, "answer of tune", "run tune again"),
    )
