"""JSON of any depth. Python's own parser calls itself for each level, and a plan of 500 nodes has 1000."""

import json
import re
from dataclasses import dataclass

LEVELS_MAX = 20_000
_TOKEN = re.compile(r'[ \t\n\r]*([\[\]{}:,]|"(?:[^"\\]|\\.)*"|[-+.\w]+)', re.S)


class JsonError(ValueError):
    """The text is no JSON; `place` counts characters from 0.

    at_end: it ends too early. is_extra: a whole value ends before `place`, and something follows it.
    """

    def __init__(self, what: str, place: int, *, at_end: bool = False, is_extra: bool = False) -> None:
        super().__init__(what)
        self.place, self.at_end, self.is_extra = place, at_end, is_extra


def parse(text: str) -> object:
    """The value of a JSON text, whatever its depth; raises JsonError."""
    try:
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        return _parse_deep(text)
    except json.JSONDecodeError as error:
        at_end = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
        is_extra = error.msg == "Extra data"
        raise JsonError(error.msg, error.pos, at_end=at_end, is_extra=is_extra) from None


def _whole(digits: str) -> int | float:
    """A whole number; one that no counter of PostgreSQL can hold is read as a float."""
    return int(digits) if len(digits) < 20 else float(digits)


@dataclass
class _Level:
    """An array, or an object whose next value has the name `key`."""

    array: list[object] | None
    members: dict[str, object]
    key: str | None = None

    @property
    def made(self) -> object:
        return self.members if self.array is None else self.array

    def put(self, value: object, place: int) -> None:
        if self.array is not None:
            self.array.append(value)
        elif self.key is None:
            raise JsonError("a name is missing", place)
        else:
            self.members[self.key] = value
            self.key = None


def _parse_deep(text: str) -> object:
    """Without calling itself. Commas and colons are taken as they come: the fast parser judges those."""
    levels: list[_Level] = []
    place, length = 0, len(text.rstrip())
    while place < length:
        match = _TOKEN.match(text, place)
        if match is None:
            at_end = text[place:].lstrip().startswith('"')
            raise JsonError("a character that JSON does not allow", place, at_end=at_end)
        token, place = match[1], match.end()
        if token in ",:":
            continue
        if token in "[{":
            if len(levels) >= LEVELS_MAX:
                raise JsonError(f"more than {LEVELS_MAX:,} levels", place)
            levels.append(_Level([] if token == "[" else None, {}))
            continue
        if token in "]}":
            if not levels or (levels[-1].array is None) != (token == "}"):
                raise JsonError("an unmatched bracket", place)
            value: object = levels.pop().made
        else:
            value = _scalar(token, place)
            if levels and levels[-1].array is None and levels[-1].key is None:
                levels[-1].key = str(value)
                continue
        if not levels:
            return value
        levels[-1].put(value, place)
    raise JsonError("the text is cut off", length, at_end=True)


_SCALARS: dict[str, object] = {"true": True, "false": False, "null": None}


def _scalar(token: str, place: int) -> object:
    if token in _SCALARS:
        return _SCALARS[token]
    try:
        return json.loads(token, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise JsonError(error.msg, place) from None
