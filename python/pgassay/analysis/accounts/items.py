"""From added-up times to the items of an account."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from pgassay.analysis.accounts.samples import kind_of_wait
from pgassay.analysis.accounts.times import Seen, Times
from pgassay.model.account import Account, AccountItem, ItemKind, ItemState

# Kind, the scheduler's state, wait event type, wait event → seconds.
Found = dict[tuple[ItemKind, ItemState, str, str], float]
_STATES: dict[str, ItemState] = {"S": "asleep", "D": "device"}
_INPUT_OUTPUT = "IO"
# By so many standard errors may the looks be off by chance, and by this share of the wall time for the moment
# at which they come: reading the states takes longer than a short transaction.
_ERRORS_MAX = 2.0
_BIAS_MAX = 0.2


def account(
    process: str,
    times: Times,
    trials: int,
    measured_s: float,
    *,
    client_cpu_s: float | None = None,
) -> Account:
    """The account of threads of one kind, per trial.

    times: summed over `trials` trials that measured `measured_s` together. client_cpu_s: CPU of the client
    in all of them where a network lies between it and the server: what the server waits longer than that
    for requests is the network's.

    CPU and run queue are the scheduler's counts, and so is what they leave of the wall time. Looks share that
    among the wait events; their number alone is no measure of it where threads change within microseconds: a
    look comes when the scheduler lets it. Where they find far less sleep than is left, what is missing
    was neither running nor queued nor asleep (a hypervisor had the processor), and stays a residue.
    """
    samples = times.seen.total()
    asleep = _asleep(times.seen)
    sampled_s = times.wall_s * sum(asleep.values()) / samples if samples else 0.0
    delay_s = _delay_s(times)
    left_s = max(0.0, times.wall_s - times.run_s - delay_s)
    error_s = _sampling_error(sum(asleep.values()), samples) * times.wall_s
    doubt_s = _ERRORS_MAX * error_s + _BIAS_MAX * times.wall_s
    waits_s = left_s if sampled_s + doubt_s >= left_s else sampled_s
    sample_s = waits_s / sum(asleep.values()) if asleep else 0.0
    found = _found(times, delay_s, {key: count * sample_s for key, count in asleep.items()})
    _split_network(found, client_cpu_s)
    items = _items(found, trials, times.wall_s)
    wall_s = times.wall_s / trials
    return Account(
        process=process,
        threads=times.wall_s / measured_s if measured_s > 0 else 0.0,
        wall_s=wall_s,
        items=tuple(items),
        residue_s=round(wall_s - math.fsum(item.seconds for item in items), 9),
        sampling_error_s=error_s / trials,
        samples=samples,
        asleep_s=left_s / trials,
        asleep_sampled_s=sampled_s / trials,
        cpu_unseen_s=times.unseen_s / trials,
    )


def _found(times: Times, delay_s: float, waits: Mapping[Seen, float]) -> Found:
    """Seconds by what they are, from the scheduler's counts and the share of each wait."""
    found: Found = defaultdict(float)
    for (event_type, event), share in _running(times.seen).items():
        found["cpu", "running", event_type, event] += share * times.run_s
    found["runnable", "runnable", "", ""] += delay_s
    for (event_type, event, state), seconds in waits.items():
        found[kind_of_wait(event_type, event), _STATES[state], event_type, event] += seconds
    return found


def _items(found: Found, trials: int, wall_s: float) -> list[AccountItem]:
    """Per trial, in the order of the kinds, then from long to short."""
    items = [
        AccountItem(
            kind=kind,
            state=state,
            wait_event_type=event_type,
            wait_event=event,
            seconds=seconds / trials,
            share=seconds / wall_s if wall_s > 0 else 0.0,
        )
        for (kind, state, event_type, event), seconds in found.items()
        if seconds != 0
    ]
    return sorted(items, key=lambda item: (_ORDER.index(item.kind), -item.seconds))


def _sampling_error(asleep: float, samples: int) -> float:
    """One standard error of the share asleep, with a look of either kind added, so that none is not certain.

    (Agresti and Coull, The American Statistician 52(2), 1998, take two of each for their 95 % interval.)
    """
    share = (asleep + 1) / (samples + 2)
    return math.sqrt(share * (1 - share) / (samples + 2))


def _delay_s(times: Times) -> float:
    """Time in the queue for a processor; after the last look it is taken in proportion to the CPU time."""
    seen_s = times.run_s - times.unseen_s
    return times.delay_s * max(1.0, times.run_s / seen_s) if seen_s > 0 else times.delay_s


_ORDER: tuple[ItemKind, ...] = ("cpu", "runnable", "wait", "network", "client")


def _running(seen: Counter[tuple[str, str, str]]) -> dict[tuple[str, str], float]:
    """How the CPU time is shared among input and output, in which processors copy and check, and all else.

    Any other wait event that is seen with a running thread is one on the verge of sleep.
    """
    running: Counter[tuple[str, str]] = Counter()
    for (event_type, event, state), count in seen.items():
        if state == "R":
            running[(event_type, event) if event_type == _INPUT_OUTPUT else ("", "")] += count
    samples = running.total()
    return {key: count / samples for key, count in running.items()} if samples else {("", ""): 1.0}


def _asleep(seen: Counter[tuple[str, str, str]]) -> dict[tuple[str, str, str], float]:
    """How often threads were seen asleep in which event.

    The server's answer and the scheduler's state are some microseconds apart. A thread that changes faster
    is seen asleep without an event, which PostgreSQL's code knows no way to be for long but for a device;
    such looks are shared among the events in which the same kind of sleep was seen.
    """
    asleep = {key: float(count) for key, count in seen.items() if key[2] in _STATES}
    for state in _STATES:
        nameless = asleep.get(("", "", state), 0.0)
        named = {
            key: count
            for key, count in asleep.items()
            if key[2] == state and key[1] and (state == "S" or key[0] == _INPUT_OUTPUT)
        }
        total = sum(named.values())
        if nameless and total:
            del asleep["", "", state]
            for key, count in named.items():
                asleep[key] = count + nameless * count / total
    return asleep


def _split_network(found: Found, client_cpu_s: float | None) -> None:
    waits = [key for key in found if key[0] == "client"]
    total = sum(found[key] for key in waits)
    if client_cpu_s is None or total <= client_cpu_s:
        return
    for key in waits:
        _, state, event_type, event = key
        beyond = found[key] * (1 - client_cpu_s / total)
        found[key] -= beyond
        found["network", state, event_type, event] += beyond
