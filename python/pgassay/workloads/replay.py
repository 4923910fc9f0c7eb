"""`replay:DIR,…`: captured traffic, played in each trial on its copy of the data."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.model.workload import LoadSpec, Metric, PartOfCapture, ReplayOptions, Statement, WorkloadSpec
from pgassay.native.replay_commands import PlannedFamily, planned
from pgassay.traffic import play_plan
from pgassay.value_syntax import option_lists as typed_options
from pgassay.value_syntax import quantities
from pgassay.workloads.pace import MEAN_LATENCY

FAMILY = "replay"
OPTIONS = (
    *("speed", "from", "until", "users", "database", "databases"),
    *("sample", "max_diverged", "writes", "families"),
)
# What a trial compares: at a pace the same is done whatever it takes.
THROUGHPUT = Metric(name="throughput", unit="statements/s", better="higher")
SPEED_MIN, SPEED_MAX = 0.5, 50.0
BOUND_DEFAULT = 0.01
# Families with a line of their own: no more than a reader looks at, none that is next to nothing, and none
# whose few executions are chance unless they take much of the time.
FAMILIES_DEFAULT, FAMILIES_MAX, SHARE_MIN = 20, 200, 0.001
CALLS_MIN, SHARE_OF_FEW_MIN = 10, 0.01
_NAME_MAX = 44
# What stands behind the folder's name, which may hold commas itself.
_OPTIONS = re.compile(rf"(?:,(?:{'|'.join(OPTIONS)})=[^,]*)+$")


def folder_of(text: str) -> str:
    """The capture's folder of what follows `replay:`, without the options behind it."""
    return _OPTIONS.sub("", text)


def folder_and_options(text: str, subject: str) -> tuple[str, dict[str, str]]:
    """Both of what follows `replay:`; raises UsageError, naming the subject, for an option that is none."""
    name = folder_of(text)
    if not Path(name).exists():
        # A misspelt option is no part of a name.
        name = name.partition(",")[0]
    return name, typed_options.of(text.removeprefix(name), subject, OPTIONS)


def parse(family: str, text: str) -> WorkloadSpec:
    """`DIR[,speed=2|max][,from=1m][,until=10m][,users=app+web][,database=shop][,sample=10%][,max_diverged=1%]`.

    Reads the capture once. Raises UsageError for an option or a capture that is none.
    """
    name, given = folder_and_options(text, f"workload {family}")
    if not name:
        raise UsageError(
            "workload replay needs a capture: write --workload replay:DIR, with the folder that `pgassay "
            "capture` wrote"
        )
    writes = given.get("writes", "")
    if writes not in ("", "yes", "no"):
        raise UsageError(f"workload replay: writes={writes} is not known: write writes=yes or writes=no")
    folder, speed = Path(name), _speed(given.get("speed", "1"))
    families = quantities.whole(
        given.get("families", str(FAMILIES_DEFAULT)), "option families", least=1, most=FAMILIES_MAX
    )
    identity = play_plan.identity(folder)
    part = _part(folder, given)
    plan = planned(part.model_dump())
    if not plan["statements"]:
        raise UsageError(
            f"{folder} has no statements to replay with these options: see pgassay capture show {folder}"
        )
    seconds_captured = max(plan["seconds_captured"], 1e-3)
    options = ReplayOptions(
        **dict(part),
        identity=identity,
        speed=speed,
        bound=quantities.fraction(given.get("max_diverged", str(BOUND_DEFAULT)), "option max_diverged"),
        statements=plan["statements"],
        seconds_captured=seconds_captured,
    )
    load = LoadSpec(
        script=FAMILY,
        clients=plan["sessions_most"],
        protocol="extended",
        duration_s=seconds_captured / (speed or 1.0),
        warmup_s=0.0,
        replay=options,
    )
    return WorkloadSpec(
        text=f"{family}:{text}",
        family=family,
        kind="load",
        metric=THROUGHPUT if speed is None else MEAN_LATENCY,
        writes=writes == "yes" if writes else any(each["writes"] for each in plan["families"]),
        statements=statements_of(plan["families"], families),
        load=load,
    )


def statements_of(families: Sequence[PlannedFamily], most: int = FAMILIES_DEFAULT) -> tuple[Statement, ...]:
    """So many families that take most of the captured time, each with a name and one statement."""
    seconds: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    samples: dict[str, str] = {}
    for each in sorted(families, key=lambda each: -each["calls"]):
        text = play_plan.named(each["sample"])
        seconds[text] += each["seconds_captured"]
        calls[text] += each["calls"]
        samples.setdefault(text, each["sample"])
    whole = math.fsum(seconds.values())
    taken: Counter[str] = Counter()
    found: list[Statement] = []
    for text, busy_s in sorted(seconds.items(), key=lambda each: -each[1]):
        share_min = SHARE_MIN if calls[text] >= CALLS_MIN else SHARE_OF_FEW_MIN
        if busy_s < share_min * whole or len(found) == most:
            continue
        short = text if len(text) <= _NAME_MAX else text[: _NAME_MAX - 1].rstrip() + "…"
        taken[short] += 1
        name = short if taken[short] == 1 else f"{short} ({taken[short]})"
        found.append(Statement(name=name, sql=samples[text]))
    return tuple(found)


def _part(folder: Path, given: dict[str, str]) -> PartOfCapture:
    """Which sessions of the capture, and how long."""
    users = tuple(name for name in given.get("users", "").split("+") if name)
    found = list(play_plan.databases_of(folder, users))
    # As the option of `pgassay replay` is called.
    named = given.get("database", given.get("databases"))
    database = named if named is not None else found[0] if len(found) == 1 else ""
    if not found:
        raise UsageError(
            f"{folder} has no sessions of {', '.join(users) or 'anybody'}: see pgassay capture show {folder} "
            "for its users"
        )
    if database not in found:
        wrong = f"no sessions in {database}, but in" if database else "sessions in several databases:"
        raise UsageError(
            f"{folder} has {wrong} {', '.join(found)}: a trial replays one: write "
            f"{FAMILY}:{folder},database={found[0]}"
        )
    from_s = until_s = share = None
    if "from" in given:
        from_s = quantities.seconds(given["from"], "workload option from", least=0.001)
    if "until" in given:
        until_s = quantities.seconds(given["until"], "workload option until", least=0.001)
    if from_s is not None and until_s is not None and from_s >= until_s:
        raise UsageError(f"workload replay: from={given['from']} is not before until={given['until']}")
    if "sample" in given:
        share = quantities.fraction(given["sample"], "workload option sample")
        if not 0 < share <= 1:
            raise UsageError(
                f"workload option sample: {given['sample']} is not a share of the sessions: write 10%"
            )
    return PartOfCapture(
        folder=str(folder.resolve()),
        database=database,
        users=users,
        until_s=until_s,
        sample=share,
        from_s=from_s,
    )


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        found = float(text.removesuffix("x"))
    except ValueError:
        found = math.nan
    if not SPEED_MIN <= found <= SPEED_MAX:
        raise UsageError(
            f"workload option speed: '{text}' is not known: write a factor from {SPEED_MIN:g} to "
            f"{SPEED_MAX:g}, as speed=2, or speed=max"
        )
    return found
