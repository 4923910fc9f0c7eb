"""What tests of fleets share: a home of their own, and a machine that can be divided."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whole_tool


@pytest.fixture
def home() -> Iterator[Path]:
    with whole_tool.private_home() as folder:
        yield folder


@pytest.fixture
def divisible(require: Callable[..., None]) -> None:
    """Two workers have a processor each, a control group and a network namespace."""
    require("root")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor can't be divided")
