"""A copy whose server fails while candidates are tried."""

from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

import tune_samples as samples
from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec
from pgassay.tune.copy import TrialCopy


class Failing(TrialCopy):
    """Its server runs statements, and fails at what is done between them."""

    def _run(self, *_: object) -> float:
        return 1.0

    def _prepare_caches(self, **_: object) -> None:
        raise psycopg.OperationalError("could not write to file: No space left on device")


def test_a_server_that_fails_between_two_runs_ends_what_is_tried_and_not_the_search() -> None:
    """As a checkpoint does that finds no room on the disk: whoever tries a fix knows how to go on then."""
    spec = cast("ArmSpec", SimpleNamespace(settings={}))
    copy = Failing(spec, cache="warm-pages", statement_timeout_s=10.0, on_stage=lambda *_: None)
    statement = samples.BASELINE.statements[0]
    with pytest.raises(UsageError, match="server failed at list: could not write"):
        copy.seconds(statement, statement.sql)
