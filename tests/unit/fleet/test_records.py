"""An experiment's folder as pieces: each arrives whole or not at all, and nothing is written elsewhere."""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frozen import archive
from pgassay.errors import MeasurementError, UsageError
from pgassay.fleet import records
from pgassay.record.experiment import load
from project_files import unpack_archive

NAME = "io-method-cold"


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(archive.place(NAME)) as tar:
        unpack_archive(tar, folder)
    return folder


def test_all_pieces_together_are_the_experiment(experiment: Path, tmp_path: Path) -> None:
    names = records.pieces(experiment)
    assert names[0] == "experiment.json"
    assert sum(records.is_trial(name) for name in names) == len(load(experiment).trials)
    for name in names:
        records.unpack(tmp_path, name, records.pack(experiment, name))
    arrived, original = load(tmp_path), load(experiment)
    assert [trial.record for trial in arrived.trials] == [trial.record for trial in original.trials]
    assert arrived.block_plans == original.block_plans
    for path in (path for path in experiment.rglob("*") if path.is_file()):
        if path.relative_to(experiment).parts[0] in ("trials", "blocks"):
            assert (tmp_path / path.relative_to(experiment)).read_bytes() == path.read_bytes()


def test_a_piece_is_the_same_bytes_whenever_it_is_packed(experiment: Path) -> None:
    trial = next(name for name in records.pieces(experiment) if records.is_trial(name))
    assert records.pack(experiment, trial) == records.pack(experiment, trial)


def test_a_trial_that_is_there_stays_as_it_is(experiment: Path, tmp_path: Path) -> None:
    first, second = [name for name in records.pieces(experiment) if records.is_trial(name)][:2]
    records.unpack(tmp_path, first, records.pack(experiment, first))
    before = (tmp_path / first / "trial.json").read_bytes()
    records.unpack(tmp_path, first, records.pack(experiment, second))
    assert (tmp_path / first / "trial.json").read_bytes() == before


def test_what_is_cut_short_leaves_nothing(experiment: Path, tmp_path: Path) -> None:
    trial = next(name for name in records.pieces(experiment) if records.is_trial(name))
    content = records.pack(experiment, trial)
    for cut in (0, 1, 20, len(content) // 2, len(content) - 9):
        with pytest.raises(MeasurementError, match="is not a trial"):
            records.unpack(tmp_path, trial, content[:cut])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not list(tmp_path.rglob("*.tmp"))


@given(content=st.binary(max_size=200), packed=st.booleans())
def test_what_is_no_trial_leaves_nothing(content: bytes, packed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(MeasurementError):
            sent = gzip.compress(content) if packed else content
            records.unpack(Path(folder), "trials/000000/attempt-1", sent)
        assert not [path for path in Path(folder).rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["../out", "/etc/out", "link/../../out"])
def test_an_archive_that_names_another_place_is_refused(name: str, tmp_path: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"bad"))
    home = tmp_path / "home"
    try:
        records.unpack(home, "trials/000000/attempt-1", made.getvalue())
    except MeasurementError:
        assert not (home / "trials/000000/attempt-1").exists()
    # An absolute name loses its root, and stays within the trial.
    assert all(home in path.parents for path in tmp_path.rglob("*") if path.is_file())


@given(name=st.text(max_size=40))
def test_only_what_a_record_is_called_is_a_piece(name: str) -> None:
    try:
        is_trial = records.is_trial(name)
    except UsageError:
        return
    assert ".." not in name
    assert not name.startswith("/")
    assert is_trial == name.startswith("trials/")
