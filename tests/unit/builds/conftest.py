"""The home that tests of builds have to themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import whole_tool


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own, which sees the machine's tools."""
    with whole_tool.private_home() as folder:
        monkeypatch.setenv("PGASSAY_HOME", str(folder))
        yield folder
