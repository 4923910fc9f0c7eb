"""Reading a command line as getopt_long does: letters in one word, beginnings of long names, any order."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgassay.pgbench.messages import PROGRAM, PgbenchError


@dataclass(frozen=True)
class CommandLineOption:
    """One option: its letter or '', its long name, the word for its value or '', its help."""

    letter: str
    name: str
    value: str
    help: str


class WrongWordError(PgbenchError):
    """getopt's own complaint, which stands without the word error."""


def read(words: Sequence[str], options: Sequence[CommandLineOption]) -> Iterator[tuple[str, str]]:
    """Each option's long name with its value, in the order typed, then ("", word) for each other word.

    Raises WrongWordError for a word that is no option, when its turn comes.
    """
    by_letter = {option.letter: option for option in options if option.letter}
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            others += left
            break
        if word.startswith("--"):
            yield _long(word[2:], options, left)
        elif word.startswith("-") and word != "-":
            yield from _letters(word[1:], by_letter, left)
        else:
            others.append(word)
    # As with getopt: unless POSIX's order is asked for, other words may stand anywhere.
    if "POSIXLY_CORRECT" in os.environ and others:
        raise WrongWordError(f"{PROGRAM}: options must stand before other words while POSIXLY_CORRECT is set")
    yield from (("", word) for word in others)


def _long(text: str, options: Sequence[CommandLineOption], left: list[str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    exact = [option for option in options if option.name == name]
    found = exact or [option for option in options if option.name.startswith(name)]
    if not found:
        raise WrongWordError(f"{PROGRAM}: unrecognized option '--{text}'")
    if len(found) > 1:
        possible = "".join(f" '--{option.name}'" for option in found)
        raise WrongWordError(f"{PROGRAM}: option '--{text}' is ambiguous; possibilities:{possible}")
    option = found[0]
    if not option.value:
        if equals:
            raise WrongWordError(f"{PROGRAM}: option '--{option.name}' doesn't allow an argument")
        return option.name, ""
    if not equals:
        if not left:
            raise WrongWordError(f"{PROGRAM}: option '--{option.name}' requires an argument")
        value = left.pop(0)
    return option.name, value


def _letters(
    text: str, by_letter: dict[str, CommandLineOption], left: list[str]
) -> Iterator[tuple[str, str]]:
    while text:
        letter, text = text[0], text[1:]
        option = by_letter.get(letter)
        if option is None:
            raise WrongWordError(f"{PROGRAM}: invalid option -- '{letter}'")
        if not option.value:
            yield option.name, ""
            continue
        if not text and not left:
            raise WrongWordError(f"{PROGRAM}: option requires an argument -- '{letter}'")
        yield option.name, text or left.pop(0)
        return
