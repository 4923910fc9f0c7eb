"""Sentences without the literals that they quote, whoever wrote them: pgassay, the grammar or a server."""

import pytest

from pgassay.analysis.redaction.redacted_sentences import name_without_literals, sentence_without_literals

SENTENCES = {
    "a statement that failed": (
        "d.sql, line 3: 'INSERT INTO t VALUES ('hidden', 42)' failed (it is wrong): correct it",
        "d.sql, line 3: 'INSERT INTO t VALUES (?, ?)' failed (it is wrong): correct it",
    ),
    "an index that failed": (
        "'CREATE INDEX i ON t (a) WHERE (s = 'hidden'::text)' failed on the copy: no space",
        "'CREATE INDEX i ON t (a) WHERE (s = ?::text)' failed on the copy: no space",
    ),
    "values that can't be read": (
        "f: '-- parameters: 4, 'it's hidden'' is not a list of literals: unterminated at or near \"' "
        'hidden"',
        "f: '-- parameters: ?' is not a list of literals: unterminated at or near ?",
    ),
    "a word of SQL": (
        'syntax error at or near "hidden", at index 3',
        "syntax error at or near ?, at index 3",
    ),
    "a literal that is not closed": ("it is SELECT 1 WHERE a = 'hidden and c", "it is SELECT 1 WHERE a = ?"),
    "an escaped quote": (r"it is E'it\'s hidden' then", "it is ? then"),
    "dollar quotes": ("SELECT $$hidden$$, $a$hidden$$hidden$a$, $1", "SELECT ?, ?, $1"),
    "other kinds": ("U&'hidden' B'0101' x'ab'", "? ? ?"),
    "a value with quotes": (
        'invalid input syntax for type uuid: "hid"hidden"',
        "invalid input syntax for type uuid: ?",
    ),
    "a value": ('value "hidden" is out of range', "value ? is out of range"),
    "a token": ('(Token "hidden" is invalid.)', "(Token ? is invalid.)"),
    "a key": ("Key (a, b)=(1, (hidden) x) already exists.", "Key (a, b)=? already exists."),
    "a row": ("Failing row contains (1, (hidden), null).", "Failing row contains ?."),
    "names and figures": (
        "of orders's rows and of \"My\"'s 42 is 'hidden', the users' relation \"x\" is not",
        'of orders\'s rows and of "My"\'s 42 is ?, the users\' relation "x" is not',
    ),
}


@pytest.mark.parametrize(("sentence", "left"), SENTENCES.values(), ids=SENTENCES)
def test_a_sentence_keeps_all_but_its_literals(sentence: str, left: str) -> None:
    assert sentence_without_literals(sentence) == left


def test_names_of_fixes_keep_all_but_the_literals_of_their_sql() -> None:
    for name in (
        "index:orders(a, col2)",
        "without index:orders(a, col2)",
        "Index on orders(a, col2)",
        "GIN index on orders(a)",
    ):
        shown = name_without_literals(f"{name} where (customer = 4711) AND (s = 'hidden')")
        assert shown == f"{name} where (customer = ?) AND (s = ?)"
    assert name_without_literals("max_wal_size = 1024MB") == "max_wal_size = 1024MB"
