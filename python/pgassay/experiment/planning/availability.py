"""Judges every arm before anything runs: can this build and machine do what it asks for?

A level that is refused is an error with the gate and the remedy, or, with --skip-unavailable, an
arm that is dropped and named.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pgassay.environment.server.limits import check_limits
from pgassay.environment.server.validation import validate_settings
from pgassay.environment.storage.registry import KINDS as STORAGE_KINDS
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.arm import ArmSpec

Candidate = tuple[dict[str, str], ArmSpec]


@dataclass(frozen=True)
class Available:
    """The combinations that can run, and a sentence for each that can't."""

    candidates: list[Candidate]
    skipped: tuple[str, ...]


def judge(
    candidates: list[Candidate], *, skip_unavailable: bool, progress: Callable[[str, float], None]
) -> Available:
    """Start a small server with each arm's settings; keep the arms it accepts.

    Raises UsageError for the first arm that is refused, unless `skip_unavailable`.
    """
    kept: list[Candidate] = []
    skipped: list[str] = []
    is_one_build = len({spec.build.bin_directory for _, spec in candidates}) == 1
    verdicts: dict[tuple[object, ...], UsageError | None] = {}
    for index, (levels, spec) in enumerate(candidates):
        progress("checking every level on a small server", index / len(candidates))
        settings = tuple(sorted(spec.settings.items()))
        key = (spec.build.bin_directory, settings, spec.memory_bytes, spec.cpus, spec.storage.kind)
        if key not in verdicts:
            verdicts[key] = _refusal(spec)
        refusal = verdicts[key]
        if refusal is None:
            kept.append((levels, spec))
        elif skip_unavailable:
            name = " ".join(f"{factor}={level}" for factor, level in levels.items())
            skipped.append(f"{name} was skipped: {refusal}")
        elif is_one_build:
            raise refusal
        else:
            name = " ".join(f"{factor}={level}" for factor, level in levels.items())
            sentence = str(refusal).rstrip(".")
            raise UsageError(f"{name}: {sentence}; or drop such arms with --skip-unavailable") from refusal
    return Available(kept, tuple(skipped))


def _refusal(spec: ArmSpec) -> UsageError | None:
    missing = STORAGE_KINDS[spec.storage.kind].capability()
    if missing is not None:
        return UsageError(missing)
    try:
        check_limits(spec)
        validate_settings(spec.build, spec.settings)
    except UsageError as error:
        return error
    except MeasurementError as error:
        return UsageError(str(error))
    return None
