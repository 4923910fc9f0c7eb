"""The tables of docs/versions.md: what each version has that the one before it had not, and the reverse."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from versions.facts import Facts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"
_MARKS = "<!-- {name}: made by tests/versions/record.py -->\n"
# Views of a statistic for all tables, of the system's or of the user's tables have the same columns.
_REPEATED = re.compile(r"pg_stat(io)?_(sys|user|xact)_|_xact_")
_SHOWN = re.compile(r"pg_stat|pg_aios|pg_wait_events|pg_buffercache|pg_shmem|pg_locks|pg_stats")


def with_tables(page: str, found: Mapping[int, Facts]) -> str:
    """The page with its tables made anew."""
    for name, lines in tables(found).items():
        begin, end = _MARKS.format(name=name), _MARKS.format(name=f"end of {name}")
        before, _, rest = page.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise ValueError(f"{PAGE.name} has no place for the table {name}")
        page = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after
    return page


def tables(found: Mapping[int, Facts]) -> dict[str, list[str]]:
    """The lines of each table."""
    return {"settings": _settings(found), "views": _views(found), "events": _events(found)}


def _settings(found: Mapping[int, Facts]) -> list[str]:
    rows = []
    for (_, before), (major, now) in pairwise(found.items()):
        shared = sorted(before.settings.keys() & now.settings.keys())
        changed = [
            f"`{name}` {_value(before.settings[name])} → {_value(now.settings[name])}"
            for name in shared
            if before.settings[name] != now.settings[name]
        ]
        rows.append(
            (
                str(major),
                _names(now.settings.keys() - before.settings.keys()),
                _names(before.settings.keys() - now.settings.keys()),
                ", ".join(changed) or "–",
            )
        )
    return _table(("version", "new", "gone", "other default"), rows)


def _views(found: Mapping[int, Facts]) -> list[str]:
    rows = []
    for (_, before), (major, now) in pairwise(found.items()):
        for name in sorted(before.relations.keys() | now.relations.keys()):
            if not _SHOWN.match(name) or _REPEATED.match(name):
                continue
            old, new = before.relations.get(name, frozenset()), now.relations.get(name, frozenset())
            if not old:
                rows.append((str(major), f"`{name}`", "the view is new", "–"))
            elif old != new:
                rows.append((str(major), f"`{name}`", _names(new - old), _names(old - new)))
    return _table(("version", "view", "new columns", "columns that are gone"), rows)


def _events(found: Mapping[int, Facts]) -> list[str]:
    rows = [
        (str(major), _names(now.events - before.events), _names(before.events - now.events))
        for (_, before), (major, now) in pairwise(found.items())
        if before.events
    ]
    return _table(("version", "new", "gone"), rows)


def _value(text: str | None) -> str:
    return f"`{text}`" if text else "empty"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "–"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows)]
