"""How fast a recorded minute is replayed on many volumes by the simulator.

    python benchmarks/volume_replay.py [--requests 500000] [--volumes 60]

No server is started. A made-up trace of a mixed load (pages here and there, a scan, commits) is replayed on
volumes of the catalogue. Prints the time from the document to the last answer, and the processor time of it
all (target: at most 5 s).
"""

import argparse
import os
import time

import numpy as np

from pgassay.native.simulate import TraceSpec, simulate
from pgassay.volumes.catalogue import load_catalogue
from pgassay.volumes.explain import explain

MINUTE_NS = 60 * 10**9
PAGE_BYTES = 8192
CPU_S_MAX = 5.0


def trace(count: int) -> TraceSpec:
    """A minute: 70 % random reads of a page, 20 % a scan of 128 kB requests, 10 % writes of pages."""
    random = np.random.default_rng(1)
    kinds = random.choice(3, count, p=(0.7, 0.2, 0.1))
    lengths = np.where(kinds == 1, 16 * PAGE_BYTES, PAGE_BYTES)
    scanned = np.cumsum(np.where(kinds == 1, lengths, 0))
    scattered = random.integers(0, 10**7, count) * PAGE_BYTES
    return {
        "arrival_ns": np.sort(random.integers(0, MINUTE_NS, count)).tolist(),
        "kind": "".join("w" if kind == 2 else "r" for kind in kinds),
        "offset": np.where(kinds == 1, scanned, scattered).tolist(),
        "length": lengths.tolist(),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--volumes", type=int, default=60)
    arguments = parser.parse_args()
    sizes = range(100, 100 + 20 * arguments.volumes, 20)
    kinds = ("gp2,size={}GiB,instance=m6g.large", "gp3,size={}GiB", "rds-gp3,size={}GiB", "pd-ssd,size={}GiB")
    texts = [kinds[number % len(kinds)].format(size) for number, size in enumerate(sizes)]
    models = [volume.model.model_dump(mode="json") for volume in explain(texts, load_catalogue()).volumes]
    recorded = trace(arguments.requests)
    begun, begun_cpu = time.monotonic(), os.times()
    answers = simulate(models, trace=recorded, threads=os.cpu_count() or 1)
    elapsed_s, cpu = time.monotonic() - begun, os.times()
    cpu_s = sum(cpu[:4]) - sum(begun_cpu[:4])
    per_request_ns = 1e9 * cpu_s / sum(answer["requests"] for answer in answers)
    print(
        f"{arguments.requests:,} requests on {len(answers)} volumes: {elapsed_s:.2f} s, {cpu_s:.2f} s of CPU"
    )
    print(f"{per_request_ns:.0f} ns of CPU a request and volume")
    slowest = max(answers, key=lambda answer: answer["elapsed_s"])
    print(f"the slowest takes {slowest['elapsed_s']:.1f} s for the minute: {slowest['model']}")
    if cpu_s > CPU_S_MAX:
        raise SystemExit(f"the replay takes more than {CPU_S_MAX:g} s of CPU")


if __name__ == "__main__":
    main()
