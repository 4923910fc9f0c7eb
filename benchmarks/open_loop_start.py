"""How late transactions of an open loop start, at half of what a closed loop reaches.

select-only, prepared, one thread, Poisson arrivals, in the two placements of _paired_loads.py. Printed for
each run: the rate, and how much later than intended requests were sent (the load generator's own delay; at
most 50 µs at p99 where the client has a processor for itself, `apart`).

    python benchmarks/open_loop_start.py [--blocks 16] [--seconds 2] [--clients 8,50] [--bin FOLDER]
"""

import random
import statistics
import sys

from _paired_loads import SCALE, WARMUP_S, Server, arguments_of, run_placements
from pgassay.native.load import LoadRecord, run_load

P99_MS_MAX = 0.05


def run(server: Server, clients: int, seconds: float, seed: int, **pace: object) -> LoadRecord:
    """One load."""
    return run_load(
        {"connect": server.parameters, "scale": SCALE, "clients": clients, "threads": 1, "seed": seed}
        | {"script": "select-only", "protocol": "prepared", "duration_s": seconds, "warmup_s": WARMUP_S}
        | pace
    )


def main() -> int:
    """Run and print."""
    arguments = arguments_of(__doc__, "8,50")

    def measure(server: Server, here: str, clients: int, order: random.Random) -> None:
        closed = run(server, clients, arguments.seconds, 1)
        rate = closed["transactions"] / closed["elapsed_s"] / 2
        late = []
        for block in range(arguments.blocks):
            seed = order.randrange(1, 2**31)
            record = run(server, clients, arguments.seconds, seed, pace={"rates": [[0.0, rate]]})
            late.append(record["own_delay_ms"]["p99"])
            print(f"{here}  run {block + 1}: {rate:.0f} transactions/s, p99 {late[-1] * 1e3:.1f} µs late")
        middle = statistics.median(late)
        target = "met" if middle <= P99_MS_MAX else "missed"
        print(f"{here}  median {middle * 1e3:.1f} µs late at p99, at most 50: {target}")

    run_placements(arguments, measure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
