"""The load generator, the same load as a script, the real pgbench and a bare epoll loop, on one server.

select-only, prepared, one thread, at 1, 8, 50 and 1000 connections. Every block runs all four once, in random
order. Printed: throughput of pgassay over pgbench's (to be equivalent within 5 %), client CPU per transaction
of all four, pgassay's over the bare loop's (at most 1.15), and a script's in pgbench's language over that of
the built-in transaction which it repeats (at most 1.1), in the two placements of _paired_loads.py; at the end
of each, pgassay's client CPU with 1000 connections over that with 8 (at most 1.25).

All four are measured after a warm-up of one second: pgbench has none, so the first second of its own
progress report is left out. Two sources of CPU time: pgassay-native and the bare loop read their thread's
clock at both ends of the measured interval; pgbench can only be measured whole (rusage of the child, its
start and connections included).

    python benchmarks/load_against_pgbench.py [--blocks 16] [--seconds 2] [--clients 1,8,50,1000] [--bin …]
"""

import json
import math
import random
import re
import resource
import statistics
import subprocess
import sys

from _paired_loads import (
    SCALE,
    WARMUP_S,
    Outcome,
    Runner,
    Server,
    arguments_of,
    cpu_ratio,
    print_medians,
    run_blocks,
    run_placements,
    throughput_ratio,
)
from pgassay.native.binary import binary
from pgassay.native.load import run_load

CPU_RATIO_MAX = 1.15
SCRIPT_CPU_RATIO_MAX = 1.1
FLAT_CPU_RATIO_MAX = 1.25
SCRIPT = """\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""


def run_pgassay(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    return _run_native(server, clients, seconds, seed, script="select-only")


def run_script(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    return _run_native(server, clients, seconds, seed, scripts=[{"name": "select.sql", "text": SCRIPT}])


def _run_native(server: Server, clients: int, seconds: float, seed: int, **what: object) -> Outcome:
    record = run_load(
        {"connect": server.parameters, "scale": SCALE, "clients": clients, "threads": 1}
        | {"protocol": "prepared", "duration_s": seconds, "warmup_s": WARMUP_S, "seed": seed}
        | what
    )
    count = record["transactions"]
    return Outcome(count / record["elapsed_s"], record["client_cpu_s"] / count * 1e6)


def run_floor(server: Server, clients: int, seconds: float, _seed: int) -> Outcome:
    spec = {"connect": server.parameters, "clients": clients, "scale": SCALE}
    document = json.dumps(spec | {"duration_s": seconds, "warmup_s": WARMUP_S})
    floor = binary().with_name("pgassay-floor")
    if not floor.exists():
        raise SystemExit("The bare loop has not been built; type `cargo build --release -p pgassay-floor`.")
    answer = subprocess.run([floor], input=document, capture_output=True, text=True, check=True).stdout
    report = json.loads(answer)
    count = report["transactions"]
    return Outcome(count / report["elapsed_s"], report["client_cpu_s"] / count * 1e6)


def run_pgbench(server: Server, clients: int, seconds: float, seed: int) -> Outcome:
    command = [server.bin / "pgbench", "-S", "-M", "prepared", "-n", "-c", str(clients), "-j", "1"]
    # One second more than is read: the last one ends together with the program, which may leave out its line.
    first, end = math.ceil(WARMUP_S), math.ceil(seconds + WARMUP_S)
    whole = [*command, "-T", str(end + 1), "-P", "1", f"--random-seed={seed}"]
    whole += ["-h", str(server.folder), "-U", "postgres", "postgres"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    finished = subprocess.run(whole, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = int(_found(r"actually processed: (\d+)", finished.stdout))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    per_second = [float(each) for each in re.findall(r"^progress: .* s, ([\d.]+) tps", finished.stderr, re.M)]
    measured = per_second[first:end]
    if not measured:
        raise SystemExit(f"pgbench reported no second after the first:\n{finished.stderr}")
    return Outcome(statistics.mean(measured), cpu_s / count * 1e6)


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"pgbench's output has no {pattern!r}:\n{text}")
    return match[1]


RUNNERS: dict[str, Runner] = {
    "pgassay": run_pgassay,
    "script": run_script,
    "pgbench": run_pgbench,
    "floor": run_floor,
}


def main() -> int:
    """Run and print."""
    arguments = arguments_of(__doc__, "1,8,50,1000")
    cost_us: dict[int, float] = {}

    def compare(server: Server, here: str, clients: int, order: random.Random) -> None:
        outcomes = run_blocks(RUNNERS, server, clients, arguments, order)
        print_medians(here, outcomes)
        ours, pgbench, floor = outcomes["pgassay"], outcomes["pgbench"], outcomes["floor"]
        speed, cost = throughput_ratio(ours, pgbench), cpu_ratio(ours, floor)
        of_script = cpu_ratio(outcomes["script"], ours)
        for text, ratio in (
            ("throughput, pgassay / pgbench", speed),
            ("throughput, pgassay / floor", throughput_ratio(ours, floor)),
            ("throughput, floor / pgbench", throughput_ratio(floor, pgbench)),
            ("client CPU, pgassay / floor", cost),
            ("client CPU, pgassay / pgbench", cpu_ratio(ours, pgbench)),
            ("client CPU, script / pgassay", of_script),
        ):
            print(f"{here}  {text:30} {ratio}  {ratio.word}")
        target = "met" if cost.ratio <= CPU_RATIO_MAX else "missed"
        print(
            f"{here}  throughput against pgbench: {speed.word} (±5 %); CPU at most 1.15 × the floor: {target}"
        )
        target = "met" if of_script.ratio <= SCRIPT_CPU_RATIO_MAX else "missed"
        print(f"{here}  a script's CPU at most 1.1 × the built-in transaction's: {target}")
        cost_us[clients] = statistics.median(run.cpu_us for run in ours)
        if clients == 1000 and 8 in cost_us:
            ratio = cost_us[1000] / cost_us[8]
            target = "met" if ratio <= FLAT_CPU_RATIO_MAX else "missed"
            print(f"{here}  client CPU against 8 connections: {ratio:.3f}, at most 1.25: {target}")

    run_placements(arguments, compare)
    return 0


if __name__ == "__main__":
    sys.exit(main())
