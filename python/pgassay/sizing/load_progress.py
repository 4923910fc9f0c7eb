"""How far a load gets on another volume: units of its work by the requests that they took.

A load is asked how many units it does in its time, from its warm-up on. What a unit reads depends on what the
caches hold by then, which is a matter of the units done before and not of the volume. So a recording says
after how many requests how many units were done, and its replay when so many requests were issued.
"""

import numpy as np

from pgassay.native.simulate import RecordedFacts, Simulated
from pgassay.sizing.recordings import MeasuredRecording

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
# Into so many parts the time until the first count of units is divided.
_PARTS = 16
# What a second counts beside the requests: far less than one of them. Units that need none, as of a load
# whose data are all in memory by then, take their time on every volume.
_OF_SECOND = 1e-6
# By at most this power of e what a cache misses has decayed at the end of that time: what was read later
# would show no more of it.
_DECAY_MAX = 3.0


def seconds_per_unit(
    recorded: MeasuredRecording,
    facts: RecordedFacts,
    answer: Simulated,
    floor: MeasuredRecording | None,
    further: tuple[MeasuredRecording, RecordedFacts] | None,
) -> float:
    """What a unit takes by a replay of this recording, and no less than on `floor`.

    `further`: another recording of the same load, which tells what units read that this one never came to;
    None where it says nothing of that.
    """
    if not recorded.progress:
        alone_s = answer["elapsed_s"] / recorded.units
        return alone_s if floor is None else max(alone_s, floor.seconds_per_unit)
    requests, units = _knots(recorded, facts)
    milestones_s, issued = np.array(answer["milestones_s"]), _issued(facts)
    # Of each milestone, how many units were done by then.
    reached = np.interp(issued, requests, units)
    if further is not None:
        more_requests, more_units = _knots(*further)
        is_beyond = (more_units > units[-1]) & (more_requests > requests[-1])
        requests = np.append(requests, more_requests[is_beyond])
        units = np.append(units, more_units[is_beyond])
    until_s = recorded.progress[-1][0]

    def done_by(at_s: float) -> float:
        # A faster volume gets further than the recording: requests go on as they came at its end, and so do
        # units at least.
        done = _beyond(milestones_s, issued, at_s)
        done = _beyond(requests, units, done)
        if at_s > milestones_s[-1]:
            done = max(done, _beyond(milestones_s, reached, at_s))
        if floor is not None:
            floor_s, floor_units = zip(*floor.progress, strict=True)
            done = min(done, float(np.interp(at_s, floor_s, floor_units)))
        return done

    done = done_by(until_s) - done_by(until_s - recorded.elapsed_s)
    if done > 0:
        return recorded.elapsed_s / done
    return float(milestones_s[-1] / units[-1]) if units[-1] > 0 else recorded.seconds_per_unit


def _issued(facts: RecordedFacts) -> Floats:
    """How many requests had been issued by the ends of the equal stretches; with time, so that it rises."""
    issued = np.array(facts["issued"], dtype=np.float64)
    return issued + _OF_SECOND * np.linspace(0.0, facts["elapsed_s"], len(issued))


def _knots(recorded: MeasuredRecording, facts: RecordedFacts) -> tuple[Floats, Floats]:
    """After how many requests how many units were done: both rise."""
    since_s, units = (np.array(column) for column in zip(*recorded.progress, strict=True))
    grid_s = np.linspace(0.0, facts["elapsed_s"], len(facts["issued"]))
    requests = np.interp(since_s, grid_s, _issued(facts))
    rises = np.append(True, (np.diff(units) > 0) & (np.diff(requests) > 0))
    return _with_a_beginning(requests[rises], units[rises])


def _with_a_beginning(requests: Floats, units: Floats) -> tuple[Floats, Floats]:
    """Points before the first count, as a cache that fills has them.

    Pages that are met at random are missing with a probability that decays exponentially. What was read
    beyond what a unit reads in the end, before the first count and until the second, says how fast.
    """
    if len(units) < 3 or units[0] != 0:
        return requests, units
    widths = np.diff(units)
    rates = np.diff(requests) / widths
    last = float(np.average(rates[len(rates) // 2 :], weights=widths[len(rates) // 2 :]))
    before, after = (float((rates[index] - last) * widths[index]) for index in (0, 1))
    width = float(widths[1] / widths[0])
    if before <= 0 or after >= before * width:
        return requests, units
    decay = _decay(max(after, 0.0) / before, width)
    at = np.linspace(0.0, 1.0, _PARTS + 1)[1:-1]
    inside = last * at * widths[0] + before * np.expm1(-decay * at) / np.expm1(-decay)
    return np.insert(requests, 1, inside), np.insert(units, 1, at * widths[0])


def _decay(ratio: float, width: float) -> float:
    """How often an exponential decay falls by e until 1, from its areas behind and before 1.

    `ratio`: the area from 1 to 1 + `width` over that from 0 to 1; less than `width`.
    """
    least, most = 0.0, _DECAY_MAX
    for _ in range(40):
        middle = (least + most) / 2
        if np.exp(-middle) * np.expm1(-middle * width) / np.expm1(-middle) > ratio:
            least = middle
        else:
            most = middle
    return most


def _beyond(at: Floats, values: Floats, wanted: float) -> float:
    """Between the points, and behind the last one as the last quarter of the way rose."""
    if wanted <= at[-1]:
        return float(np.interp(wanted, at, values))
    quarter = float(np.interp(0.75 * at[-1], at, values))
    return float(values[-1] + (wanted - at[-1]) * (values[-1] - quarter) / max(0.25 * at[-1], 1e-9))
