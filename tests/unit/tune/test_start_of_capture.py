"""A capture as the start of a tuning: which statements, with which of their values, how often."""

from pathlib import Path

import pytest
from captures_for_tests import captured

from pgassay.errors import UsageError
from pgassay.traffic import manifest
from pgassay.traffic.statement_executions import Bound
from pgassay.traffic.values import values_of
from pgassay.tune.inputs.capture import start_of_capture
from pgassay.tune.tuned_statements import measured

INT4, FLOAT8, UUID = 23, 701, 2950
INTERVAL, BYTEA, JSON, JSONB = 1186, 17, 114, 3802


def bind(*values: bytes | None, formats: tuple[int, ...] = ()) -> bytes:
    body = len(formats).to_bytes(2) + b"".join(each.to_bytes(2) for each in formats)
    body += len(values).to_bytes(2)
    for each in values:
        body += b"\xff\xff\xff\xff" if each is None else len(each).to_bytes(4) + each
    return body + b"\0\0"


def test_values_are_read_in_either_form() -> None:
    assert values_of(Bound(bind(b"42", None, "Zürich".encode()), ())) == ("42", None, "Zürich")
    numbers = bind((42).to_bytes(4), bytes(16), formats=(1,))
    assert values_of(Bound(numbers, (INT4, UUID))) == ("42", "00000000000000000000000000000000")
    mixed = bind(b"open", b"\x3f\xe0" + bytes(6), formats=(0, 1))
    assert values_of(Bound(mixed, (25, FLOAT8))) == ("open", "0.5")


def interval(microseconds: int, days: int, months: int) -> bytes:
    return (
        microseconds.to_bytes(8, signed=True)
        + days.to_bytes(4, signed=True)
        + months.to_bytes(4, signed=True)
    )


@pytest.mark.parametrize(
    ("value", "oid", "text"),
    [
        # A month has as many days as it has.
        (interval(0, 0, 1), INTERVAL, "1 mons 0 days 0.000000 secs"),
        (interval(-1, -2, 14), INTERVAL, "14 mons -2 days -0.000001 secs"),
        (interval(2**63 - 1, 2**31 - 1, 2**31 - 1), INTERVAL, "infinity"),
        # The text is a value, and not a part of a statement in which quotes and backslashes stand twice.
        (b"a\\'\0", BYTEA, r"\x615c2700"),
        (b'{"a": 1}', JSON, '{"a": 1}'),
        (b'\1{"a": 1}', JSONB, '{"a": 1}'),
    ],
)
def test_a_binary_value_is_the_one_that_was_sent(value: bytes, oid: int, text: str) -> None:
    assert values_of(Bound(bind(value, formats=(1,)), (oid,))) == (text,)


@pytest.mark.parametrize(
    "bound",
    [
        Bound(bind((42).to_bytes(4), formats=(1,)), ()),
        Bound(bind((42).to_bytes(4), formats=(1,)), (999_999,)),
        Bound(bind(b"\xff\xfe"), ()),
        Bound(bind(b"\0\0", formats=(1,)), (INTERVAL,)),
        Bound(b"\0\0\0\x05\0\0", ()),
    ],
)
def test_what_can_t_be_read_is_not_guessed(bound: Bound) -> None:
    assert values_of(bound) is None


def test_the_frequent_and_the_slowest_execution_of_a_family_are_tuned(tmp_path: Path) -> None:
    common = [(1, "app", "shop", "SELECT * FROM orders WHERE id = 7")] * 3
    rare = [(1, "app", "shop", "SELECT * FROM orders WHERE id = 9")]
    others = [(2, "app", "shop", "BEGIN"), (2, "app", "shop", "UPDATE orders SET paid = true WHERE id = 1")]
    folder = captured(tmp_path, *rare, *common, *others)
    start = start_of_capture(f"replay:{folder}")
    assert start is not None
    found = {each.name: each for each in start.statements}
    assert [each.sql for each in start.statements if "SELECT" in each.sql] == [
        "SELECT * FROM orders WHERE id = 7",
        "SELECT * FROM orders WHERE id = 9",
    ]
    assert sum(each.weight for each in start.statements if "SELECT" in each.sql) == 4
    assert any(each.writes for each in found.values()) and not any("BEGIN" in name for name in found)
    assert any("1 statement left out" in note and "BEGIN" in note for note in start.notes)
    assert len(measured(start.statements)) == 3
    assert start.workload.text == f"replay:{folder}" and start.workload.kind == "statements"


def test_other_workloads_are_none_and_captures_without_statements_are_refused(tmp_path: Path) -> None:
    assert start_of_capture("sql:slow.sql") is None
    folder = captured(tmp_path, (1, "app", "shop", "BEGIN"), (1, "app", "shop", "COMMIT"))
    with pytest.raises(UsageError, match="no statement of the capture can be tuned"):
        start_of_capture(f"replay:{folder}")
    manifest.write(folder, {"redacted": True})
    with pytest.raises(UsageError, match=r"is redacted: .* tune needs the original ones"):
        start_of_capture(f"replay:{folder}")
