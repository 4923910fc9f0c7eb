"""What is compared with what, how much is measured, and when it ends."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import (
    COPIES,
    EXPERIMENTS,
    FILE,
    TRIALS,
    Words,
    folder,
    maybe,
    several,
    switch,
    text,
    value,
)
from pgassay.value_syntax.quantities import fraction, seconds, whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.model.experiment import Decide

BLOCKS_MAX = 10_000
BLOCKS_DEFAULT = 60


# Methods are the request's, which has these fields: to make them here would cost every start time.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class EvidenceOptions:
    """The control, the limits of an experiment, and the errors that it may make."""

    control: str | None = maybe(
        "--control FACTOR=LEVEL",
        text,
        "the level that the others are compared with, as FACTOR=LEVEL, or LEVEL if only one factor has it",
        ("compare", FILE),
        otherwise="the first level",
    )
    strata: tuple[str, ...] = several(
        "--stratum NAME",
        "run only this stratum of a grid, as clients=8 or 'clients=8 memory=2GB'; repeatable. The error "
        "rate stays that of the whole grid",
        ("compare", FILE),
    )
    # None: BLOCKS_DEFAULT at most, and decided arms rest; whoever names a number wants them of all arms.
    blocks: int | None = maybe(
        "--blocks N",
        partial(whole, least=1, most=BLOCKS_MAX),
        "maximum number of blocks",
        (*TRIALS, "resume"),
        otherwise=str(BLOCKS_DEFAULT),
        guide="maximum number of blocks, 1 to 10000; in a grid, for each stratum. If you give it,"
        " decided arms do not rest",
    )
    max_time_s: float = value(
        "--max-time TIME",
        partial(seconds, least=1),
        "time limit, as 90s, 12m, 1h",
        (*COPIES, "upgrade", "run", "resume", "claims", "probe"),
        default="15m",
        guide="the time limit, as `90s`, `12m`, `1h`; loading the data the first time and waiting for "
        "another experiment do not count. No block starts that would probably end later, except the first",
    )
    margin: float = value(
        "--margin FRACTION",
        partial(fraction, least=0.001, most=0.5),
        "differences smaller than this do not matter",
        (*COPIES, "upgrade"),
        default="3%",
    )
    alpha: float = value(
        "--alpha FRACTION",
        partial(fraction, least=0.0001, most=0.2),
        "the chance of an error over all comparisons together",
        EXPERIMENTS,
        default="0.05",
    )
    all_blocks: bool = switch(
        "--all-blocks",
        "use all blocks, or all the time, even if everything is decided earlier",
        ("compare", FILE),
    )
    # What it goes on for: each arm, or the main effect of every factor of a grid.
    decide: "Decide" = value(
        "--decide",
        Words["Decide"](("arms", "effects")),
        "in a grid, what to decide: each arm (decided arms rest), or the main effect "
        "of every factor (all arms continue)",
        ("compare", FILE),
        default="arms",
        guide="a grid continues for: `arms`, a verdict on each; `effects`, [the main "
        "effect](compare-how-it-works.md#what-matters-most) of every factor",
    )
    pool_twin: bool = switch(
        "--no-pool",
        "compare with the control only, not with control and twin (its hidden duplicate) together",
        without=True,
        key="pool",
    )
    seed: int | None = maybe(
        "--seed N",
        whole,
        "seed of the order of the trials",
        (*EXPERIMENTS, "tune", "bisect", "upgrade", "run", "gate", "claims", "probe"),
        otherwise="drawn",
    )
    out: "Path | None" = maybe(
        "--out FOLDER",
        folder,
        "a new folder for the results",
        ("compare", "calibrate", "size", "tune", "bisect", "upgrade", "run", "gate", "claims", "probe"),
        guide="a new or empty folder for the results; else a new one in `./pgassay-results`",
    )
