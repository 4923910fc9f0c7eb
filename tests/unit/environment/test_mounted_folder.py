"""A volume is mounted in a folder of the user's, which must not be the place of anything else."""

from pathlib import Path

import pytest

from pgassay.cli.commands.volumes_mount import _empty_folder
from pgassay.environment.linux import mounts
from pgassay.errors import UsageError


def test_a_file_system_of_the_user_s_is_no_place_for_a_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    assert _empty_folder(folder) == folder.resolve()
    table = tmp_path / "mountinfo"
    table.write_text(f"40 30 8:17 / {folder} rw,relatime shared:1 - xfs /dev/sdb1 rw\n")
    monkeypatch.setattr(mounts, "_MOUNTINFO", table)
    # At the end both would have to be unmounted, and pgassay leaves what is not its own alone.
    with pytest.raises(UsageError, match=f"/dev/sdb1 is mounted at {folder}: create a folder in it"):
        _empty_folder(folder)
