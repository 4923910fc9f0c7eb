"""Nights of a gate without a machine: the product's plan, schedule and analysis; trials that are drawn.

Each night is one experiment of a workload with many statements, whose times are drawn independently. The
night's blocks are what its time has room for; then the product judges every statement, with what the stored
nights before it say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from pgassay.analysis.gate.judge_gate import Gated, gate_result
from pgassay.model.gates.gate import GatedSystem, GateResult
from pgassay.model.trial import TrialRecord, TrialSpec
from pgassay.record.experiment import StoredExperiment
from simulated_worlds import World
from whole_experiments import planned, run_whole, statements_record

# 10 minutes, of trials that take 6 s with all that is between them: 100 trials, 33 blocks of three.
NIGHT_S, TRIAL_S, MEMBERS = 600.0, 6.0, 3
BLOCKS = int(NIGHT_S / TRIAL_S / MEMBERS)
STATEMENTS = 50
CV = 0.03
SIDE = GatedSystem(kind="file", name="simulated")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def workload_of(folder: Path, statements: int = STATEMENTS) -> str:
    """A workload with so many statements, as typed."""
    file = folder / "statements.sql"
    if not file.exists():
        texts = (f"-- name: q{number:02d}\nSELECT {number};\n" for number in range(statements))
        texts = (f"-- name: q{number:02d}\nSELECT {number};\n" for number in range(statements))
        file.write_text("".join(texts))
    return f"sql:{file}"


@dataclass
class Nights:
    """A line of nightly gates of one workload; `slower`: by statement the log ratio since a night.

    spread: of the log time of one statement in one trial. carries: whether stored nights count.
    last: the latest night's experiment. twin: the log ratio of the twin against the baseline that it copies.
    """

    workload: str
    seed: int
    spread: float = CV
    blocks: int = BLOCKS
    statements: int = STATEMENTS
    carries: bool = True
    runs_per_year: float = 365.0
    stored: list[GateResult] = field(default_factory=list)
    last: StoredExperiment | None = None
    twin: float = 0.0

    def night(self, slower: Mapping[str, float] | None = None) -> GateResult:
        """Run, judge and store one more night."""
        number = len(self.stored)
        effects = dict(slower or {})
        names = [f"q{place:02d}" for place in range(self.statements)]
        random = np.random.default_rng([31, self.seed, number])
        experiment = planned(
            "work_mem=1MB,2MB", seed=1000 * self.seed + number, workload=self.workload, blocks=self.blocks
        )

        def record(spec: TrialSpec, status: str, log_speed: float) -> TrialRecord:
            drawn = log_speed + self.spread * random.standard_normal(len(names))
            drawn = drawn + (self.twin if spec.arm.role == "twin" else 0.0)
            moved = [effects.get(name, 0.0) if spec.arm.role == "arm" else 0.0 for name in names]
            return statements_record(spec, status, dict(zip(names, drawn + np.array(moved), strict=True)))

        # What all statements of a trial share; each has noise of its own beside it.
        world = World("normal", 0.003, random)
        ended = run_whole(experiment, world, record_of=record, until_decided=False)
        self.last = ended.stored
        moment = (BEGINNING + timedelta(days=number)).isoformat(timespec="seconds")
        found = gate_result(
            [Gated("simulated", ended.stored)],
            systems=(SIDE, SIDE),
            earlier=self.stored if self.carries else (),
            created_at=moment,
            file="gate.toml",
            folder=".",
            runs_per_year=self.runs_per_year,
        )
        self.stored.append(found)
        return found


def slowed(result: GateResult) -> set[str]:
    """The statements of which a slow-down was found."""
    return {unit.statement for unit in result.units if unit.finding == "slow-down"}


def nights_with_alarms(results: Sequence[GateResult]) -> int:
    """How many nights end with a slow-down."""
    return sum(result.outcome == "slow-down" for result in results)
