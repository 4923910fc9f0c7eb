"""The man page, pgassay(1), from the parser that prints `--help`: one source, so both say the same."""

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path

# Groff takes these for its own.
_ESCAPES = str.maketrans({"\\": "\\(rs", "-": "\\-", "^": "\\(ha", "~": "\\(ti", "`": "\\(ga"})
_FILES = (
    (
        "~/.cache/pgassay",
        "Data, working copies, builds and the ledger of this machine; for root /var/cache/pgassay.",
    ),
    ("pgassay-results/", "Where experiments are stored, unless --out says otherwise."),
)
_VARIABLES = (
    ("PGASSAY_HOME", "Where data and builds are kept, in place of the folder below FILES."),
    ("PGASSAY_NATIVE", "The native binary to measure with, in place of the one that belongs to the package."),
    ("PGPASSFILE, PGSERVICEFILE", "As for libpq: where passwords and services of running servers are named."),
)
_STATUSES = (
    ("0", "It was done."),
    ("1", "A server or a trial failed, or a required capability is missing."),
    ("2", "It can't be done as typed; nothing was measured. One sentence says what to type instead."),
    ("3", "An arm was found as --fail-if says."),
    ("130", "It was interrupted; nothing is left running."),
)


def write_man_page(path: Path) -> None:
    """Write the page there, making the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(man_page(), encoding="utf-8")


def man_page() -> str:
    """The page in man's macros (groff_man(7)); the same bytes on every machine and in every terminal."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        return "\n".join(_lines()) + "\n"
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns


def _lines() -> Iterator[str]:
    from pgassay import __version__
    from pgassay.cli.main import parser

    top = parser()
    commands = next(each for each in top._actions if isinstance(each, argparse._SubParsersAction))
    helps = {each.dest: each.help or "" for each in commands._choices_actions}
    yield f'.TH PGASSAY 1 "" "pgassay {__version__}" "User Commands"'
    # Ragged and unhyphenated: an option that is broken at a hyphen can't be copied.
    yield from (".ad l", ".nh")
    yield from (".SH NAME", "pgassay \\- a performance laboratory for PostgreSQL")
    yield from (
        ".SH SYNOPSIS",
        ".B pgassay",
        ".I COMMAND",
        "[option ...]",
        ".br",
        ".B pgassay",
        "\\-\\-version",
    )
    yield from (".SH DESCRIPTION", *_prose(top.description or ""), ".PP", *_prose(top.epilog or ""))
    yield ".SH COMMANDS"
    for name in commands.choices:
        yield from (".TP", f".B {_text(name)}", _line(helps[name]))
    for name, each in commands.choices.items():
        yield from (f'.SH "PGASSAY {_text(name.upper())}"', *_command(each))
    for heading, rows in (("EXIT STATUS", _STATUSES), ("ENVIRONMENT", _VARIABLES), ("FILES", _FILES)):
        yield f'.SH "{heading}"'
        for name, meaning in rows:
            yield from (".TP", f".B {_text(name)}", _line(meaning))
    yield from ('.SH "SEE ALSO"', ".BR postgres (1),", ".BR pgbench (1),", ".BR psql (1)")


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    usage = re.sub(r"^usage: ", "", parser.format_usage().strip())
    yield from (".nf", *map(_line, usage.splitlines()), ".fi", ".PP", *_prose(parser.description or ""))
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (".TP", _heading(action), _line(_help(parser, action)))
    if parser.epilog:
        yield from (".PP", *_prose(parser.epilog))


def _heading(action: argparse.Action) -> str:
    """`-h, --help`, `--scale N`, `FOLDER`: names in bold, what stands for something in italics."""
    value = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else "")
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return f"\\fI{_text(value or action.dest)}\\fR"
    shown = value or action.dest.upper() if action.nargs != 0 else ""
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
    return f"{names} \\fI{_text(shown)}\\fR" if shown else names


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """The help as `--help` shows it, its `%` forms filled in."""
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _prose(text: str) -> list[str]:
    """A paragraph; lines of examples stay lines."""
    if "\n" not in text:
        return [_line(text)] if text else []
    return [".nf", *(_line(line) for line in text.strip("\n").splitlines()), ".fi"]


def _line(text: str) -> str:
    """A line of text; one that begins with a dot or an apostrophe would be an order."""
    made = _text(text)
    return f"\\&{made}" if made.startswith((".", "'")) else made


def _text(text: str) -> str:
    return text.translate(_ESCAPES).replace("…", "\\[u2026]").replace("'", "\\(aq")
