"""Experiments of one design on several machines as one result: the document of `pgassay combine --json`."""

from pydantic import Field

from pgassay.model.base import Frozen
from pgassay.model.machines.spread_grid import CellsResult
from pgassay.model.result import Verdict
from pgassay.model.workload import Metric

COMBINED_SCHEMA = 1
Ends = tuple[float | None, float | None]


class MachineResult(Frozen):
    """One arm on one machine, by that machine's blocks alone.

    `ratio` and `interval` as of an arm of a comparison; the interval holds together with those of all
    machines. `experiments`: the folders that ran there. `confounds`: what is recorded of this machine and is
    not so on most of the others. `withheld`: a check of one of its experiments speaks against a verdict.
    `limit`: what limited the arm there, said where machines disagree; '' else, and where no rule explains it.
    """

    name: str
    arm: str
    stratum: str = ""
    blocks: int
    ratio: float | None
    interval: Ends | None
    verdict: Verdict
    withheld: bool = False
    note: str = ""
    confounds: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    limit: str = ""


class CommonEffect(Frozen):
    """One effect for several machines. `ratio` and `interval` are None where none is given.

    `machines`: those that it rests on; `blocks`: theirs. `needed`: machines before which nothing can be said,
    0 where blocks decide. `note` says what qualifies the verdict, or why there is none.
    """

    machines: int
    blocks: int
    ratio: float | None
    interval: Ends | None
    verdict: Verdict
    meaningful: bool = False
    withheld: bool = False
    note: str = ""
    needed: int = 0


class CombinedArm(Frozen):
    """An arm against its control, over machines: two answers to two questions, which are never mixed.

    `these_machines`: one effect that all of these have, from all their blocks. `machines_like_these`: the
    centre of the effects of machines of this kind, in which each machine counts once. `disagreement`:
    evidence that no single effect fits these machines; 1 with one machine.
    """

    name: str
    levels: dict[str, str]
    stratum: str = ""
    control: str
    these_machines: CommonEffect
    machines_like_these: CommonEffect
    disagreement: float = 1.0


class CombinedResult(Frozen):
    """The contract for scripts; schema in schemas/combine.schema.json.

    `machines`: each arm on each machine. `confounds`: recorded facts in which machines differ. `family`: what
    the error rates are of. `verdict`: all of it in sentences. `stopped`: why one that was
    spread over a fleet ended; '' of stored experiments that were combined. `cells`: of a grid whose strata
    were spread over machines; None else.
    """

    schema_: int = Field(default=COMBINED_SCHEMA, alias="schema")
    folders: tuple[str, ...]
    workload: str
    metric: Metric
    margin: float
    alpha: float
    arms: tuple[CombinedArm, ...]
    machines: tuple[MachineResult, ...]
    confounds: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    family: str = ""
    verdict: str = ""
    stopped: str = ""
    cells: CellsResult | None = None
