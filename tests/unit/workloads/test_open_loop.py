"""Open loops of the native load generator, against a server that answers at once and scripts that sleep."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from contract.test_native_contract import folder, load_spec, null_server
from pgassay.native.load import LoadRecord, run_load
from pgassay.native.pgbench_command import run_pgbench
from pgassay.native.process import StatementError

__all__ = ["folder"]
# Each client is busy for 10 ms at least: eight of them do 800 a second at most.
SLEEPING = [{"name": "sleep.sql", "text": "\\sleep 10 ms\nSELECT 1;"}]


@pytest.fixture(name="connect")
def _connect(folder: Any) -> Iterator[dict[str, Any]]:
    with null_server(folder) as connect:
        yield connect


def _run(connect: dict[str, Any], **changes: Any) -> LoadRecord:
    usual = {"clients": 8, "duration_s": 2.0, "warmup_s": 0.2, "seed": 5}
    return run_load(load_spec(connect, **(usual | changes)))


def _overload(connect: dict[str, Any], **changes: Any) -> LoadRecord:
    changes = {"script": None, "scripts": SLEEPING, "protocol": "simple"} | changes
    return _run(connect, pace={"rates": [[0, 1600]], "drain_s": 0.5}, **changes)


def _balances(record: LoadRecord) -> dict[str, int]:
    found = record["open_loop"]
    assert found is not None
    parts = {name: int(found[name]) for name in ("done", "failed", "skipped", "queued")}  # type: ignore[literal-required]
    assert found["scheduled"] == sum(parts.values()) == sum(found["per_second_due"])
    return parts


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("arrivals", ["poisson", "constant", "pgbench"])
def test_a_rate_below_what_the_server_holds_is_kept(
    connect: dict[str, Any], arrivals: str, threads: int
) -> None:
    record = _run(connect, pace={"arrivals": arrivals, "rates": [[0, 1000]]}, threads=threads, duration_s=1.0)
    parts = _balances(record)
    assert parts["skipped"] == parts["failed"] == parts["queued"] == 0
    # Five standard deviations of a count of 1000.
    assert parts["done"] == 1000 if arrivals == "constant" else abs(parts["done"] - 1000) < 160
    found = record["open_loop"]
    assert found is not None
    # From the intended start is never shorter than from the send.
    assert record["latency_ms"]["mean"] >= found["from_send_ms"]["mean"]
    assert record["own_delay_ms"]["mean"] >= found["held_ms"]["mean"]


def test_the_same_seed_has_the_same_arrivals(connect: dict[str, Any]) -> None:
    pace = {"rates": [[0, 800]]}
    first, again = (_run(connect, pace=pace, duration_s=1.0)["open_loop"] for _ in range(2))
    other = _run(connect, pace=pace, duration_s=1.0, seed=6)["open_loop"]
    assert first is not None and again is not None and other is not None
    assert first["per_second_due"] == again["per_second_due"] != other["per_second_due"]


def test_a_rate_above_what_the_server_holds_balances_to_the_last(connect: dict[str, Any]) -> None:
    record = _overload(connect)
    parts, found = _balances(record), record["open_loop"]
    assert found is not None
    assert parts["queued"] > 0 and parts["skipped"] == 0
    queue = found["per_second_queue"]
    assert 0 < queue[0] < queue[1]
    # What the queue takes is in the latency from the intended start and not in that from the send.
    assert record["latency_ms"]["p50"] > 5 * found["from_send_ms"]["p50"]
    assert found["warmup_dropped"] > 0


def test_what_is_later_than_the_limit_is_skipped(connect: dict[str, Any]) -> None:
    record = _overload(connect, latency_limit_ms=30)
    parts, found = _balances(record), record["open_loop"]
    assert found is not None
    assert parts["skipped"] > 0 and parts["queued"] == 0
    # What had begun within the limit, and took 10 ms more.
    assert record["over_limit"] > 0
    assert max(found["per_second_queue"]) < 1600


def test_a_curve_is_followed(connect: dict[str, Any]) -> None:
    pace = {"arrivals": "constant", "rates": [[0, 100], [1, 300], [1, 0], [2, 0]]}
    found = _run(connect, pace=pace, warmup_s=0)["open_loop"]
    assert found is not None
    assert found["per_second_due"] == [200, 0]


def test_a_ramp_from_0_is_followed(connect: dict[str, Any]) -> None:
    pace = {"arrivals": "constant", "rates": [[0, 0], [2, 400]]}
    found = _run(connect, pace=pace, threads=2)["open_loop"]
    assert found is not None
    assert found["per_second_due"] == [100, 300]


def test_what_pgbench_tells_of_a_queue_grows_while_no_transaction_ends(connect: dict[str, Any]) -> None:
    """It went by what a thread had to tell, which in a stall is nothing."""
    told: list[int] = []
    spec = {
        "connect": connect,
        "scripts": [{"name": "stall.sql", "text": "\\sleep 5 s\nSELECT 1;"}],
        "scale": 1,
        "clients": 2,
        "threads": 2,
        "protocol": "simple",
        "seed": 5,
        "max_tries": 1,
        "duration_s": 4,
        "rate": 200.0,
        "progress_s": 1,
    }
    run_pgbench(spec, lambda progress: told.append(progress["queued"]), lambda _level, _text: None)
    # Five standard deviations of the first count, and of what each second adds.
    assert abs(told[0] - 198) < 75
    assert all(abs(later - earlier - 200) < 75 for earlier, later in pairwise(told[:3]))


def test_scripts_and_seconds_have_histograms_that_add_up(connect: dict[str, Any]) -> None:
    from hdrh.histogram import HdrHistogram

    scripts = [{"name": f"{n}.sql", "text": "SELECT 1;", "weight": n} for n in (1, 3)]
    record = _run(connect, scripts=scripts, script=None, pace={"rates": [[0, 1000]]}, duration_s=1.0)

    def counted(text: str) -> int:
        return int(HdrHistogram.decode(text).get_total_count()) if text else 0

    total = counted(record["histogram"])
    assert total == sum(kind["transactions"] for kind in record["kinds"])
    assert total == sum(counted(kind["histogram"]) for kind in record["kinds"])
    assert total == sum(counted(each) for each in record["per_second_histogram"])
    assert total == counted(record["own_delay_histogram"])
    # Three quarters within five standard deviations.
    share = record["kinds"][1]["transactions"] / total
    assert abs(share - 0.75) < 5 * np.sqrt(0.75 * 0.25 / total)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"pace": {"rates": []}}, "rates"),
        ({"pace": {"rates": [[0, -1]]}}, "a rate is -1"),
        ({"pace": {"rates": [[1, 5], [0, 5]]}}, "must not fall"),
        ({"pace": {"rates": [[0, 1], [1, 2]], "arrivals": "pgbench"}}, "one rate"),
        ({"pace": {"rates": [[0, 0]]}}, "every rate is 0"),
        ({"latency_limit_ms": 0}, "latency_limit_ms is 0"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused(changes: dict[str, Any], fault: str) -> None:
    connect = {"host": "/nowhere", "port": 1, "user": "u", "dbname": "d"}
    with pytest.raises(StatementError, match=fault):
        run_load(load_spec(connect, **changes))
