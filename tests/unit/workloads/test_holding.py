"""How clients hold their connections: what is typed, what it becomes, what a trial then says."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest
from plans_for_tests import base_spec
from pytest import MonkeyPatch

from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factor
from pgassay.model.trial import LoadObservation
from pgassay.model.workload import ConnectionUse, LoadSpec, Outage
from pgassay.native import other_host
from pgassay.native.load import load_document
from pgassay.trial.snapshots.verify import load_warnings, unaccounted_clients
from pgassay.workloads.registry import parse_workload


def load_of(text: str) -> LoadSpec:
    load = parse_workload(text).load
    assert load is not None
    return load


def test_options_reach_the_load_generator() -> None:
    load = load_of("tpcb:clients=9,pool=3,lifetime=30s,idle-in-transaction=20ms,reconnect=yes,client=ssh:a@b")
    assert (load.connections, load.has_pauses, load.host) == (3, True, "a@b")
    document = load_document({}, load, scale=1, seed=0)
    assert document["connections"] == {"pool": 3, "lifetime_s": 30.0, "reconnects": True}
    assert document["idle_in_transaction_s"] == 0.02
    plain = load_document({}, load_of("tpcb:clients=9,pool=none,lifetime=none,reconnect=no"), scale=1, seed=0)
    assert "connections" not in plain and "idle_in_transaction_s" not in plain
    assert load_document({}, load_of("tpcb:lifetime=0s"), scale=1, seed=0)["connections"] == {
        "lifetime_s": 0.0
    }
    # What was stored before stays byte for byte what it was.
    assert not {"pool", "lifetime_s", "host"} & set(load_of("tpcb").model_dump())


def observed(**changes: object) -> LoadObservation:
    usual = {"transactions": 1000, "elapsed_s": 10.0, "errors": 0, "client_cpu_s": 1.0}
    return LoadObservation.model_validate({**usual, "latency_ms": {"mean": 10.0, "max": 20.0}, **changes})


def test_an_outage_is_told_with_what_it_cost() -> None:
    use = ConnectionUse(
        opened=8,
        lost=8,
        refused={"57P03": 3, "08001": 9},
        outages=(
            Outage(from_s=2.5, length_s=3.25, is_over=True),
            Outage(from_s=9, length_s=1, is_over=False),
        ),
    )
    load = observed(errors=8, failures={"57P01": 7, "08006": 1}, connections=use)
    assert load_warnings(load, load_of("tpcb:clients=8,reconnect=yes")) == [
        "8 transactions failed (by SQLSTATE: 08006 1, 57P01 7)",
        "8 connections were lost and opened again; attempts to open one that failed, by SQLSTATE: 08001 9, "
        "57P03 3",
        "no transaction ended for 3.25 s from second 2.50 on: the server, or the way to it, was gone",
        "no transaction ended from second 9.00 until the load ended at second 10.00, its last transactions "
        "included: the server, or the way to it, had not come back by then",
    ]
    given_up = observed(errors=2, connections=ConnectionUse(opened=0, lost=2, abandoned=2))
    assert load_warnings(given_up, load_of("tpcb:clients=2,reconnect=yes"))[1:] == [
        "2 connections were lost; 2 transactions got none until the load ended"
    ]


@pytest.mark.parametrize(
    "typed",
    [
        "select-only",
        "sysbench:oltp_point_select",
        "sysbench:oltp_read_write,skip_trx=on",
        "oltp_read_only:skip_trx=on",
        "pgbench:file={folder}/one.sql",
    ],
)
def test_who_has_no_transaction_is_not_idle_in_one(tmp_path: Path, typed: str) -> None:
    """As a factor it would compare arms that are the same."""
    (tmp_path / "one.sql").write_text("SELECT 1;\n")
    spec, factor = (
        base_spec(typed.format(folder=tmp_path)),
        parse_factor("idle_in_transaction=0s,20ms"),
    )
    load = factor.kind.apply(factor.name, "0s", spec).workload.load
    assert load is not None and load.idle_in_transaction_s == 0
    with pytest.raises(UsageError, match="it has no BEGIN and COMMIT: use tpcb"):
        factor.kind.apply(factor.name, "20ms", spec)


def test_a_transaction_that_is_left_out_leaves_nothing_to_be_idle_in(tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("BEGIN;\nSELECT 1;\nEND;\n")
    idle = parse_factor("idle_in_transaction=0s,20ms")
    for typed in ("sysbench:oltp_read_only", "oltp_read_only", f"pgbench:file={tmp_path}/two.sql"):
        spec = idle.kind.apply(idle.name, "20ms", base_spec(typed))
        load = spec.workload.load
        assert load is not None and load.idle_in_transaction_s == 0.02
        if load.of_sysbench is not None:
            without = parse_factor("skip_trx=off,on")
            with pytest.raises(UsageError, match="it has no BEGIN and COMMIT"):
                without.kind.apply(without.name, "on", spec)


@pytest.mark.parametrize(
    ("failures", "sentence"),
    [
        (
            {"40001": 2, "40P01": 1},
            "3 transactions ended in a serialisation failure or deadlock (by SQLSTATE: 40001 2, 40P01 1)",
        ),
        ({"23505": 3}, "3 transactions failed (by SQLSTATE: 23505 3)"),
        ({}, "3 transactions failed"),
    ],
)
def test_a_failure_is_called_what_it_is(failures: dict[str, int], sentence: str) -> None:
    assert load_warnings(observed(errors=3, failures=failures), None) == [sentence]


@pytest.mark.parametrize(("idle", "is_accounted"), [("100ms", True), ("0s", False)])
def test_pauses_within_transactions_are_accounted_for(idle: str, is_accounted: bool) -> None:
    load = load_of(f"tpcb:clients=11,idle_in_transaction={idle}")
    assert (not unaccounted_clients(observed(), load)) is is_accounted


def test_a_host_that_runs_no_programs_from_the_cache_folder_is_told_so(monkeypatch: MonkeyPatch) -> None:
    def asked(_host: str, remote: str, content: bytes = b"") -> "CompletedProcess[bytes]":
        is_copy = bool(content)
        return CompletedProcess(remote, 0 if is_copy else 126, b"", b"pgassay-native: Permission denied\n")

    monkeypatch.setattr(other_host, "_asked", asked)
    other_host._install.cache_clear()
    with pytest.raises(UsageError, match=r"Permission denied.*allowed below .*pgassay \(no noexec\)"):
        other_host._install("lab", Path(__file__), "sources")
    other_host._install.cache_clear()
