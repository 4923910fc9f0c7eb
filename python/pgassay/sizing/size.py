"""From recordings and volumes to a recommendation: cheapest within a slow-down, knees, proof."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgassay import __version__
from pgassay.cloud_volumes.catalogue import LoadedCatalogue
from pgassay.errors import UsageError
from pgassay.model.volumes.offer import CatalogueFacts, VolumeModel
from pgassay.model.volumes.size import SizedGroup, SizeResult, StorageBound
from pgassay.record.experiment import StoredExperiment
from pgassay.sizing.candidates import candidate
from pgassay.sizing.caveats import doubts_of, imitation_doubts
from pgassay.sizing.knees import knees
from pgassay.sizing.predict import NothingAskedError, Predicted, Predictor
from pgassay.sizing.recordings import RecordingGroup, groups_of
from pgassay.sizing.server_volumes import CandidateVolume
from pgassay.sizing.size_sentences import (
    equivalents_of,
    sentences_of,
    sentences_of_bound,
    warnings_of,
    warnings_of_bound,
)
from pgassay.sizing.volume_choice import burst_of, judged, neighbours_of, recommended_of, reference_of

WAL_APART = (
    "the WAL was on its own storage: only the data's volume is replayed, and waits of "
    "commits for the other are taken as recorded. Record both (trace=yes of both)."
)
WAL_OF_NOBODY = (
    "the WAL's volume is taken as it was recorded, and prices are without it where it can't be ordered "
    "with the data's: name yours with --wal gp3,size=20GiB."
)


@dataclass(frozen=True)
class Wanted:
    """What a user asks for.

    slow_down: what is allowed, as a share. against: the volume that all are compared with; None: the fastest.
    size_gib: what is to be stored.
    """

    slow_down: float
    size_gib: int
    against: CandidateVolume | None = None


def size(
    stored: StoredExperiment,
    offers: Sequence[CandidateVolume],
    wanted: Wanted,
    loaded: LoadedCatalogue,
    proofs: Sequence[StoredExperiment] = (),
) -> SizeResult:
    """Every group of the experiment on every volume; `proofs` measured some of these volumes.

    Raises:
        UsageError: no requests were recorded, or a trace can't be read.
        MeasurementError: the native process ended.
    """
    found = groups_of(stored, proofs)
    beside = [_beside(group, offers, wanted, loaded) for group in found]
    groups, idle = _all_sized(found, beside)
    recorded_apart = any(group.has_wal for group in found)
    has_wal_apart = any(arm.spec.storage.wal is not None for arm in stored.experiment.arms)
    known = {
        each.name: each
        for some, asked in beside
        for each in (*some, *([] if asked.against is None else [asked.against]))
    }
    local = {name for name, entry in loaded.catalogue.volumes.items() if entry.instance is not None}
    is_nobodys = any(
        each.wal is None and each.wal_model is not None for each, *_ in (some for some, _ in beside)
    )
    return _result(
        stored,
        wanted,
        loaded,
        sentences=[
            *(line for group in groups for line in sentences_of(group, wanted.slow_down)),
            *(
                f"{name}: it sent no requests to its volume, so every volume is equally fast."
                for name in idle
            ),
            *equivalents_of(groups, known),
        ],
        warnings=[
            *warnings_of(groups),
            *doubts_of(stored.experiment, groups, known, wanted.slow_down, wanted.size_gib, local),
            *imitation_doubts([stored, *proofs]),
            *([WAL_APART] if has_wal_apart and not recorded_apart else []),
            *([WAL_OF_NOBODY] if is_nobodys else []),
        ],
        groups=groups,
    )


def _all_sized(
    found: Sequence[RecordingGroup], beside: Sequence[tuple[list[CandidateVolume], Wanted]]
) -> tuple[tuple[SizedGroup, ...], tuple[str, ...]]:
    """The groups, and the names of those that asked for nothing; raises UsageError where none did."""
    groups: list[SizedGroup] = []
    idle: list[str] = []
    for group, each in zip(found, beside, strict=True):
        try:
            groups.append(_sized(group, *each))
        except NothingAskedError:
            if len(found) == 1 or (not groups and len(idle) == len(found) - 1):
                raise
            idle.append(group.name)
    return tuple(groups), tuple(idle)


def bounded(
    stored: StoredExperiment, bounds: Sequence[StorageBound], wanted: Wanted, loaded: LoadedCatalogue
) -> SizeResult:
    """What is known of servers elsewhere: no volume is looked at, since no request was recorded."""
    return _result(
        stored,
        wanted,
        loaded,
        sentences=[
            *(line for bound in bounds for line in sentences_of_bound(bound)),
            "This is only an upper bound of the gain, if everything else takes the same time "
            "as now: no real volume takes zero time. The gain of a specific volume needs recorded requests: "
            "'pgassay size --workload …' without --server.",
        ],
        warnings=[line for bound in bounds for line in warnings_of_bound(bound)],
        bounds=bounds,
    )


def _result(
    stored: StoredExperiment,
    wanted: Wanted,
    loaded: LoadedCatalogue,
    *,
    sentences: Sequence[str],
    warnings: Sequence[str],
    groups: Sequence[SizedGroup] = (),
    bounds: Sequence[StorageBound] = (),
) -> SizeResult:
    return SizeResult(
        pgassay_version=__version__,
        catalogue=CatalogueFacts(date=loaded.catalogue.date, files=loaded.files),
        folder=str(Path(stored.folder)),
        workload=stored.experiment.arms[0].spec.workload.text,
        slow_down=wanted.slow_down,
        size_gib=wanted.size_gib,
        groups=tuple(groups),
        sentences=tuple(sentences),
        warnings=tuple(warnings),
        bounds=tuple(bounds),
    )


def _sized(group: RecordingGroup, offers: Sequence[CandidateVolume], wanted: Wanted) -> SizedGroup:
    predictor = Predictor(group)
    everything = list(offers)
    if wanted.against is not None and wanted.against.name not in {each.name for each in offers}:
        everything.append(wanted.against)
    predicted, bursts = _predicted(predictor, everything)
    against = wanted.against or min(
        everything,
        key=lambda each: (predicted[each.name].seconds_per_unit, each.price_per_month or 0.0),
    )
    against_s = predicted[against.name].seconds_per_unit
    front = _front(everything, predicted)
    allowed_s = against_s * (1 + wanted.slow_down)
    # The range of latency decides of what is near the bound, and is told of what is worth its price.
    looked_at = [
        offer
        for offer in everything
        if offer.name in {*front, against.name}
        or predicted[offer.name].seconds_per_unit <= allowed_s * offer.latency_span
    ]
    ends = _ends(predictor, looked_at, bursts)
    volumes = [
        judged(offer, predicted, ends, reference_of(offer, against, against_s, ends), wanted.slow_down, front)
        for offer in everything
    ]
    volumes = [each.model_copy(update=burst_of(each, bursts.get(each.volume))) for each in volumes]
    # Of what costs the same the fastest is bought.
    volumes.sort(
        key=lambda each: (
            each.price_per_month is None,
            each.price_per_month or 0.0,
            each.seconds_per_unit,
            each.volume,
        )
    )
    recommended = recommended_of(volumes)
    volumes = [each.model_copy(update={"is_recommended": each.volume in recommended}) for each in volumes]
    chosen = next((offer for offer in everything if recommended and offer.name == recommended[0]), against)
    return SizedGroup(
        name=group.name,
        unit=group.unit,
        recordings=predictor.recordings(),
        floor_s=predictor.floor_s,
        against=against.name,
        against_s=against_s,
        volumes=tuple(volumes),
        recommended=recommended,
        neighbours=neighbours_of(volumes, recommended),
        knees=knees(predictor, chosen.attached),
        checks=predictor.checks(),
    )


def _beside(
    group: RecordingGroup, offers: Sequence[CandidateVolume], wanted: Wanted, loaded: LoadedCatalogue
) -> tuple[list[CandidateVolume], Wanted]:
    """What is offered and wanted, with a volume for the WAL where it has one of its own and none is named."""
    both = [*offers, *([] if wanted.against is None else [wanted.against])]
    if not group.has_wal:
        if any(each.wal is not None for each in both):
            raise UsageError(
                "A volume of the WAL is named, and its requests were not recorded separately: record them "
                "with 'pgassay size --workload … --wal …'."
            )
        return list(offers), wanted
    recorded = min(group.recordings, key=lambda each: each.seconds_per_unit).wal_model or {}

    def with_wal(each: CandidateVolume) -> CandidateVolume:
        if each.wal is not None:
            return each
        try:
            return candidate(each.name, loaded, str(recorded["name"]))
        except UsageError:
            return replace(each, wal_model=VolumeModel.model_validate(recorded))

    against = None if wanted.against is None else with_wal(wanted.against)
    return [with_wal(each) for each in offers], replace(wanted, against=against)


def _front(offers: Sequence[CandidateVolume], predicted: dict[str, Predicted]) -> frozenset[str]:
    """Those of which none is both cheaper and as fast, or faster at the same price."""
    priced = [
        (offer.price_per_month, predicted[offer.name].seconds_per_unit, offer.name)
        for offer in offers
        if offer.price_per_month is not None
    ]
    front, best_s = set(), float("inf")
    for _, seconds, name in sorted(priced):
        if seconds < best_s:
            front.add(name)
            best_s = seconds
    return frozenset(front)


def _predicted(
    predictor: Predictor, offers: Sequence[CandidateVolume]
) -> tuple[dict[str, Predicted], dict[str, Predicted]]:
    """By volume: what each gives for ever, and of those whose credits fall what they give while they last.

    A recording is shorter than most credits last, so that what happens within it says nothing of a volume
    that somebody will use for longer.
    """
    names = [offer.name for offer in offers]
    asked = dict(zip(names, predictor.predict([offer.attached for offer in offers]), strict=True))
    falling = [offer for offer in offers if asked[offer.name].credits_last_s is not None]
    models = [
        *(offer.attached.sustained() for offer in falling),
        *(offer.attached.bursting() for offer in falling),
    ]
    found = predictor.predict(models)
    sustained, bursting = found[: len(falling)], found[len(falling) :]
    lasting = {
        offer.name: replace(
            asked[offer.name],
            seconds_per_unit=each.seconds_per_unit,
            unserved_share=each.unserved_share,
        )
        for offer, each in zip(falling, sustained, strict=True)
    }
    bursts = {
        offer.name: replace(asked[offer.name], seconds_per_unit=each.seconds_per_unit)
        for offer, each in zip(falling, bursting, strict=True)
    }
    return asked | lasting, bursts


def _ends(
    predictor: Predictor, offers: Sequence[CandidateVolume], bursts: dict[str, Predicted]
) -> dict[str, tuple[float, float]]:
    """What a unit takes at both ends of the range of latency, without the credits that fall."""
    models = [end.sustained() if offer.name in bursts else end for offer in offers for end in offer.at_ends()]
    seconds = [each.seconds_per_unit for each in predictor.predict(models)]
    return {
        offer.name: (min(pair), max(pair))
        for offer, pair in zip(offers, zip(seconds[::2], seconds[1::2], strict=True), strict=True)
    }
