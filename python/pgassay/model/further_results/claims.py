"""What somebody published of a comparison, and what an experiment here says of it."""

from typing import Literal

from pydantic import Field

from pgassay.model.base import Frozen

CLAIMS_SCHEMA = 1
Says = Literal[
    "faster", "slower", "equal", "fewer", "less", "more", "cheaper", "dearer", "differs", "limited",
    "ordered", "larger",
]  # fmt: skip
# What is compared: speeds of arms, of two statements of one arm, blocks that were asked for, a figure of
# trials or plans, values of a setting, what a unit of work costs, all arms of an order, the effects of two
# factors; or what limits an arm.
Kind = Literal["speed", "statements", "blocks", "figure", "setting", "limit", "price", "order", "factors"]
ClaimVerdict = Literal[
    "reproduced",
    "same direction, other size",
    "no difference here",
    "refuted",
    "undecided",
    "can't be tried here",
]


class Source(Frozen):
    """Where a claim was published; `date` as YYYY-MM or YYYY-MM-DD, '' where it is not known."""

    title: str
    url: str = ""
    date: str = ""


class Needs(Frozen):
    """What a claim can't do without: processors, memory in GB (10⁹ bytes), or what no experiment here has."""

    # A number in quotes is none.
    cores: int | None = Field(default=None, strict=True)
    memory_gb: float | None = Field(default=None, strict=True)
    elsewhere: str = ""


class Claim(Frozen):
    """A sentence that compares an arm with another (`against`), the control of its experiment or not.

    `published`: the speed of the arm over that of `against`, so that 2 is twice as fast, or its blocks, its
    figure or its price over theirs; None where no figure was given. `band`: the ratios that count as the same
    size. `statement`: one of the experiment's list, '' for all of them; `stratum` as in the result.
    `against_statement`: another statement of the same arm, which it is compared with in place of `against`.
    `blocks`: it is of blocks of 8 kB that statements asked for, hit or read. `figure`: it is of this figure
    of trials or plans, with `table` where it is one table's. `setting`: it is of this setting's value.
    `cause`: it is of what limits the arm. `price`: it is of what a unit of work costs on the arms' volumes.
    `order`: these arms, the fastest first, in place of `arm` and `against`. `factor`, `against_factor`: the
    first has the larger effect, in place of arms.
    """

    id: str
    text: str
    source: Source
    arm: str = ""
    against: str = ""
    says: Says
    published: float | None = Field(default=None, strict=True)
    band: tuple[float, float] | None = None
    statement: str = ""
    stratum: str = ""
    against_statement: str = ""
    blocks: bool = Field(default=False, strict=True)
    figure: str = ""
    table: str = ""
    setting: str = ""
    cause: str = ""
    price: bool = Field(default=False, strict=True)
    order: tuple[str, ...] = ()
    factor: str = ""
    against_factor: str = ""
    needs: Needs = Needs()

    @property
    def kind(self) -> Kind:
        """What is compared."""
        marked: dict[Kind, object] = {
            "limit": self.cause,
            "setting": self.setting,
            "blocks": self.blocks,
            "figure": self.figure,
            "price": self.price,
            "order": self.order,
            "factors": self.factor,
            "statements": self.against_statement,
        }
        return next((kind for kind, mark in marked.items() if mark), "speed")

    @property
    def named_arms(self) -> tuple[str, ...]:
        """Every arm that it names."""
        return tuple(filter(None, (self.against, self.arm, *self.order)))


class JudgedClaim(Frozen):
    """A claim with what was found; the contract of `pgassay claims --json`.

    `here` and `interval`: speed (or blocks, a figure, a price) over that of what it is compared with, None
    where there is none.
    `verdict` is None where nothing was measured of it; `why` is then what it needs, or why it was not run.
    `command` runs or repeats the experiment of `file`.
    """

    id: str
    text: str
    source: Source
    published: float | None
    verdict: ClaimVerdict | None
    here: float | None
    interval: tuple[float | None, float | None] | None
    why: str
    command: str
    file: str = ""

    @classmethod
    def of(
        cls,
        claim: Claim,
        why: str,
        command: str,
        verdict: ClaimVerdict | None = None,
        *,
        here: float | None = None,
        interval: tuple[float | None, float | None] | None = None,
        file: str = "",
    ) -> "JudgedClaim":
        """A claim with what was found; without a verdict `why` is what it needs, or why it was not run."""
        return cls(
            id=claim.id,
            text=claim.text,
            source=claim.source,
            published=claim.published,
            verdict=verdict,
            here=here,
            interval=interval,
            why=why,
            command=command,
            file=file,
        )


class ClaimedExperiment(Frozen):
    """The experiment of a file with claims.

    `folder`: its records, '' where there are none. `blocks`, `seconds_used`: over all runs. `note`: why it
    was not run, or not run to its end, '' where there is nothing to say. `cache`: the state of the caches
    before each trial, '' where nothing was run. `caveats`: what its verdicts assume, and what a stop at the
    first verdict does to the estimates.
    """

    file: str
    folder: str = ""
    blocks: int = 0
    seconds_used: float = 0.0
    note: str = ""
    cache: str = ""
    caveats: tuple[str, ...] = ()


class ClaimsResult(Frozen):
    """Claims, judged by the experiments of `folder`; schema in schemas/claims.schema.json.

    `folder` is '' where none was named. `family`: at which level the verdicts hold together. Of one file
    `file` is its name; of several it is ''. `experiments` has each file that was run.
    """

    schema_: int = Field(default=CLAIMS_SCHEMA, alias="schema")
    file: str
    folder: str
    family: str
    claims: tuple[JudgedClaim, ...]
    experiments: tuple[ClaimedExperiment, ...] = ()
