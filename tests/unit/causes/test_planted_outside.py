"""A planted burst credit ends in either version of control groups (fakes: a machine has one of them)."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import whole_tool

# The bench is no package: its table is found as its own script finds it.
sys.path.insert(0, str(whole_tool.ROOT / "benchmarks"))
from plants.outside import _drop

FAST, SLOW, CREDIT = 12 << 20, 3 << 20, 75e6


def version_1(folder: Path, read_bytes: int, rate: int) -> Path:
    """A group of the controller blkio, as the kernel writes it; answers the file of the limit."""
    limits = folder / "blkio.throttle.read_bps_device"
    limits.write_text(f"7:1 {rate}\n")
    served = f"8:0 Read 99999999999\n7:1 Read {read_bytes}\n7:1 Write 5\n7:1 Total {read_bytes + 5}\n"
    (folder / "blkio.throttle.io_service_bytes").write_text(served)
    return limits


def version_2(folder: Path, read_bytes: int, rate: int) -> Path:
    """The same group with the controller io."""
    limits = folder / "io.max"
    limits.write_text(f"7:1 rbps={rate} wbps=max riops=max wiops=max\n")
    served = (
        f"8:0 rbytes=99999999999 wbytes=0 rios=1 wios=0\n7:1 rbytes={read_bytes} wbytes=5 rios=9 wios=1\n"
    )
    (folder / "io.stat").write_text(served)
    return limits


@pytest.mark.parametrize("made", [version_1, version_2])
def test_the_rate_drops_when_the_credit_is_used_up_and_not_before(
    made: Callable[[Path, int, int], Path], tmp_path: Path
) -> None:
    limits = made(tmp_path, int(CREDIT) - 1, FAST)
    before = limits.read_text()
    _drop(tmp_path, CREDIT, SLOW)
    assert limits.read_text() == before
    limits = made(tmp_path, int(CREDIT), FAST)
    _drop(tmp_path, CREDIT, SLOW)
    assert limits.read_text() == ("7:1 3145728" if made is version_1 else "7:1 rbps=3145728")
    # The second time there is nothing to do.
    made(tmp_path, int(CREDIT), SLOW)
    before = limits.read_text()
    _drop(tmp_path, CREDIT, SLOW)
    assert limits.read_text() == before
