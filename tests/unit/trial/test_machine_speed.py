"""The fixed tasks that tell the machine's speed before a trial."""

from pathlib import Path

import pytest

from pgassay.environment.linux import pagecache
from pgassay.errors import MeasurementError
from pgassay.trial.snapshots import machine_speed


def test_memory_and_the_processor_take_time() -> None:
    assert machine_speed.memory_s() > 0
    assert machine_speed.canary_s() > 0


def test_the_disk_is_read_from_one_file_that_stays_and_goes_past_the_page_cache(tmp_path: Path) -> None:
    assert machine_speed.disk_s(tmp_path) > 0
    file = tmp_path / machine_speed.DISK_FILE
    made = file.stat()
    assert made.st_size == machine_speed.DISK_BYTES
    pagecache.evict([file])
    assert machine_speed.disk_s(tmp_path) > 0
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    assert [path.name for path in tmp_path.iterdir()] == [machine_speed.DISK_FILE]


def test_a_file_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    (tmp_path / machine_speed.DISK_FILE).write_bytes(b"short")
    machine_speed.disk_s(tmp_path)
    assert (tmp_path / machine_speed.DISK_FILE).stat().st_size == machine_speed.DISK_BYTES


def test_a_folder_that_is_gone_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="another covariate"):
        machine_speed.disk_s(tmp_path / "gone")
