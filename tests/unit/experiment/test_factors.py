"""Factors and levels as typed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_for_tests import base_spec

from pgassay.environment.datasets.snapshots import key
from pgassay.environment.server.initdb import WAL_SEGMENT_SIZES_MB
from pgassay.environment.server.pooler import check_pooler
from pgassay.errors import UsageError
from pgassay.experiment.planning import provisioned_servers
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.factors import sysbench_option
from pgassay.factors.base import split_levels
from pgassay.factors.initdb_option import parse_wal_segsize
from pgassay.factors.registry import KINDS, parse_factor, parse_factors
from pgassay.model.arm import DatasetSpec


def test_any_other_name_is_a_setting() -> None:
    factor = parse_factor("Work_Mem=4MB,64MB")
    assert (factor.name, factor.levels) == ("work_mem", ("4MB", "64MB"))
    assert factor.kind.apply(factor.name, "64MB", base_spec()).settings["work_mem"] == "64MB"


def test_storages_keep_their_own_commas() -> None:
    factor = parse_factor("storage=host,loop:size=4GB,read_ahead=128,loop:size=4GB,read_mb_s=125")
    assert factor.levels == ("host", "loop:size=4GB,read_ahead=128", "loop:size=4GB,read_mb_s=125")
    spec = factor.kind.apply("storage", factor.levels[2], base_spec())
    assert (spec.storage.kind, spec.storage.read_mb_s) == ("loop", 125)


def test_clients_change_the_load() -> None:
    factor = parse_factor("clients=1,50")
    load = factor.kind.apply("clients", "50", base_spec("select-only:clients=4,threads=2")).workload.load
    assert load is not None and (load.clients, load.threads) == (50, 2)
    one = factor.kind.apply("clients", "1", base_spec("select-only:clients=4,threads=2")).workload.load
    assert one is not None and one.threads == 1
    with pytest.raises(UsageError, match="runs its statements on one"):
        factor.kind.apply("clients", "50", base_spec("full-scan"))
    spec = base_spec("full-scan")
    own = spec.model_copy(update={"workload": spec.workload.model_copy(update={"family": "sql"})})
    assert factor.kind.apply("clients", "50", own).workload.clients == 50


def test_a_pooler_stands_before_the_servers_of_loads() -> None:
    factor = parse_factor("pooler=none,pgbouncer:mode=transaction,size=30,pgbouncer:mode=session")
    assert factor.levels == ("none", "pgbouncer:mode=transaction,size=30", "pgbouncer:mode=session")
    spec = base_spec("select-only:clients=4,protocol=simple")
    assert factor.kind.apply("pooler", "none", spec).pooler is None
    pooler = factor.kind.apply("pooler", factor.levels[1], spec).pooler
    assert pooler is not None and (pooler.mode, pooler.size) == ("transaction", 30)
    with pytest.raises(UsageError, match="is between the clients of a load and the server"):
        factor.kind.apply("pooler", factor.levels[1], base_spec("full-scan"))


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("none,pgbouncer", "write pgbouncer:mode=transaction or pgbouncer:mode=session"),
        ("none,pgbouncer:mode=statement", "say when a connection goes back to the pool"),
        ("none,odyssey", "'odyssey' is not known: write none, pgbouncer:mode=transaction"),
        ("none,pgbouncer:mode=session,size=0", "whole number from 1"),
        ("none,pgbouncer:mode=session,pool=3", "pooler=pgbouncer has no option 'pool'"),
    ],
)
def test_what_is_no_pooler_is_said(typed: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_factor(f"pooler={typed}")
    assert complaint in str(caught.value)


def test_a_pooler_has_a_connection_for_each_session_that_keeps_one() -> None:
    factor = parse_factor("pooler=none,pgbouncer:mode=session,size=5,pgbouncer:mode=session")
    for options, is_possible in (("8", False), ("5", True), ("8,pool=5", True), ("8,lifetime=1s", True)):
        spec = factor.kind.apply("pooler", factor.levels[1], base_spec(f"tpcb:clients={options}"))
        if is_possible:
            check_pooler(spec)
        else:
            with pytest.raises(UsageError, match="3 of 8 would never get one: write mode=transaction"):
                check_pooler(spec)
    check_pooler(factor.kind.apply("pooler", factor.levels[2], base_spec("tpcb:clients=500")))


def test_each_arm_s_own_load_decides_whether_its_pooler_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioned_servers, "_refusal", lambda _spec: None)
    pooler = parse_factor("pooler=none,pgbouncer:mode=session,size=5")
    candidates = [
        (
            {"clients": clients},
            pooler.kind.apply("pooler", pooler.levels[1], base_spec(f"tpcb:clients={clients}")),
        )
        for clients in ("5", "8")
    ]
    judged = provisioned_servers.judge(candidates, skip_unavailable=True, on_stage=lambda *_stage: None)
    assert [levels for levels, _ in judged.candidates] == [{"clients": "5"}]
    assert judged.skipped[0].startswith("clients=8 was skipped: pooler=pgbouncer:mode=session,size=5")


def test_options_of_sysbench_s_transaction_change_what_goes_with_them() -> None:
    spec = base_spec("oltp_read_only:tables=2,clients=3")
    spec = spec.model_copy(update={"dataset": DatasetSpec(kind="sysbench", tables=2)})
    ranges = parse_factor("range_size=100,10000").kind.apply("range_size", "10000", spec)
    load = ranges.workload.load
    assert load is not None and load.oltp_read_only is not None
    assert (load.oltp_read_only.range_size, load.oltp_read_only.tables, load.clients) == (10_000, 2, 3)
    assert "BETWEEN 1 AND 10000" in ranges.workload.statements[-1].sql
    assert ranges.dataset == spec.dataset
    tables = parse_factor("tables=2,8").kind.apply("tables", "8", spec)
    assert (tables.dataset.tables, tables.dataset.table_size) == (8, 10_000)
    own = spec.model_copy(update={"dataset": DatasetSpec(kind="dump", source="/a")})
    assert parse_factor("table_size=5,6").kind.apply("table_size", "5", own).dataset == own.dataset
    with pytest.raises(UsageError, match="use --workload oltp_read_only"):
        parse_factor("range_size=1,2").kind.apply("range_size", "2", base_spec("select-only"))
    with pytest.raises(UsageError, match="whole number from 1"):
        parse_factor("range_size=0,2").kind.apply("range_size", "0", spec)


READS = "point_selects simple_ranges sum_ranges order_ranges distinct_ranges range_size range_selects"


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("oltp_read_only", f"{READS} skip_trx"),
        ("oltp_write_only", "index_updates non_index_updates delete_inserts skip_trx"),
        ("oltp_update_index", "index_updates"),
        ("oltp_point_select", ""),
        ("select_random_points", "random_points"),
        ("select_random_ranges", "number_of_ranges delta"),
        ("micro", "range_size"),
    ],
)
def test_a_factor_that_changes_nothing_of_a_script_is_refused(script: str, names: str) -> None:
    spec = base_spec(f"sysbench:{script}")
    for name, kind in KINDS.items():
        if kind is not sysbench_option.KIND or name == "rand_type":
            continue
        level = {"skip_trx": "on", "range_selects": "off"}.get(name, "7")
        if name in {"tables", "table_size", *names.split()}:
            assert kind.apply(name, level, spec) != spec
        else:
            with pytest.raises(UsageError, match=f"{name}= changes nothing of sysbench:{script}"):
                kind.apply(name, level, spec)


def test_options_of_initdb_are_of_the_data() -> None:
    """So each level has data of its own; what is loaded from a data folder was made by somebody's initdb."""
    spec = base_spec()
    without = parse_factor("checksums=on,off").kind.apply("checksums", "off", spec)
    assert (spec.dataset.checksums, without.dataset.checksums) == (True, False)
    sizes = parse_factor("wal_segsize=16MB,64,1GB")
    assert sizes.levels == ("16MB", "64", "1GB")
    made = [sizes.kind.apply("wal_segsize", level, spec) for level in sizes.levels]
    assert [each.dataset.wal_segment_mb for each in made] == [16, 64, 1024]
    assert made[0].data_identity == spec.data_identity
    assert made[1].data_identity != spec.data_identity and without.data_identity != spec.data_identity
    own = spec.model_copy(update={"dataset": DatasetSpec(kind="folder", source="/srv/data")})
    for name, level in (("checksums", "on"), ("wal_segsize", "16MB")):
        with pytest.raises(UsageError, match=f"{name}= is fixed by initdb, and /srv/data"):
            parse_factor(f"{name}=on,off" if name == "checksums" else f"{name}=16MB,32MB").kind.apply(
                name, level, own
            )


@pytest.mark.parametrize(
    ("line", "levels"),
    [
        (
            'pooler = ["none", "pgbouncer:mode=transaction,size=20"]',
            ("none", "pgbouncer:mode=transaction,size=20"),
        ),
        ('Storage = ["host", "loop:size=4GB,read_iops=3000"]', ("host", "loop:size=4GB,read_iops=3000")),
        ('search_path = ["a,b", "it\'s"]', ("a,b", "it's")),
    ],
)
def test_levels_with_commas_of_a_file_are_what_it_says(
    line: str, levels: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(f"[factors]\n{line}\n")
    (factor,) = read_file(file, None, ()).factors
    assert parse_factor(factor).levels == levels


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("checksums=on,yes", "checksums=yes is not known: write checksums=on,off"),
        ("checksums=on,on", "given twice"),
        ("checksums=on", "add a second level"),
        (
            "wal_segsize=16MB,24MB",
            "wal_segsize=24MB is not a size of a WAL segment: write a power of two from 1MB",
        ),
        ("wal_segsize=16MB,2GB", "wal_segsize=2GB is not a size"),
        ("wal_segsize=16MB,64kB", "wal_segsize=64kB is not a size"),
        ("wal_segsize=16MB,0", "wal_segsize=0 is not a size"),
        ("wal_segsize=16MB,-16", "'-16' is not a size"),
        ("wal_segsize=1024MB,1GB", "'1024MB' and '1GB' mean the same"),
    ],
)
def test_what_initdb_would_not_take_is_refused_at_once(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_factor(text)


@given(st.text(max_size=12))
def test_any_size_of_a_wal_segment_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        size_mb = parse_wal_segsize(text)
    except UsageError as refused:
        assert "is not a size" in str(refused)
    else:
        assert size_mb in WAL_SEGMENT_SIZES_MB


def test_read_ahead_belongs_to_a_device_of_pgassay() -> None:
    factor = parse_factor("read_ahead=128,8192")
    with pytest.raises(UsageError, match="add --storage loop"):
        factor.kind.apply("read_ahead", "128", base_spec())
    loop = parse_factor("storage=host,loop:size=1GB").kind.apply("storage", "loop:size=1GB", base_spec())
    assert factor.kind.apply("read_ahead", "8192", loop).storage.read_ahead_kb == 8192


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("io_method", "write NAME=LEVEL"),
        ("=a,b", "write NAME=LEVEL"),
        ("a b=1,2", "write NAME=LEVEL"),
        ("io_method=sync", "add a second level"),
        ("io_method=sync,sync", "given twice"),
        ("io_method=sync,", "a level is empty"),
        ("search_path='a,b", "is not closed"),
    ],
)
def test_what_is_no_factor_is_refused_with_a_remedy(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_factor(text)


def test_a_factor_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parse_factors(["a=1,2", "A=3,4"])


@given(st.lists(st.text(alphabet="ab, '", max_size=5), min_size=1, max_size=5, unique=True))
def test_quoted_levels_come_back_as_they_were(levels: list[str]) -> None:
    typed = ",".join("'" + level.replace("'", "''") + "'" for level in levels)
    assert split_levels("x", typed) == tuple(levels)


@given(st.text(alphabet="ab,' ", max_size=12))
def test_no_list_of_levels_breaks_it(text: str) -> None:
    try:
        levels = split_levels("x", text)
    except UsageError:
        return
    assert levels and len(set(levels)) == len(levels)


def test_data_are_settled_or_left_and_that_is_another_snapshot() -> None:
    (factor,) = parse_factors(["settle=on,off"])
    base = base_spec()
    settled, left = (factor.kind.apply("settle", level, base) for level in factor.levels)
    assert settled == base
    assert (settled.leaves_data_changed, left.leaves_data_changed) == (False, True)
    prepared = ("UPDATE t SET v = 1",)
    keys = {key(spec.build, spec.dataset, prepared) for spec in (settled, left)}
    assert len(keys) == 2
    # pgbench's own data are frozen in any case, and made once for both.
    assert len({key(spec.build, spec.dataset) for spec in (settled, left)}) == 1
    with pytest.raises(UsageError, match="factor settle: maybe is not known: write on or off"):
        factor.kind.apply("settle", "maybe", base)


def test_data_that_were_stored_before_are_settled_and_stored_as_they_were() -> None:
    stored = DatasetSpec().model_dump_json()
    assert "settled" not in stored
    assert DatasetSpec.model_validate_json(stored).settled
    assert "settled" in DatasetSpec(settled=False).model_dump_json()
