"""The data of an arm in a few words; a data folder that is not whole."""

import struct
from pathlib import Path

import pytest

from pgassay.environment.datasets import describe
from pgassay.environment.datasets.folder import refuse_unfit
from pgassay.environment.server.control_file import FLOAT_FORMAT
from pgassay.errors import UsageError
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (DatasetSpec(scale=10), "scale 10"),
        (DatasetSpec(kind="dump", source="/data/shop.dump"), "dump:shop.dump"),
        (DatasetSpec(kind="remote"), "remote:"),
    ],
)
def test_data_are_described_by_their_kind(dataset: DatasetSpec, words: str) -> None:
    assert describe(dataset) == words


def test_a_data_folder_that_was_copied_without_its_empty_folders_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    (tmp_path / "global").mkdir()
    sizes = struct.pack("<IIIIIIII4xI", 8192, 131072, 8192, 16 << 20, 64, 32, 1996, 2048, 1)
    control = struct.pack("<QIII", 1, 1800, 202506291, 1) + bytes(200) + FLOAT_FORMAT + sizes
    (tmp_path / "global" / "pg_control").write_bytes(control)
    for name in ("base", "pg_multixact", "pg_wal", "pg_xact"):
        (tmp_path / name).mkdir()
    build = Build(origin="apt", version="18.0", major=18, bin_directory="/nowhere")
    with pytest.raises(UsageError, match=r"lacks the folder pg_tblspc and pg_twophase, .*empty folders"):
        refuse_unfit(build, tmp_path)
    for name in ("pg_tblspc", "pg_twophase"):
        (tmp_path / name).mkdir()
    refuse_unfit(build, tmp_path)
