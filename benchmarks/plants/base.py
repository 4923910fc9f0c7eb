"""A plant: one cause put into a real server, the words of the comparison that lifts it, and its judgement."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgassay.analysis.causes.registry import RULES

# As far as a prediction may lie from what lifting the cause then gains.
GAIN_TOLERANCE = 0.25
_RANGE_MAX = 3.0
# A plant that limits the server makes it slower by more than chance does.
_GAIN_MIN = 1.1
# Causes whose prediction is the least: see `gain_is_least` of their rule.
AT_LEAST = frozenset(rule.cause for rule in RULES if rule.gain_is_least)
# What other processes of the machine do is no fault of a server in which something else was planted.
NOISE = "noise"
# The titles of processes of a server whose plant comes from outside; see `outside`.
MARK = "planted"
MARKED = f"cluster_name={MARK},lifted"


# What is done while the comparison runs, in this home; answers words to put in place of others.
Outside = Callable[[Path], AbstractContextManager[Mapping[str, str]]]
# What is made around the whole command, in this home; answers the words that stand before it.
Around = Callable[[Path], AbstractContextManager[tuple[str, ...]]]


def nothing(_home: Path) -> AbstractContextManager[Mapping[str, str]]:
    """Most plants are settings, data or limits: nothing is done to them from outside."""
    return nullcontext({})


def nothing_around(_home: Path) -> AbstractContextManager[tuple[str, ...]]:
    """Most commands run as they are typed."""
    return nullcontext(())


@dataclass(frozen=True)
class Plant:
    """One cause at one magnitude.

    factor: `NAME=planted level,other level`. lifts: whether the other level takes the cause away; else both
    arms have it. workload: as typed, or SQL, which becomes the file of a `sql` workload. also: faults, or the
    limit, planted beside the cause, that are to be named too and stay in the other arm. tolerated: limits or
    faults that may be named beside a planted fault or in the other arm, with the reason at the plant. needs:
    capabilities, by the names of `needs`. files: SQL files by name. outside: what is done to the server while
    it runs. around: what the whole command runs in. is_remote: the servers are already running. own_s: what
    the lifted arm takes at least, where nobody sees what others take of the processors. variant: another way
    of planting the cause, with its own name. advised: words that the advice for the cause must hold. decoy:
    the fields of the harmless counterpart where the other level is none.
    """

    cause: str
    magnitude: str
    factor: str
    workload: str
    options: tuple[str, ...] = ()
    scale: int | None = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    outside: Outside = nothing
    around: Around = nothing_around
    is_remote: bool = False
    own_s: float | None = None
    lifts: bool = True
    also: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()
    variant: str = ""
    advised: str = ""
    decoy: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The cause with its variant, or the causes of a mixture, joined by '+'."""
        cause = f"{self.cause}:{self.variant}" if self.variant else self.cause
        return "+".join([cause, *sorted(self.also)])

    def words(self, folder: Path, given: Mapping[str, str]) -> list[str]:
        """The words after `pgassay`; writes the plant's SQL files into the folder.

        given: what stands for words of the factor.
        """
        texts = dict(self.files)
        workload = self.workload
        if workload.startswith("--"):
            texts["statements.sql"] = workload
            workload = "sql:statements.sql"
        for name, text in texts.items():
            (folder / name).write_text(text)
        places = {name: str(folder / name) for name in texts} | dict(given)
        factor, workload, *options = (
            _replaced(word, places) for word in (self.factor, workload, *self.options)
        )
        words = ["compare", factor, "--workload", workload, *options]
        words += ["--blocks", "1", "--json", "--quiet", "--out", str(folder / "results")]
        if self.is_remote:
            return words
        # What is planted is planted in trials.
        words += ["--restart", "each"]
        # Whoever chooses a plan with workers adds a second cause to what is planted.
        settings = {"shared_buffers": "64MB", "max_parallel_workers_per_gather": "0", **self.settings}
        compared = self.factor.partition("=")[0]
        words += [
            word for pair in settings.items() if pair[0] != compared for word in ("--set", "=".join(pair))
        ]
        return words if self.scale is None else [*words, "--scale", str(self.scale)]

    def harmless(self) -> "Plant | None":
        """The decoy that has a run of its own; None where the other level is one."""
        return None if self.decoy is None else replace(self, decoy=None, **self.decoy)


@dataclass(frozen=True)
class Named:
    """What was said of one arm; noise is kept apart."""

    limit: str
    faults: frozenset[str]
    gains: Mapping[str, float | None]
    ranges: Mapping[str, tuple[float, float]]
    is_noisy: bool
    remedies: Mapping[str, str] = field(default_factory=dict)

    @property
    def all(self) -> frozenset[str]:
        """Limit and faults."""
        return self.faults | {self.limit}

    def __str__(self) -> str:
        return " + ".join([self.limit, *sorted(self.faults)]) + (" (noise)" if self.is_noisy else "")


@dataclass(frozen=True)
class Judgement:
    """One run of a plant.

    is_named: the cause is the limit, or among the faults, and nothing that was not planted is a fault.
    predicted, measured: how many times as fast without the cause; None where nothing is predicted or lifted.
    predicted_range: the least and the most of the prediction, where the record can't tell them apart.
    is_least: it is of the least. is_clean: the arm without the cause doesn't name it, and has no fault; None
    where both arms have it.
    """

    is_named: bool
    planted: Named
    predicted: float | None
    predicted_range: tuple[float, float] | None
    measured: float | None
    is_clean: bool | None
    other: Named
    is_least: bool = False

    @property
    def is_noisy(self) -> bool:
        """Whether other processes took the processors: then the arms' speeds are theirs, too."""
        return self.planted.is_noisy or self.other.is_noisy

    @property
    def is_none(self) -> bool:
        """Whether the plant limited nothing here: no fault was named, and lifting it gained nothing.

        A disk may be so fast that one reader keeps up with what needs the data; to name it would be wrong.
        """
        is_silent = not self.is_named and not self.planted.faults
        return is_silent and self.measured is not None and self.measured < _GAIN_MIN

    @property
    def is_near(self) -> bool | None:
        """Whether what was predicted is within the tolerance, or its range holds what was measured.

        A prediction of the least holds where as much was measured, or more: but not so much more that it said
        nothing. None where nothing was predicted.
        """
        if self.predicted is None or self.measured is None:
            return None
        if self.is_least and self.predicted <= self.measured <= _RANGE_MAX * self.predicted:
            return True
        least, most = self.predicted_range or (self.predicted, self.predicted)
        # So wide a range would hold anything.
        if most <= _RANGE_MAX * least and least <= self.measured <= most:
            return True
        return abs(self.predicted / self.measured - 1) <= GAIN_TOLERANCE


def judge(plant: Plant, result: Mapping[str, Any]) -> Judgement:
    """Set what the JSON document says beside what was planted."""
    control, other = (
        next(arm for arm in result["arms"] if (arm["verdict"] == "control") is is_control)
        for is_control in (True, False)
    )
    planted, lifted = (_named(plant, result, arm["name"]) for arm in (control, other))
    is_named = _has_all(plant, planted)
    measured = predicted = predicted_range = is_clean = None
    if plant.lifts:
        ratio = control["median"] / other["median"]
        measured = ratio if result["metric"]["better"] == "lower" else 1 / ratio
        predicted, predicted_range = planted.gains.get(plant.cause), planted.ranges.get(plant.cause)
        is_clean = is_harmless(plant, lifted)
        if plant.own_s is not None and other["median"] > (1 + GAIN_TOLERANCE) * plant.own_s:
            lifted = replace(lifted, is_noisy=True)
    else:
        is_named = is_named and _has_all(plant, lifted)
    is_least = plant.cause in AT_LEAST
    return Judgement(is_named, planted, predicted, predicted_range, measured, is_clean, lifted, is_least)


def is_harmless(plant: Plant, named: Named) -> bool:
    """The cause is not named, and no fault but what was planted beside it."""
    return plant.cause not in named.all and named.faults <= plant.also | plant.tolerated


def both(plant: Plant, result: Mapping[str, Any]) -> tuple[Named, ...]:
    """What was said of each arm."""
    return tuple(_named(plant, result, arm["name"]) for arm in result["arms"])


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def _has_all(plant: Plant, named: Named) -> bool:
    wanted = {plant.cause} | plant.also
    advice = named.remedies.get(plant.cause, "")
    return wanted <= named.all and named.faults <= wanted | plant.tolerated and plant.advised in advice


def _named(plant: Plant, result: Mapping[str, Any], arm: str) -> Named:
    causes = [cause for cause in result["causes"] if cause["arm"] == arm]
    is_planted_noise = NOISE in {plant.cause} | plant.also
    faults = {cause["cause"] for cause in causes if cause["kind"] == "fault"}
    return Named(
        limit=next((cause["cause"] for cause in causes if cause["kind"] == "limit"), "no trial"),
        faults=frozenset(faults if is_planted_noise else faults - {NOISE}),
        # Where the other arm measured the gain, what is judged is what had been predicted.
        gains={
            cause["cause"]: cause["gain_predicted"] if cause.get("lifted_by") else cause["gain_if_lifted"]
            for cause in causes
        },
        ranges={cause["cause"]: tuple(cause["gain_range"]) for cause in causes if cause.get("gain_range")},
        is_noisy=NOISE in faults and not is_planted_noise,
        remedies={cause["cause"]: cause.get("remedy", "") for cause in causes},
    )
