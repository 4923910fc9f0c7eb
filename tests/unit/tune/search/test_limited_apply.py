"""What a candidate is made of is applied in no more than the time that the search has left."""

import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

import tune_samples as samples
from pgassay.environment.server.sessions import ControlSession
from pgassay.errors import UsageError
from pgassay.tune.answer.verdicts import NO_TIME, ranked
from pgassay.tune.candidate import Candidate
from pgassay.tune.search import search as searching
from pgassay.tune.search.search_run import Clock
from pgassay.tune.statement_errors import TooLongError, apply_within


class _Session:
    """A server that takes `takes_s` for each statement, or until its timeout, and may fail then."""

    closed = False

    def __init__(self, takes_s: float = 0.0, fails: type[psycopg.Error] | None = None) -> None:
        self.takes_s, self.fails, self.timeout_s = takes_s, fails, math.inf
        self.ran: list[str] = []

    def execute(self, sql: str | bytes, prepare: bool | None = None) -> None:
        text = sql.decode() if isinstance(sql, bytes) else sql
        if text.startswith("SET statement_timeout"):
            self.timeout_s = float(text.split("'")[1].removesuffix("ms")) / 1000
        elif text == "RESET statement_timeout":
            self.timeout_s = math.inf
        else:
            assert prepare is False
            self.ran.append(text)
            time.sleep(min(self.takes_s, self.timeout_s))
            if self.takes_s > self.timeout_s:
                raise psycopg.errors.QueryCanceled
            if self.fails is not None:
                raise self.fails("it fails")


def applied(session: _Session, statements: Sequence[str], limit_s: float = math.inf) -> float:
    return apply_within(cast(ControlSession, session), statements, limit_s)


def test_all_statements_together_have_the_time_that_is_left() -> None:
    session = _Session(takes_s=0.03)
    with pytest.raises(
        TooLongError, match="'ANALYZE t' did not finish on the copy in the 0 s that were left"
    ):
        applied(session, ["CREATE INDEX i ON t (a)", "ANALYZE t", "ANALYZE u"], 0.05)
    assert session.ran == ["CREATE INDEX i ON t (a)", "ANALYZE t"]
    # What the session does next is not stopped.
    assert session.timeout_s == math.inf
    assert applied(session, ["VACUUM t", "CREATE INDEX CONCURRENTLY j ON t (a)"], 60.0) >= 0.06
    assert session.timeout_s == math.inf


@pytest.mark.parametrize("limit_s", [math.inf, 60.0])
def test_what_fails_in_its_time_is_a_refusal(limit_s: float) -> None:
    session = _Session(fails=psycopg.errors.QueryCanceled)
    with pytest.raises(UsageError, match="'ANALYZE t' failed on the copy: it fails") as caught:
        applied(session, ["ANALYZE t"], limit_s)
    assert not isinstance(caught.value, TooLongError)
    assert session.timeout_s == math.inf


def test_a_candidate_whose_making_takes_longer_than_is_left_was_not_tried_and_is_not_refused() -> None:
    """A later search with more time tries it."""
    limits = []

    def push(candidate: Candidate, limit_s: float) -> float:
        limits.append(limit_s)
        raise TooLongError(f"'{candidate.sql[0]}' did not finish")

    copy = SimpleNamespace(push=push, bytes=lambda: 0, wal_bytes=lambda: 0, estimate=lambda *_: None)
    run = samples.search_run(
        copy, clock=Clock(time.monotonic() + 30), candidates=(samples.candidate("large"),)
    )
    searching._try(run, run.found.candidates[0], lambda: None)
    assert 29 < limits[0] <= 30
    assert not run.found.tried and not run.found.screened
    (fix,) = ranked(
        samples.judged(
            candidates=run.found.candidates, **samples.searched(), proved=None, unsafe={}, left_out={}
        )
    )
    assert (fix.verdict, fix.evidence, fix.note) == ("not decided", "none", NO_TIME)
