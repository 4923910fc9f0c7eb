"""How large an image in memory may be: the kernel refuses what all memory and swap could not hold."""

from pathlib import Path

import pytest

from pgassay.storage import image_memory, imitated_device
from pgassay.storage.image import usable_bytes

GB = 1 << 30


def machine(patch: pytest.MonkeyPatch, folder: Path, mode: str, **kilobytes: int) -> None:
    """One with this mode of overcommitting and these lines of /proc/meminfo."""
    (folder / "mode").write_text(f"{mode}\n")
    patch.setattr(image_memory, "_OVERCOMMIT", folder / "mode")
    patch.setattr(image_memory, "meminfo_number", kilobytes.get)
    patch.setattr(image_memory, "usable_memory_bytes", lambda: kilobytes.get("MemTotal", 0) << 10)


def test_an_image_is_no_larger_than_the_memory_that_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small = {"MemTotal": 8 << 20, "MemAvailable": 7 << 20, "SwapTotal": 0}
    machine(monkeypatch, tmp_path, "0", **small)
    # Four times two gigabytes and the WAL are more than there are.
    size_bytes = image_memory.image_bytes(2 * GB)
    assert usable_bytes(size_bytes) >= 2 * GB and size_bytes < 8 * GB
    assert image_memory.fits_in_memory(size_bytes, 2 * GB)
    # Swap counts, and so does a kernel that gives any amount.
    machine(monkeypatch, tmp_path, "0", **{**small, "SwapTotal": 2 << 20})
    assert image_memory.image_bytes(2 * GB) > 9 * GB
    machine(monkeypatch, tmp_path, "1", **small)
    assert image_memory.image_bytes(2 * GB) > 9 * GB
    # Data that lie in a file have room there.
    machine(monkeypatch, tmp_path, "0", **small)
    assert image_memory.image_bytes(6 * GB) > 24 * GB and not image_memory.fits_in_memory(GB, 6 * GB)


def test_a_kernel_that_promises_nothing_twice_has_the_image_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    strict = {"MemTotal": 8 << 20, "MemAvailable": 7 << 20, "CommitLimit": 4 << 20, "Committed_AS": 3 << 20}
    machine(monkeypatch, tmp_path, "2", **strict)
    assert not image_memory.fits_in_memory(image_memory.image_bytes(GB), GB)
    machine(monkeypatch, tmp_path, "2", **{**strict, "Committed_AS": 1 << 20})
    assert image_memory.fits_in_memory(image_memory.image_bytes(GB), GB)


def test_data_that_the_container_may_not_hold_lie_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, "0", MemTotal=64 << 20, MemAvailable=60 << 20)
    assert image_memory.fits_in_memory(32 * GB, 4 * GB)
    monkeypatch.setattr(image_memory, "usable_memory_bytes", lambda: 6 * GB)
    assert not image_memory.fits_in_memory(32 * GB, 4 * GB)
    assert image_memory.fits_in_memory(32 * GB, 3 * GB)


@pytest.mark.parametrize(("is_locked", "swap_kb", "is_told"), [(False, 4096, True), (True, 4096, False)])
def test_an_image_that_may_be_swapped_out_is_told(
    is_locked: bool, swap_kb: int, is_told: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, "0", SwapTotal=swap_kb)
    image = object.__new__(imitated_device.ServedImage)
    image.is_in_memory = True
    image._server = type("Server", (), {"is_locked": is_locked})()
    assert (image.unlocked is not None) == is_told
    machine(monkeypatch, tmp_path, "0", SwapTotal=0)
    assert image.unlocked is None


@pytest.mark.parametrize("is_flusher", [False, True])
def test_a_server_of_volumes_that_may_wait_for_its_own_writes_is_told(is_flusher: bool) -> None:
    image = object.__new__(imitated_device.ServedImage)
    image._server = type("Server", (), {"is_flusher": is_flusher})()
    assert ("CAP_SYS_RESOURCE" in (image.waits_for_writes or "")) != is_flusher
