"""What a record says of an imitated volume as it is sold: price, what is assumed, what would have lasted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.cloud_volumes.explain import offer
from pgassay.cloud_volumes.pattern import parse_pattern, simulate_load
from pgassay.cloud_volumes.sustained_volumes import sustained_volumes
from pgassay.model.volumes.offer import VolumeModel, VolumeSpec
from pgassay.native.volume import Second

# As providers count a month.
_MONTH_S = 730 * 3600


def offer_facts(spec: VolumeSpec | None, loaded: LoadedCatalogue, name: str) -> dict[str, object]:
    """The fields of `ImitatedFacts` that the catalogue knows; spec None: a volume that nobody sells."""
    read_in = {"catalogue_date": str(loaded.catalogue.date), "catalogue_files": list(loaded.files)}
    if spec is None:
        return {"name": name, **read_in}
    offered = offer(spec, loaded.catalogue)
    latency = {"median_ms", "low_ms", "high_ms", "assumed"}
    return {
        "name": name,
        **read_in,
        "instance": spec.instance,
        "price": offered.price.model_dump(mode="json", exclude={"parts"}),
        "latency": offered.latency.model_dump(mode="json", include=latency),
        "assumed": list(offered.assumed),
    }


def simulated_words(spec: VolumeSpec, loaded: LoadedCatalogue, clients: Sequence[int]) -> str:
    """What the simulator says of random reads by so many connections, and the price, in sentences."""
    offered = offer(spec, loaded.catalogue)
    found, fastest = [], 0.0
    for count in clients or (1,):
        (load,) = simulate_load([offered], parse_pattern(f"depth={count},size=8kB,duration=10s"))
        found.append(f"{load.requests_per_s:,.0f} a second with {count} at a time")
        fastest = max(fastest, load.requests_per_s)
    price = offered.price
    month = ""
    if price.per_month is not None:
        month = f", for {price.per_month:,.2f} {price.currency} a month"
        if fastest:
            of_million = price.per_month * 1e6 / (fastest * _MONTH_S)
            month += f", a million of them for {of_million:.5f} {price.currency}"
    return f"Simulated in its place: random reads of 8 kB, {', '.join(found)}{month}."


def would_last(
    spec: VolumeSpec,
    loaded: LoadedCatalogue,
    model: VolumeModel,
    seconds: list[Second],
    figures: Mapping[str, object],
) -> list[dict[str, object]]:
    """Volumes that give for ever what this one gave until its credits ended; none where they lasted.

    figures: of the same seconds, with `credits_ended_s` and `credits_ended_of`. Where the allowance of the
    instance ended no volume helps.
    """
    ended_s, limiter = figures["credits_ended_s"], str(figures["credits_ended_of"])
    # That which the WAL's volume shares is not in its own model.
    is_own = any(each.scope != "instance" for each in model.limiters if each.name == limiter)
    if ended_s is None or not is_own:
        return []
    demand = given_until(seconds, float(str(ended_s))) or burst_rates(seconds, model)
    return [asdict(each) for each in sustained_volumes(spec, loaded.catalogue, *demand)]


def given_until(seconds: list[Second], ended_s: float) -> tuple[float, float] | None:
    """Operations and bytes a second of the whole seconds before then; None where there is none."""
    until: list[Second] = []
    elapsed_s = 0.0
    for second in seconds:
        elapsed_s += second["elapsed_s"]
        if elapsed_s > ended_s:
            break
        until.append(second)
    length_s = sum(second["elapsed_s"] for second in until)
    if length_s <= 0:
        return None
    transferred = sum(second["bytes_read"] + second["bytes_written"] for second in until)
    return sum(second["operations"] for second in until) / length_s, transferred / length_s


def burst_rates(seconds: list[Second], model: VolumeModel) -> tuple[float, float]:
    """Operations and bytes a second of requests like these, as many as the volume's peaks let through."""
    operations, transferred = peaks_of(model)
    counted = sum(second["operations"] for second in seconds)
    done = sum(second["bytes_read"] + second["bytes_written"] for second in seconds)
    if not counted or not done or not operations:
        return operations, transferred
    each = done / counted
    return min(operations, transferred / each), min(operations * each, transferred)


def peaks_of(model: VolumeModel) -> tuple[float, float]:
    """Operations and bytes a second that all its limits let through while credits last; 0 without a limit.

    An operation transfers a whole unit at most.
    """

    def peaks(unit: str) -> list[tuple[int, int]]:
        return [
            (limiter.peak * (model.stripes.count if limiter.scope == "volume" else 1), limiter.quantum_bytes)
            for limiter in model.limiters
            if limiter.unit == unit
        ]

    operations = peaks("operations")
    transferred = [peak for peak, _ in peaks("bytes")] + [peak * quantum for peak, quantum in operations]
    return (
        float(min((peak for peak, _ in operations), default=0)),
        float(min(transferred, default=0)),
    )
