"""What a tuning looks at on its copy: the workload as it is, the candidates, and what each gains there."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.environment.linux import machine
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.progress import Progress
from pgassay.tune.baseline import baseline_of
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finder_inputs import ask_finders_again, facts_of_source, symptom_for, unprobed
from pgassay.tune.proof.proof_arms import SharedArms, can_share
from pgassay.tune.proof.proof_experiment import hand_over
from pgassay.tune.proof.stages import ProofStages
from pgassay.tune.running.in_time import arms_in_time
from pgassay.tune.search.executions import most_executions
from pgassay.tune.search.finders_again import search_with_chosen, search_with_rewrites
from pgassay.tune.search.generic_plans import GenericPlan, generic_plans
from pgassay.tune.search.on_top import search_with_settings
from pgassay.tune.search.paired_timing import retime_selection
from pgassay.tune.search.proof_time import (
    PREDICTION_SHARE,
    PROOF_SHARE,
    TrialTime,
    provable,
    search_s,
    too_short,
    trial_time,
)
from pgassay.tune.search.record import SearchRecord
from pgassay.tune.search.search import search
from pgassay.tune.search.search_run import Clock, SearchRun
from pgassay.tune.search.selection import Baseline, Seconds, total_s
from pgassay.tune.source.origin import CopyOrigin, differences_from_source
from pgassay.tune.stored_search import StoredSearch, stored_search
from pgassay.tune.timeouts.rows import compare_on_data
from pgassay.tune.timeouts.time_limits import expected_in_proof, proven_state, wait_as_in_proof
from pgassay.tune.tools import TuneTools, gather
from pgassay.tune.tune_plan import PlannedTune, TuneRequest
from pgassay.words import duration, seconds

# Of the search's time: the rest is for what a chosen setting makes worth another try, and for what the plans
# with the chosen set, and those of rewritten statements, show.
FIRST_LOOK_SHARE, SETTINGS_LOOK_SHARE, REWRITES_LOOK_SHARE = 0.7, 0.8, 0.9
# Of the time that is left, where the proof's arms can take turns in one server.
SHARED_SEARCH_SHARE = 0.5
# When the best so far is told, as a share of the whole time.
TELLS_AT_SHARE = 1 / 6
# A statement may take so much of the whole time, or so many seconds.
STATEMENT_SHARE_MAX, STATEMENT_S_MIN = 0.2, 10.0
# Loading that takes so much of the time is told.
LOADING_SHARE_TOLD = 0.25


@dataclass
class TuneRun:
    """What is known so far; each step adds to it.

    `before`: an earlier search of the same folder, whose candidates are not tried again; `used_before_s`: the
    time that it took. `searched_on`: this search, with what was tried after it ended.
    """

    planned: PlannedTune
    folder: Path
    began_at: float
    facts: SchemaFacts | None = None
    baseline: Baseline | None = None
    plans: dict[str, tuple[ExplainedPlan, ...]] = field(default_factory=dict)
    asked: Symptom | None = None
    found: SearchRecord = field(default_factory=SearchRecord)
    trial: TrialTime = field(default_factory=TrialTime)
    shared: SharedArms | None = None
    whole_block_s: float = 0.0
    handed_over: ArmSpec | None = None
    proof: ProofStages | None = None
    copy_notes: tuple[str, ...] = ()
    load_s: float = 0.0
    warnings: list[str] = field(default_factory=list)
    origin: CopyOrigin | None = None
    unlike: dict[str, str] = field(default_factory=dict)
    before: StoredSearch | None = None
    searched_on: StoredSearch | None = None
    used_before_s: float = 0.0
    is_interrupted: bool = False
    generic: tuple[GenericPlan, ...] = ()

    @property
    def stored(self) -> StoredSearch:
        """The search as it is stored: that of the proof, where one was begun."""
        if self.proof is not None:
            return self.proof.search
        return self.searched_on or search_of(self)

    @property
    def left_s(self) -> float:
        """The time that is left of what was given."""
        return self.began_at + self.planned.request.max_time_s - time.monotonic()


def look(
    run: TuneRun, tools: TuneTools, request: TuneRequest, progress: Progress, *, proves: bool = True
) -> None:
    """Measure the workload as it is, gather candidates, and try them on the copy.

    `proves`: choose no more than a proof in the time that is left has room for; else all of it is for that.
    """
    planned = run.planned
    spec = planned.spec
    begun = time.monotonic()
    snapshot = snapshots.ensure(spec.build, spec.dataset, spec.prepare, progress.stage)
    if said := loading_took(time.monotonic() - begun, planned.request.max_time_s):
        progress.message(said)
        run.warnings.append(said)
    sizes = [relation["bytes"] for relation in snapshot.facts["relations"].values()]
    planned = run.planned = planned.with_cache_for(sum(sizes))
    with TrialCopy(
        planned.spec,
        cache=planned.base.protocol.cache,
        statement_timeout_s=max(STATEMENT_S_MIN, STATEMENT_SHARE_MAX * planned.request.max_time_s),
        on_stage=progress.stage,
    ) as copy:
        measure_and_gather(run, tools, copy, progress)
        search_run = _search(run, tools, copy, request, progress, proves=proves)
        assert run.asked is not None
        compare_on_data(search_run, tools, run.asked)
        shares = proves and _shares(run, search_run)
        if proves and not shares:
            _settle(run, search_run)
        progress.stage("planning the chosen fixes for all values of parameters")
        run.generic = generic_plans(search_run)
        progress.message(search_run.best_so_far())
        if shares:
            run.handed_over = hand_over(copy, run.found.members, progress.stage)


def loading_took(took_s: float, max_time_s: float) -> str:
    """What is said where the data took much of the time, of which little is left for the search; else ''."""
    if took_s < LOADING_SHARE_TOLD * max_time_s:
        return ""
    return (
        f"loading the data took {duration(took_s)} of the {duration(max_time_s)} that --max-time gives: "
        "a longer one leaves more for the search"
    )


def measure_and_gather(run: TuneRun, tools: TuneTools, copy: TrialCopy, progress: Progress) -> None:
    """Measure the workload as it is on the copy, and ask for candidates."""
    planned = run.planned
    run.copy_notes = tuple(copy.snapshot.facts.get("notes", ()))
    run.load_s = copy.snapshot.facts.get("seconds", 0.0)
    # First of all: the server counts what measuring reads and updates, rolled back or not.
    run.facts = facts_of_source(tools.read_facts(copy.session), planned.given, run.origin)
    progress.stage("measuring the workload as it is")
    measured_now = baseline_of(copy, planned.statements, goes_on=run.origin is not None)
    run.baseline, run.plans = measured_now.baseline, measured_now.plans
    run.warnings += measured_now.said
    for sentence in measured_now.said:
        progress.message(sentence)
    planned = run.planned = replace(planned, statements=measured_now.statements)
    if run.origin is not None:
        run.unlike = differences_from_source(run.origin, run.baseline)
    progress.stage("looking for candidates")
    run.asked = symptom_for(planned, run.baseline, run.plans, run.facts, run.origin, run.load_s)
    run.found = gather(tools, run.asked, copy.session)
    if said := unprobed(planned, run.origin):
        run.warnings.append(said)
    if run.before is not None:
        _take_over(run.before, run.baseline, run.found)
    more = "more than " if run.baseline.endless else ""
    calls = run.baseline.calls
    weighted = ", weighted by calls" if any(often != 1 for often in calls.values()) else ""
    progress.message(
        f"{more}{seconds(total_s(calls, run.baseline.seconds))} for all statements{weighted}; "
        f"{len(run.found.candidates)} candidates, {len(run.found.to_try)} to be tried on a copy"
    )


def _take_over(before: StoredSearch, baseline: Baseline, found: SearchRecord) -> None:
    """What an earlier search tried of these candidates, at the speed that the workload has now."""
    ids = {each.id for each in found.to_try}
    speed = {
        name: s / before.seconds[name] for name, s in baseline.seconds.items() if before.seconds.get(name)
    }
    found.tried = {
        name: replace(
            each,
            seconds={of: s * speed[of] for of, s in each.seconds.items() if of in speed},
            without_s=(),
            with_s=(),
            gain_again=None,
        )
        for name, each in before.tried.items()
        # What was tried on top of others is offered again once those are chosen.
        if name in ids and not each.on_top
    }
    found.screened = {name: why for name, why in before.screened.items() if name in ids}
    found.checks |= {name: said for name, said in before.checks.items() if name in ids}
    found.notes = {name: said for name, said in before.notes.items() if name in ids}


def _search_s(run: TuneRun, copy: TrialCopy, progress: Progress, *, proves: bool) -> float:
    """How long the search may take; says at once where no time for a proof is left after it."""
    assert run.baseline is not None
    left_s = max(run.left_s, 0.0)
    if not proves:
        return left_s
    max_time_s = run.planned.request.max_time_s
    expected = replace(run.baseline, seconds=expected_in_proof(run.baseline))
    run.trial = _trial_time(run, expected, expected.seconds, copy)
    if _can_share(run, ()):
        return SHARED_SEARCH_SHARE * left_s
    said = too_short(max_time_s - left_s, left_s, expected, run.trial)
    if said and run.found.to_try:
        progress.message(said)
        run.warnings.append(said)
    return search_s(left_s, expected.seconds, run.trial)


def _trial_time(
    run: TuneRun,
    baseline: Baseline,
    chosen: Seconds,
    copy: TrialCopy,
    built_s: Mapping[str, float] | None = None,
) -> TrialTime:
    """What a trial of the proof will take, by what the search's copy took."""
    spec, cache = run.planned.spec, run.planned.base.protocol.cache
    processors, most = spec.cpus or machine.cores_usable(), most_executions(cache, [spec.build])
    return trial_time(
        spec.workload, processors, baseline, chosen, copy.opened_s, built_s, executions_max=most
    )


def _search(
    run: TuneRun, tools: TuneTools, copy: TrialCopy, request: TuneRequest, progress: Progress, *, proves: bool
) -> SearchRun:
    """Try the candidates on the copy, alone and together, for as long as there is time for it."""
    assert run.baseline is not None and run.asked is not None
    time_s = _search_s(run, copy, progress, proves=proves)
    planned, begins_at = run.planned, time.monotonic()
    whole = SearchRun(
        copy,
        run.baseline,
        run.found,
        Clock(begins_at + time_s),
        progress.message,
        gain_min=run.baseline.gain_min(planned.request.margin),
        members_max=request.members_max_of(len(planned.statements), shares=_can_share(run, ())),
        space_bytes=math.inf if request.max_space_bytes is None else request.max_space_bytes,
        facts=run.facts,
    )
    tells_at = run.began_at + TELLS_AT_SHARE * planned.request.max_time_s
    progress.stage("trying candidates on a copy")
    for attempt, share in ((search, FIRST_LOOK_SHARE), (search_with_settings, SETTINGS_LOOK_SHARE)):
        attempt(replace(whole, clock=Clock(begins_at + share * time_s, tells_at)))
    # From here on a single fix is no news: the whole set is told when the search ends.
    progress.message(whole.best_so_far())
    progress.stage("looking for candidates with the chosen fixes in place")
    ask = ask_finders_again(tools, copy, run.asked, planned.given)
    search_with_rewrites(replace(whole, clock=Clock(begins_at + REWRITES_LOOK_SHARE * time_s)), ask)
    search_with_chosen(whole, ask)
    return whole


def _shares(run: TuneRun, search_run: SearchRun) -> bool:
    """Whether the proof's arms take turns in one server; then which arms there are, and what is left out."""
    found = run.found
    if not found.members or not _can_share(run, found.members):
        return False
    baseline, proven = proven_state(search_run.baseline, found.selection)
    in_time = arms_in_time(
        replace(search_run, baseline=baseline), proven.steps[-1].seconds, found.members, run.facts, run.left_s
    )
    run.shared, run.whole_block_s = in_time.shared, in_time.whole_block_s
    for name, gain in (*dict.fromkeys(in_time.shared.unused, 1.0).items(), *in_time.cut.items()):
        found.selection = found.selection.less(name, gain)
    return True


def _can_share(run: TuneRun, members: Sequence[Candidate]) -> bool:
    assert run.baseline is not None
    planned = run.planned
    cache, clients = planned.base.protocol.cache, planned.spec.workload.clients
    return can_share(planned.spec, cache, run.baseline, members, clients)


def _settle(run: TuneRun, search_run: SearchRun) -> None:
    """Keep what a proof has room for, and time that set anew beside what its proof will compare it with."""
    found, as_it_is, copy = run.found, search_run.baseline, search_run.copy
    built_s = {name: each.build_s or 0.0 for name, each in found.tried.items()}
    baseline, selection = proven_state(as_it_is, found.selection)
    chosen = selection.steps[-1].seconds if selection.steps else baseline.seconds
    run.trial = _trial_time(run, baseline, chosen, copy, built_s)
    run.whole_block_s = run.trial.block_s(selection, baseline.seconds, len(selection.steps))
    kept = provable(selection, baseline.weights, baseline.seconds, PROOF_SHARE * run.left_s, run.trial)
    cut = found.selection.first(len(kept.steps), total_s(baseline.weights, baseline.seconds))
    # How long endless statements are waited for, and which there are, follows from what is left of the set.
    baseline, found.selection = proven_state(as_it_is, cut)
    wait_as_in_proof(copy.endless, baseline)
    ends_at = time.monotonic() + PREDICTION_SHARE * max(run.left_s, 0.0)
    retime_selection(replace(search_run, baseline=baseline), ends_at)


def search_of(run: TuneRun) -> StoredSearch:
    """What is to be kept of the search."""
    assert run.baseline is not None
    planned = run.planned
    return stored_search(
        planned.statements,
        run.baseline,
        run.found,
        run.facts,
        planned.request.margin,
        unlike=run.unlike,
        trial=run.trial,
        shared=run.shared,
        load_s=run.load_s,
        generic=run.generic,
        whole_block_s=run.whole_block_s,
    )
