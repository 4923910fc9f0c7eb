"""What proves a probe's recommendation: the words of a comparison, and what came of it."""

import math
from dataclasses import dataclass

from pgassay.model.probe import ProbeProof, ProbeResult, ProvenWork
from pgassay.model.result import ArmResult, CompareResult
from pgassay.probe.analysis.recommend import changed, needs_max_combine
from pgassay.words import comparison, join, plural, span

ALL_WORK = "all of it"
# A device has one read-ahead, which others use too.
_OF_THE_DEVICE = "read_ahead_kb"
# Scans as the probe measures them: one reads a table whole, the other one page in five.
STATEMENTS = """-- name: cold-scan
SELECT count(filler) FROM pgbench_accounts;

-- name: bitmap-scan
SELECT count(filler) FROM pgbench_accounts WHERE aid = ANY (ARRAY(SELECT generate_series(1, 2000000, 300)));
"""
SCALE = 20
# Both arms have buffers for the reads in flight, and plans that read as the statements' names say.
SETTINGS = (
    "shared_buffers=512MB",
    "max_connections=20",
    "enable_seqscan=off",
    "enable_indexscan=off",
    "max_parallel_workers_per_gather=0",
)


@dataclass(frozen=True)
class ToProve:
    """Settings as they are by default and as recommended; `both`: what both arms need besides."""

    defaults: dict[str, str]
    recommended: dict[str, str]
    both: tuple[str, ...]

    @property
    def levels(self) -> str:
        """The factor that compares them, as it is typed."""
        return f"config={_level(self.defaults)},{_level(self.recommended)}"


def settings_to_prove(result: ProbeResult, major: int) -> ToProve:
    """What is recommended for a server of this major version and differs from its defaults."""
    found = {name: each for name, each in changed(result.recommend, major).items() if name != _OF_THE_DEVICE}
    wide = [each.value for name, each in found.items() if needs_max_combine(name, each.value)]
    return ToProve(
        {name: each.default for name, each in found.items()},
        {name: each.value for name, each in found.items()},
        (*SETTINGS, *(f"io_max_combine_limit={value}" for value in wide)),
    )


def nothing_to_prove(result: ProbeResult, version: str) -> ProbeProof:
    """The answer where all recommended settings are the defaults."""
    of_device = _OF_THE_DEVICE in changed(result.recommend, result.major)
    but = " The device's read-ahead was not varied: that needs a loop device." if of_device else ""
    return ProbeProof(
        version=version,
        folder="",
        defaults={},
        recommended={},
        blocks=0,
        works=(),
        sentence=f"Nothing to prove: the recommended settings are PostgreSQL's defaults.{but}",
    )


def proof_of(proven: ToProve, compared: CompareResult, version: str) -> ProbeProof:
    """What the comparison says of the recommendation."""
    found = _recommended(compared.arms)
    works = [_work(ALL_WORK, found)]
    works += [_work(each.name, _recommended(each.arms)) for each in compared.statements]
    return ProbeProof(
        version=version,
        folder=compared.folder,
        defaults=proven.defaults,
        recommended=proven.recommended,
        blocks=compared.blocks,
        works=tuple(works),
        sentence=_sentence(proven, found, compared, version),
    )


def _level(settings: dict[str, str]) -> str:
    return "+".join(f"{name}={value}" for name, value in settings.items())


def _recommended(arms: tuple[ArmResult, ...]) -> ArmResult:
    return next(arm for arm in arms if arm.verdict != "control")


def _work(name: str, arm: ArmResult) -> ProvenWork:
    return ProvenWork(name=name, verdict=arm.verdict, ratio=arm.ratio, interval=_closed(arm))


def _closed(arm: ArmResult) -> tuple[float, float] | None:
    low, high = arm.interval or (None, None)
    if low is None or high is None or low <= 0 or not math.isfinite(high):
        return None
    return low, high


def _sentence(proven: ToProve, arm: ArmResult, compared: CompareResult, version: str) -> str:
    settings = join([f"{name} = {value}" for name, value in proven.recommended.items()])
    blocks = plural(compared.blocks, "block")
    where = f"on PostgreSQL {version}, for cold scans and bitmap scans together"
    if arm.ratio is not None and arm.verdict in ("faster", "slower"):
        bounds = span(arm.interval) if arm.interval is not None else ""
        word = "Proven" if arm.verdict == "faster" else "Refuted"
        return f"{word}: {settings} is {comparison(arm.ratio)} the defaults {where} ({bounds}, {blocks})."
    if arm.verdict == "equivalent":
        return f"No difference: {settings} is as fast as the defaults {where}, within the margin ({blocks})."
    return f"Not decided after {blocks}: {settings} against the defaults {where}. Give it more --max-time."
