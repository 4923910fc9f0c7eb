"""How long the network takes, where client and server also wait for processors."""

from types import SimpleNamespace
from typing import cast

import pytest

from pgassay.environment.remote.round_trip import SAMPLES_OF_A_TRIAL, round_trip_ms
from pgassay.native.sql import SqlSession


@pytest.mark.parametrize(
    "taken_ms",
    [
        (0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3),
        # Two thirds of the answers were late, as beside a load of 15 on two processors.
        (9.0, 0.3, 4.0, 7.0, 0.3, 4.0, 12.0, 0.3, 5.0),
    ],
)
def test_late_answers_are_no_network(taken_ms: tuple[float, ...]) -> None:
    # The first of all warms something.
    left = iter((50.0, *taken_ms))
    session = SimpleNamespace(execute=lambda *_: SimpleNamespace(elapsed_ns=round(next(left) * 1e6)))
    assert len(taken_ms) == SAMPLES_OF_A_TRIAL
    assert round_trip_ms(cast("SqlSession", session), SAMPLES_OF_A_TRIAL) == pytest.approx(0.3)
    assert next(left, None) is None
