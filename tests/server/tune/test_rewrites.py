"""Rewrites on real servers: tempting ones that are wrong are refused whole, valid ones are offered and
agree."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.registry import rewrites
from pgassay.tune.rewrites.tree import meaning, read
from pgassay.tune.same_results.check import SameResults, same_results
from rewrites.random_queries import Drawn
from rewrites.schema import AFTERWARDS, BROKEN_INDEX, DATA, SCHEMA, SCHEMA_18, Case
from rewrites.valid import VALID
from rewrites.wrong_conditions import WRONG_KEYS, WRONG_NULLS
from rewrites.wrong_decisions import WRONG_DECISIONS
from rewrites.wrong_values import WRONG_VALUES
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WRONG = (*WRONG_NULLS, *WRONG_KEYS, *WRONG_VALUES, *WRONG_DECISIONS)
SETTINGS = TINY_SETTINGS | {"fsync": "off", "timezone": "UTC", "jit": "off"}


class Shop:
    """A server of one version with the schema of the corpora."""

    def __init__(self, connection: ControlSession, major: int) -> None:
        self.connection = connection
        self.major = major
        for sql in (*SCHEMA, *(SCHEMA_18 if major >= 18 else ())):
            connection.execute(sql)
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            connection.execute(BROKEN_INDEX)
        for sql in (*AFTERWARDS, *DATA, "ANALYZE"):
            connection.execute(sql)
        self.facts: SchemaFacts = read_facts(connection)

    def statement(self, case: Case) -> TunedStatement:
        return TunedStatement(name=case.name, sql=case.original, parameters=case.parameters)

    def check(self, case: Case, other: str, **options: object) -> SameResults:
        return same_results(self.connection, self.statement(case), other, self.facts, **options)  # type: ignore[arg-type]


@contextlib.contextmanager
def shop_of(version: str) -> Iterator[Shop]:
    build = resolve(version)
    with own_home() as home:
        data = empty_cluster(build, Path(home, "data", "rewrites"))
        with Server(build, data, SETTINGS) as server, control(server) as connection:
            yield Shop(connection, int(version))


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with shop_of("18") as made:
        yield made


def accepted_wrongly(shop: Shop, *, offers_too: bool) -> list[str]:
    """What a wrong rewrite passed: rules or comparison; with `offers_too` what is offered is compared too."""
    failed = []
    for case in WRONG:
        if case.version > shop.major:
            continue
        found = rewrites(shop.statement(case), shop.facts).found
        if case.kind and case.kind in {one.kind for one in found}:
            failed.append(f"{case.name}: {case.kind} is offered")
        if any(meaning(read(one.sql)) == meaning(read(case.other)) for one in found):
            failed.append(f"{case.name}: the wrong rewrite is offered")
        result = shop.check(case, case.other)
        if result.accepted:
            failed.append(f"{case.name}: {result.words} ({result.reason})")
        failed += [
            f"{case.name}: {one.kind} is offered and {result.reason}"
            for one in (found if offers_too else ())
            if (result := shop.check(case, one.sql, proof=one.proof, instances=8)).verdict == "different"
        ]
    return failed


def test_every_tempting_rewrite_that_is_wrong_is_refused(shop: Shop) -> None:
    assert len(WRONG) >= 60
    failed = accepted_wrongly(shop, offers_too=False)
    assert not failed, "\n".join(failed)


def judged(shop: Shop, instances: int) -> tuple[list[str], list[str]]:
    """The valid rewrites that are not offered or not accepted, and those that were found different."""
    refused, different = [], []
    for case in VALID:
        made = rewrites(shop.statement(case), shop.facts)
        if case.kind not in {one.kind for one in made.found}:
            refused.append(f"{case.name}: {[(one.kind, one.reason) for one in made.refused]}")
        for one in made.found:
            result = shop.check(case, one.sql, proof=one.proof, instances=instances)
            if result.verdict == "different":
                different.append(f"{case.name}: {result.reason}: {result.counterexample} {one.sql}")
            elif not result.accepted and one.kind == case.kind:
                refused.append(f"{case.name}: {result.reason}")
    return refused, different


def check_valid(shop: Shop, instances: int) -> None:
    refused, different = judged(shop, instances)
    assert not different, "\n".join(different)
    assert len(refused) <= 0.1 * len(VALID), "\n".join(refused)


def test_valid_rewrites_are_offered_and_agree(shop: Shop) -> None:
    assert len(VALID) >= 60
    check_valid(shop, instances=5)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["16", "17", "18"])
def test_servers_judge_alike_on_more_instances(version: str) -> None:
    with shop_of(version) as made:
        failed = accepted_wrongly(made, offers_too=True)
        assert not failed, "\n".join(failed)
        check_valid(made, instances=100)


def compare_random_queries(shop: Shop, examples: int, instances: int) -> Counter[str]:
    """Rewrite random queries and compare; return how many rewrites of each kind there were."""
    offered: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(st.randoms(use_true_random=False))
    def compare(chance: Random) -> None:
        statement = TunedStatement(name="random", sql=Drawn(chance).query())
        for one in rewrites(statement, shop.facts).found:
            offered[one.kind] += 1
            result = same_results(
                shop.connection, statement, one.sql, shop.facts, proof=one.proof, instances=instances
            )
            assert result.accepted or "no instance gave a row" in result.reason, (
                f"{result.reason}: {result.counterexample}\n{statement.sql}\n{one.sql}"
            )

    compare()
    return offered


def test_rewrites_of_random_queries_return_the_same_rows(shop: Shop) -> None:
    assert sum(compare_random_queries(shop, examples=30, instances=6).values()) >= 5


@pytest.mark.slow
def test_rewrites_of_many_random_queries_return_the_same_rows(shop: Shop) -> None:
    offered = compare_random_queries(shop, examples=3000, instances=40)
    assert len(offered) >= 8, offered


def test_nothing_stays_after_a_comparison(shop: Shop) -> None:
    """Neither a temporary table nor a changed row nor an open transaction."""
    before = shop.connection.execute("SELECT count(*), sum(id) FROM orders").fetchone()
    statement = TunedStatement(
        name="q", sql="SELECT o.id FROM public.orders o WHERE public.orders.id IS NULL"
    )
    result = same_results(shop.connection, statement, statement.sql, shop.facts)
    assert result.accepted is False  # it fails both times, so no row came
    statement = TunedStatement(name="q", sql="SELECT public.orders.id FROM public.orders WHERE qty > 1")
    result = same_results(shop.connection, statement, statement.sql, shop.facts)
    assert (result.verdict, result.words) == ("equal", "equal on 100 instances")
    assert result.with_rows > 10
    assert shop.connection.execute("SELECT count(*), sum(id) FROM orders").fetchone() == before
    left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'"
    assert shop.connection.execute(left).fetchone() == (0,)
    assert shop.connection.info.transaction_status.name == "IDLE"


def test_a_difference_comes_with_its_rows_and_parameters(shop: Shop) -> None:
    statement = TunedStatement(
        name="q", sql="SELECT id FROM orders WHERE qty > $1", parameters=(("3",), ("23",))
    )
    result = same_results(shop.connection, statement, "SELECT id FROM orders WHERE qty >= $1", shop.facts)
    assert result.verdict == "different"
    assert result.counterexample is not None
    assert result.counterexample.startswith("$1 = 3; the original: 21 rows")
    hidden = TunedStatement(name="q", sql="SELECT id FROM orders WHERE referrer_id IN (1, 2)")
    other = "SELECT id FROM orders WHERE coalesce(referrer_id, 1) IN (1, 2)"
    found = same_results(shop.connection, hidden, other, shop.facts)
    assert (found.verdict, found.reason) == ("different", "on a small instance their rows differ")
    assert found.counterexample is not None and found.counterexample.startswith("orders (")
    again = same_results(shop.connection, hidden, other, shop.facts)
    assert again == found, "the same seed draws the same instances"


def test_a_statement_that_takes_too_long_is_not_checked(shop: Shop) -> None:
    sql = "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f"
    statement = TunedStatement(name="q", sql=sql)
    result = same_results(shop.connection, statement, sql, shop.facts, timeout_ms=100)
    assert (result.verdict, result.reason) == ("not checked", "it exceeded its time limit on the data")
