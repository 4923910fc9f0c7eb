"""Copies that a killed run left: several processes may clean up at once."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import whole_tool
from pgassay.environment.atomic_folder import locked
from pgassay.environment.cleanup.source_copies import DUMPS_FOLDER, remove_source_copies
from pgassay.environment.datasets import snapshots
from pgassay.environment.home import home

KEYS = ("0123456789abcdef0123", "123456789abcdef01234")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Two copies of a dump that is gone, in a home of their own."""
    with whole_tool.private_home() as folder:
        monkeypatch.setenv("PGASSAY_HOME", str(folder))
        folders = [snapshots.folder() / key for key in KEYS]
        gone = home() / DUMPS_FOLDER / "upgrade" / "plain.sql"
        for each in folders:
            each.mkdir(mode=0o700)
            facts = {"bytes": 1, "dataset": {"source": str(gone)}}
            (each / snapshots.SNAPSHOT_FILE).write_text(json.dumps(facts))
        yield folders


def test_what_another_process_removes_meanwhile_is_passed_over(left: list[Path]) -> None:
    said: list[str] = []
    cleaning = threading.Thread(target=lambda: said.extend(remove_source_copies()))
    with locked(snapshots.folder() / f"{KEYS[0]}.lock"):
        cleaning.start()
        cleaning.join(0.3)
        assert cleaning.is_alive()
        shutil.rmtree(left[0])
    cleaning.join(10)
    assert KEYS[1] in said[-1]
    assert not any(each.exists() for each in left)


def test_what_is_gone_since_it_was_listed_is_passed_over(
    left: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = snapshots.list_snapshots()
    shutil.rmtree(left[0])
    monkeypatch.setattr(snapshots, "list_snapshots", lambda: listed)
    assert KEYS[1] in remove_source_copies()[-1]
    assert not left[1].exists()
