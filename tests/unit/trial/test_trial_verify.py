"""The proofs of a cache state after the fact: whose reads count, and what is left unproved."""

import pytest

from pgassay.errors import InvalidTrialError
from pgassay.model.experiment import CacheState, Protocol
from pgassay.model.trial import LoadObservation, StatementObservation
from pgassay.trial.snapshots import verify
from pgassay.trial.snapshots.verify import BytesRead, assert_load_stayed_warm, assert_statement_cache
from pgassay.workloads.registry import parse_workload

MB = 1024 * 1024
SIZE = 100 * MB


def observed(
    postgres: int, device: int | None, server: int | None, *, cold: bool = False
) -> StatementObservation:
    """A statement that read so many MB."""
    return StatementObservation(
        name="sum",
        elapsed_s=1.0,
        rows=1,
        cold=cold,
        aio=False,
        postgres_read_bytes=postgres * MB,
        device_read_bytes=None if device is None else device * MB,
        server_device_read_bytes=None if server is None else server * MB,
    )


def judge(cache: CacheState, statement: StatementObservation, *, reads_once: bool = True) -> str:
    """Why the statement is invalid; '' when it isn't."""
    try:
        assert_statement_cache(statement, Protocol(cache=cache), SIZE, reads_once=reads_once)
    except InvalidTrialError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("device", "server", "reason"),
    [
        (0, 0, ""),
        (900, 0, ""),
        (900, 15, ""),
        (20, 20, "the server had 20 MB read from the device"),
        (None, 20, "the server had 20 MB read from the device"),
        (20, None, "the device delivered 20 MB"),
        (15, None, ""),
        (None, None, ""),
    ],
)
def test_warm_pages_are_judged_by_the_reads_of_the_server_where_they_are_known(
    device: int | None, server: int | None, reason: str
) -> None:
    found = judge("warm-pages", observed(100, device, server))
    assert bool(found) == bool(reason) and reason in found
    if device is not None or server is not None:
        read = BytesRead(
            100 * MB, None if device is None else device * MB, None if server is None else server * MB
        )
        try:
            assert_load_stayed_warm("warm-pages", read, SIZE)
            said = ""
        except InvalidTrialError as error:
            said = str(error)
        assert bool(said) == bool(reason) and reason in said


@pytest.mark.parametrize(
    ("device", "server", "valid"),
    [
        (100, 100, True),
        (100, None, True),
        (100, 0, True),  # read by the file system's own threads
        (100, 50, False),  # half of it came from memory, and somebody else's reads hid it
        (50, None, False),
        (50, 100, True),
    ],
)
def test_a_cold_statement_is_proved_by_what_was_delivered_to_the_server(
    device: int, server: int | None, valid: bool
) -> None:
    found = judge("cold", observed(100, device, server, cold=True))
    assert (not found) == valid
    assert valid or "something else had them in memory" in found
    assert not judge("cold", observed(100, device, server, cold=True), reads_once=False)


def test_other_states() -> None:
    assert "did not start cold" in judge("cold-each", observed(100, 0, 0))
    assert not judge("cold-each", observed(10, 0, 0))
    assert "shared buffers but read 100 MB" in judge("warm-buffers", observed(100, 0, 0))
    assert not judge("as-is", observed(100, 100, 100))


def closed_loop(mean_ms: float, *, longest_ms: float = 5.0, errors: int = 0) -> LoadObservation:
    """Ten seconds of eight clients' transactions, 8,000 of them."""
    return LoadObservation(
        transactions=8000,
        elapsed_s=10.0,
        errors=errors,
        client_cpu_s=1.0,
        latency_ms={"mean": mean_ms, "max": longest_ms},
    )


def test_a_closed_loop_whose_latencies_do_not_account_for_its_clients_says_so() -> None:
    load = parse_workload("select-only:clients=8").load
    assert load is not None
    assert verify.unaccounted_clients(closed_loop(10.0), load) == ""
    assert verify.unaccounted_clients(closed_loop(10.15), load) == ""
    said = verify.unaccounted_clients(closed_loop(9.0), load)
    assert "accounts for 7.2 of 8 clients (Little's law)" in said
    assert verify.load_warnings(closed_loop(9.0), load) == [said]
    # What stands at an edge, or failed, explains as much.
    assert verify.unaccounted_clients(closed_loop(9.0, longest_ms=1000.0), load) == ""
    assert verify.unaccounted_clients(closed_loop(9.0, errors=500), load) == ""
    pausing = parse_workload("select-only:clients=8,think=90ms").load
    assert pausing is not None
    # Eight hundred a second of eighty clients, each of which pauses for nine tenths of the time.
    assert "of 8 clients" in verify.unaccounted_clients(closed_loop(10.0), pausing)
    many = pausing.model_copy(update={"clients": 80})
    assert verify.unaccounted_clients(closed_loop(10.0), many) == ""
    paced = parse_workload("select-only:clients=8,rate=800").load
    assert paced is not None and verify.unaccounted_clients(closed_loop(1.0), paced) == ""
