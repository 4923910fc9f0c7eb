"""Stored experiments of machines by name, to be combined."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import analysis_samples as samples
from pgassay.model.experiment import Experiment
from pgassay.record.experiment import StoredExperiment

ARM, TWIN = "s0-1", "s0-2"


def on(
    host: str,
    effect: float = 0.05,
    *,
    blocks: int = 12,
    seed: int | None = None,
    kernel: str = "6.1",
    stopped: str = "blocks",
    boot: str = "",
    spread: float = 0.02,
    twin: float = 0.0,
    client: dict[str, float] | None = None,
    change: Callable[[Experiment], Experiment] = lambda plan: plan,
    **contract: Any,
) -> StoredExperiment:
    """An experiment on a host; times are such that its trials follow each other."""
    seed = sum(map(ord, host)) if seed is None else seed
    plan = samples.experiment(statements=0, **contract)
    machine = {"hostname": host, "machine_id": f"id-of-{host}", "kernel": kernel, "memory_bytes": 4 << 30}
    plan = change(plan.model_copy(update={"environment": plan.environment.updated(machine=machine)}))
    trials = samples.simulate(plan, blocks, {ARM: effect, TWIN: twin}, seed=seed, spread=spread)
    records = [
        trial.model_copy(
            update={
                "host": host,
                "boot_id": boot or f"boot-{host}-{seed}",
                "started_at": f"2026-01-01T00:{number:04d}",
                "ended_at": f"2026-01-01T00:{number:04d}+{host}",
                "load": trial.load and trial.load.model_copy(update=client or {}),
            }
        )
        for number, trial in enumerate(trials)
    ]
    return replace(samples.stored(plan, records, stopped), folder=Path("/results") / f"{host}-{seed}")
