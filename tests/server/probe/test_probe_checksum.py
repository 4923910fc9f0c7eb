"""The probe's page checksum against a real cluster: what PostgreSQL wrote, what pg_checksums says of it."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from native_probe import PAGE, RawProbe, break_page, probing
from native_servers import NativeTestServer, started_server

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SEGMENT_PAGES = 131072


@pytest.fixture(scope="module")
def server() -> Iterator[NativeTestServer]:
    """A cluster with checksums, two relations, stopped: what is on the disk is all there is."""
    with started_server() as server:
        yield server


@pytest.fixture
def probe() -> Iterator[RawProbe]:
    with probing() as probe:
        yield probe


def file_of(server: NativeTestServer, relation: str) -> Path:
    (path,) = server.query(f"select pg_relation_filepath('{relation}')")
    return server.folder / "data" / str(path)


def checksums_check(server: NativeTestServer) -> str:
    """The report of `pg_checksums --check`, whether it found anything or not."""
    command = [server.bin / "pg_checksums", "--check", "-D", server.folder / "data"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, **server.account)
    return finished.stdout + finished.stderr


def test_pages_of_a_real_cluster_are_valid_and_a_flipped_bit_is_found(
    server: NativeTestServer, probe: RawProbe
) -> None:
    accounts, index = file_of(server, "pgbench_accounts"), file_of(server, "pgbench_accounts_pkey")
    server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "stop")
    assert re.search(r"Bad checksums: +0\n", checksums_check(server))
    for file in (accounts, index):
        verified = probe.ask("verify", file=str(file))["verified"]
        assert verified["pages"] == file.stat().st_size // PAGE > 100
        assert (verified["failures"], verified["new_pages"]) == ([], 0)

    break_page(accounts, 77)
    try:
        verified = probe.ask("verify", file=str(accounts))["verified"]
        assert (verified["failures"], verified["failure_count"]) == ([77], 1)
        record = probe.cell(accounts, "sync", bytes_max=accounts.stat().st_size)
        assert (record["verify_failures"], record["broken_blocks"]) == (1, [77])
        report = checksums_check(server)
        assert re.search(r"Bad checksums: +1\n", report)
        assert re.search(rf"{re.escape(accounts.name)}\", block 77\b", report)
    finally:
        break_page(accounts, 77)
        server.start_again()


def test_the_number_of_a_block_counts(server: NativeTestServer, probe: RawProbe) -> None:
    """A page at another place than its own is broken: blocks are numbered through the whole relation."""
    file = file_of(server, "pgbench_accounts")
    verified = probe.ask("verify", file=str(file), first_block=SEGMENT_PAGES)["verified"]
    assert verified["failure_count"] == verified["pages"]
    assert verified["failures"][0] == SEGMENT_PAGES
    assert len(verified["failures"]) == 10


def test_pages_that_the_server_extended_and_never_filled_are_new(
    server: NativeTestServer, probe: RawProbe, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(file_of(server, "pgbench_tellers").read_bytes() + bytes(3 * PAGE))
    verified = probe.ask("verify", file=str(copy))["verified"]
    assert (verified["new_pages"], verified["failures"]) == (3, [])
    with copy.open("ab") as stream:
        stream.write(b"half a page")
    error = probe.error("verify", file=str(copy))
    assert error["code"] == "short-read"


def test_pages_that_the_probe_makes_please_the_server(server: NativeTestServer, probe: RawProbe) -> None:
    """The server reads a relation that consists of the probe's pages, checksums, rows and all."""
    with server.query_connection() as connection:
        connection.execute("create table made (like pgbench_accounts) with (autovacuum_enabled = off)")
    file = file_of(server, "made")
    server.run("pg_ctl", "-D", str(server.folder / "data"), "-w", "stop")
    owner = file.stat()
    file.unlink()
    probe.make(file, 40)
    os.chown(file, owner.st_uid, owner.st_gid)
    server.start_again()
    count, first, last, bid = server.query("select count(*), min(aid), max(aid), max(bid) from made")
    assert (count, first, last, bid) == (40 * 61, 1, 40 * 61, 1)
    assert server.query("select distinct octet_length(filler) from made") == (84,)


def test_every_implementation_is_timed(probe: RawProbe) -> None:
    speeds = probe.ask("checksum", bytes=16 << 20)["checksum"]
    assert speeds["simd"] in ("avx2", "sse4.1", "portable")
    rates = ("scalar_gb_s", "simd_gb_s", "simd_memory_gb_s", "memory_read_gb_s")
    assert all(speeds[rate] > 0.01 for rate in rates)
