"""What a tuning looks at on its copy: the workload as it is, the candidates, and what each gains there."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgassay.environment.datasets import snapshots
from pgassay.environment.linux import machine
from pgassay.model.arm import ArmSpec
from pgassay.model.plans.plan import ExplainedPlan
from pgassay.terminal.progress import Progress
from pgassay.tune.baseline import baseline_of
from pgassay.tune.candidate import Candidate, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finder_inputs import as_of_the_source, asking_again, symptom_for, unprobed
from pgassay.tune.plan import PlannedTune, TuneRequest
from pgassay.tune.proof.arms import SharedArms, can_share
from pgassay.tune.proof.experiment import hand_over
from pgassay.tune.proof.stages import Proving
from pgassay.tune.running.in_time import arms_in_time
from pgassay.tune.search.executions import most_executions
from pgassay.tune.search.finders_again import look_with_chosen
from pgassay.tune.search.generic_plans import GenericPlan, generic_plans
from pgassay.tune.search.on_top import look_with_settings
from pgassay.tune.search.paired_timing import Clock, settled
from pgassay.tune.search.proof_time import (
    PREDICTION_SHARE,
    PROOF_SHARE,
    TrialTime,
    provable,
    search_s,
    too_short,
    trial_time,
)
from pgassay.tune.search.search import Searched, best_so_far, search
from pgassay.tune.search.selection import Baseline, Seconds, total_s
from pgassay.tune.source.origin import Origin, unlike
from pgassay.tune.stored import (
    StoredSearch,
    stored_search,
)
from pgassay.tune.timeouts.limits import as_proven, expected_in_proof, give_in_proof
from pgassay.tune.timeouts.rows import compare_on_data
from pgassay.tune.tools import Gathered, Tools, gather

# Of the search's time: the rest is for what a chosen setting makes worth another try, and for what the plans
# with the chosen set show.
FIRST_LOOK_SHARE, SETTINGS_LOOK_SHARE = 0.75, 0.85
# Of the time that is left, where the proof's arms can take turns in one server.
SHARED_SEARCH_SHARE = 0.5
# When the best so far is told, as a share of the whole time.
TELLS_AT_SHARE = 1 / 6
# A statement may take so much of the whole time, or so many seconds.
STATEMENT_SHARE_MAX, STATEMENT_S_MIN = 0.2, 10.0


@dataclass
class Known:
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
    gathered: Gathered = field(default_factory=Gathered)
    searched: Searched = field(default_factory=Searched)
    trial: TrialTime = field(default_factory=TrialTime)
    shared: SharedArms | None = None
    whole_block_s: float = 0.0
    handed_over: ArmSpec | None = None
    proving: Proving | None = None
    copy_notes: tuple[str, ...] = ()
    load_s: float = 0.0
    warnings: list[str] = field(default_factory=list)
    origin: Origin | None = None
    unlike: dict[str, str] = field(default_factory=dict)
    before: StoredSearch | None = None
    searched_on: StoredSearch | None = None
    used_before_s: float = 0.0
    is_interrupted: bool = False
    generic: tuple[GenericPlan, ...] = ()

    @property
    def stored(self) -> StoredSearch:
        """The search as it is stored: that of the proof, where one was begun."""
        if self.proving is not None:
            return self.proving.search
        return self.searched_on or search_of(self)

    @property
    def left_s(self) -> float:
        """The time that is left of what was given."""
        return self.began_at + self.planned.request.max_time_s - time.monotonic()


def look(
    known: Known, tools: Tools, request: TuneRequest, progress: Progress, *, proves: bool = True
) -> None:
    """Measure the workload as it is, gather candidates, and try them on the copy.

    `proves`: choose no more than a proof in the time that is left has room for; else all of it is for that.
    """
    planned = known.planned
    spec = planned.spec
    snapshot = snapshots.ensure(spec.build, spec.dataset, spec.prepare, progress.stage)
    sizes = [relation["bytes"] for relation in snapshot.facts["relations"].values()]
    planned = known.planned = planned.with_cache_for(sum(sizes))
    with TrialCopy(
        planned.spec,
        cache=planned.base.protocol.cache,
        statement_timeout_s=max(STATEMENT_S_MIN, STATEMENT_SHARE_MAX * planned.request.max_time_s),
        on_stage=progress.stage,
    ) as copy:
        measure_and_gather(known, tools, copy, progress)
        _search(known, tools, copy, request, progress, _search_s(known, copy, progress, proves=proves))
        assert known.baseline is not None and known.asked is not None
        asked, baseline, found = known.asked, known.baseline, known.gathered
        known.gathered = compare_on_data(copy, tools, asked, baseline, found, known.searched)
        shares = proves and _shares(known, copy)
        if proves and not shares:
            _settle(known, copy)
        progress.stage("planning what was chosen for all values of parameters")
        known.generic = generic_plans(
            copy, known.baseline, known.gathered.named(known.searched.selection.ids)
        )
        progress.message(best_so_far(known.baseline, known.gathered.to_try, known.searched))
        if shares:
            members = known.gathered.named(known.searched.selection.ids)
            known.handed_over = hand_over(copy, members, progress.stage)


def measure_and_gather(known: Known, tools: Tools, copy: TrialCopy, progress: Progress) -> None:
    """Measure the workload as it is on the copy, and ask for candidates."""
    planned = known.planned
    known.copy_notes = tuple(copy.snapshot.facts.get("notes", ()))
    known.load_s = copy.snapshot.facts.get("seconds", 0.0)
    # First of all: the server counts what measuring reads and updates, rolled back or not.
    known.facts = as_of_the_source(tools.read_facts(copy.session), planned.given, known.origin)
    progress.stage("measuring the workload as it is")
    measured_now = baseline_of(copy, planned.statements, goes_on=known.origin is not None)
    known.baseline, known.plans = measured_now.baseline, measured_now.plans
    known.warnings += measured_now.said
    for sentence in measured_now.said:
        progress.message(sentence)
    planned = known.planned = replace(planned, statements=measured_now.statements)
    if known.origin is not None:
        known.unlike = unlike(known.origin, known.baseline)
    progress.stage("looking for candidates")
    known.asked = symptom_for(planned, known.baseline, known.plans, known.facts, known.origin, known.load_s)
    known.gathered = gather(tools, known.asked, copy.session)
    if said := unprobed(planned, known.origin):
        known.warnings.append(said)
    if known.before is not None:
        known.searched = _taken_over(known.before, known.baseline, known.gathered)
    to_try = known.gathered.to_try
    more = "more than " if known.baseline.endless else ""
    progress.message(
        f"{more}{total_s(known.baseline.calls, known.baseline.seconds):.3g} s for all statements; "
        f"{len(known.gathered.candidates)} candidates, {len(to_try)} to be tried on a copy"
    )


def _taken_over(before: StoredSearch, baseline: Baseline, gathered: Gathered) -> Searched:
    """What an earlier search tried of these candidates, at the speed that the workload has now."""
    ids = {each.id for each in gathered.to_try}
    speed = {
        name: s / before.seconds[name] for name, s in baseline.seconds.items() if before.seconds.get(name)
    }
    tried = {
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
    return Searched(
        tried=tried,
        screened={name: why for name, why in before.screened.items() if name in ids},
        checks={name: said for name, said in before.checks.items() if name in ids},
        notes={name: said for name, said in before.notes.items() if name in ids},
    )


def _search_s(known: Known, copy: TrialCopy, progress: Progress, *, proves: bool) -> float:
    """How long the search may take; says at once where no time for a proof is left after it."""
    assert known.baseline is not None
    left_s = max(known.left_s, 0.0)
    if not proves:
        return left_s
    max_time_s = known.planned.request.max_time_s
    expected = replace(known.baseline, seconds=expected_in_proof(known.baseline))
    known.trial = _trial_time(known, expected, expected.seconds, copy)
    if _can_share(known, ()):
        return SHARED_SEARCH_SHARE * left_s
    said = too_short(max_time_s - left_s, left_s, expected, known.trial)
    if said and known.gathered.to_try:
        progress.message(said)
        known.warnings.append(said)
    return search_s(left_s, expected.seconds, known.trial)


def _trial_time(
    known: Known,
    baseline: Baseline,
    chosen: Seconds,
    copy: TrialCopy,
    built_s: Mapping[str, float] | None = None,
) -> TrialTime:
    """What a trial of the proof will take, by what the search's copy took."""
    spec, cache = known.planned.spec, known.planned.base.protocol.cache
    processors, most = spec.cpus or machine.cores_usable(), most_executions(cache, [spec.build])
    return trial_time(
        spec.workload, processors, baseline, chosen, copy.opened_s, built_s, executions_max=most
    )


def _search(
    known: Known, tools: Tools, copy: TrialCopy, request: TuneRequest, progress: Progress, time_s: float
) -> None:
    """Try the candidates on the copy, alone and together, for so many seconds."""
    planned, baseline, asked, to_try = known.planned, known.baseline, known.asked, known.gathered.to_try
    assert baseline is not None and asked is not None
    begins_at, tells_at = time.monotonic(), known.began_at + TELLS_AT_SHARE * planned.request.max_time_s
    gain_min, members_max = (
        baseline.gain_min(planned.request.margin),
        request.members_max_of(len(planned.statements)),
    )
    space_bytes = math.inf if request.max_space_bytes is None else request.max_space_bytes
    progress.stage("trying candidates on a copy")
    for attempt, share in ((search, FIRST_LOOK_SHARE), (look_with_settings, SETTINGS_LOOK_SHARE)):
        clock = Clock(begins_at + share * time_s, tells_at)
        attempt(
            copy, baseline, to_try, clock, known.searched, progress.message,
            gain_min=gain_min, members_max=members_max, space_bytes=space_bytes,
        )  # fmt: skip
    # From here on a single fix is no news: the whole set is told when the search ends.
    progress.message(best_so_far(baseline, to_try, known.searched))
    progress.stage("looking for candidates with what was chosen")
    known.gathered = look_with_chosen(
        copy, baseline, known.gathered, Clock(begins_at + time_s, math.inf), known.searched,
        progress.message, asking_again(tools, copy, asked, planned.given),
        gain_min=gain_min, members_max=members_max, space_bytes=space_bytes,
    )  # fmt: skip


def _shares(known: Known, copy: TrialCopy) -> bool:
    """Whether the proof's arms take turns in one server; then which arms there are, and what is left out."""
    assert known.baseline is not None
    selection = known.searched.selection
    members = known.gathered.named(selection.ids)
    if not members or not _can_share(known, members):
        return False
    baseline, proven = as_proven(known.baseline, selection)
    found = arms_in_time(
        copy, baseline, proven.steps[-1].seconds, members, known.searched.tried, known.facts, known.left_s
    )
    known.shared, known.whole_block_s = found.shared, found.whole_block_s
    for name, gain in (*dict.fromkeys(found.shared.unused, 1.0).items(), *found.cut.items()):
        selection = selection.less(name, gain)
    known.searched.selection = selection
    return True


def _can_share(known: Known, members: Sequence[Candidate]) -> bool:
    assert known.baseline is not None
    planned = known.planned
    cache, clients = planned.base.protocol.cache, planned.spec.workload.clients
    return can_share(planned.spec, cache, known.baseline, members, clients)


def _settle(known: Known, copy: TrialCopy) -> None:
    """Keep what a proof has room for, and time that set anew beside what its proof will compare it with."""
    assert known.baseline is not None
    searched = known.searched
    built_s = {name: each.build_s or 0.0 for name, each in searched.tried.items()}
    baseline, selection = as_proven(known.baseline, searched.selection)
    chosen = selection.steps[-1].seconds if selection.steps else baseline.seconds
    known.trial = _trial_time(known, baseline, chosen, copy, built_s)
    known.whole_block_s = known.trial.block_s(selection, baseline.seconds, len(selection.steps))
    kept = provable(selection, baseline.weights, baseline.seconds, PROOF_SHARE * known.left_s, known.trial)
    cut = searched.selection.first(len(kept.steps), total_s(baseline.weights, baseline.seconds))
    # How long endless statements are waited for, and which there are, follows from what is left of the set.
    baseline, searched.selection = as_proven(known.baseline, cut)
    give_in_proof(copy.endless, baseline)
    searched.selection, searched.rounds = settled(
        copy,
        baseline,
        searched.selection,
        {each.id: each for each in known.gathered.to_try},
        searched.tried,
        time.monotonic() + PREDICTION_SHARE * max(known.left_s, 0.0),
        known.baseline.gain_min(known.planned.request.margin),
    )


def search_of(known: Known) -> StoredSearch:
    """What is to be kept of the search."""
    assert known.baseline is not None
    planned = known.planned
    return stored_search(
        planned.statements,
        known.baseline,
        known.gathered,
        known.searched,
        known.facts,
        planned.request.margin,
        known.unlike,
        known.trial,
        known.shared,
        known.load_s,
        known.generic,
        known.whole_block_s,
    )
