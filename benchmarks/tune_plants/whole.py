"""A planted defect through the whole of `pgassay tune`: data, search, proof, and what stands first.

No plant has a probed disk: advice that follows from the times of its reads is not counted here.
"""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import InterruptionError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.tuning.tune_answer import Fix, TuneResult
from pgassay.progress import NullProgress
from pgassay.record.layout import SEARCH_FILE
from pgassay.tune.candidate import AdvisedMachine, Candidate, Symptom
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.finders.registry import find
from pgassay.tune.run_tune import TOOLS, run_tune
from pgassay.tune.stored_search import StoredSearch
from pgassay.tune.tune_plan import TuneRequest
from tune_plants.base import Drawn
from tune_plants.trial import SETTINGS

# What the laboratory's server has for its own sake is not the source's.
_OWN = ("max_connections", "fsync", "autovacuum_naptime")
# `first`: the fix is recommended and stands first. `told`: it is one that is described and never tried, or
# that frees space, and the answer says so. `otherwise`: it helps alone, and something else
# that gains as much stands first.
Found = Literal["first", "told", "otherwise", "missed"]
BESIDE, FREES = "it helps alone", "it frees"


class SearchOnly(NullProgress):
    """Ends a run, as Ctrl-C would, when its proof is to begin."""

    def stage(self, content: str, fraction: float | None = None) -> None:  # noqa: ARG002  # the contract's
        """What the run is at."""
        if content.startswith("proving"):
            raise InterruptionError(content)


@dataclass(frozen=True)
class Whole:
    """The answer, and every candidate that the finders offered by its id.

    `search`: by the id of what is to be proved, in order, its predicted gain.
    """

    result: TuneResult
    offered: dict[str, Candidate]
    search: dict[str, float]

    def fixes(self, drawn: Drawn) -> list[Fix]:
        """The fixes of the answer that mend what was planted, in their order."""
        mine = {each.id for each in self.offered.values() if drawn.fix(each)}
        return [each for each in self.result.fixes if each.id in mine]

    def _is_told(self, fix: Fix) -> bool:
        """Whether the answer says of a fix what it is for, though no time proves it."""
        if self.offered[fix.id].described or self.offered[fix.id].why_not:
            return True
        # Dropping an index is for the space as well; what else frees some must prove that it helps.
        is_first = fix.rank == 1 and fix.verdict == "not decided"
        return (
            fix.kind == "unneeded-index"
            and FREES in fix.note
            and (fix.verdict in ("no help", "not needed") or is_first)
        )

    def chosen(self, drawn: Drawn) -> Found:
        """What became of the fix in the search."""
        first = next(iter(self.search), None)
        # A rewrite is no finder's, and mends none of what is planted.
        if first in self.offered and drawn.fix(self.offered[first]):
            return "first"
        mine = self.fixes(drawn)
        if any(self._is_told(each) for each in mine):
            return "told"
        return "otherwise" if first is not None and mine else "missed"

    def found(self, drawn: Drawn) -> Found:
        """What became of the fix."""
        mine = self.fixes(drawn)
        if any(each.rank == 1 and each.verdict == "recommended" for each in mine):
            return "first"
        if any(self._is_told(each) for each in mine):
            return "told"
        best = self.result.fixes[0] if self.result.fixes else None
        if best is None or best.verdict != "recommended":
            return "missed"
        helps = any(each.verdict == "recommended" or each.note.startswith(BESIDE) for each in mine)
        return "otherwise" if helps else "missed"


def tuned(
    folder: Path, drawn: Drawn, build: str, max_time_s: float, seed: int = 1, *, proves: bool = True
) -> Whole:
    """Make the plant as a script and a file of statements in `folder`, and tune it.

    `proves`: else it ends when the proof is to begin.

    Data are measured as the script left them. The machine that a plant is for is told to the finders, since
    this one may have other processors or memory (but never more processors than this one has, where what they
    gain is measured), and what a source would have counted: that is all that is not as the command has it.
    """
    (folder / "data.sql").write_text(";\n".join(drawn.setup) + ";\n")
    lines = []
    for each in drawn.statements:
        lines += [f"-- name: {each.name}", f"-- weight: {each.weight:g}"]
        for values in each.parameters:
            literals = ("NULL" if value is None else "'" + value.replace("'", "''") + "'" for value in values)
            lines.append(f"-- parameters: {', '.join(literals)}")
        lines.append(f"{each.sql};")
    (folder / "slow.sql").write_text("\n".join(lines) + "\n")
    settings = {name: value for name, value in SETTINGS.items() if name not in _OWN} | drawn.settings
    compare = CompareRequest(
        factors=(),
        workload=f"sql:{folder / 'slow.sql'}",
        dataset=f"script:{folder / 'data.sql'}",
        settle="off",
        settings=tuple(f"{name}={value}" for name, value in settings.items()),
        build=build,
        max_time_s=max_time_s,
        seed=seed,
    )
    offered: dict[str, Candidate] = {}
    default = AdvisedMachine()
    told = {
        each.name: value
        for each in fields(AdvisedMachine)
        if (value := getattr(drawn.machine, each.name)) != getattr(default, each.name)
    }
    # More processes than one help most that takes long; a plant that is about them names how many.
    told["processors"] = min(drawn.machine.processors or 1, os.cpu_count() or 1)

    def found(symptom: Symptom) -> tuple[Candidate, ...]:
        candidates = find(replace(symptom, machine=replace(symptom.machine, **told)))
        offered.update({each.id: each for each in candidates})
        return candidates

    def counted(session: ControlSession) -> SchemaFacts:
        return read_facts(session).model_copy(update=drawn.counted)

    result = run_tune(
        TuneRequest(compare, out=folder / "out"),
        replace(TOOLS, find=found, read_facts=counted),
        NullProgress() if proves else SearchOnly(),
        wait=True,
        isolates=False,
    )
    stored = Path(result.folder) / SEARCH_FILE
    search = StoredSearch.model_validate_json(stored.read_bytes()) if stored.exists() else None
    predicted = {name: search.predicted[name] for name in search.selection.ids} if search else {}
    return Whole(result, offered, predicted)
