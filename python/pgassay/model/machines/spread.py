"""An experiment that was spread over a fleet, as its folder holds it: fleet.json."""

from typing import ClassVar

from pydantic import Field, JsonValue

from pgassay.model.base import Extended, Frozen

SPREAD_FORMAT = 1


class SpreadStratum(Frozen):
    """A stratum of a grid that is spread by cells.

    `arms`: how many are compared with its control. `block_s`: by machine what a block of it is expected to
    take there; nothing where that is not known.
    """

    name: str
    arms: int
    block_s: dict[str, float] = Field(default_factory=dict)


class SpreadGrid(Frozen):
    """The strata of a grid in its own order, those of them that all machines run, and these machines."""

    strata: tuple[SpreadStratum, ...]
    anchors: tuple[str, ...]
    machines: tuple[str, ...] = ()


class SpreadRun(Extended):
    """One run on a machine. `id`: what the machine knows it by; `folder`: where it comes home, below the
    experiment's folder. `seed`: of the order of its trials. `strata`: those of a grid that it runs, () for
    all."""

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("strata",)

    id: str
    folder: str
    seed: int
    strata: tuple[str, ...] = ()


class SpreadMachine(Frozen):
    """A machine with its runs: more than one where its disk was lost, or it had forgotten an earlier one.

    `facts`: what it said of itself before the first trial; None where it was not there then. `host`: tells
    its host from others, until that is started again. `counts_as`: the machine that its user says it is, ''
    where its host decides.
    """

    name: str
    host: str
    runs: tuple[SpreadRun, ...]
    counts_as: str = ""
    facts: dict[str, JsonValue] | None = None


class SpreadFile(Frozen):
    """A file that the machines need: `source` where it was read, `bytes` and `sha256` of its content."""

    source: str
    bytes: int
    sha256: str


class SpreadCopy(Frozen):
    """Data that were copied from a machine to others, since that was faster than making them there.

    key: the snapshot's name. called: the data in a few words. bytes: of its files; seconds: until all had it.
    """

    key: str
    called: str
    bytes: int
    source: str
    machines: tuple[str, ...]
    seconds: float


class SpreadExperiment(Extended):
    """The whole plan. Nothing in it is secret.

    `words`: of the comparison, as each machine gets them; `files`: by the path under which these name them.
    `blocks_max`: of all machines together. `until_decided`: end when the question of these machines is.
    `command`: as it was typed. `copies`: of the data, before the first trial. `grid`: of one that is spread
    by cells; there `blocks_max` is of each stratum on each machine, and decided arms rest where
    `decided_rest`.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("grid", "decided_rest")

    format: int = SPREAD_FORMAT
    id: str
    created_at: str
    pgassay_version: str
    command: tuple[str, ...]
    fleet_file: str
    words: tuple[str, ...]
    files: dict[str, SpreadFile] = Field(default_factory=dict)
    seed: int
    blocks_max: int
    time_max_s: float
    until_decided: bool = True
    machines: tuple[SpreadMachine, ...]
    grid: SpreadGrid | None = None
    decided_rest: bool = False
    copies: tuple[SpreadCopy, ...] = ()
