"""How a trial is run, and what is seen of it."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import FILE, Words, maybe, switch, value
from pgassay.value_syntax.quantities import whole

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.experiment import Between, Covariate, Observe, PlanKind, Restart

LAYOUTS_MAX = 64
PROFILE_ROUNDS_DEFAULT = 10
PROFILE_ROUNDS_MAX = 200


# Methods are the request's, which has these fields: to make them here would cost every start time.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TrialOptions:
    """What comes before a trial, what trials share, and what is observed."""

    covariate: "Covariate" = value(
        "--covariate",
        Words["Covariate"](("none", "canary", "memory", "disk")),
        "adjust for the machine's speed, measured before each trial: of the processor (canary), "
        "of fresh memory, or of the disk",
        default="none",
        guide="corrects for the machine's speed by a fixed task before each trial: `canary` (processor), "
        "`memory` or `disk`: [covariates](compare-how-it-works.md#covariates)",
    )
    observe: "Observe" = value(
        "--observe",
        Words["Observe"](("off", "normal", "fast")),
        "how often the server's threads and their waits are sampled",
        default="normal",
        guide="`off` samples no threads and waits; `fast` twice as often: [observation](observation.md)",
    )
    between: "Between" = value(
        "--between",
        Words["Between"](("nothing", "neutral")),
        "what to run, uncounted, before each trial: neutral is the workload on the control's "
        "settings, so that no trial follows another arm",
        default="nothing",
        guide="`neutral` runs the control's workload, uncounted, before each trial, against "
        "[carry-over](statistics-how-it-works.md#carry-over). About twice the time",
    )
    # Whether arms that one running server can be share its starts.
    restart: "Restart" = value(
        "--restart",
        Words["Restart"](("needed", "each")),
        "needed: arms that can share one running server (session settings, SQL texts, indexes) take turns "
        "in it, and a block is one start; all others have a separate trial for each arm, as with each",
        default="needed",
        guide="`needed`: arms that can [share one running "
        "server](compare-how-it-works.md#arms-in-one-server) take turns in it. `each`: a separate trial for "
        "each arm",
    )
    plans: "PlanKind | None" = maybe(
        "--plans",
        Words["PlanKind"](("off", "estimate", "work")),
        "work: execute each statement once for each arm with EXPLAIN ANALYZE, outside "
        "of all timing; estimate: only EXPLAIN",
        otherwise="work; on running servers estimate",
        guide="`work` [executes each statement once](compare-how-it-works.md#plans-with-their-work) for each "
        "arm; `estimate` keeps estimates; `off` nothing",
    )
    # None: as many as builds from source are linked with, where they are compared.
    layouts: int | None = maybe(
        "--layouts K",
        partial(whole, least=1, most=LAYOUTS_MAX),
        "link each build from source K times, its functions in a different order each time, and draw one for "
        "each block; 1: as it was built",
        ("compare", "bisect", FILE),
        otherwise="4",
        servers="own",
        guide="links each build from source K times with [its functions in another "
        "order](source-builds.md#layout), drawn for each block; `1`: as it was built",
    )
    profile: bool = switch(
        "--profile",
        "after the verdict, run further trials in which perf samples the servers, and report "
        "which functions take more or less time per transaction",
        ("compare", "bisect", FILE),
        guide="after the verdict, further rounds with perf: [which functions](profile.md) make the "
        "difference",
    )
    profile_rounds: int | None = maybe(
        "--profile-rounds N",
        partial(whole, least=1, most=PROFILE_ROUNDS_MAX),
        "with --profile: number of blocks of such trials",
        ("compare", "bisect", FILE),
        otherwise=str(PROFILE_ROUNDS_DEFAULT),
        needs="--profile",
    )
