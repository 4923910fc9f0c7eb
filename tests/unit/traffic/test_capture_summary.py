"""Families of statements, and statements paired with their answers."""

import pytest

from pgassay.traffic.events import (
    ANSWERS,
    BEGIN,
    END,
    MESSAGES,
    Answer,
    Begin,
    CaptureEvent,
    Message,
    ResultRows,
)
from pgassay.traffic.statement_executions import UNKNOWN_STATEMENT, ExecutedStatement, statements
from pgassay.traffic.summary import _reasons, family


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT 1;", "SELECT ?"),
        ("UPDATE t SET v = v + -3  WHERE id = 7", "UPDATE t SET v = v + ? WHERE id = ?"),
        ("SELECT * FROM t WHERE id IN (1, 2, 3)", "SELECT * FROM t WHERE id IN (…)"),
        ("SELECT * FROM t WHERE id IN ($1,$2)", "SELECT * FROM t WHERE id IN (…)"),
        ("SELECT 'it''s'", "SELECT ?"),
        ("SELECT a - b", "SELECT a - b"),
        ("SELECT 'never ended", "SELECT ?"),
    ],
)
def test_statements_that_differ_in_values_are_one_family(text: str, name: str) -> None:
    assert family(text) == name


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("CREATE ROLE a PASSWORD '***' VALID UNTIL 'infinity'", True),
        ("ALTER ROLE a PASSWORD /* it's */ E'***'", True),
        ("CREATE USER MAPPING FOR a SERVER s OPTIONS (SET token '***')", True),
        ("SELECT dblink_connect('host=h password=*** user=u')", True),
        ("SELECT dblink('postgresql://u:***@h/db', 'select 1')", True),
        ("DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ''***'''; END $$", True),
        ("DO $$ BEGIN EXECUTE format('ALTER ROLE %I PASSWORD %L', '***', '***'); END $$", True),
        ("DO $$ BEGIN EXECUTE 'ALTER ROLE a PASSWORD ' || quote_literal('***'); END $$", True),
        ("SELECT '***'", False),
        ("INSERT INTO cards (password, masked) VALUES ('x', '***')", False),
        ("SELECT id FROM users WHERE password = '***'", False),
        ("INSERT INTO log VALUES ('password', 'reset'), ('a', '***')", False),
    ],
)
def test_a_literal_of_stars_is_no_secret_that_was_taken_out(text: str, lacks: bool) -> None:
    assert ("secret" in _reasons(text)) is lacks


def session(*parts: Message | Answer | None) -> list[ExecutedStatement]:
    """The statements of a session whose messages and answers came one microsecond after the other."""
    found = [CaptureEvent(1, 0, BEGIN, begin=Begin(196608, False, {}))]
    for number, part in enumerate(parts, start=1):
        if isinstance(part, Message):
            found.append(CaptureEvent(1, number * 1000, MESSAGES, messages=(part,)))
        elif isinstance(part, Answer):
            found.append(CaptureEvent(1, number * 1000, ANSWERS, answers=(part,)))
        else:
            found.append(CaptureEvent(1, number * 1000, END, reason="terminated"))
    return [each for each in statements(found) if each.protocol != "sync"]


PARSE = Message("P", b"s\0SELECT $1\0\0\0", "SELECT $1")
BIND = Message("B", b"\0s\0\0\0\0\0\0\0")
EXECUTE = Message("E", b"\0\0\0\0\0")
SYNC = Message("S", b"")
DONE = Answer("C", b"SELECT", 1, ResultRows(1, 7, 3))
READY = Answer("Z", b"I")


def test_executions_that_are_answered_together_share_their_time() -> None:
    found = session(PARSE, BIND, EXECUTE, BIND, EXECUTE, SYNC, DONE, DONE, READY, None)
    assert [each.text for each in found] == ["SELECT $1"] * 2
    assert [(each.start_ns, each.end_ns, each.busy_ns) for each in found] == [
        (3000, 7000, 2500),
        (5000, 8000, 2500),
    ]
    # One family's time is known all the same.
    assert not any(each.in_pipeline for each in found)


PARSE_OTHER = Message("P", b"u\0UPDATE t\0\0\0", "UPDATE t")
BIND_OTHER = Message("B", b"\0u\0\0\0\0\0\0\0")
PARSE_BEGIN = Message("P", b"b\0BEGIN\0\0\0", "BEGIN")
BIND_BEGIN = Message("B", b"\0b\0\0\0\0\0\0\0")
FLUSH = Message("H", b"")


def test_what_each_statement_of_a_pipeline_took_is_told_as_unknown() -> None:
    found = session(
        *(PARSE, BIND, EXECUTE, PARSE_OTHER, BIND_OTHER, EXECUTE, SYNC, DONE, DONE, READY),
        # A Flush has the first answered by itself.
        *(BIND, EXECUTE, FLUSH, DONE, BIND_OTHER, EXECUTE, SYNC, DONE, READY, None),
    )
    assert [(each.text, each.busy_ns, each.in_pipeline) for each in found] == [
        ("SELECT $1", 3000, True),
        ("UPDATE t", 3000, True),
        ("SELECT $1", 2000, False),
        ("UPDATE t", 2000, False),
    ]
    assert {each.began_ns for each in found[:2]} == {3000}


def test_begin_takes_no_share_of_the_statement_that_it_is_sent_with() -> None:
    begun = Answer("C", b"BEGIN")
    found = session(PARSE, PARSE_BEGIN, BIND_BEGIN, EXECUTE, BIND, EXECUTE, SYNC, begun, DONE, READY, None)
    assert [(each.text, each.busy_ns, each.in_pipeline) for each in found] == [
        ("BEGIN", 0, False),
        ("SELECT $1", 5000, False),
    ]


def test_what_follows_an_error_in_a_pipeline_was_not_executed() -> None:
    error = Answer("E", b"22012")
    found = session(PARSE, BIND, EXECUTE, EXECUTE, SYNC, error, READY, BIND, EXECUTE, SYNC, DONE, READY)
    assert [each.sqlstate for each in found] == ["22012", ""]


def test_a_sync_that_the_server_ignores_within_copy_answers_nothing() -> None:
    parse = Message("P", b"\0COPY t FROM STDIN\0\0\0", "COPY t FROM STDIN")
    bind = Message("B", b"\0\0\0\0\0\0\0\0")
    # libpq and others send the first Sync before they know that the statement copies.
    copied = [parse, bind, EXECUTE, SYNC, Answer("G"), Message("d", b"", None, 7), Message("c", b""), SYNC]
    found = session(*copied, Answer("C", b"COPY", 1), READY, PARSE, BIND, EXECUTE, SYNC, DONE, READY, None)
    assert [(each.text, each.end_ns, each.tag) for each in found] == [
        ("COPY t FROM STDIN", 9000, "COPY"),
        ("SELECT $1", 15000, "SELECT"),
    ]
    assert [each.left_out_bytes for each in found] == [7, 0]


def test_a_query_of_several_statements_is_one_and_an_unanswered_one_has_no_end() -> None:
    query = Message("Q", b"SELECT 1; SELECT 2\0", "SELECT 1; SELECT 2")
    found = session(query, DONE, DONE, READY, query, None)
    assert [(each.rows, each.end_ns, each.status) for each in found] == [(2, 4000, "I"), (0, None, "")]


def test_a_statement_that_was_prepared_before_is_named_so() -> None:
    found = session(BIND, EXECUTE, SYNC, DONE, READY)
    assert found[0].text == UNKNOWN_STATEMENT
