"""The answer from a search and its proof, at any moment of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgassay.environment.cleanup.source_copies import is_dump_of_a_run
from pgassay.model.arm import ArmSpec
from pgassay.model.tuning.tune_answer import (
    Fix,
    StatementAnswer,
    TuneCause,
    TuneProof,
    TuneResult,
    TuneSymptom,
)
from pgassay.plans.plan_shape import tells_of_arms
from pgassay.record.experiment import StoredExperiment
from pgassay.tune.answer.answer_sentences import PROOF_REFUSED, has_nothing_to_do, summary, unread
from pgassay.tune.answer.by_statement import answers, with_what_was_seen, workload_gain
from pgassay.tune.answer.parameter_group import parameter_group
from pgassay.tune.answer.proof_verdict import FoundAndProved, is_weighed, joint_slower, slower_words
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.answer.side_costs import side_costs, writing_elsewhere
from pgassay.tune.answer.verdicts import proof_of, ranked
from pgassay.tune.proof.effects import Proved, read_proof, remaining_of
from pgassay.tune.search.proof_time import FIRST_STAGE_SHARE, STAGED_MEMBERS_MIN, more_s, typed
from pgassay.tune.search.selection import Baseline
from pgassay.tune.stored_search import StoredSearch
from pgassay.tune.symptom import cause_of_trials, told_cause
from pgassay.tune.tuned_statements import measured
from pgassay.words import join, seconds

ONLY_CUSTOM = (
    "prepared once for all values (a generic plan, as drivers and poolers use after five executions) "
    "{statement} takes {after} with it{before}: only custom plans use it, which plan_cache_mode = "
    "force_custom_plan keeps"
)


@dataclass(frozen=True)
class Told:
    """What an answer says beside its fixes. `plan_cause`: by the plans, where no trial tells.

    `is_kept`: what a later search needs is in the folder, and the data are where they were.
    """

    folder: Path
    symptom: TuneSymptom
    plan_cause: TuneCause
    seconds_used: float
    is_interrupted: bool = False
    warnings: Sequence[str] = field(default=())
    is_kept: bool = False


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
    by_statement = _with_generic_plans(by_statement, search)
    gain = workload_gain(by_statement, judged.baseline.calls)
    by_statement = with_what_was_seen(by_statement, fixes)
    proof = proof_of(proved, search.selection.ids, search.predicted_together, left_out) if proved else None
    confirmation = proof_of(confirmed, search.remaining, None, left_out) if confirmed else None
    cause = cause_of_trials(proved.result) if proved else None
    can_go_on = stored is not None and _have_their_data(stored) and _can_be_decided(judged, stored, second)
    go_on = _command(search, told.folder, fixes, stored, second) if can_go_on and stored else ""
    if not go_on and told.is_kept:
        go_on = _command_of_search(search, told.folder, is_begun=stored is not None)
    settings = {name: value for each in chosen for name, value in each.settings.items()}
    measured_on = told.symptom.measured_on
    numbers = {fix.id: f"{fix.rank}. {fix.title}" for fix in fixes}
    heads = {fix.id: f"{numbers[fix.id]}{_price(fix, judged)}" for fix in fixes}
    return TuneResult(
        schema=1,
        folder=str(told.folder),
        symptom=told.symptom,
        cause=told_cause(cause, told.plan_cause, fixes),
        fixes=fixes,
        statements=by_statement,
        workload_gain=gain,
        nothing_to_do=has_nothing_to_do(fixes, is_interrupted=told.is_interrupted) and not left_out,
        verdict=_summary(search, told, fixes, by_statement, confirmation or proof, go_on),
        proof=proof,
        confirmation=confirmation,
        apply_sql=apply_script(chosen, search.facts, measured_on, heads),
        undo_sql=undo_script(chosen, search.facts, measured_on, numbers),
        go_on=go_on,
        parameter_group=parameter_group(settings),
        seconds_used=round(told.seconds_used, 1),
        interrupted=told.is_interrupted,
        not_rewritten=search.refused,
        warnings=_warnings(search, told, proved, confirmed),
    )


def _price(fix: Fix, judged: FoundAndProved) -> str:
    """Lines on the statements that a fix is proven to make slower, for whoever is about to apply it."""
    slower = [each for each in fix.statements if each.interval and each.interval[1] and each.interval[1] < 1]
    effect = judged.effect_of(fix.id)
    together = joint_slower(judged, effect) if effect is not None else ""
    own = f"\nIt makes {join([slower_words(each) for each in slower])}." if slower else ""
    return own + (f"\n{together[0].upper()}{together[1:]}." if together else "")


def _with_generic_plans(
    statements: Sequence[StatementAnswer], search: StoredSearch
) -> tuple[StatementAnswer, ...]:
    """With the seconds under a generic plan, of those that have another one then."""
    found = {each.statement: each for each in search.generic}
    return tuple(
        each.model_copy(
            update={
                "generic_before": found[each.name].seconds_before,
                "generic_after": found[each.name].seconds_after,
            }
        )
        if each.name in found
        else each
        for each in statements
    )


def _summary(
    search: StoredSearch,
    told: Told,
    fixes: Sequence[Fix],
    statements: Sequence[StatementAnswer],
    proof: TuneProof | None,
    go_on: str,
) -> str:
    return unread(told.symptom.source) + summary(
        fixes,
        proof,
        told.symptom.seconds,
        statements=statements,
        margin=search.margin,
        members=search.selection.ids,
        go_on=go_on,
        endless={name: search.seconds[name] for name in search.unsolved},
        never_tried=[name for name in search.unsolved if not _was_tried(search, name)],
        ended_unproven=[name for name in search.unsolved if search.ended_with(name)],
        is_refused=any(each.startswith(PROOF_REFUSED) for each in told.warnings),
        clients=told.symptom.clients,
        is_interrupted=told.is_interrupted,
    )


def _was_tried(search: StoredSearch, statement: str) -> bool:
    """Whether any fix was tried that touches the statement, or was found for it."""
    of = {each.id: each.statements for each in search.candidates}
    own = {each.name: each.of.name for each in measured(search.statements)}[statement]
    return any(
        not each.refused and (statement in each.touched or own in of.get(each.id, ()))
        for each in search.tried.values()
    )


def _warnings(search: StoredSearch, told: Told, *stages: Proved | None) -> tuple[str, ...]:
    """What the search and the run warn of, and both stages of the proof; each sentence once.

    That plans differ between the arms is what fixes are for.
    """
    of_stages = (
        words
        for each in stages
        if each
        for words in each.result.warning_sentences
        if not tells_of_arms(words)
    )
    return tuple(dict.fromkeys([*search.warnings, *told.warnings, *of_stages]))


def _have_their_data(stored: StoredExperiment) -> bool:
    """Whether the copies of all arms can be created again."""
    return all(has_its_data(arm.spec) for arm in stored.experiment.arms)


def has_its_data(spec: ArmSpec) -> bool:
    """Whether a copy can be created again; the dump of a server is removed with the run, or a day later."""
    source = spec.dataset.source
    return not is_dump_of_a_run(source) or Path(source).exists()


def _can_be_decided(
    judged: FoundAndProved, stored: StoredExperiment | None, second: StoredExperiment | None
) -> bool:
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
    if not any(fix.id in ids and fix.verdict == "not decided" and not is_weighed(fix.note) for fix in fixes):
        return ""
    last = second or stored
    blocks = len({each.record.block for each in last.trials})
    # A block was begun: so long one takes, whatever was expected.
    block_s = max(last.seconds_used / blocks, search.block_s) if blocks else search.block_s
    share = FIRST_STAGE_SHARE if second is None and len(ids) >= STAGED_MEMBERS_MIN else 1.0
    time_s = more_s(block_s, search.data_s, blocks, share)
    return f"pgassay tune {shlex.quote(str(folder))} --max-time {typed(time_s)}"


def _command_of_search(search: StoredSearch, folder: Path, *, is_begun: bool) -> str:
    """The command that tries what was not tried, or begins the proof; '' where there is neither."""
    if not search.untried and not search.left_for_later and (is_begun or not search.selection.ids):
        return ""
    return f"pgassay tune {shlex.quote(str(folder))} --max-time {typed(search.search_on_s())}"


def _notes(search: StoredSearch) -> dict[str, str]:
    """The search's notes, and which indexes no plan for all values of the parameters uses."""
    notes = dict(search.notes)
    for each in search.generic:
        for name in each.unused:
            before = f", and {seconds(each.seconds_before)} without" if each.seconds_before else ""
            said = ONLY_CUSTOM.format(
                statement=each.statement, after=seconds(each.seconds_after), before=before
            )
            notes[name] = "; ".join(filter(None, (notes.get(name, ""), said)))
    return notes


def _judged(
    search: StoredSearch, stored: StoredExperiment | None, second: StoredExperiment | None
) -> FoundAndProved:
    """What is known of all candidates, by the search and by both stages of the proof."""
    members = search.members
    baseline = Baseline(measured(search.statements), search.seconds, {}, endless=search.endless)
    proved = read_proof(stored, members, search.shared) if stored is not None and members else None
    found: tuple[str, ...] = ()
    if proved is not None and search.shared is None:
        found = remaining_of(proved, search.margin, search.made_faster)
    confirmed = read_proof(second, search.remaining_members) if second is not None else None
    return FoundAndProved(
        found=search.model_copy(update={"notes": _notes(search)}),
        baseline=baseline,
        predicted=search.predicted,
        proved=proved,
        remaining=search.remaining or found,
        confirmed=confirmed,
        margin=search.margin,
        unlike=search.unlike,
        side_costs={
            each.id: side_costs(each, tried.wal_bytes, search.statements, search.facts)
            for each in search.candidates
            if (tried := search.tried.get(each.id)) is not None
        },
        writing_elsewhere={
            each.id: writing_elsewhere(each, search.statements, search.facts) for each in search.candidates
        },
    )
