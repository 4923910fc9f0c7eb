"""What an index could do about a scan's condition, read from the text that EXPLAIN prints of it.

ruleutils.c puts parentheses around each condition and each cast that it can't leave out, so that the parts
joined by AND can be told apart by their depth. What is not understood is left out, never guessed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.plans.timestamp_parts import TimestampPart, Types, hides_a_timestamp, is_of_time, timestamp_part

_COLUMN = re.compile(r'(?:(?P<of>"(?:[^"]|"")+"|[a-z_][\w$]*)\.)?(?P<column>"(?:[^"]|"")+"|[a-z_][\w$]*)')
# What stands on the other side of an operator and is no column of this table; `?` is a literal left out.
_VALUE = re.compile(
    r"^\(*(?:'|-?\d|\$\d|\?|true\b|false\b|NULL\b|ANY \(|\(?InitPlan|now\(\)|B'|E'|"
    r"CURRENT_(?:DATE|TIME|TIMESTAMP|USER|ROLE|CATALOG|SCHEMA)\b)",
    re.I,
)
# What may be in a value: a cast, a plan's name. EXPLAIN puts names with capitals into quotes, and writes most
# words of SQL in capitals, so that what is in small letters is a column; before a parenthesis, a function.
_IN_VALUE = re.compile(
    r"::(?:\"[^\"]+\"|[\w.]+)(?:\(\d+(?:,\s*-?\d+)?\))?"
    r"(?: precision| varying(?:\(\d+\))?| with(?:out)? time zone)?|COLLATE \S+|(?:Init|Sub)Plan [\w$]+"
)
_NAMED = re.compile(r'(?<![\w$.])(?P<name>"(?:[^"]|"")+"|[a-z_][\w$]*)(?![\w$(])(?P<dot>\.)?')
_NOT_NAMES = ("true", "false", "hashed")
_CAST = re.compile(r"^\((?P<inner>.*)\)::(?:text|character varying|bpchar|character)$")
# Functions that give the same for the same value whatever the session's settings are.
_STEADY = frozenset(
    {
        "lower", "upper", "abs", "length", "md5", "btrim", "substr", "substring", "left", "right", "floor",
        "ceil", "round",
    }
)  # fmt: skip
_CALL = re.compile(r'((?:(?:"[^"]+"|[a-z_][\w$]*)\.)?(?:"[^"]+"|[a-z_][\w$]*))\(')
# Types that a cast to text leaves as they are: an index on the column serves what is compared then.
_TEXTS = ("text", "character varying")
# A column's text, and the types whose text nothing changes; a date's has DateStyle, an enum's its labels.
_COLUMN_S_TEXT = re.compile(rf"\({_COLUMN.pattern}\)::(?:text|character varying|bpchar|character)(?![\w$])")
_OF_STEADY_TEXT = re.compile(
    r"(?!.*\[)(?:text|character|name|smallint|integer|bigint|numeric|real|double precision|boolean|uuid|"
    r"jsonb?|(?:\w+\.)?citext)(?![\w.]).*"
)
_TYPE = re.compile(r"::(?P<type>[\w$.\" ]+?(?:\[\])?)$")
# A type with its modifiers, which look like a call.
_MODIFIED = re.compile(r"::[\w ]+\(\d+(?:,\s*-?\d+)?\)")
_OF_GIN = re.compile(r"(?:\w+\.)?(?:jsonb|tsvector|tsquery|hstore|jsonpath)|.*\[\]")
# The classes that keys are given here.
_OPERATOR_CLASS = re.compile(r" (?:(?:text|bpchar)_pattern|gin_trgm|inet)_ops$")
_LETTERS = re.compile(r"[^\W_]{3}")
# Of a timestamp without time zone, which the value beside it tells, so is this.
_STEADY_OF_TIMES = re.compile(r"^date_trunc\('\w+'::text, ")
_WITHOUT_ZONE = "::timestamp without time zone"
_PARAMETER = re.compile(r"\$\d|\?")
_TEXT = re.compile(r"('(?:[^']|'')*')")
_JSON_KEY = re.compile(r"^\(?[\w\".]+ (?:->>?|#>>?) ")
_OPERATORS = (" >= ", " <= ", " <> ", " = ", " > ", " < ", " ~~* ", " ~~ ", " @> ", " && ", " @@ ")
COLUMNS_MAX = 4
NO_TYPES: Types = {}


@dataclass(frozen=True)
class ConditionPart:
    """One condition of several joined by AND: `left` is what an index would hold, `right` what is sought."""

    left: str
    operator: str
    right: str


@dataclass(frozen=True)
class Keys:
    """What an index on a scan's table would hold, in its order, and its method."""

    columns: tuple[str, ...]
    method: str = ""
    needs: str = ""


def parts_of(condition: str) -> list[str]:
    """The conditions that AND joins, without the parentheses around each."""
    return _joined_by(condition, " AND ")


def _joined_by(condition: str, word: str) -> list[str]:
    text = _bare(condition)
    found, start = [], 0
    for place, depth in _depths(text):
        if depth == 0 and text.startswith(word, place):
            found.append(text[start:place])
            start = place + len(word)
    return [_bare(part) for part in (*found, text[start:])]


def keys_of(
    condition: str, alias: str | None, types: Types = NO_TYPES, order: Sequence[str] = ()
) -> Keys | None:
    """The index that a scan's filter calls for; None where no part of it is understood.

    Columns that are compared for equality first, then one that is bounded: a B-tree can use no more. types:
    of the table's columns, as far as they are known. order: the keys in whose order a LIMIT wants the first
    rows, which follow those of equality.
    """
    parts = _parts(condition, alias, types)
    equal = _equal(parts)
    last = [part.left for part in parts if part.operator in (">", "<", ">=", "<=")][:1]
    if equal and order:
        last = [key for key in order if key.partition(" ")[0] not in equal]
    columns = list(dict.fromkeys([*equal, *last]))[:COLUMNS_MAX]
    if columns:
        return Keys(tuple(columns))
    found = (_of_pattern(part, types) or _of_contents(part, types) for part in parts)
    return next(filter(None, found), None)


def _of_pattern(part: ConditionPart, types: Types) -> Keys | None:
    """What LIKE calls for: with a known beginning a B-tree, else trigrams, which find any three letters."""
    # No index is searched for a list of patterns.
    if part.operator not in ("~~", "~~*") or part.right.startswith("ANY ("):
        return None
    kind = types.get(part.left.strip('"'), "text").partition("(")[0]
    # No operator class has patterns of another type: citext's ignores capitals, as no B-tree of text does.
    if kind not in (*_TEXTS, "character") or part.right.endswith("citext"):
        return None
    pattern = _TEXT.match(part.right.removeprefix("E"))
    if part.operator == "~~" and pattern is not None and pattern[1][1:2] not in ("%", "_", "'"):
        return Keys((f"{part.left} {'bpchar' if kind == 'character' else 'text'}_pattern_ops",))
    if kind == "character" or (pattern is not None and _LETTERS.search(pattern[1]) is None):
        return None
    return Keys((f"{part.left} gin_trgm_ops",), "gin", "CREATE EXTENSION IF NOT EXISTS pg_trgm")


def _of_contents(part: ConditionPart, types: Types) -> Keys | None:
    """What is in an array, a document or a range: by the column's type, else by that of what is sought."""
    if part.operator not in ("@>", "<@", "&&", "@@") or part.right.startswith("ANY ("):
        return None
    sought = _TYPE.search(part.right)
    if part.operator == "<@" and not _has_parts(types.get(part.left.strip('"')), sought):
        return None
    kind = types.get(part.left.strip('"')) or (sought["type"] if sought is not None else "")
    # Of what is sought no type is written where it is a number, and none is known of a parameter.
    is_known = bool(kind) or not part.right.startswith("$")
    if part.operator == "@@" or not is_known or _OF_GIN.fullmatch(kind):
        return Keys((part.left,), "gin")
    # Of addresses GiST's operator class is not the usual one.
    return Keys((f"{part.left} inet_ops" if kind in ("inet", "cidr") else part.left,), "gist")


def _has_parts(kind: str | None, sought: re.Match[str] | None) -> bool:
    """Whether an index serves what a column is within: an array or a range, and no single value of one."""
    if kind is not None:
        return kind.endswith(("[]", "range"))
    # Within an array there are arrays alone; within a range there may be its values.
    return sought is not None and sought["type"].endswith("[]")


def equal_keys(condition: str, alias: str | None) -> tuple[str, ...]:
    """What an index begins with where the rows that a scan wants are to come in its other keys' order."""
    parts = _parts(condition, alias, NO_TYPES)
    # The rows of several values are in order for each value, and not for all together.
    return tuple(dict.fromkeys(_equal([part for part in parts if not part.right.startswith("ANY (")])))


def _parts(condition: str, alias: str | None, types: Types) -> list[ConditionPart]:
    return [part for text in parts_of(condition) if (part := _part(text, alias, types)) is not None]


def _equal(parts: Sequence[ConditionPart]) -> list[str]:
    # Most columns have many NULLs where one is looked for: the value in front of them tells more.
    return [part.left for sign in ("=", "IS NULL") for part in parts if part.operator == sign]


def keys_of_sides(condition: str, alias: str | None, types: Types = NO_TYPES) -> tuple[Keys, ...]:
    """The indexes that the sides of an OR call for, which are read together; () where one has none."""
    for text in parts_of(condition):
        sides = _joined_by(text, " OR ")
        if len(sides) < 2:
            continue
        found = [keys_of(side, alias, types) for side in sides]
        known = {each.columns[0]: each for each in found if each is not None and not each.method}
        if len(known) > 1 and None not in found and all(not each.method for each in found if each):
            return tuple(Keys(each.columns[:1]) for each in known.values())
    return ()


def joined_column(condition: str, alias: str | None) -> str | None:
    """The column of `alias` that a join's condition compares for equality with another table's."""
    for text in parts_of(condition):
        left, operator, right = _split(text)
        if operator != "=":
            continue
        for side in (left, right):
            match = _COLUMN.fullmatch(_uncast(side))
            if match is not None and match["of"] is not None and _plain(match["of"]) == alias:
                return match["column"]
    return None


def sort_keys(text: str) -> tuple[str, ...] | None:
    """The columns of a Sort Key with their directions; None where one is an expression or another's."""
    found = []
    for key in text.split(", "):
        match = re.fullmatch(rf"{_COLUMN.pattern}(?P<way>(?: DESC)?(?: NULLS (?:FIRST|LAST))?)", key)
        if match is None:
            return None
        found.append(f"{match['column']}{match['way']}")
    return tuple(found)


@dataclass(frozen=True)
class HiddenTimestamp:
    """A timestamp's column that its condition hides from an index: the expression, and which part it is.

    name: the column's; as_range: the same condition as a range of it; '' where there is none.
    """

    expression: str
    part: TimestampPart | None
    name: str = ""
    as_range: str = ""


def hidden_timestamps(condition: str, types: Types = NO_TYPES) -> Iterator[HiddenTimestamp]:
    """What hides timestamps from an index on their column: 'date_trunc(…, created)'."""
    for text in parts_of(condition):
        left, operator, right = _split(text)
        if not hides_a_timestamp(left) or not is_of_time(left, types):
            continue
        if operator in ("=", ">=", "<=", ">", "<") and _VALUE.match(right) and _is_value(right, None):
            part = timestamp_part(left)
            if part is None:
                yield HiddenTimestamp(left, None)
            else:
                yield HiddenTimestamp(left, part, part.name, part.as_range(operator, right))


def is_not_in(condition: str, subplan: str | None) -> bool:
    """Whether a condition asks a SubPlan, by its name, for rows that do not hold a value."""
    return any(words in condition for words in ("NOT (ANY", f"NOT ({subplan})", "<> ALL"))


def as_key(expression: str, alias: str | None) -> str:
    """An expression as a key of an index, without its table's name."""
    return _of_own_columns(expression, alias) or f"({expression})"


def plainly(column: str) -> str:
    """An index's key as people write it: without what PostgreSQL adds when it prints an expression."""
    return re.sub(r'\(("[^"]+"|[a-z_][\w$]*)\)::', r"\1::", column).replace("'::text", "'")


def without_operator_class(key: str) -> str:
    """An index's key as statistics have it: 'name' of 'name text_pattern_ops'."""
    return _OPERATOR_CLASS.sub("", key)


def is_same_key(one: str, other: str) -> bool:
    """Whether two keys are one: a condition's, as EXPLAIN prints it, and an index's by the catalog."""
    return _bare(plainly(one)) == _bare(plainly(other))


def _part(text: str, alias: str | None, types: Types) -> ConditionPart | None:
    if match := re.fullmatch(rf"{_COLUMN.pattern} IS NULL", text):
        return ConditionPart(match["column"], "IS NULL", "")
    left, operator, right = _split(text)
    if not operator or operator == "<>":
        return None
    for one, other, sign in ((left, right, operator), (right, left, _turned(operator))):
        key = None if _is_made_text(one, types) else _key(one, alias)
        if key is not None and key.startswith("(") and not _has_steady_texts(one, types):
            key = None
        part = timestamp_part(one)
        if part is not None and part.is_steady(types):
            key = _of_own_columns(one, alias)
        if key is None and _STEADY_OF_TIMES.match(one) and other.endswith(_WITHOUT_ZONE):
            key = _of_own_columns(one, alias)
        if key is not None and sign and _is_value(other, alias):
            return ConditionPart(key, sign, other)
    return None


def _key(text: str, alias: str | None) -> str | None:
    plain = _uncast(text)
    match = _COLUMN.fullmatch(plain)
    if match is not None:
        return match["column"] if match["of"] is None or _plain(match["of"]) == alias else None
    bare = _MODIFIED.sub("", "".join(_TEXT.split(plain)[::2]))
    calls = [name.strip('"') for name in _CALL.findall(bare)]
    if (_JSON_KEY.match(plain) or _CALL.match(plain)) and _STEADY.issuperset(calls):
        return _of_own_columns(_bare(plain), alias)
    return None


def _is_made_text(text: str, types: Types) -> bool:
    """Whether it is the text of a column of another type, as `(status)::text` of an enum."""
    match = _CAST.match(text)
    column = _COLUMN.fullmatch(match["inner"]) if match is not None else None
    kind = types.get(column["column"].strip('"')) if column is not None else None
    return kind is not None and not kind.startswith(_TEXTS)


def _has_steady_texts(expression: str, types: Types) -> bool:
    """Whether each column whose text an expression takes is of a type whose text is always the same."""
    names = [found["column"].strip('"') for found in _COLUMN_S_TEXT.finditer(expression)]
    return all(_OF_STEADY_TEXT.fullmatch(types[name]) for name in names if name in types)


def takes_text(key: str) -> bool:
    """Whether an index's key is an expression with a column's text, which only some types' can be."""
    return key.startswith("(") and _COLUMN_S_TEXT.search(key) is not None


def _of_own_columns(text: str, alias: str | None) -> str | None:
    """The expression as an index has it, without its table's name; None where its value is not known."""
    if any(_PARAMETER.search(part) for part in _TEXT.split(text)[::2]):
        return None
    own = re.compile(rf"(?<![\w$\".])(?:{re.escape(alias)}|{re.escape(_quoted(alias))})\.") if alias else None
    parts = [part if part.startswith("'") or own is None else own.sub("", part) for part in _TEXT.split(text)]
    return f"({''.join(parts)})"


def _plain(name: str) -> str:
    """A name without the quotes that one with capitals has in a condition, and nowhere else in a plan."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _is_value(text: str, alias: str | None) -> bool:
    if _VALUE.match(text):
        return not _names_own_column(text, alias)
    match = _COLUMN.fullmatch(_uncast(text))
    return match is not None and match["of"] is not None and _plain(match["of"]) != alias


def _names_own_column(value: str, alias: str | None) -> bool:
    """Whether a value depends on a column of the table: `(2 * paid)`, `ANY (parents)`."""
    bare = _IN_VALUE.sub("", "".join(_TEXT.split(value)[::2]))
    return any(
        match["name"] not in _NOT_NAMES and (not match["dot"] or _plain(match["name"]) == alias)
        for match in _NAMED.finditer(bare)
    )


def _turned(operator: str) -> str:
    """The operator with its sides exchanged; '' where no index of the right one's column serves it.

    A pattern is sought in texts, and not the other way round.
    """
    turned = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "@>": "<@", "~~": "", "~~*": "", "@@": ""}
    return turned.get(operator, operator)


def _split(text: str) -> tuple[str, str, str]:
    for place, depth in _depths(text):
        if depth == 0:
            for operator in _OPERATORS:
                if text.startswith(operator, place):
                    return text[:place].strip(), operator.strip(), text[place + len(operator) :].strip()
    return text, "", ""


def _uncast(text: str) -> str:
    match = _CAST.match(text)
    return match["inner"] if match else _bare(text)


def _bare(text: str) -> str:
    """Without parentheses around the whole."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")"):
        closes = next((place for place, depth in _depths(text) if depth == 0 and text[place] == ")"), None)
        if closes != len(text) - 1:
            return text
        text = text[1:-1].strip()
    return text


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Each place outside of a quoted text, and how many parentheses are open after it."""
    depth, quote = 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
            continue
        if sign in "'\"":
            quote = sign
            if sign == "'":
                continue
        depth += {"(": 1, ")": -1}.get(sign, 0)
        yield place, depth
