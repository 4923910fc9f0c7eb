"""The stream of accounts, read back by the format's own description."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.environment.datasets import pgbench_data


def rows_of(block: bytes, key_format: str):
    """Decode binary COPY tuples: a 16-bit field count, then a 32-bit length and the bytes of each field."""
    place = 0
    while place < len(block):
        (fields,) = struct.unpack_from(">h", block, place)
        assert fields == 4
        place += 2
        values = []
        for expected in (key_format, ">i", ">i", ""):
            (length,) = struct.unpack_from(">i", block, place)
            place += 4
            assert length == (struct.calcsize(expected) if expected else 0)
            values.append(struct.unpack_from(expected, block, place)[0] if expected else b"")
            place += length
        yield tuple(values)


@given(st.integers(1, 4))
def test_rows_are_in_order_and_follow_pgbench(scale):
    number = 0
    for branch, block in enumerate(pgbench_data.account_blocks(scale), start=1):
        rows = list(rows_of(block.tobytes()[:3000], ">i"))
        first = (branch - 1) * 100_000 + 1
        assert rows == [(first + step, branch, 0, b"") for step in range(100)]
        assert len(block) == 100_000
        assert int(block["aid"][-1]) == branch * 100_000
        number += len(block)
    assert number == scale * 100_000


def test_whole_block_decodes_to_its_end():
    block = next(pgbench_data.account_blocks(1)).tobytes()
    rows = list(rows_of(block, ">i"))
    assert len(rows) == 100_000
    assert rows[-1] == (100_000, 1, 0, b"")


def test_from_scale_20000_on_account_numbers_have_64_bits():
    block = next(pgbench_data.account_blocks(pgbench_data.SCALE_64BIT_MIN))
    assert next(rows_of(block.tobytes(), ">q")) == (1, 1, 0, b"")
    wide = {table.name: table.columns for table in pgbench_data.tables(20_000)}
    narrow = {table.name: table.columns for table in pgbench_data.tables(19_999)}
    assert "aid bigint" in wide["pgbench_accounts"] and "aid bigint" in wide["pgbench_history"]
    assert "bigint" not in "".join(narrow.values())


def test_the_header_and_trailer_are_the_format_s():
    assert struct.unpack(">11sii", pgbench_data.COPY_HEADER) == (b"PGCOPY\n\xff\r\n\0", 0, 0)
    assert struct.unpack(">h", pgbench_data.COPY_TRAILER) == (-1,)


@pytest.mark.parametrize("scale", [1, 20_000])
def test_only_keyed_tables_have_a_fill_factor(scale):
    for statement in pgbench_data.create_statements(scale):
        assert ("fillfactor=100" in statement) == ("pgbench_history" not in statement)
    keys = pgbench_data.primary_key_statements(scale)
    assert [key.split()[2] for key in keys] == ["pgbench_branches", "pgbench_tellers", "pgbench_accounts"]
