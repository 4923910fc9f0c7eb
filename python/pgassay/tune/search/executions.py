"""How often a trial of the proof executes each statement: equally often in all arms. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from pgassay.model.build import Build
from pgassay.tune.search.selection import Seconds
from pgassay.tune.tuned_statements import MeasuredStatement, weights_of

# In a trial of the proof a statement that only reads is executed until it took so long, as it is or with what
# was chosen, whichever is faster: longer than some turns of the scheduler, of 3 ms and more, so that some of
# its executions are disturbed by nothing. The slower of the two may take so long by that, and no statement is
# executed more often.
EXECUTIONS_S, SLOWER_EXECUTIONS_S, EXECUTIONS_MAX = 0.05, 0.15, 500
# Longer ones so often, as far as all of a trial's statements take no longer than its server takes to start,
# to be warmed and to stop: of several executions one is disturbed little, and no trial is cheaper.
LONGER_EXECUTIONS, TRIAL_S = 4, 2.0
# Where shared buffers are emptied before each execution, which takes longer than a short statement.
EMPTIED_EXECUTIONS_MAX = 20
# Where clients execute the statements at once: each so often at least, since what runs beside it is chance,
# and as its weight says as far as a trial may take so long, or twice what that least takes.
AT_ONCE_MIN, AT_ONCE_MAX, AT_ONCE_S, AT_ONCE_TIMES = 3, 2000, 4.0, 2.0
# pg_buffercache_evict_all() came with it.
EVICTING_MAJOR, EVICTING_EXTENSION = 18, "pg_buffercache"


def executions_in_trial(
    statements: Sequence[MeasuredStatement],
    base: Seconds,
    chosen: Seconds,
    *,
    at_once: bool,
    executions_max: int,
    endless: Collection[str] = (),
) -> dict[str, int]:
    """How often each of the workload's statements is executed, where that is more than once.

    `base`, `chosen`: the seconds of one execution, as the workload is and with all that was chosen.
    `at_once`: clients execute them, in the mix of their weights. Else those are repeated that only read,
    since what writes would find other data the second time. `endless`: what a trial stops, once each.
    """
    if at_once:
        return executions_at_once(weights_of(statements), base, chosen, endless)
    names = [each.name for each in statements if not each.of.writes and each.name not in endless]
    return executions_of(names, base, chosen, executions_max=executions_max)


def most_executions(cache: str, builds: Iterable[Build]) -> int:
    """How often a statement may find this cache state within a trial."""
    if cache in ("cold", "cold-each"):
        return 1
    if cache != "warm-pages":
        return EXECUTIONS_MAX
    empties = all(each.major >= EVICTING_MAJOR and EVICTING_EXTENSION in each.extensions for each in builds)
    return EMPTIED_EXECUTIONS_MAX if empties else 1


def executions_of(
    names: Iterable[str], base: Seconds, chosen: Seconds, *, executions_max: int = EXECUTIONS_MAX
) -> dict[str, int]:
    """How often a trial of the proof executes each of these statements, where that is more than once.

    `base`, `chosen`: the seconds of one execution, as the workload is and with all that was chosen.
    """
    counts, slower = {}, {}
    for name in names:
        fast, slow = sorted((base[name], chosen.get(name, base[name])))
        if 0 < fast <= slow < math.inf:
            count = min(math.ceil(EXECUTIONS_S / fast), math.ceil(SLOWER_EXECUTIONS_S / slow), executions_max)
            counts[name], slower[name] = count, slow
    once_s = math.fsum(base[name] for name in base.keys() - counts.keys())

    def takes_s(least: int) -> float:
        return once_s + math.fsum(max(count, least) * slower[name] for name, count in counts.items())

    wanted = range(1, min(LONGER_EXECUTIONS, executions_max) + 1)
    least = max((each for each in wanted if takes_s(each) <= TRIAL_S), default=1)
    return {name: max(count, least) for name, count in counts.items() if max(count, least) > 1}


def executions_at_once(
    weights: Mapping[str, float], base: Seconds, chosen: Seconds, endless: Iterable[str] = ()
) -> dict[str, int]:
    """How often a trial executes each of these statements where clients execute them at once.

    In the mix that the weights say, as far as the time of a trial allows: `base`, `chosen` are the seconds of
    one execution, as the workload is and with all that was chosen. `endless`: what a trial stops, once each.
    """
    stopped = set(endless)
    short = executions_of((name for name in weights if name not in stopped), base, chosen)
    least = {name: 1 if name in stopped else max(AT_ONCE_MIN, short.get(name, 1)) for name in weights}
    mixed = [name for name in weights if name not in stopped]

    def counts(times: float) -> dict[str, int]:
        wanted = {name: min(AT_ONCE_MAX, round(times * weights[name])) for name in mixed}
        return {name: max(count, wanted.get(name, 0)) for name, count in least.items()}

    def takes_s(found: Mapping[str, int]) -> float:
        return math.fsum(count * base[name] for name, count in found.items())

    room_s = max(AT_ONCE_S, AT_ONCE_TIMES * takes_s(least))
    low, high = 0.0, AT_ONCE_MAX / min((weights[name] for name in mixed), default=1.0)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if takes_s(counts(middle)) <= room_s else (low, middle)
    return counts(low)
