"""What `size` alone takes, and what it makes of the options that it shares."""

from dataclasses import dataclass
from functools import partial

from pgassay.options.option import folder, maybe, several, several_of, switch, text, value
from pgassay.value_syntax.quantities import fraction, size_bytes

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

_SIZE = ("size",)
_SIZE_DEFAULT = "100GiB"
HELPS = {
    "--workload": "the workload to run and record, required without a FOLDER: full-scan, sql:FILE, or a load "
    "(select-only, tpcb, simple-update, oltp_read_only, sysbench:SCRIPT), which takes clients=, threads=, "
    "duration=, warmup=, protocol=prepared|simple, as tpcb:clients=8,duration=60s, or replay:DIR,speed=max",
    "--blocks": "number of blocks (default 1, which records everything once; with --server 3)",
    "--max-time": "time limit, as 90s, 12m, 1h; --prove takes as long again",
    "--plans": "work: execute each statement once with EXPLAIN ANALYZE, outside of all timing; "
    "estimate: only EXPLAIN (default off)",
}
# In the documents, of options that are shared.
GUIDES = {
    "--workload": "what to run and record, required without a FOLDER: a load, `replay:DIR,speed=max`, or "
    "statements that one session executes (not maintenance or `sql:FILE,clients=8`)",
    "--blocks": "number of blocks (default: 1, which records everything once; with `--server` 3)",
    "--catalogue": "[a file of your own](volumes.md#a-file-of-your-own) with volumes and prices; repeatable",
}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SizeOptions:
    """What a volume must give, and which volumes are looked at."""

    slow_down: float = value(
        "--slow-down FRACTION",
        fraction,
        "how much slower the workload may be on a volume",
        _SIZE,
        default="10%",
        guide="how much slower than on `--against` the workload may be",
    )
    against: str | None = maybe(
        "--against VOLUME",
        text,
        "slower than on this volume",
        _SIZE,
        otherwise="the fastest of all",
        guide="the volume that all are compared with, such as your present one: `gp2,size=100GiB`, on the "
        "first `--instance` unless it names one",
    )
    size: int = value(
        "--size SIZE",
        partial(size_bytes, example=_SIZE_DEFAULT),
        "size that a volume must hold",
        _SIZE,
        default=_SIZE_DEFAULT,
    )
    provider: tuple[str, ...] = several(
        "--provider NAME",
        "only volumes of this provider",
        _SIZE,
        guide="only volumes of this provider; repeatable",
    )
    instance: tuple[str, ...] = several(
        "--instance NAME",
        "add the limits of this instance to its provider's volumes; repeatable",
        _SIZE,
        guide="adds this instance's limits and price to its provider's volumes, and leaves other providers "
        "out; repeatable. Record with the instance's memory (`--memory 64GB`)",
    )
    volume: tuple[str, ...] = several(
        "--volume VOLUME",
        "only this volume; repeatable",
        _SIZE,
        guide="only this volume; repeatable. By default all with a price, in steps of what can be ordered, "
        "at most 500; a local disk only with its `--instance`",
    )
    wal: tuple[str, ...] = several(
        "--wal VOLUME",
        "the WAL has its own volume: this one, with each volume of the data; repeatable",
        _SIZE,
        guide="the WAL has [its own volume](#a-volume-for-the-wal); repeatable",
    )
    prove: bool = switch(
        "--prove",
        "run the workload on the recommended volume and its neighbours, imitated",
        _SIZE,
        guide="runs the workload on the recommended volume, the next cheaper and the next faster one: two "
        "blocks, within `--max-time` once more, with root and FUSE, without burst credits",
    )
    proof: "tuple[Path, ...]" = several_of(
        "--proof FOLDER",
        folder,
        "check the predictions against this experiment of the same workload on imitated volumes",
        _SIZE,
        guide="compares the predictions with a stored experiment on imitated volumes; repeatable",
    )
    vary: tuple[str, ...] = several(
        "--vary NAME=LEVEL,LEVEL",
        "a factor, each of whose levels is sized: any setting, or clients, memory, cpus",
        _SIZE,
        guide="a factor whose levels are sized one by one, as `io_method=sync,worker`; repeatable",
    )
