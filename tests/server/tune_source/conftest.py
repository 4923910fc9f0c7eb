"""What the tests of scripts that `tune` writes share."""

import sys
from collections.abc import Iterator

import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.model.build import Build
from server_helpers import best_build, own_home

sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from tune_plants.trial import Laboratory, laboratory


@pytest.fixture(scope="module")
def client() -> Build:
    """Programs of a client, found before the home is another."""
    return best_build()


@pytest.fixture(scope="module")
def lab(client: Build) -> Iterator[Laboratory]:
    """A server with a home of its own, where plants are made and their scripts are run."""
    build = resolve("18")
    assert client.major >= build.major
    with own_home() as home, laboratory(build, home / "data") as made:
        yield made
