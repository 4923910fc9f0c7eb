"""Sentences without the literals that they quote: of SQL, of plans, and of what servers complain of. Pure."""

import re

from pgassay.sql_text import REDACTED, without_literals

# A statement, or a line of values, that a sentence of pgassay's quotes with its own literals in it.
_STATEMENT = re.compile(
    r"(?:(?<=\s)|^)'(?P<dashes>-- )?(?P<sql>.+?)'(?= failed (?:\(|on the copy)| is no(?:t a)? list of)",
    re.DOTALL,
)
# A literal, no apostrophe of a word; one that never closes reaches to the end, since texts are cut. And what
# servers quote of a value or a text that they refuse, of a key and of a row: `syntax error at or near "…"`,
# `invalid input syntax for type integer: "…"`, `Key (id)=(…) already exists`. A value may hold the quotes
# that stand around it: all up to the last of them goes.
_QUOTED = re.compile(
    r"""(?<![\w)"])(?:[eE]'(?:[^'\\]|\\.|'')*(?:'|\\?\Z)|(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*(?:'|\Z))
      | (?<![\w$])(\$(?:[A-Za-z_]\w*)?\$).*?(?:\1|\Z)
      | (?:(?<=:\ )|(?<=\bnear\ )|(?<=\bvalue\ )|(?<=\bToken\ )|(?<=\btime\ zone\ ))"[^\n]*"
      | (?<=\)=)\(.*?\)(?=\ (?:already|is|conflicts)\b|[.,;:)]|\s*\Z)
      | (?<=\ row\ contains\ )\([^\n]*\)""",
    re.VERBOSE | re.DOTALL,
)
# Ids and titles of indexes hold their keys and their conditions as SQL.
_OF_INDEXES = re.compile(r"\A(?:without )?(?:index:|(?:[A-Z]+ i|I)ndex on )")


def sentence_without_literals(text: str) -> str:
    """A sentence that may quote SQL, a plan or a server's complaint, without the text literals in it."""
    parts, done = [], 0
    for each in _STATEMENT.finditer(text):
        if each["dashes"]:  # what could not be read can't be told apart either
            quoted = f"{each['dashes']}{each['sql'].partition(':')[0]}: {REDACTED}"
        else:
            quoted = without_literals(each["sql"])
        parts += [_QUOTED.sub(REDACTED, text[done : each.start()]), f"'{quoted}'"]
        done = each.end()
    return "".join([*parts, _QUOTED.sub(REDACTED, text[done:])])


def name_without_literals(text: str) -> str:
    """The id or the title of a fix, or the name of an arm without it, without the literals of its SQL."""
    return without_literals(text) if _OF_INDEXES.match(text) else sentence_without_literals(text)
