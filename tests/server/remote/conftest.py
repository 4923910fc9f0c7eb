"""What the tests of remote servers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import whole_tool


@pytest.fixture
def home() -> Iterator[Path]:
    with whole_tool.private_home() as folder:
        yield folder
