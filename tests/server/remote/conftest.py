"""What the tests of remote servers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import whole_tool
from native_servers import started_server
from remote_servers import RemoteTestServer


@pytest.fixture
def home() -> Iterator[Path]:
    with whole_tool.private_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def server() -> Iterator[RemoteTestServer]:
    with started_server(RemoteTestServer) as server:
        yield server
