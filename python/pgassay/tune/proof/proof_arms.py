"""Which arms a proof in one running server has: as few as tell what each fix does to each statement.

The planner says which statements a fix touches while all others of the set are in place. Where the plan of a
statement without the fix is the plan that it has with nothing, the chosen set beside the workload as it is
tells what the fix does to it. Else an arm leaves the fix out; fixes that touch no statement in common share
such an arm. So a set of twelve takes two to four arms.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from pgassay.model.arm import ArmSpec
from pgassay.model.base import Frozen
from pgassay.model.experiment import CacheState, Protocol
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.tune.answer.side_costs import writing_elsewhere
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.search.planner_screen import differs, estimates, is_told_by_plan
from pgassay.tune.search.search_run import SearchRun
from pgassay.tune.search.selection import SEEN_MIN, Baseline, Tried
from pgassay.tune.switchable import indexes_of, is_switchable
from pgassay.tune.tuned_statements import MeasuredStatement, workload_of

FACTOR = "fixes"
CHOSEN, AS_IT_IS = "all chosen", "as it is"
# What a statement writes is rolled back in each turn, and leaves dead rows behind: one that writes much would
# slow down all that read them.
# By the planner's rows, too: one commit on a busy disk takes as long as many rows elsewhere.
WRITES_S_MAX, WRITES_ROWS_MAX = 0.1, 1000

Plans = Mapping[str, ExplainedPlan]


class SharedArms(Frozen):
    """The arms of a proof in one server. `left_out`: by the arm's name the ids of the fixes it is without.

    `told_by`: by the id of a member the arm that tells what it does; `touched`: the measured statements that
    it does something to; `written`: those that maintain it. `unused`: the ids of what no plan uses beside the
    others, which are no members.
    """

    left_out: dict[str, tuple[str, ...]]
    told_by: dict[str, str]
    touched: dict[str, tuple[str, ...]]
    written: dict[str, tuple[str, ...]]
    unused: tuple[str, ...] = ()

    @property
    def statements(self) -> frozenset[str]:
        """All that are measured: nothing changes for the others."""
        both = (*self.touched.values(), *self.written.values())
        return frozenset(name for names in both for name in names)

    def of(self, member: str) -> tuple[str, ...]:
        """The statements by which a member is judged.

        Not by a write that another one does something to which its arm leaves out as well: what changes
        there is that one's.
        """
        beside = {*self.left_out[self.told_by[member]]} - {member}
        others = {name for other in beside for name in self.touched.get(other, ())}
        return (*self.touched[member], *(name for name in self.written[member] if name not in others))

    def sharing(self, member: str) -> dict[str, tuple[str, ...]]:
        """By the write the ids of the others that maintain it too, and that the member's arm leaves out.

        What that arm tells of such a write is the price of all of them.
        """
        beside = [other for other in self.left_out[self.told_by[member]] if other != member]
        maintained = {*self.of(member)} - {*self.touched[member]}
        found = {
            name: tuple(other for other in beside if name in self.written.get(other, ()))
            for name in self.written[member]
            if name in maintained
        }
        return {name: others for name, others in found.items() if others}


def without(candidate: Candidate) -> str:
    """The name of the arm of the set without this member."""
    return f"without {candidate.id}"


def arm_of(
    base: ArmSpec,
    statements: Sequence[MeasuredStatement],
    fixes: Sequence[Candidate],
    weights: Mapping[str, float] | None = None,
) -> ArmSpec:
    """The arm with these fixes: its data prepared by their SQL, their settings, their texts, on their server.

    The settings that are fixed stay so on another version, as far as it has them (`experiment/planning`). Of
    two versions, or two volumes, the last one counts, as on the search's copy.
    """
    last = fixes[::-1]
    rewritten = {rewrite.statement: rewrite.sql for each in fixes for rewrite in each.rewrites}
    settings = {name: value for each in fixes for name, value in each.settings.items()}
    return base.model_copy(
        update={
            "build": next((each.build for each in last if each.build is not None), base.build),
            "storage": next((each.storage for each in last if each.storage is not None), base.storage),
            "prepare": (*base.prepare, *(statement for each in fixes for statement in each.sql)),
            "settings": {**base.settings, **settings},
            "workload": workload_of(statements, base.workload, rewritten, weights),
        }
    )


def arms_of(
    base: ArmSpec,
    statements: Sequence[MeasuredStatement],
    members: Sequence[Candidate],
    weights: Mapping[str, float] | None = None,
) -> dict[str, ArmSpec]:
    """Every arm by its name; with one member the set without it is the workload as it is.

    `weights`: what a second of each statement counts in the family's own metric.
    """

    def arm(fixes: Sequence[Candidate]) -> ArmSpec:
        return arm_of(base, statements, fixes, weights)

    arms = {CHOSEN: arm(members), AS_IT_IS: arm(())}
    if len(members) > 1:
        for member in members:
            arms[without(member)] = arm([each for each in members if each is not member])
    return arms


def can_share(
    spec: ArmSpec, cache: CacheState, baseline: Baseline, members: Sequence[Candidate], clients: int | None
) -> bool:
    """Whether the proof of these can take turns in one running server, on data that all arms share."""
    is_capped = spec.memory_bytes is not None or spec.cpus is not None
    if is_capped or spec.server is not None or not spec.dataset.settled or cache in ("cold", "cold-each"):
        return False
    if (clients or 1) > 1 or spec.workload.is_mix:
        return False
    writing = (each.name for each in baseline.statements if each.of.writes)
    return all(_writes_little(baseline, name) for name in writing) and all(
        is_switchable(each, spec.build) for each in members
    )


def _writes_little(baseline: Baseline, name: str) -> bool:
    """Whether a statement that writes leaves few dead rows behind: by its time, else by its plan."""
    if baseline.seconds[name] <= WRITES_S_MAX:
        return True
    plan = baseline.estimates.get(name)
    rows = [node.rows_estimated or 0.0 for node in plan.nodes] if plan is not None else []
    return bool(rows) and max(rows) <= WRITES_ROWS_MAX


def shared_arms(run: SearchRun, members: Sequence[Candidate], facts: SchemaFacts | None) -> SharedArms:
    """The arms of these members, by the copy's planner; they are applied and taken back there."""
    statements, tried = run.baseline.statements, run.found.tried

    def plans(fixes: Sequence[Candidate]) -> Plans:
        run.copy.align(fixes)
        return estimates(run.copy, statements, _texts(fixes))

    def plans_without(left: Sequence[Candidate], ids: Collection[str]) -> Plans:
        return plans([each for each in left if each.id not in ids])

    left, unused, nothing = list(members), list[str](), plans(())
    in_triggers = {member.id: _in_triggers(member, run, nothing, plans) for member in members}
    while True:
        everything = plans(left)
        without_it = {member.id: plans_without(left, [member.id]) for member in left}
        touched = {
            member.id: _touched(
                member, statements, everything, without_it[member.id], tried, in_triggers[member.id]
            )
            for member in left
        }
        needless = next((member for member in reversed(left) if not touched[member.id]), None)
        # One at a time: of two that do the same each is needed without the other.
        if needless is None or len(left) == 1:
            break
        left.remove(needless)
        unused.append(needless.id)
    groups: list[tuple[str, ...]] = []
    for name in _told_apart(touched, without_it, nothing):
        for place, group in enumerate(groups):
            together = (*group, name)
            if _are_apart(together, touched, without_it, plans_without(left, together)):
                groups[place] = together
                break
        else:
            groups.append((name,))
    arms = {f"without {', '.join(group)}": group for group in groups}
    told_by = dict.fromkeys(touched, AS_IT_IS) | {name: arm for arm, group in arms.items() for name in group}
    return SharedArms(
        left_out={CHOSEN: (), AS_IT_IS: tuple(touched), **arms},
        told_by=told_by,
        touched=touched,
        written={member.id: _written(member, statements, touched[member.id], facts) for member in left},
        unused=tuple(unused),
    )


def _told_apart(
    touched: Mapping[str, Collection[str]], without_it: Mapping[str, Plans], nothing: Plans
) -> list[str]:
    """The members that the workload as it is does not tell.

    Those that share a statement with another, and those without which it has another plan than as it is.
    """
    return [
        name
        for name, statements in touched.items()
        if len(touched) > 1
        and any(
            differs(without_it[name][each], nothing[each], by_cost=False)
            or any(each in others for other, others in touched.items() if other != name)
            for each in statements
        )
    ]


def _are_apart(
    group: Sequence[str],
    touched: Mapping[str, Collection[str]],
    without_it: Mapping[str, Plans],
    without_all: Plans,
) -> bool:
    """Whether one arm without all of them tells of each what an arm without it alone would."""
    found = [each for name in group for each in touched[name]]
    return len(found) == len(set(found)) and not any(
        differs(without_it[name][each], without_all[each], by_cost=False)
        for name in group
        for each in touched[name]
    )


def _texts(fixes: Sequence[Candidate]) -> dict[str, str]:
    return {rewrite.statement: rewrite.sql for each in fixes for rewrite in each.rewrites}


def _settings(fixes: Sequence[Candidate]) -> dict[str, str]:
    return {name: value for each in fixes for name, value in each.settings.items()}


def _touched(
    member: Candidate,
    statements: Sequence[MeasuredStatement],
    everything: Plans,
    without_it: Plans,
    tried: Mapping[str, Tried],
    in_triggers: Collection[str],
) -> tuple[str, ...]:
    """What it does something to: by plans, by its text, and where those don't tell all by what was seen."""
    rewritten = _texts([member])
    seen = () if is_told_by_plan(member) or member.id not in tried else tried[member.id].touched
    only_makes_indexes = bool(indexes_of(member))
    return tuple(
        each.name
        for each in statements
        if differs(everything[each.name], without_it[each.name], by_cost=False)
        or each.of.name in rewritten
        or each.name in in_triggers
        # A write was seen to change for what it has to maintain: that is told apart (`_written`).
        or (each.name in seen and not (each.of.writes and only_makes_indexes))
    )


def _in_triggers(
    member: Candidate, run: SearchRun, nothing: Plans, plans: Callable[[Sequence[Candidate]], Plans]
) -> frozenset[str]:
    """The writes that an index was seen to make faster, though alone it is in no plan of theirs.

    The queries of a constraint's triggers, which look for the rows that refer to one, use it then. A write
    whose plan has the index when it is alone is left to the plans: beside another index it may not be needed.
    """
    if not indexes_of(member) or member.id not in run.found.tried:
        return frozenset()
    seconds, before = run.found.tried[member.id].seconds, run.baseline.seconds
    faster = [
        each.name
        for each in run.baseline.statements
        if each.of.writes
        and each.of.name in member.statements
        and each.name in seconds
        and SEEN_MIN * seconds[each.name] <= before[each.name]
    ]
    alone = plans([member]) if faster else {}
    return frozenset(name for name in faster if not differs(nothing[name], alone[name], by_cost=False))


def _written(
    member: Candidate,
    statements: Sequence[MeasuredStatement],
    touched: Collection[str],
    facts: SchemaFacts | None,
) -> tuple[str, ...]:
    """The statements that write what it has to be maintained for, and that it does nothing else to."""
    of = tuple[TunedStatement, ...](each.of for each in statements)
    elsewhere = writing_elsewhere(member, of, facts)
    return tuple(
        each.name
        for each in statements
        if each.of.writes and member.sql and each.of.name not in elsewhere and each.name not in touched
    )


def arms_of_shared(
    base: ArmSpec,
    statements: Sequence[MeasuredStatement],
    members: Sequence[Candidate],
    shared: SharedArms,
    weights: Mapping[str, float],
) -> dict[str, ArmSpec]:
    """Every arm by its name. All have the same data, with all indexes; each hides those that it is without.

    `weights`: what a second of each statement counts in the family's own metric.
    """
    measured = [each for each in statements if each.name in shared.statements]
    counts = {each.name: weights[each.name] for each in measured}
    made = tuple(sql for each in members for sql in each.sql)
    arms = {}
    for name, left_out in shared.left_out.items():
        fixes = [each for each in members if each.id not in left_out]
        hidden = (index for each in members if each.id in left_out for index in indexes_of(each) or ())
        arms[name] = base.model_copy(
            update={
                "prepare": (*base.prepare, *made),
                "settings": base.settings | _settings(fixes),
                "workload": workload_of(measured, base.workload, _texts(fixes), counts),
                "without_indexes": tuple(hidden),
            }
        )
    return arms


def shared_protocol(
    base: Protocol,
    members: Sequence[Candidate],
    statements: Sequence[MeasuredStatement],
    limits: Mapping[str, float],
) -> Protocol:
    """The protocol of starts in which the arms take turns, which leave the shared buffers as they are.

    `limits`: after how many seconds those are stopped that do not end as they are.
    """
    return base.model_copy(
        update={
            "cache": "as-is" if base.cache == "warm-pages" else base.cache,
            "executions": {},
            "statement_limits": dict(limits),
            "switched_indexes": tuple(index for each in members for index in indexes_of(each) or ()),
            "rolls_back": any(each.of.writes for each in statements),
        }
    )
