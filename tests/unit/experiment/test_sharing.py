"""Which arms one running server can be: by indexes, settings and statements, and in which words not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from plans_for_tests import base_spec

from pgassay.design.index_scripts import OtherSqlError, read_index_script
from pgassay.design.shared_data import on_shared_data
from pgassay.design.start_sharing import Sharing, share
from pgassay.environment.server.setting_values import SettingFact
from pgassay.environment.server.settings import classify
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import Protocol
from pgassay.model.storage import StorageSpec
from pgassay.workloads.registry import parse_workload

REQUEST = CompareRequest(factors=())
CONTEXTS = {
    "work_mem": "user",
    "jit": "user",
    "random_page_cost": "user",
    "effective_io_concurrency": "user",
    "log_min_duration_statement": "superuser",
    "bgwriter_delay": "sighup",
    "checkpoint_timeout": "sighup",
    "shared_buffers": "postmaster",
}
ON_A, ON_B = "CREATE INDEX a ON t (a)", "CREATE INDEX b ON s.t (b)"


FACTS = {
    name: SettingFact(name, context, "string", None, "", None, None, (), None)
    for name, context in CONTEXTS.items()
}


def arms(*specs: ArmSpec) -> tuple[Arm, ...]:
    """A control, the other arms and the twin of the control."""
    made = [
        Arm(id=str(place), name=f"level {place}", levels={}, role="arm" if place else "control", spec=spec)
        for place, spec in enumerate(specs)
    ]
    return (*made, Arm(id="t", name="twin", levels={}, role="twin", spec=specs[0]))


def prepared(*scripts: Sequence[str], before: tuple[str, ...] = ()) -> tuple[Arm, ...]:
    return arms(*(base_spec().model_copy(update={"prepare": (*before, *script)}) for script in scripts))


def with_settings(*settings: dict[str, str]) -> tuple[Arm, ...]:
    base = base_spec()
    return arms(*(base.model_copy(update={"settings": base.settings | each}) for each in settings))


def shared(made: tuple[Arm, ...], cache: str | None = "as-is", request: CompareRequest = REQUEST) -> Sharing:
    protocol = Protocol(cache=cache or "cold-each")  # type: ignore[arg-type]
    return share(
        made,
        protocol,
        lambda _build, name: classify(FACTS, name),
        chooses_cache=cache is None,
        unshared=request.unshared_starts,
    )


def test_indexes_of_all_arms_are_on_data_that_all_share_and_each_is_without_those_of_the_others() -> None:
    found = shared(prepared([], [ON_A], [ON_A, ON_B], before=("VACUUM t",)))
    assert found.reason == ""
    assert {arm.spec.prepare for arm in found.arms} == {("VACUUM t", ON_A, ON_B)}
    assert [arm.spec.without_indexes for arm in found.arms] == [
        ('"a"', '"s"."b"'),
        ('"s"."b"',),
        (),
        ('"a"', '"s"."b"'),
    ]
    assert found.protocol.switched_indexes == ('"a"', '"s"."b"')


def test_what_all_arms_are_prepared_by_is_never_hidden() -> None:
    found = on_shared_data(prepared([], [ON_B], before=(ON_A, "ALTER TABLE t SET (fillfactor = 70)")))
    assert found.switched == ('"s"."b"',)
    assert on_shared_data(prepared([ON_A], [ON_A])).switched == ()


def test_an_index_without_a_name_gets_one_that_no_other_has() -> None:
    script = read_index_script(["/* ä */ CREATE UNIQUE INDEX CONCURRENTLY ON t (lower(a), b) WHERE a > ''"])
    ((name, sql),) = script.indexes.items()
    assert name.startswith('"t_expr_b_idx_')
    assert sql == f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON t (lower(a), b) WHERE a > ''"
    assert script.unique == script.named_here == [name]
    other = read_index_script(["CREATE INDEX ON t (lower(a), b) WHERE a > 'x'"])
    assert other.indexes.keys().isdisjoint(script.indexes)


def test_what_surrounds_indexes_in_migrations_is_no_reason_for_data_of_their_own() -> None:
    text = (
        "BEGIN; SET maintenance_work_mem = '1GB'; CREATE EXTENSION IF NOT EXISTS pg_trgm;"
        f"{ON_A}; COMMENT ON INDEX a IS 'for the list'; COMMIT;"
    )
    found = on_shared_data(prepared([], [text]))
    assert found.reason == ""
    assert found.arms[0].spec.prepare == (
        "SET maintenance_work_mem = '1GB'",
        "CREATE EXTENSION IF NOT EXISTS pg_trgm",
        ON_A,
    )


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (["DROP INDEX a"], "level 1 runs DROP INDEX, and a running server can switch only indexes"),
        (["-- first\nALTER TABLE t ADD UNIQUE (a)"], "level 1 runs ALTER TABLE, and"),
        (["CREATE STATISTICS s ON a, b FROM t"], "level 1 runs CREATE STATISTICS, and"),
        (["VACUUM t"], "level 1 runs VACUUM T, and"),
        (["SET search_path = s", ON_A], "level 1 runs SET SEARCH_PATH, and"),
        (["CREATE INDX a ON t (a)"], "level 1 runs CREATE INDX, and"),
        ([ON_A, "ANALYZE t"], "level 1 runs ANALYZE and another arm does not"),
        (["CREATE INDEX IF NOT EXISTS a ON t (a)"], 'level 1 makes "a" IF NOT EXISTS'),
    ],
)
def test_what_only_data_of_its_own_can_have_is_said(script: list[str], words: str) -> None:
    made = prepared([], script)
    found = shared(made)
    assert found.reason.startswith(words)
    assert found.arms == made
    assert found.protocol.switched_indexes == ()


def test_analyze_in_all_arms_alike_is_shared() -> None:
    found = on_shared_data(prepared(["ANALYZE  t"], [ON_A, "ANALYZE t"]))
    assert found.arms[0].spec.prepare == (ON_A, "ANALYZE t")


def test_different_indexes_of_one_name_are_told_by_it() -> None:
    found = on_shared_data(prepared([ON_A], ["CREATE INDEX a ON t (a, b)"]))
    assert found.reason == "level 0 and level 1 make different indexes called a: give each its own name"
    # Which of two schemas it is in without one is not known.
    assert on_shared_data(prepared([ON_A], ["CREATE INDEX a ON s.t (a)"])).reason


def test_a_search_path_makes_names_unsure() -> None:
    made = arms(
        base_spec(),
        base_spec().model_copy(update={"prepare": (ON_A,), "settings": {"search_path": "s"}}),
    )
    assert on_shared_data(made).reason.startswith("search_path is set")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "SET search_path = s",
            "all arms begin with SET SEARCH_PATH, so an index name may mean another index",
        ),
        (
            "SELECT pg_catalog.set_config('search_path', 's', false)",
            "all arms begin with SELECT PG_CATALOG, so",
        ),
        ("CREATE TABLE x (a int); SET LOCAL Search_Path TO s", "all arms begin with SET LOCAL, so"),
        ("DO $$ BEGIN EXECUTE 'SET search_path = s'; END $$", "all arms begin with DO"),
        ("SET ROLE app", "all arms begin with SET ROLE, so"),
        ("RESET ALL", "all arms begin with RESET ALL, so"),
        ("SET maintenance_work_mem = '1GB'", ""),
        ("ANALYZE t", ""),
    ],
)
def test_what_all_begin_with_may_move_the_names_of_indexes(statement: str, words: str) -> None:
    """The index was made in s, and looked for in public when it was to be hidden."""
    reason = shared(prepared([], [ON_A], before=(statement,))).reason
    assert reason.startswith(words) and bool(reason) == bool(words)


def test_a_transaction_that_all_begin_is_not_left_open() -> None:
    found = shared(prepared(["BEGIN", ON_A, "COMMIT"], ["BEGIN", ON_B, "COMMIT"], before=("VACUUM t",)))
    assert found.reason == ""
    assert found.arms[0].spec.prepare == ("VACUUM t", ON_A, ON_B)
    # What else was done in it is not that of an index alone.
    made = prepared(["BEGIN", "DELETE FROM t", ON_A, "COMMIT"], ["BEGIN", "DELETE FROM t", ON_B, "COMMIT"])
    assert shared(made).reason.startswith("level 0 runs DELETE FROM")
    whole = ("BEGIN", "DELETE FROM t", "COMMIT")
    assert shared(prepared([ON_A], [ON_B], before=whole)).arms[0].spec.prepare == (*whole, ON_A, ON_B)


@pytest.mark.parametrize(
    "name", ["work_mem", "jit", "random_page_cost", "effective_io_concurrency", "log_min_duration_statement"]
)
def test_what_a_session_can_change_is_shared(name: str) -> None:
    found = shared(with_settings({name: "1"}, {name: "2"}))
    assert (found.reason, found.protocol.reloaded_settings) == ("", ())


def test_a_reload_is_shared_where_nothing_remembers_the_other_value() -> None:
    found = shared(with_settings({"bgwriter_delay": "10ms"}, {"bgwriter_delay": "1s"}))
    assert (found.reason, found.protocol.reloaded_settings) == ("", ("bgwriter_delay",))
    alone = shared(with_settings({}, {"bgwriter_delay": "1s"}))
    assert alone.reason.startswith("bgwriter_delay is set for one arm only")
    state = shared(with_settings({"checkpoint_timeout": "1min"}, {"checkpoint_timeout": "5min"}))
    assert state.reason == "the effect of checkpoint_timeout on a server lasts after it is changed back"
    start = shared(with_settings({"shared_buffers": "1GB"}, {"shared_buffers": "2GB"}))
    assert start.reason == "a session can't change shared_buffers"


def test_writers_keep_copies_of_their_own_and_the_reason_is_said() -> None:
    workload = parse_workload("full-scan").model_copy(update={"writes": True})
    made = arms(
        *(base_spec().model_copy(update={"workload": workload, "prepare": each}) for each in ((), (ON_A,)))
    )
    assert shared(made).reason == "the statements change the data"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SET work_mem = '1GB'", "a is not a query, so what it does may last until its session ends"),
        ("CREATE TEMP TABLE x AS SELECT 1", "a is not a query"),
        ("DELETE FROM t", "a is not a query"),
        ("SELECT pg_advisory_lock(1)", "a calls pg_advisory_lock, whose effect lasts until its session ends"),
        ("SELECT Set_Config ('jit', 'off', false)", "a calls set_config, whose"),
        ("SELECT pg_advisory_xact_lock(1)", ""),
        ("-- set\n/* a\n b */ ((SELECT 1) UNION SELECT 2)", ""),
        ("WITH x AS (SELECT 1) TABLE x", ""),
        ("values (1)", ""),
        ("table t", ""),
    ],
)
def test_what_a_statement_leaves_in_its_session_would_meet_the_next_arm(sql: str, words: str) -> None:
    """A lock of one arm's session made the other's wait until the trial was stopped."""
    workload = parse_workload("full-scan")
    statement = workload.statements[0].model_copy(update={"name": "a", "sql": sql})
    workload = workload.model_copy(update={"statements": (statement,)})
    specs = [base_spec().model_copy(update={"workload": workload, "prepare": each}) for each in ((), (ON_A,))]
    found = shared(arms(*specs))
    assert found.reason.startswith(words) and bool(found.reason) == bool(words)
    assert found.said == found.reason


def test_caches_are_warm_where_none_are_asked_for_and_as_always_where_nothing_is_shared() -> None:
    assert shared(prepared([], [ON_A]), cache=None).protocol.cache == "as-is"
    assert shared(prepared([], ["DROP INDEX a"]), cache=None).protocol.cache == "cold-each"
    assert shared(prepared([], [ON_A]), cache="cold-each").reason.startswith("with --cache cold-each an")
    each = replace(REQUEST, restart="each")
    assert shared(prepared([], [ON_A]), cache=None, request=each).protocol.cache == "cold-each"


def test_what_only_cold_caches_show_is_shared_where_warm_ones_are_asked_for() -> None:
    reading = with_settings({"effective_io_concurrency": "1"}, {"effective_io_concurrency": "16"})
    found = shared(reading, cache=None)
    assert found.said.startswith("caches are cold, since effective_io_concurrency decides how pages are read")
    assert found.protocol.cache == "cold-each"
    assert shared(reading, cache="as-is").reason == ""
    storage = StorageSpec(kind="loop")
    slow = arms(*(each.spec.model_copy(update={"storage": storage}) for each in prepared([], [ON_A])[:2]))
    assert shared(slow, cache=None).said.startswith("caches are cold, since a storage is given")
    assert shared(slow, cache="as-is").reason == ""


@pytest.mark.parametrize(
    "changes", [{"restart": "each"}, {"calibrates": True}, {"profile": True}, {"covariate": "canary"}]
)
def test_whoever_asks_for_trials_has_them_and_is_told_nothing(changes: dict[str, Any]) -> None:
    found = shared(prepared([], [ON_A]), request=replace(REQUEST, **changes))
    assert found.reason and not found.said


def test_nobody_is_told_that_loads_have_servers_of_their_own() -> None:
    workload = parse_workload("select-only:duration=1s")
    made = arms(*(base_spec().model_copy(update={"workload": workload}) for _ in range(2)))
    assert shared(made).reason and not shared(made).said
    assert shared(with_settings({"shared_buffers": "1GB"}, {"shared_buffers": "2GB"})).said


@pytest.mark.parametrize(
    ("sql", "words"),
    [("/* a */ drop  table t", "DROP TABLE"), ("SELECT", "SELECT"), ("UPDATE t SET a = 1", "UPDATE T")],
)
def test_a_statement_is_named_by_its_first_words(sql: str, words: str) -> None:
    with pytest.raises(OtherSqlError, match=f"^{words}$"):
        read_index_script([sql])
