"""How much of one thing is enough: operations, throughput, latency; each with no limit of the others."""

import math
from collections.abc import Callable, Sequence

from pgassay.model.volumes.offer import Distribution, Latency, Limiter, Stripes, Unit, VolumeModel
from pgassay.model.volumes.size import CurvePoint, Dimension, Knee
from pgassay.sizing.predict import Predicted, Predictor
from pgassay.sizing.server_volumes import Attached

# What a time may be above that without the limit, and count as the same.
TOLERANCE = 0.02
# What may be left to write, of all that was asked for.
UNSERVED_MAX = 0.05
MIB = 1024**2
_QUANTUM_BYTES = 256 * 1024
# From what no volume is below to what none is above; steps between them, and within the one that decides.
_RANGES: dict[Dimension, tuple[float, float]] = {
    "operations": (50, 300_000),
    "throughput": (2, 16_000),
    "latency": (0.02, 20),
}
_COARSE, _FINE = 18, 8


def knees(predictor: Predictor, chosen: Attached) -> tuple[Knee, ...]:
    """The knee of each dimension, at the latency of what was chosen where another one is varied.

    They are of the data's volume; that of the WAL stays as it is. Operations are counted as the chosen volume
    counts them: in units of so many bytes, adjacent ones merged or not.
    """
    latency = chosen.data.latency
    counts = (each for each in chosen.data.limiters if each.unit == "operations" and each.scope == "volume")
    counted = next(counts, _usual("operations"))

    def knee(dimension: Dimension, model: Callable[[float], VolumeModel]) -> Knee:
        return _knee(predictor, dimension, model, chosen)

    return (
        knee("operations", lambda value: _limited(counted, value, latency)),
        knee("throughput", lambda value: _limited(_usual("bytes"), value * MIB, latency)),
        knee("latency", lambda value: _model(value, (), _of(value))),
    )


def _knee(
    predictor: Predictor, dimension: Dimension, model: Callable[[float], VolumeModel], chosen: Attached
) -> Knee:
    """Coarse steps over the whole range, then fine ones around where it decides.

    With more operations or throughput, and with less latency, a time never gets longer but for luck.
    """

    def predicted(models: Sequence[VolumeModel]) -> list[Predicted]:
        return predictor.predict([chosen.with_data(each) for each in models])

    least, most = _RANGES[dimension]
    values = _steps(least, most, _COARSE)
    ideal = _model(0.0, (), _of(0.0)) if dimension == "latency" else _model(0.0, (), model(most).latency)
    best, *times = predicted([ideal, *map(model, values)])
    is_better_low = dimension == "latency"

    def enough(found: Predicted) -> bool:
        # Writes that pile up are waited for in the end.
        is_as_fast = found.seconds_per_unit <= best.seconds_per_unit * (1 + TOLERANCE)
        return is_as_fast and found.unserved_share <= UNSERVED_MAX

    found = _first_enough(values, times, enough, is_better_low=is_better_low)
    if found is not None and (between := _between(values, found, is_better_low=is_better_low)) is not None:
        finer = _steps(*between, _FINE)[1:-1]
        finer_times = predicted([model(value) for value in finer])
        values, times = _merged(values, times, finer, finer_times)
        found = _first_enough(values, times, enough, is_better_low=is_better_low)
    return Knee(
        dimension=dimension,
        value=None if found is None else _rounded(values[found], down=is_better_low),
        tolerance=TOLERANCE,
        curve=tuple(
            CurvePoint(value=value, seconds_per_unit=time.seconds_per_unit)
            for value, time in zip(values, times, strict=True)
        ),
    )


def _first_enough(
    values: Sequence[float],
    times: Sequence[Predicted],
    enough: Callable[[Predicted], bool],
    *,
    is_better_low: bool,
) -> int | None:
    """The least that is enough, from which on all is; of latency the most."""
    order = range(len(values)) if is_better_low else range(len(values) - 1, -1, -1)
    found = None
    for index in order:
        if not enough(times[index]):
            break
        found = index
    return found


def _between(values: Sequence[float], found: int, *, is_better_low: bool) -> tuple[float, float] | None:
    """The step that decides: from the last that is not enough to the first that is; None at the end."""
    other = found + 1 if is_better_low else found - 1
    if not 0 <= other < len(values):
        return None
    return min(values[found], values[other]), max(values[found], values[other])


def _merged(
    values: Sequence[float],
    times: Sequence[Predicted],
    more: Sequence[float],
    more_times: Sequence[Predicted],
) -> tuple[list[float], list[Predicted]]:
    both = [*zip(values, times, strict=True), *zip(more, more_times, strict=True)]
    pairs = sorted(both, key=lambda pair: pair[0])
    return [value for value, _ in pairs], [time for _, time in pairs]


def _steps(least: float, most: float, count: int) -> list[float]:
    factor = (most / least) ** (1 / (count - 1))
    return [least * factor**step for step in range(count)]


def _rounded(value: float, *, down: bool) -> float:
    """Three digits, to the side on which it is still enough: half a step on the other is not."""
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    steps = round(value * scale, 6)
    # A number that is divided has no digits that it was not given, as one that is multiplied may.
    return (math.floor(steps) if down else math.ceil(steps)) / scale


def _limited(counted: Limiter, rate: float, latency: Latency) -> VolumeModel:
    """A volume with this one limit, which counts as that limiter does, without bursts."""
    rates = dict.fromkeys(("rate", "peak"), max(1, round(rate)))
    without = {"capacity": 0, "fill": 0, "reset_period_s": None}
    return _model(rate, (counted.model_copy(update={**rates, **without}),), latency)


def _usual(unit: Unit) -> Limiter:
    """One that counts as most volumes do."""
    return Limiter(
        name=unit,
        scope="volume",
        unit=unit,
        rate=1,
        peak=1,
        capacity=0,
        fill=0,
        quantum_bytes=_QUANTUM_BYTES if unit == "operations" else 1,
        merging=unit == "operations",
        reset_period_s=None,
    )


def _model(value: float, limiters: tuple[Limiter, ...], latency: Latency) -> VolumeModel:
    return VolumeModel(
        name=f"{value:g}",
        stripes=Stripes(count=1, width_bytes=_QUANTUM_BYTES),
        limiters=limiters,
        latency=latency,
    )


def _of(latency_ms: float) -> Latency:
    one = Distribution(median_ns=latency_ms * 1e6, sigma=0.2 if latency_ms else 0.0, bytes_per_second=None)
    flush = Distribution(median_ns=0.0, sigma=0.0, bytes_per_second=None)
    return Latency(read=one, write=one, flush=flush)
