"""What the player of `pgassay replay` costs beside the native load: CPU a statement, by the same statements.

    python benchmarks/replay_cost.py [--repetitions 5] [--seconds 5]

Starts a private server with pgbench's data, captures pgbench's select-only (prepared, 16 clients) through
the proxy, and then runs in turn: the replay as fast as it goes and the native load's select-only, against a
server that answers at once and against the real one. Printed are statements for each second of the client's
CPU (target of the player against the null server: at least 60,000), and the player's CPU a statement over
the native load's against the real server (target: at most 1.3). Then pgbench's select-only at 2,000 a second
is captured and replayed at its own speed: how late the player sent by its own doing, at p99 (target: at most
200 µs), on processors that it shares with the server.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _own_server import select_only, server_on_loopback
from pgassay.environment.builds.registry import resolve
from pgassay.model.workload import LoadSpec
from pgassay.native.load import load_document, run_load
from pgassay.native.null_server import null_server
from pgassay.native.process import NativeProcess

PER_CPU_S_MIN = 60_000
RATIO_MAX = 1.3
CLIENTS = 16
LOAD_S = 3.0
RATE = 2000
LATE_MS_MAX = 0.2


def captured(connect: Mapping[str, object], programs: Path, folder: Path, seconds: int, *more: str) -> None:
    """Capture select-only, with more of pgbench's options."""
    process = NativeProcess("capture")
    process.send({"listen": "127.0.0.1:0", "connect": dict(connect), "folder": str(folder)})
    port = process.receive()["ready"]["listen"].rpartition(":")[2]
    select_only(programs, port, CLIENTS, seconds, *more)
    process.last_words()
    process.end()


def played(connect: Mapping[str, object], folder: Path, speed: float | None) -> dict[str, Any]:
    """What the player says at the end of a replay."""
    process = NativeProcess("replay")
    document = {"connect": dict(connect), "folder": str(folder), "speed": speed, "writes": False}
    process.send(document | {"databases": {"postgres": "postgres"}})
    while True:
        line: dict[str, Any] = process.receive()
        if "ended" in line:
            break
    process.end()
    ended: dict[str, Any] = line["ended"]
    return ended


def player(connect: Mapping[str, object], folder: Path) -> tuple[float, float]:
    """Statements a CPU second, and a second, of a replay as fast as it goes."""
    ended = played(connect, folder, None)
    return ended["replayed"] / ended["player"]["cpu_s"], ended["replayed"] / ended["seconds"]


def load(connect: Mapping[str, object]) -> float:
    """Transactions a CPU second of the native load."""
    spec = LoadSpec(script="select-only", clients=CLIENTS, duration_s=LOAD_S, warmup_s=0.5)
    record = run_load(load_document(connect, spec, scale=1, seed=1))
    return float(record["transactions"]) / float(record["client_cpu_s"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    programs = Path(resolve(None).bin_directory)
    seen: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, server_on_loopback(programs) as real:
        folder, empty = Path(name) / "capture", Path(name) / "null"
        empty.mkdir()
        captured(real, programs, folder, arguments.seconds)
        for _ in range(arguments.repetitions):
            with null_server(empty) as nothing:
                per_cpu_s, rate = player(nothing.parameters, folder)
                seen.setdefault("player, null server", []).append(per_cpu_s)
                seen.setdefault("player's rate, null server", []).append(rate)
                seen.setdefault("native load, null server", []).append(load(nothing.parameters))
            seen.setdefault("player, real server", []).append(player(real, folder)[0])
            seen.setdefault("native load, real server", []).append(load(real))
        paced = Path(name) / "paced"
        captured(real, programs, paced, arguments.seconds, "-R", str(RATE))
        late_ms = [played(real, paced, 1.0)["player"]["late_ms"]["p99"] for _ in range(arguments.repetitions)]
    for what, values in seen.items():
        unit = "a second" if "rate" in what else "a CPU second"
        print(
            f"{what}: {statistics.median(values):,.0f} statements {unit} "
            f"[{min(values):,.0f}, {max(values):,.0f}]"
        )
    reached = statistics.median(seen["player, null server"])
    print(f"  {'within' if reached >= PER_CPU_S_MIN else 'BELOW'} {PER_CPU_S_MIN:,}")
    ratios = [
        one / other
        for one, other in zip(seen["native load, real server"], seen["player, real server"], strict=True)
    ]
    ratio = statistics.median(ratios)
    verdict = "within" if ratio <= RATIO_MAX else "ABOVE"
    print(
        f"player's CPU a statement over the native load's: {ratio:.2f} [{min(ratios):.2f}, "
        f"{max(ratios):.2f}], {verdict} {RATIO_MAX:g}"
    )
    late = statistics.median(late_ms)
    verdict = "within" if late <= LATE_MS_MAX else "ABOVE"
    print(
        f"late by its own doing at {RATE:,} a second, p99: {late * 1e3:.0f} µs "
        f"[{min(late_ms) * 1e3:.0f}, {max(late_ms) * 1e3:.0f}], {verdict} {LATE_MS_MAX * 1e3:.0f}"
    )


if __name__ == "__main__":
    main()
