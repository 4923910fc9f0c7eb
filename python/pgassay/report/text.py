"""Names and texts as a report shows them: harmless, cut; the words of figures beside them."""

import shlex
import unicodedata
from collections.abc import Iterable

from pgassay.model.result import ArmResult, TwinResult
from pgassay.words import (
    INFINITY,
    amount,
    bare_quantity,
    bounds,
    comparison,
    duration,
    duration_rounded,
    figure,
    interval,
    interval_or_why,
    join,
    percent,
    percent_fixed,
    percent_rounded,
    plural,
    quantity,
    ratio,
    seconds,
    size,
    span,
)

# A report takes its words from here; what makes them of a figure is everybody's.
__all__ = [
    "BARS",
    "amount",
    "ascii_only",
    "bare_quantity",
    "bounds",
    "clean",
    "clean_lines",
    "command_lines",
    "comparison",
    "duration",
    "duration_rounded",
    "excerpt",
    "figure",
    "interval",
    "interval_or_why",
    "join",
    "percent",
    "percent_fixed",
    "percent_rounded",
    "plural",
    "quantity",
    "ratio",
    "seconds",
    "shell_word",
    "size",
    "span",
    "twin_sentence",
    "verdict_word",
]


# The heights of a row of bars, and what stands for them in ASCII.
BARS = "▁▂▃▄▅▆▇█"
_BARS_ASCII = str.maketrans(BARS, "_.-=+*%#")


def clean(text: str) -> str:
    """A text from a server or a user without characters that could steer a terminal or hide text.

    Line breaks, tabs and unusual spaces become spaces; every other character that can't be printed
    is shown as its escape sequence (`\\x1b`).
    """
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace() or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def clean_lines(content: str) -> str:
    """As `clean`, for SQL or JSON whose line breaks must stay."""
    return "\n".join(clean(line) for line in content.splitlines())


def shell_word(word: str, *, is_ascii: bool = False) -> str:
    """A word of a command line, to be pasted into a shell as it is; `is_ascii`: written in ASCII alone.

    Line breaks and what can't be shown are escapes within $'…', which bash, zsh and ksh read.
    """
    if word.isprintable() and (word.isascii() or not is_ascii):
        return shlex.quote(word)
    return f"$'{''.join(_shell_character(each, is_ascii=is_ascii) for each in word)}'"


def _shell_character(character: str, *, is_ascii: bool) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable() and (character.isascii() or not is_ascii):
        return character
    if character == "\n":
        return r"\n"
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def command_lines(words: Iterable[str], columns: int, *, is_ascii: bool = False) -> list[str]:
    """A command line over as many lines of so many columns as it takes, to be pasted as it is.

    A word that is longer than a line stays whole; `is_ascii` as of `shell_word`.
    """
    lines: list[str] = []
    line = ""
    for word in (shell_word(part, is_ascii=is_ascii) for part in words):
        # Room for the backslash that says that the command goes on.
        if line and len(line) + 1 + len(word) > columns - 2:
            lines.append(f"{line} \\")
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def excerpt(content: str, characters_max: int) -> str:
    """The beginning of a text that is longer than a page should hold, with the length of the whole."""
    if len(content) <= characters_max:
        return content
    return f"{content[:characters_max]} … (cut: {len(content):,} characters in all)"


def ascii_only(text: str) -> str:
    """The text for an output that can show ASCII alone; signs pgassay uses get their plain form."""
    plain = (
        text.replace("–", "-")
        .replace("×", "x")
        .replace(INFINITY, "inf")
        .replace("±", "+/-")
        .replace("·", "-")
        .replace("…", "...")
        .replace("µ", "u")
        .replace("→", "->")
        .replace("−", "-")
        .replace("⁶", "^6")
        .replace("“", '"')
        .replace("”", '"')
        .translate(_BARS_ASCII)
    )
    return plain.encode("ascii", "backslashreplace").decode("ascii")


def verdict_word(arm: ArmResult, margin: float) -> str:
    """The verdict of an arm with what qualifies it: a difference may still lie inside the margin."""
    if arm.withheld:
        return "withheld"
    if arm.verdict not in ("equivalent", "inconclusive", "control") and not arm.meaningful:
        return f"{arm.verdict}, maybe < {percent(margin)}"
    return arm.verdict


def twin_sentence(twin: TwinResult) -> str:
    """What the hidden duplicate of the control says about this experiment."""
    where = f" in {clean(twin.stratum)}" if twin.stratum else ""
    if twin.ratio is None:
        return f"Twin{where}: no block to compare yet."
    figures = (
        f"{ratio(twin.ratio)} of the control's speed (interval: {interval_or_why(twin.interval, twin.ratio)})"
    )
    if twin.ok is None:
        return f"Twin{where}: not yet tested, too few blocks for its check; so far {figures}."
    if twin.ok:
        return f"Twin{where}: no difference from the control found, {figures}."
    return (
        f"Twin{where}: it DIFFERS from the control, {figures}, though both have the same settings: "
        "the measurement is biased, and verdicts inside that range are withheld."
    )
