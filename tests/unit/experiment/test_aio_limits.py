"""What bounds asynchronous reads, against the closed forms of PostgreSQL's sources (`model/aio.py`)."""

import json

import pytest

import analysis_samples
from pgassay.environment.server import validation
from pgassay.model import aio

# 100 connections, 16 autovacuum slots, 8 workers, 10 WAL senders, 2 special ones, 38 auxiliary ones.
PROCESSES = 174
BLOCKS_128_MB = 16384


def test_processes_are_those_of_init_process() -> None:
    assert aio.processes({}) == PROCESSES
    assert aio.processes({"max_connections": 20, "max_wal_senders": 0}) == 84


def test_a_backend_pins_its_share_of_shared_buffers() -> None:
    assert aio.pin_limit(BLOCKS_128_MB, PROCESSES) == 94
    assert aio.default_io_max_concurrency(BLOCKS_128_MB, PROCESSES) == 64
    assert aio.default_io_max_concurrency(50 * PROCESSES, PROCESSES) == 50
    assert aio.default_io_max_concurrency(16, PROCESSES) == 1


def test_the_look_ahead_ends_at_reads_pins_or_ring() -> None:
    assert aio.look_ahead_blocks(16, 16, pins=753) == 17 * 16
    assert aio.look_ahead_blocks(16, 16, pins=94) == 94
    assert aio.look_ahead_blocks(16, 128, pins=10**6, ring=32 + 16 * 128) == 32 + 16 * 128
    assert aio.look_ahead_blocks(1000, 128, pins=10**6) == 32767 - 127 - 1
    assert aio.look_ahead_blocks(0, 16, pins=0) == 1


def test_a_bare_number_of_shared_buffers_counts_the_builds_own_blocks(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A build with blocks of 32 kB can't be had here: this is what one says of itself."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setattr(validation, "small_cluster", lambda _: home)
    fact = {"name": "block_size", "context": "internal", "vartype": "integer", "unit": None}
    fact |= {"value": "32768", "min": None, "max": None, "enumvals": [], "boot_value": None}
    (home / validation.SETTINGS_FILE).write_text(json.dumps([fact]))
    build = analysis_samples.experiment().arms[0].spec.build
    assert validation.shared_buffers_bytes(build, "4096") == 128 << 20
    assert validation.shared_buffers_bytes(build, "128MB") == 128 << 20
    assert validation.shared_buffers_bytes(build, "") == 0
