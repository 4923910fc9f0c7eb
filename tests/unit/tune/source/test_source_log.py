"""Values of parameters in a server's log: its three formats, cut values, other statements, and damage."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.errors import UsageError
from pgassay.tune.rewrites.tree import read, write
from pgassay.tune.source.alignment import (
    UnlikeError,
    aligned,
    cut_lists,
    list_lengths,
    with_lists,
)
from pgassay.tune.source.counted import SourceStatement
from pgassay.tune.source.gather import WantedStatements, read_logged
from pgassay.tune.source.log import LoggedValues, logged_statements, parameters_of, read_log

PREFIX = "2024-05-01 10:00:00.000 UTC [4711] app@shop "
TEXT = f"""\
{PREFIX}LOG:  duration: 12.500 ms  statement: SELECT * FROM orders
\tWHERE customer = 42
{PREFIX}LOG:  duration: 0.100 ms  parse <unnamed>: SELECT 1
{PREFIX}LOG:  duration: 1.250 ms  execute S_1: SELECT * FROM orders WHERE customer = $1 AND note = $2
{PREFIX}DETAIL:  Parameters: $1 = '7', $2 = 'it''s
\tmine'
{PREFIX}ERROR:  relation "nothing" does not exist
{PREFIX}STATEMENT:  SELECT * FROM nothing
{PREFIX}LOG:  execute <unnamed>: SELECT $1
{PREFIX}DETAIL:  parameters: $1 = NULL
{PREFIX}LOG:  duration: 3.000 ms  plan:
\tQuery Text: SELECT * FROM orders WHERE id = $1
\tQuery Parameters: $1 = '5'
\tIndex Scan using orders_pkey on orders  (cost=0.29..8.31 rows=1 width=8)
{PREFIX}LOG:  checkpoint starting: time
"""
FOUND = [
    LoggedValues("SELECT * FROM orders\nWHERE customer = 42", (), 12.5),
    LoggedValues("SELECT * FROM orders WHERE customer = $1 AND note = $2", ("7", "it's\nmine"), 1.25),
    LoggedValues("SELECT $1", (None,), None),
    LoggedValues("SELECT * FROM orders WHERE id = $1", ("5",), 3.0),
]
MESSAGES = [
    ("duration: 12.500 ms  statement: SELECT * FROM orders\nWHERE customer = 42", ""),
    (
        "duration: 1.250 ms  execute S_1: SELECT * FROM orders WHERE customer = $1 AND note = $2",
        "Parameters: $1 = '7', $2 = 'it''s\nmine'",
    ),
    ("execute <unnamed>: SELECT $1", "Parameters: $1 = NULL"),
    (
        'duration: 3.000 ms  plan:\n{"Query Text": "SELECT * FROM orders WHERE id = $1", '
        '"Query Parameters": "$1 = \'5\'", "Plan": {"Node Type": "Index Scan"}}',
        "",
    ),
    ("checkpoint starting: time", ""),
]


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def test_statements_of_stderr_are_read_with_their_parameters() -> None:
    assert list(logged_statements(lines(TEXT), "log")) == FOUND


def test_csvlog_and_jsonlog_say_the_same_and_whose_it_is() -> None:
    table = io.StringIO()
    writer = csv.writer(table)
    for message, detail in MESSAGES:
        row = ["2024-05-01 10:00:00.000 UTC", "app", "shop", "4711", *[""] * 9, message, detail, *[""] * 11]
        writer.writerow(row)
    documents = [
        json.dumps({"timestamp": "2024", "dbname": "shop", "message": message, "detail": detail})
        for message, detail in MESSAGES
    ]
    wanted = [LoggedValues(each.sql, each.parameters, each.duration_ms, "shop") for each in FOUND]
    for text in (table.getvalue(), "\n".join(documents)):
        assert list(logged_statements(lines(text), "log")) == wanted


@pytest.mark.parametrize("text", ["", "SELECT 1;\n", "no log\nat all\n", '{"a": 1}\n'])
def test_what_is_no_log_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"^the log is (empty|not a log of a server): "):
        list(logged_statements(lines(text), "the log"))


def test_values_that_the_log_has_cut_are_not_used() -> None:
    # As the server writes it: the dots stand within the quotes, also in auto_explain's plans.
    assert parameters_of("Parameters: $1 = 'abc...'") is None
    assert parameters_of("Parameters: $1 = 'a', $2 = 'it''s...', $3 = NULL") is None
    assert parameters_of("Query Parameters: $1 = '...'") is None
    assert parameters_of("Parameters: $1 = 'abc'...") is None
    assert parameters_of("Parameters: $2 = 'abc'") is None
    assert parameters_of("Parameters: $1 = '', $2 = NULL, $3 = ', $4 = '") == ("", None, ", $4 = ")


def test_values_in_another_encoding_are_not_used(tmp_path: Path) -> None:
    file = tmp_path / "postgresql.log"
    said = f"{PREFIX}LOG:  execute <unnamed>: SELECT $1\n{PREFIX}DETAIL:  parameters: $1 = 'M\xfcller'\n"
    said += f"{PREFIX}LOG:  statement: SELECT 'M\xfcller'\n"
    file.write_bytes(said.encode("latin-1") + said.replace("M", "H").encode())
    assert list(read_log(file)) == [
        LoggedValues("SELECT $1", ("H\xfcller",)),
        LoggedValues("SELECT 'H\xfcller'"),
    ]


def test_a_verbose_log_is_read_behind_its_codes() -> None:
    place = f"{PREFIX}LOCATION:  exec_execute_message, postgres.c:2249\n{PREFIX}ERROR"
    verbose = re.sub(r"(LOG|ERROR):  ", r"\1:  00000: ", TEXT).replace(f"{PREFIX}ERROR", place)
    assert list(logged_statements(lines(verbose), "log")) == FOUND


def test_a_mark_of_the_byte_order_hides_no_format() -> None:
    message = {"message": "duration: 1.000 ms  statement: SELECT 1", "dbname": "shop"}
    text = f"\ufeff{json.dumps(message)}\n"
    assert list(logged_statements(lines(text), "log")) == [LoggedValues("SELECT 1", (), 1.0, "shop")]


VALUE = st.none() | st.text(
    st.characters(codec="utf-8", exclude_characters="\0\n\r\ufffd"), max_size=12
).filter(lambda value: not value.endswith("..."))


@given(st.lists(VALUE, min_size=1, max_size=6))
def test_whatever_values_are_they_are_read_as_the_server_writes_them(values: list[str | None]) -> None:
    written = (
        f"${number} = " + ("NULL" if value is None else "'" + value.replace("'", "''") + "'")
        for number, value in enumerate(values, start=1)
    )
    # The server writes the detail's last value to its end: what follows it is a line feed.
    assert parameters_of("Parameters: " + ", ".join(written)) == tuple(values)


@given(st.lists(st.sampled_from(lines(TEXT)), max_size=12), st.binary(max_size=60))
def test_a_damaged_log_is_read_as_far_as_it_goes(parts: list[str], damage: bytes) -> None:
    text = "".join(parts) + damage.decode("utf-8", "replace")
    try:
        found = list(logged_statements(lines(text), "log"))
    except UsageError:
        return
    assert all(each.sql for each in found) or damage


# --- Which parameter has which value.


def values_in(normalised: str, logged: str, *parameters: str | None) -> dict[int, str | None]:
    return aligned(read(normalised), LoggedValues(logged, parameters))[0]


def test_constants_and_parameters_of_a_logged_statement_are_those_of_the_normalised_one() -> None:
    normalised = "SELECT * FROM t WHERE a = $1 AND b > $2 AND c < now() - interval $3 LIMIT $4"
    logged = "select * from t where a = $1 and b > -2.5 and c < now() - interval '1 day' limit 10"
    assert values_in(normalised, logged, "x") == {1: "x", 2: "-2.5", 3: "1 day", 4: "10"}
    assert aligned(read(normalised), LoggedValues(logged, ("x",)))[1] == {2}
    assert values_in("SELECT $1, $2, $3", "SELECT NULL, true, 'a'") == {1: None, 2: "true", 3: "a"}


@pytest.mark.parametrize(
    ("normalised", "logged"),
    [
        ("SELECT * FROM t WHERE a = $1", "SELECT * FROM u WHERE a = 1"),
        ("SELECT * FROM t WHERE a = $1", "SELECT * FROM t WHERE a = b"),
        ("SELECT * FROM t WHERE a = $1", "SELECT * FROM t WHERE a = $1"),
        ("SELECT * FROM t WHERE a IN ($1, $2)", "SELECT * FROM t WHERE a IN (1)"),
        ("SELECT * FROM t WHERE a = $1", "SELECT FROM"),
    ],
)
def test_a_statement_that_differs_in_more_gives_no_value(normalised: str, logged: str) -> None:
    with pytest.raises(UnlikeError):
        values_in(normalised, logged)


def test_a_list_that_the_server_cut_is_as_long_as_the_log_shows() -> None:
    sql = "SELECT * FROM t WHERE a IN ($1 /*, ... */) AND b = $2"
    assert cut_lists(sql) == {1}
    assert cut_lists("SELECT $1 /* note */, $2") == set()
    other = read("SELECT * FROM t WHERE a IN (4, 5, 6) AND b = 'x'")
    lengths = list_lengths(read(sql), other, cut_lists(sql))
    assert lengths == {1: 3}
    assert write(with_lists(read(sql), lengths)) == "SELECT * FROM t WHERE a IN ($1, $3, $4) AND b = $2"


def wanted(sql: str) -> WantedStatements:
    import pglast

    counted = SourceStatement("q", "1", sql, 10.0, 100.0, 10.0, 1.0)
    return WantedStatements(counted, read(sql), pglast.fingerprint(sql), cut_lists(sql))


def test_the_most_frequent_the_slowest_and_the_rarest_set_of_a_log_are_measured() -> None:
    statement = wanted("SELECT * FROM t WHERE a = $1")
    log = [
        *[LoggedValues("SELECT * FROM t WHERE a = 1", (), 1.0)] * 5,
        *[LoggedValues("SELECT * FROM t WHERE a = $1", ("2",), 50.0)] * 2,
        LoggedValues("SELECT * FROM t WHERE a = 3", (), 2.0),
        LoggedValues("SELECT * FROM t WHERE a = 9", (), 99.0, "elsewhere"),
        LoggedValues("SELECT * FROM t WHERE b = 4", (), 2.0),
        LoggedValues("no SQL", (), 2.0),
    ]
    read_logged([statement], log, "shop")
    assert statement.found.chosen() == (("1",), ("2",), ("3",))


def test_lists_of_the_most_frequent_length_are_taken_from_a_log() -> None:
    statement = wanted("SELECT * FROM t WHERE a IN ($1 /*, ... */)")
    log = [
        LoggedValues(f"SELECT * FROM t WHERE a IN ({members})") for members in ("1, 2", "3, 4", "5", "1, 2")
    ]
    read_logged([statement], log, "shop")
    assert statement.found.chosen() == (("1", "2"), ("3", "4"))


def test_statements_with_lists_of_other_lengths_each_take_the_values_of_their_own() -> None:
    """Up to 17 the server counts each length of a list apart, and one fingerprint is all of theirs."""
    two, three = (wanted(f"SELECT * FROM t WHERE a IN ({list_})") for list_ in ("$1, $2", "$1, $2, $3"))
    assert two.fingerprint == three.fingerprint
    log = [
        LoggedValues(f"SELECT * FROM t WHERE a IN ({members})")
        for members in ("1, 2", "3, 4, 5", "1, 2, 3, 4")
    ]
    read_logged([two, three], log, "shop")
    assert (two.found.chosen(), three.found.chosen()) == ((("1", "2"),), (("3", "4", "5"),))


def test_a_statement_without_parameters_is_met_in_a_log_like_any_other() -> None:
    text = "SELECT count(*) FROM orders"
    statement = wanted(text)
    read_logged([statement], [LoggedValues(text, (), 1.0)], "shop")
    assert statement.found.chosen() == ((),)
