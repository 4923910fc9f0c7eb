"""SQL text: splits it into statements as psql does, at semicolons outside quotes, comments, parentheses.

And finds the literals in it, to leave them out.

The lexical rules are those of PostgreSQL's manual, chapter "Lexical Structure": '' and E'' strings,
"identifiers", $tag$ quoting, -- comments and nested /* */ comments. A body BEGIN ATOMIC … END of a
function belongs to its statement (src/fe_utils/psqlscan.l counts its words the same way).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pgassay.errors import UsageError

# Possessive: a string of megabytes is read once and never tried another way.
_TOKEN = re.compile(
    r"""(?P<line_comment>--[^\n]*)
      | (?P<block_comment>/\*)
      | (?P<escape_string>\b[eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+')
      | (?P<string>'[^']*+(?:''[^']*+)*+')
      | (?P<identifier>"[^"]*+(?:""[^"]*+)*+")
      | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
      | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
      | (?P<open>\()
      | (?P<close>\))
      | (?P<semicolon>;)
      | (?P<quote>['"])
      | (?P<other>[^-/'"$A-Za-z_\x80-\U0010ffff();]+|.)""",
    re.VERBOSE | re.DOTALL,
)


# Words that are no names without quotes: reserved, or of types and functions (src/include/parser/kwlist.h).
_RESERVED_WORDS = frozenset(
    {
        "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization",
        "binary", "both", "case", "cast", "check", "collate", "collation", "column", "concurrently",
        "constraint", "create", "cross", "current_catalog", "current_date", "current_role",
        "current_schema", "current_time", "current_timestamp", "current_user", "default", "deferrable",
        "desc", "distinct", "do", "else", "end", "except", "false", "fetch", "for", "foreign", "freeze",
        "from", "full", "grant", "group", "having", "ilike", "in", "initially", "inner", "intersect",
        "into", "is", "isnull", "join", "lateral", "leading", "left", "like", "limit", "localtime",
        "localtimestamp", "natural", "not", "notnull", "null", "offset", "on", "only", "or", "order",
        "outer", "overlaps", "placing", "primary", "references", "returning", "right", "select",
        "session_user", "similar", "some", "symmetric", "system_user", "table", "tablesample", "then", "to",
        "trailing", "true", "union", "unique", "user", "using", "variadic", "verbose", "when", "where",
        "window", "with",
    }
)  # fmt: skip
# A statement without comments that takes data from its client.
COPY_IN = re.compile(r"\s*copy\b.*\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*")
_ATOMIC_WORDS = ("begin", "case", "end")
_FUNCTION_WORDS = frozenset({("create", "function"), ("create", "procedure")})
_HEADING_WORDS_MAX = 4


@dataclass(frozen=True)
class Token:
    """One lexical element of SQL text: its kind (a group of the lexical rules) and where it ends."""

    kind: str
    text: str
    end: int


def identifier(name: str) -> str:
    """A name as SQL has it: in quotes where it is no name without, or another one (quote_ident)."""
    if _PLAIN_NAME.fullmatch(name) and name not in _RESERVED_WORDS:
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def token_at(text: str, position: int, source: str) -> Token:
    """The token that begins at `position`; raises UsageError with the line for one that never closes."""
    match = _TOKEN.match(text, position)
    if match is None:  # the last alternative takes any character
        raise AssertionError(position)
    kind, end = match.lastgroup or "other", match.end()
    if kind == "block_comment":
        end = _block_comment_end(text, position)
    elif kind == "dollar":
        closing = text.find(match.group(), end)
        end = -1 if closing < 0 else closing + len(match.group())
    if end < 0 or kind == "quote":
        line = text.count("\n", 0, position) + 1
        raise UsageError(f"{source}, line {line}: {match.group()} is never closed: close it")
    return Token(kind, match.group(), end)


def _block_comment_end(text: str, start: int) -> int:
    """The position after a nested comment that opens at `start`, or -1 when it never closes."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return match.end()
    return -1


class _Depth:
    """How deep a statement is in parentheses and in the body of a function."""

    def __init__(self) -> None:
        self.parentheses = 0
        self.blocks = 0
        self._heading: list[str] = []

    def take(self, token: Token) -> None:
        """Count one token."""
        self.parentheses += {"open": 1, "close": -1}.get(token.kind, 0)
        if token.kind != "word":
            return
        word = token.text.lower()
        if len(self._heading) < _HEADING_WORDS_MAX:
            self._heading.append(word)
        if word in _ATOMIC_WORDS and self._makes_a_function():
            if word == "end":
                self.blocks = max(0, self.blocks - 1)
            elif word == "begin" or self.blocks:
                self.blocks += 1

    def _makes_a_function(self) -> bool:
        words = [word for word in self._heading if word not in ("or", "replace")]
        return tuple(words[:2]) in _FUNCTION_WORDS


def next_statement(text: str, begin: int, source: str) -> tuple[str | None, int]:
    """The statement that begins at `begin`, without its semicolon, and the position after it.

    None at the end of the text, or for an empty statement (comments alone). Raises UsageError
    naming `source` and the line of a quote or comment that never closes.
    """
    position, depth, code = begin, _Depth(), False
    while position < len(text):
        token = token_at(text, position, source)
        depth.take(token)
        if token.kind == "semicolon" and depth.parentheses <= 0 and depth.blocks == 0:
            return text[begin:position] if code else None, token.end
        if token.kind not in ("line_comment", "block_comment") and not token.text.isspace():
            code = True
        position = token.end
    return text[begin:] if code else None, len(text)


def split_statements(text: str, source: str) -> list[str]:
    """The statements of `text`, without their semicolons; empty ones are left out.

    Raises UsageError naming `source` and the line of a quote or comment that never closes.
    """
    statements, position = [], 0
    while position < len(text):
        statement, position = next_statement(text, position, source)
        if statement is not None:
            statements.append(statement)
    return statements


def split_at_commas(text: str, source: str) -> list[str]:
    """The parts of `text` between commas that stand outside quotes, comments and parentheses."""
    parts, begin, position, depth = [], 0, 0, 0
    while position < len(text):
        token = token_at(text, position, source)
        depth += {"open": 1, "close": -1}.get(token.kind, 0)
        if token.kind == "other" and depth <= 0:
            for offset, character in enumerate(token.text):
                if character == ",":
                    parts.append(text[begin : position + offset])
                    begin = position + offset + 1
        position = token.end
    return [*parts, text[begin:]]


def constant(value: str | None) -> str:
    """A value as SQL has it, on one line, whatever standard_conforming_strings says (quote_nullable)."""
    if value is None:
        return "NULL"
    escaped = value.replace("'", "''")
    if not any(each in value for each in "\\\n\r"):
        return f"'{escaped}'"
    for character, escape in (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r")):
        escaped = escaped.replace(character, escape)
    return f"E'{escaped}'"


def dollar_mark(*texts: str) -> str:
    """A $mark$ to quote a text with that holds these, whatever is in them."""
    mark, number = "$pgassay$", 0
    while any(mark in text for text in texts):
        number += 1
        mark = f"$pgassay{number}$"
    return mark


def qualified(schema: str | None, name: str) -> str:
    """A name with its schema, where that is known; whoever made the data may have put quotes into both."""
    return ".".join('"' + each.replace('"', '""') + '"' for each in (schema, name) if each)


def strip_comments(statement: str) -> str:
    """The statement with comments blanked and strings emptied, for looking at its words."""
    words, position = [], 0
    while position < len(statement):
        match = _TOKEN.match(statement, position)
        if match is None:
            raise AssertionError(position)
        kind, end = match.lastgroup, match.end()
        if kind == "block_comment":
            end = max(_block_comment_end(statement, position), end)
        elif kind == "dollar":
            closing = statement.find(match.group(), end)
            end = closing + len(match.group()) if closing >= 0 else end
        quoted = kind in ("line_comment", "block_comment", "string", "escape_string", "identifier", "dollar")
        words.append(" " if quoted else match.group())
        position = end
    return "".join(words)


# What is left out of redacted text. A quote that never closes reaches to the end: text may have been cut.
_PART = re.compile(
    r"""(?P<comment>--[^\n]*)
      | (?P<block_comment>/\*)
      | (?P<escape_string>[eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+(?:'|\\?\Z))
      | (?P<string>(?:[bBxXnN]|[uU]&)?'[^']*+(?:''[^']*+)*+(?:'|\Z))
      | (?P<identifier>(?:[uU]&)?"[^"]*+(?:""[^"]*+)*+")
      | (?P<cut>"[^"]*+(?:""[^"]*+)*+\Z)
      | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)?\$)
      | (?P<parameter>\$[0-9]+)
      | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
      | (?P<number>\.?[0-9](?:(?<=[eE])[+-][0-9]|[A-Za-z0-9_.])*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
# EXPLAIN numbers these itself, as "SubPlan 2"; a name with capitals would stand in quotes.
_NUMBERED = frozenset({"InitPlan", "SubPlan"})
REDACTED = "?"


@dataclass(frozen=True)
class Literal:
    """A literal or a comment of SQL text, from `begin` to before `end`.

    kind: 'number', 'string' (of any kind: '', E'', B'', U&'', $$), 'comment', or 'unclear': the rest of a
    text, which can't be told apart.
    """

    kind: str
    begin: int
    end: int


def literals(text: str, *, is_plan: bool = False) -> Iterator[Literal]:
    """The literals and comments of SQL text, in order; of EXPLAIN's expressions where `is_plan`.

    Never too few: a plain string with a backslash before a quote may end there or not
    (standard_conforming_strings), so all that follows counts as one. Names in double quotes, parameters and
    the words TRUE, FALSE and NULL are no literals.
    """
    position, word = 0, ""
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:  # the last alternative takes any character
            raise AssertionError(position)
        kind, begin, end = match.lastgroup or "other", position, match.end()
        position = end
        if kind == "block_comment":
            closing = _block_comment_end(text, begin)
            position = len(text) if closing < 0 else closing
            yield Literal("comment", begin, position)
        elif kind == "dollar":
            closing = text.find(match.group(), end)
            position = len(text) if closing < 0 else closing + len(match.group())
            yield Literal("string", begin, position)
        elif (kind == "string" and "\\'" in match.group()) or kind == "cut":
            position = len(text)
            yield Literal("unclear", begin, position)
        elif kind in ("string", "escape_string"):
            yield Literal("string", begin, end)
        elif kind == "comment" or (kind == "number" and not (is_plan and word in _NUMBERED)):
            yield Literal(kind, begin, end)
        if not match.group().isspace():
            word = match.group() if kind == "word" else ""


def without_literals(text: str, *, is_plan: bool = False) -> str:
    """SQL text with each literal as `?`, and without its comments."""
    parts, done = [], 0
    for each in literals(text, is_plan=is_plan):
        parts += [text[done : each.begin], " " if each.kind == "comment" else REDACTED]
        done = each.end
    return "".join([*parts, text[done:]])
