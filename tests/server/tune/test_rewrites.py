"""Rewrites on real servers: tempting ones that are wrong are refused whole, valid ones are offered and
agree."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.tune.candidate import TunedStatement
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.rewrites.registry import rewrites
from pgassay.tune.rewrites.tree import meaning, read
from pgassay.tune.same_results.check import SameResults, same_results
from rewrites.schema import AFTERWARDS, BROKEN_INDEX, DATA, SCHEMA, SCHEMA_18, Case
from rewrites.valid import VALID
from rewrites.wrong_conditions import WRONG_KEYS, WRONG_NULLS
from rewrites.wrong_values import WRONG_DECISIONS, WRONG_VALUES
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


def accepted_wrongly(shop: Shop) -> list[str]:
    """What a wrong rewrite passed: the rules, or the comparison."""
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
            for one in found
            if (result := shop.check(case, one.sql, proof=one.proof)).verdict == "different"
        ]
    return failed


def test_every_tempting_rewrite_that_is_wrong_is_refused(shop: Shop) -> None:
    assert len(WRONG) >= 60
    failed = accepted_wrongly(shop)
    assert not failed, "\n".join(failed)


def test_most_valid_rewrites_are_offered_and_agree(shop: Shop) -> None:
    assert len(VALID) >= 60
    refused, different = judged(shop)
    assert not different, "\n".join(different)
    assert len(refused) <= 0.1 * len(VALID), "\n".join(refused)


def judged(shop: Shop) -> tuple[list[str], list[str]]:
    """The valid rewrites that are not offered or not accepted, and those that were found different."""
    refused, different = [], []
    for case in VALID:
        if case.version > shop.major:
            continue
        made = rewrites(shop.statement(case), shop.facts)
        offered = [one for one in made.found if one.kind == case.kind]
        if not offered:
            refused.append(f"{case.name}: {[(one.kind, one.reason) for one in made.refused]}")
        for one in made.found:
            result = shop.check(case, one.sql, proof=one.proof)
            if result.verdict == "different":
                different.append(f"{case.name}: {result.reason}: {result.counterexample} {one.sql}")
            elif not result.accepted and one.kind == case.kind:
                refused.append(f"{case.name}: {result.reason}")
    return refused, different


@pytest.mark.slow
@pytest.mark.parametrize("version", ["16", "17"])
def test_older_servers_judge_alike(version: str) -> None:
    with shop_of(version) as made:
        assert not accepted_wrongly(made)
        refused, different = judged(made)
        assert not different
        assert len(refused) <= 0.1 * len(VALID), "\n".join(refused)
