r"""Lists of options as typed, `size=4GB,read_ahead=128`: one grammar for workloads, storages and volumes.

A comma or a backslash in a value is written with a backslash before it. White space around a part, a name or
a value doesn't count.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from pgassay.errors import UsageError


def split(text: str) -> list[str]:
    """The parts between commas, as typed; a comma or a backslash with a backslash before it is text."""
    parts = [""]
    index = 0
    while index < len(text):
        if text[index] == "\\" and index + 1 < len(text):
            index += 1
            parts[-1] += text[index]
        elif text[index] == ",":
            parts.append("")
        else:
            parts[-1] += text[index]
        index += 1
    return parts


def joined(parts: Iterable[str]) -> str:
    """The text whose parts these are: what `split` takes apart."""
    return ",".join(part.replace("\\", "\\\\").replace(",", "\\,") for part in parts)


def of(text: str, subject: str, known: Collection[str]) -> dict[str, str]:
    """The options in a text, `name=value,…`; none in an empty one. Raises UsageError as `pairs`."""
    return pairs([part for part in split(text) if part], subject, known)


def pairs(parts: Collection[str], subject: str, known: Collection[str]) -> dict[str, str]:
    """NAME=VALUE of each part, in their order.

    `subject`: what has the options, as "workload tpcb". A dash in a name may stand for
    an underscore. Raises UsageError for a name that is not in `known`,
    a part without a value, and a name that is given twice.
    """
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known and name.replace("-", "_") in known:
            name = name.replace("-", "_")
        if name not in known:
            listing = ", ".join(known) or "none"
            close = "".join(f"write {each}; " for each in get_close_matches(name.lower(), known, n=1))
            raise UsageError(f"{subject} has no option '{name}': {close}its options are {listing}")
        if not equals or not value:
            raise UsageError(f"{subject}: option {name} has no value: write {name}=…")
        if name in found:
            raise UsageError(f"{subject}: option {name} is given twice: give it once")
        found[name] = value
    return found
