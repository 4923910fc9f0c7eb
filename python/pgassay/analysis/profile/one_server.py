"""The functions of one server by their time per unit of work, compared with nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pgassay.analysis.profile import stacks
from pgassay.analysis.profile.flame import FlameNode, tree
from pgassay.analysis.profile.judge_functions import Profiled, chosen
from pgassay.analysis.profile.off_cpu import by_waiter, why_not_recorded
from pgassay.analysis.profile.result import STACK_WORDS, limits
from pgassay.model.profile.result import ProfileFacts, ServerFunction, ServerProfile


@dataclass(frozen=True)
class Sampled:
    """What perf sampled: the samples of each folded stack, and how.

    lost: samples that perf could not keep; followed: how callers were found, a key of STACK_WORDS; counted:
    instructions and cycles, {} where perf failed to count them, None on a machine without counters; waits: µs
    of waiting of each folded stack, where perf noted them once for `switch_period` times, 0 where it can't.
    """

    folded: Mapping[str, int]
    lost: int
    rate_hz: float
    event: str
    followed: str
    counted: Mapping[str, float] | None = None
    waits: Mapping[str, int] = field(default_factory=dict)
    switch_period: int = 0


def profile_of(sampled: Sampled, units: int, unit: str) -> ServerProfile:
    """The functions with most time, chosen as those of a comparison are; `units` is at least 1."""
    found = stacks.by_frames(sampled.folded)
    profiled = _as_one_trial(sampled.rate_hz, found, units)
    functions, callers = (_functions(profiled, units, own=own) for own in (True, False))
    counted = sampled.counted or {}
    facts = ProfileFacts(
        event=sampled.event,
        samples=sum(found.values()),
        lost=sampled.lost,
        counters=sampled.counted is not None,
        stacks=sampled.followed,
        switch_period=sampled.switch_period,
    ).updated(**counted)
    notes = (*limits([facts], [each.name for each in functions]), why_not_recorded([facts]))
    waits = by_waiter(sampled.waits)
    return ServerProfile(
        unit=unit,
        rate_hz=sampled.rate_hz,
        event=sampled.event,
        stacks=STACK_WORDS[sampled.followed],
        samples=sum(found.values()),
        lost=sampled.lost,
        us=sum(found.values()) / sampled.rate_hz / units * 1e6,
        functions=functions,
        callers=callers,
        notes=tuple(note for note in notes if note),
        counted={event: count / units for event, count in counted.items()},
        # Of waiting each microsecond is a sample.
        waiting=_functions(_as_one_trial(1e6, waits, units), units, own=True) if waits else (),
    )


def flame_of(sampled: Sampled, units: int) -> FlameNode:
    """The stacks as one tree of times per unit, the same on both of its sides."""
    sample_us = 1e6 / sampled.rate_hz / units
    times = {frames: count * sample_us for frames, count in stacks.by_frames(sampled.folded).items()}
    return tree(times, times)


def _as_one_trial(rate_hz: float, found: Mapping[tuple[str, ...], int], units: int) -> Profiled:
    own, whole = (
        {name: np.array([[float(count)]]) for name, count in counted.items()}
        for counted in (stacks.own_samples(found), stacks.whole_samples(found))
    )
    totals = np.array([[float(sum(found.values()))]])
    return Profiled(rate_hz, np.array([[float(units)]]), totals, own, whole)


def _functions(profiled: Profiled, units: int, *, own: bool) -> tuple[ServerFunction, ...]:
    table = profiled.own if own else profiled.whole
    all_samples = float(profiled.totals[0, 0])
    return tuple(
        ServerFunction(
            name=name.removesuffix(stacks.KERNEL_MARK),
            in_kernel=name.endswith(stacks.KERNEL_MARK),
            own=own,
            share=float(table[name][0, 0]) / all_samples,
            us=float(table[name][0, 0]) / profiled.rate_hz / units * 1e6,
        )
        for name in chosen(profiled, own=own)
    )
