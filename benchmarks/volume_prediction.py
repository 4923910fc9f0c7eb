"""Predicted beside imitated: what recordings say of other volumes, and what the workloads take on them.

    python benchmarks/volume_prediction.py [--quick] [--out FOLDER] [--only NAME,…] [--blocks N] [--stored]

For each workload one experiment: trials whose requests are recorded, on volumes without limits, and trials
on cloud volumes, imitated, which are never recorded. Prints each time as predicted and as measured. Targets:
90 % of the cells within 10 %, and the right order of any two volumes whose measured times differ by more than
10 %. A volume above this machine's ceiling is imitated as far as that goes, and judged all the same.

What was measured has errors of its own, which are printed beside it, the most of its trials: by how much a
request took longer than the volume's model says, as a share of that, and what others had of the processors of
a load, the volume's server among them. Neither is judged; with several `--blocks` the middle trial counts.

Needs root and FUSE. Takes about an hour; `--quick` ten minutes with fewer volumes and less data. `--stored`
judges the experiments of `--out` anew, and runs nothing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from pgassay.record.experiment import load
from pgassay.sizing.processor_use import processors_min

VOLUMES = (
    "gp3,size=100GiB",
    "gp2,size=40GiB",
    "gp2,size=250GiB,credits=empty",
    "gp3,size=400GiB,iops=6000,throughput=250",
    "io2,size=100GiB,iops=2000",
    "pd-balanced,size=100GiB",
    "P10,credits=empty",
    "hyperdisk-balanced,size=100GiB",
)
QUICK_VOLUMES = VOLUMES[:3]
RECORDED_ON = ("volume:unlimited,trace=yes", "volume:unlimited,latency=1ms,trace=yes")
_TOOL = str(Path(sys.executable).with_name("pgassay"))
# A volume that answers at once is late by a share of this.
LATENCY_MIN_MS = 0.1
ERROR_MAX = 0.1
SHARE_MIN = 0.9
APART = 1.1
BITMAP = "SELECT sum(abalance) FROM pgbench_accounts WHERE hashint4(aid) % 100 = 7;\n"


@dataclass(frozen=True)
class Workload:
    """What is run: words for `pgassay compare` beside the storages; `{}` is a folder for files."""

    name: str
    words: tuple[str, ...]


def workloads(folder: Path, *, scale: int, seconds: int, memory: str) -> list[Workload]:
    """All of them, for data of so many pgbench scales and loads of so many seconds."""
    bitmap = folder / "bitmap.sql"
    bitmap.write_text(BITMAP)
    data = ("--scale", str(scale))
    load = f"duration={seconds}s,warmup=2s"
    # Less than the data, so that a load reads as much at its end as at its beginning.
    small = ("--set", "shared_buffers=16MB", "--memory", memory)
    bitmap_only = ("--set", "enable_seqscan=off", "--set", "enable_indexscan=off")
    index = ("--prepare", "CREATE INDEX by_hash ON pgbench_accounts ((hashint4(aid) % 100))")
    return [
        Workload("cold scan", ("--workload", "full-scan:only=read-table", "--cache", "cold-each", *data)),
        Workload(
            "bitmap scan",
            ("--workload", f"sql:{bitmap}", "--cache", "cold-each", *bitmap_only, *index, *data),
        ),
        Workload(
            "lookups, 1", ("--workload", f"select-only:clients=1,{load}", "--cache", "cold", *small, *data)
        ),
        Workload(
            "lookups, 20", ("--workload", f"select-only:clients=20,{load}", "--cache", "cold", *small, *data)
        ),
        Workload("tpcb", ("--workload", f"tpcb:clients=8,{load}", *data)),
        Workload(
            "oltp_read_only",
            (
                *("--workload", f"oltp_read_only:clients=8,table_size={scale * 40_000},{load}"),
                *("--cache", "cold", *small),
            ),
        ),
    ]


def folder_of(workload: Workload, out: Path) -> Path:
    """Where its experiment is."""
    return out / workload.name.replace(" ", "-").replace(",", "")


def measure(workload: Workload, volumes: tuple[str, ...], out: Path, blocks: int) -> None:
    """Runs the experiment."""
    levels = ",".join([*RECORDED_ON, *(f"volume:{volume},closest=yes" for volume in volumes)])
    compare = [_TOOL, "compare", f"storage={levels}", "--blocks", str(blocks), "--plans", "off", "--quiet"]
    done = subprocess.run(
        [*compare, "--max-time", "2h", "--out", str(folder_of(workload, out)), *workload.words],
        stdout=subprocess.PIPE,
    )
    if done.returncode != 0:
        raise SystemExit(f"{workload.name}: pgassay compare failed")


def checks_of(folder: Path) -> list[dict[str, object]]:
    """Each prediction beside its measurement."""
    sized = subprocess.run([_TOOL, "size", str(folder), "--json"], stdout=subprocess.PIPE, check=True)
    (group,) = json.loads(sized.stdout)["groups"]
    return [check for check in group["checks"] if check["is_fair"]]


def faults_of(folder: Path) -> dict[str, tuple[float, float]]:
    """Of each volume, the most of its trials: delay and processors of others, as the shares printed."""
    stored = load(folder)
    arms = {arm.id: arm for arm in stored.experiment.arms}
    there = float(stored.experiment.environment.machine.cores_usable or 1)
    found: dict[str, tuple[float, float]] = {}
    for trial in stored.trials:
        record, arm = trial.record, arms[trial.record.arm_id]
        delivered, model = record.facts.volume, record.facts.storage.volume.model
        if record.status != "ok" or delivered is None or not model:
            continue
        late, others = (delivered.way_delay_us or 0.0) / 1e3, 0.0
        late /= max(delivered.latency_ms or 0.0, LATENCY_MIN_MS)
        wanted = arm.spec.workload.load
        if wanted is not None and record.clock_ns is not None:
            begin_ns, end_ns = record.clock_ns
            part = (begin_ns - round(wanted.warmup_s * 1e9), end_ns)
            clients = float(wanted.clients)
            others = 1 - processors_min(trial, arm, stored.experiment, (part,)) / min(there, clients)
        most_late, most_others = found.get(str(model["name"]), (0.0, 0.0))
        found[str(model["name"])] = (max(late, most_late), max(others, most_others))
    return found


def main() -> None:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer volumes, less data")
    parser.add_argument("--out", type=Path, help="keep the experiments here")
    parser.add_argument("--only", default="", help="these workloads alone, with commas between")
    parser.add_argument("--blocks", type=int, default=1, help="so many trials of each volume")
    parser.add_argument("--stored", action="store_true", help="judge what --out has, run nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        scale, seconds, memory = (30, 10, "200MB") if arguments.quick else (100, 60, "400MB")
        volumes = QUICK_VOLUMES if arguments.quick else VOLUMES
        ratios: list[float] = []
        pairs = wrong = 0
        for workload in workloads(out, scale=scale, seconds=seconds, memory=memory):
            if arguments.only and workload.name.split(",")[0] not in arguments.only.split(","):
                continue
            if not arguments.stored:
                measure(workload, volumes, out, arguments.blocks)
            checks, faults = checks_of(folder_of(workload, out)), faults_of(folder_of(workload, out))
            for check in checks:
                late, others = faults.get(str(check["storage"]), (0.0, 0.0))
                ratio = float(str(check["ratio"]))
                ratios.append(ratio)
                print(
                    f"{workload.name:16} {check['storage']!s:44} predicted {check['predicted_s']:10.6f} s  "
                    f"measured {check['measured_s']:10.6f} s  {ratio:6.3f}{' ' if _is_near(ratio) else '!'} "
                    f"late by {late:4.0%}, others had {others:4.0%}",
                    flush=True,
                )
            for one, other in combinations(checks, 2):
                measured = float(str(one["measured_s"])) / float(str(other["measured_s"]))
                if max(measured, 1 / measured) > APART:
                    predicted = float(str(one["predicted_s"])) / float(str(other["predicted_s"]))
                    pairs += 1
                    wrong += (measured > 1) != (predicted > 1)
    near = sum(_is_near(ratio) for ratio in ratios)
    print(
        f"{near} of {len(ratios)} cells within {ERROR_MAX:.0%}; {wrong} of {pairs} pairs in the wrong order"
    )
    if near < SHARE_MIN * len(ratios) or wrong:
        raise SystemExit(1)


def _is_near(ratio: float) -> bool:
    return abs(ratio - 1) <= ERROR_MAX


if __name__ == "__main__":
    main()
