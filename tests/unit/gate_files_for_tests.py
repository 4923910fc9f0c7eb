"""Writes gate files, makes commits of them and plans a gate of two."""

import subprocess
from pathlib import Path

from pgassay.experiment.gating.gate_file import GateFile
from pgassay.experiment.gating.requests import GatePlan, plan_gate

SMALL = '[workloads.orders]\nworkload = "sql:orders.sql"\n'
SERVER = '[system]\nserver = "host=new dbname=app"\n'


def write(folder: Path, content: str, name: str = "gate.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def plan(baseline: GateFile, change: GateFile) -> GatePlan:
    return plan_gate(baseline, change, command=("pgassay", "gate"), seed=7, out=Path("/out"))


def git(folder: Path, *words: str) -> None:
    named = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)
