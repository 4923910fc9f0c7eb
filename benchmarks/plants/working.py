"""Plants of processors, sorts and clients: one core, all of them, a cap, others' work, a starved client."""

import os

from plants.base import MARKED, NOISE, Plant
from plants.outside import burners, starved_client

WARM = ("--cache", "warm-buffers")
_PROCESSORS = os.cpu_count() or 1


def compute(work: int) -> str:
    """Hash 5 bytes × `work` of each of 100,000 rows that lie in memory."""
    return f"-- name: compute\nSELECT max(md5(repeat(aid::text, {work}))) FROM pgbench_accounts;\n"


# Wide rows in the order of a number: little is compared, and much written where it does not fit.
SORT = """-- name: sort
SELECT count(wide) FROM (
    SELECT hashint4(aid), repeat(filler, 2) AS wide FROM pgbench_accounts ORDER BY 1 OFFSET 0
) sorted;
"""


def backend_core(work: int) -> Plant:
    """One statement that computes on one processor; the decoy waits in place of that."""
    return Plant(
        "backend-core",
        f"{work * 5 / 1000:g} kB hashed per row",
        "copy=first,second",
        compute(work),
        options=WARM,
        lifts=False,
        decoy={"workload": "-- name: wait\nSELECT pg_sleep(0.005) FROM generate_series(1, 100);\n"},
    )


def all_cores(clients: int) -> Plant:
    """More connections than processors, with nothing to wait for; one connection leaves processors idle."""
    return Plant(
        "all-cores",
        f"{clients} connections",
        f"clients={clients},1",
        "select-only:duration=3s,warmup=1s,threads=1",
    )


def cpu_quota(cpus: float, work: int = 800) -> Plant:
    """A cap on the server's processors."""
    return Plant(
        "cpu-quota",
        f"{cpus:g} processors",
        f"cpus={cpus:g},unlimited",
        compute(work),
        options=WARM,
        needs=("cpu-quota",),
    )


def noise(each: int) -> Plant:
    """Other processes take the processors while the planted arm works."""
    return Plant(
        NOISE,
        f"{each} others per processor",
        MARKED,
        compute(1600),
        options=WARM,
        outside=burners(each * _PROCESSORS),
    )


def temp_spill(work_mem: str) -> Plant:
    """A sort that does not fit."""
    return Plant(
        "temp-spill",
        f"work_mem={work_mem}",
        f"work_mem={work_mem},256MB",
        SORT,
        options=WARM,
        settings={"shared_buffers": "128MB"},
        scale=4,
    )


def client_bound(stopped_s: float, running_s: float) -> Plant:
    """The client is stopped for most of the time."""
    return Plant(
        "client-bound",
        f"runs {100 * running_s / (stopped_s + running_s):.0f} % of the time",
        MARKED,
        "select-only:duration=4s,warmup=1s,clients=8,threads=1",
        outside=starved_client(stopped_s, running_s),
    )


PLANTS = (
    backend_core(1000),
    backend_core(3000),
    all_cores(16),
    all_cores(8),
    cpu_quota(0.25),
    cpu_quota(0.5),
    noise(2),
    noise(4),
    temp_spill("64kB"),
    temp_spill("1MB"),
    client_bound(0.15, 0.05),
    client_bound(0.1, 0.05),
)
