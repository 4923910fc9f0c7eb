"""Which arms a proof in one running server has: as few as tell what each fix does to each statement.

The planner says which statements a fix touches while all others of the set are in place. Where the plan of a
statement without the fix is the plan that it has with nothing, the chosen set beside the workload as it is
tells what the fix does to it. Else an arm leaves the fix out; fixes that touch no statement in common share
such an arm. So a set of twelve takes two to four arms.
"""

from collections.abc import Mapping, Sequence

from pgassay.model.arm import ArmSpec
from pgassay.model.base import Frozen
from pgassay.model.experiment import CacheState, Protocol
from pgassay.model.plans.plan import ExplainedPlan
from pgassay.tune.answer.side_costs import writing_elsewhere
from pgassay.tune.candidate import Candidate, TunedStatement
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.search.selection import Baseline, Tried
from pgassay.tune.search.touched import differs, estimates, is_told_by_plan
from pgassay.tune.statements import MeasuredStatement, workload_of
from pgassay.tune.switchable import indexes_of, is_switchable

CHOSEN, AS_IT_IS = "all chosen", "as it is"
# What a statement writes is rolled back in each turn, and leaves dead rows behind: one that writes much would
# slow down all that read them.
WRITES_S_MAX = 0.1

Plans = Mapping[str, ExplainedPlan]


class SharedArms(Frozen):
    """The arms of a proof in one server. `left_out`: by the arm's name the ids of the fixes it is without.

    `told_by`: by the id of a member the arm that tells what it does; `touched`: the measured statements that
    it does something to. `unused`: the ids of what no plan uses beside the others, which are no members.
    """

    left_out: dict[str, tuple[str, ...]]
    told_by: dict[str, str]
    touched: dict[str, tuple[str, ...]]
    unused: tuple[str, ...] = ()

    @property
    def statements(self) -> frozenset[str]:
        """All that are measured: nothing changes for the others."""
        return frozenset(name for names in self.touched.values() for name in names)


def can_share(
    spec: ArmSpec, cache: CacheState, baseline: Baseline, members: Sequence[Candidate], clients: int | None
) -> bool:
    """Whether the proof of these can take turns in one running server, on data that all arms share."""
    is_capped = spec.memory_bytes is not None or spec.cpus is not None
    if is_capped or spec.server is not None or not spec.dataset.settled or cache in ("cold", "cold-each"):
        return False
    if (clients or 1) > 1 or spec.workload.is_mix or baseline.endless:
        return False
    writing = (baseline.seconds[each.name] for each in baseline.statements if each.of.writes)
    return all(seconds <= WRITES_S_MAX for seconds in writing) and all(
        is_switchable(each, spec.build) for each in members
    )


def shared_arms(
    copy: TrialCopy,
    baseline: Baseline,
    members: Sequence[Candidate],
    tried: Mapping[str, Tried],
    facts: SchemaFacts | None,
) -> SharedArms:
    """Ask the planner of the copy, on which the members are applied and taken back. Raises as that does."""
    left, unused = list(members), list[str]()
    statements = baseline.statements
    nothing = _plans(copy, statements, ())
    while True:
        everything = _plans(copy, statements, left)
        without = {
            member.id: _plans(copy, statements, [each for each in left if each is not member])
            for member in left
        }
        touched = {
            member.id: _touched(member, statements, everything, without[member.id], tried, facts)
            for member in left
        }
        needless = next((member for member in reversed(left) if not touched[member.id]), None)
        # One at a time: of two that do the same each is needed without the other.
        if needless is None or len(left) == 1:
            break
        left.remove(needless)
        unused.append(needless.id)
    writing = {each.name for each in statements if each.of.writes}
    own = [
        member.id
        for member in left
        if len(left) > 1
        and any(
            differs(without[member.id][name], nothing[name], by_cost=False)
            or any(name in touched[other] for other in touched if other != member.id)
            for name in touched[member.id]
            if name not in writing
        )
    ]
    left_out = {CHOSEN: tuple[str, ...](), AS_IT_IS: tuple(member.id for member in left)}
    told_by = dict.fromkeys(touched, AS_IT_IS)
    groups: list[list[str]] = []
    for name in own:
        mine = {*touched[name]} - writing
        free = (group for group in groups if all(mine.isdisjoint(touched[other]) for other in group))
        group = next(free, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    for group in groups:
        arm = f"without {', '.join(group)}"
        left_out[arm] = tuple(group)
        told_by |= dict.fromkeys(group, arm)
    return SharedArms(left_out=left_out, told_by=told_by, touched=touched, unused=tuple(unused))


def _plans(
    copy: TrialCopy, statements: Sequence[MeasuredStatement], fixes: Sequence[Candidate]
) -> dict[str, ExplainedPlan]:
    copy.align(fixes)
    return estimates(copy, statements, _texts(fixes))


def _texts(fixes: Sequence[Candidate]) -> dict[str, str]:
    return {rewrite.statement: rewrite.sql for each in fixes for rewrite in each.rewrites}


def _settings(fixes: Sequence[Candidate]) -> dict[str, str]:
    return {name: value for each in fixes for name, value in each.settings.items()}


def _touched(
    member: Candidate,
    statements: Sequence[MeasuredStatement],
    everything: Plans,
    without: Plans,
    tried: Mapping[str, Tried],
    facts: SchemaFacts | None,
) -> tuple[str, ...]:
    """What it does something to: by plans, by its text, by what was seen, and by what it costs writers."""
    rewritten = _texts([member])
    seen = () if is_told_by_plan(member) or member.id not in tried else tried[member.id].touched
    of = tuple[TunedStatement, ...](each.of for each in statements)
    elsewhere = writing_elsewhere(member, of, facts)
    return tuple(
        each.name
        for each in statements
        if differs(everything[each.name], without[each.name], by_cost=False)
        or each.of.name in rewritten
        or each.name in seen
        or (each.of.writes and member.sql and each.of.name not in elsewhere)
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
    base: Protocol, members: Sequence[Candidate], statements: Sequence[MeasuredStatement]
) -> Protocol:
    """The protocol of starts in which the arms take turns, which leave the shared buffers as they are."""
    return base.model_copy(
        update={
            "cache": "as-is" if base.cache == "warm-pages" else base.cache,
            "executions": {},
            "statement_limits": {},
            "switched_indexes": tuple(index for each in members for index in indexes_of(each) or ()),
            "rolls_back": any(each.of.writes for each in statements),
        }
    )
