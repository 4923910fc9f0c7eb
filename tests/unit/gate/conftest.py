"""A folder for gate files."""

from pathlib import Path

import pytest
from gate_files_for_tests import write

from pgassay.experiment.gating import requests
from pgassay.model.build import Build


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the SQL of a workload; builds are not looked for on the machine."""
    write(tmp_path, "-- name: one\nSELECT 1;\n-- name: two\nSELECT 2;\n", "orders.sql")

    def resolve(text: str | None) -> Build:
        name = (text or "18").strip("/").replace("/", "-")
        return Build(origin="path", version="18.6", major=18, bin_directory=f"/builds/{name}")

    monkeypatch.setattr(requests, "resolve", resolve)
    return tmp_path
