"""The table of options on the command line, and what else commands share; refusals are exit status 2."""

import argparse
import os
import sys

from pgassay.errors import UsageError
from pgassay.options import option
from pgassay.options.table import OWN_OPTIONS, options_for
from pgassay.value_syntax import quantities

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Any, TypeVar

    from pgassay.experiment.planning.request import CompareRequest

    Value = TypeVar("Value")


WIDTH_DEFAULT = 80
# What a command has that prints a result.
FORMATS = ("json", "markdown", "text", "html")
HTML_INSTEAD = "write the HTML page to this file instead of the results folder"


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal; asks for the width itself, since argparse loads shutil for that."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=_terminal_width() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap prose; keep the lines of examples as they are."""
        if "\n" in text:
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """Of several words: a name that says itself how many there are is not repeated as `[… ...]`."""
        if action.nargs == "+" and " " in str(action.metavar):
            return str(action.metavar)
        return super()._format_args(action, default_metavar)


def _terminal_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or WIDTH_DEFAULT
    except (OSError, ValueError):
        return WIDTH_DEFAULT


def typed(parse: "Callable[..., Value]", **bounds: "Any") -> "Callable[[str], Value]":
    """A type of argparse: what `parse` reads within its bounds, as `typed(whole, least=1)`."""

    def read(text: str) -> "Value":
        try:
            return parse(text, **bounds)
        except UsageError as error:
            # argparse puts the option's name before the sentence.
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


duration = typed(quantities.seconds)
fraction = typed(quantities.fraction)
whole = typed(quantities.whole)
processors = typed(quantities.processors)
folder = typed(option.folder)


def add_options(
    parser: "argparse._ActionsContainer",
    command: str,
    helps: "Mapping[str, str] | None" = None,
    defaults: "Mapping[str, str] | None" = None,
) -> None:
    """The options of the table that a command takes; `helps` and `defaults`, by flag: its own of some."""
    for each in options_for(command):
        _add(parser, each.as_in((helps or {}).get(each.flag), (defaults or {}).get(each.flag)))


def add_own_options(parser: "argparse._ActionsContainer", command: str) -> None:
    """The options of the table that a command alone takes."""
    for each in OWN_OPTIONS[command]:
        _add(parser, each)


def _add(parser: "argparse._ActionsContainer", declared: option.Option) -> None:
    help = declared.full_help.replace("%", "%%")
    if declared.is_switch:
        action = "store_false" if declared.standard else "store_true"
        parser.add_argument(declared.flag, dest=declared.field, action=action, help=help)
        return
    parser.add_argument(
        declared.flag,
        dest=declared.field,
        help=help,
        type=typed(declared.parse),
        metavar=declared.metavar,
        choices=declared.choices or None,
        action="append" if declared.is_repeated else "store",
        default=[] if declared.is_repeated else declared.standard,
    )


def request_of(arguments: argparse.Namespace, **fixed: "Any") -> "CompareRequest":
    """The request that a command line makes; `fixed`: fields that the command itself says."""
    from pgassay.experiment.planning.request import CompareRequest

    fields = {each.field: getattr(arguments, each.field) for each in options_for(arguments.command)}
    fields |= {"factors": getattr(arguments, "factors", ()), "command": arguments.words}
    # None stands for the request's own default.
    fields = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
        if value is not None
    }
    return CompareRequest(**fields | fixed)


def given_options(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> "dict[str, object]":
    """What was typed of a command's options, by flag: the values that are not the defaults."""
    return {
        action.option_strings[-1]: found
        for action in parser._actions
        if action.option_strings and (found := getattr(chosen, action.dest, action.default)) != action.default
    }


def refuse_without(arguments: argparse.Namespace, flags: "Iterable[str]", needed: str) -> None:
    """Raise UsageError where one of these was typed, which mean nothing without what is `needed`."""
    for flag in (each for each in flags if each in arguments.given):
        raise option.lacking(flag, needed)


def refuse_with(arguments: argparse.Namespace, flags: "Iterable[str]", other: str, why: str = "") -> None:
    """Raise UsageError where one of these was typed, which mean nothing with the `other`, as `why` says."""
    for flag in (each for each in flags if each in arguments.given):
        reason = f", {why}" if why else ""
        raise UsageError(f"{flag} cannot be used with {other}{reason}: leave {flag} out")


def add_formats(
    parser: "argparse._ActionsContainer",
    what: str = "the result",
    *,
    markdown: str = "for an issue or a pull request",
    html: str = "write an HTML page here as well",
    is_repeated: bool = False,
) -> None:
    """`--json`, `--markdown` and `--text`, one of which may be typed, and `--html`: a result's forms.

    markdown: what it is for. html: what `--html` does. is_repeated: the command has them before its action.
    """
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help=f"print {what} as one JSON document")
    formats.add_argument("--markdown", action="store_true", help=f"print Markdown, {markdown}")
    formats.add_argument(
        "--text", action="store_true", help="print plain text of 72 columns, for a mailing list"
    )
    parser.add_argument("--html", type=folder, metavar="FILE", help=html)
    if is_repeated:
        for action in parser._actions:
            if action.dest in FORMATS:
                action.default = argparse.SUPPRESS


def check_html(arguments: argparse.Namespace) -> None:
    """Raise UsageError, before anybody waits, where the folder of `--html` is missing."""
    html: Path | None = getattr(arguments, "html", None)
    if html is not None and not html.absolute().parent.is_dir():
        raise UsageError(f"--html {html}: its folder does not exist, create it first")


def add_redact(parser: argparse.ArgumentParser) -> None:
    """`--redact`, alike wherever plans and statements are shown."""
    parser.add_argument(
        "--redact",
        action="store_true",
        help="leave out literals: values in statements, plans and their conditions",
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """`--plan`, alike in compare and run."""
    parser.add_argument(
        "--plan",
        action="store_true",
        help="measure nothing: say how long it takes, and what can be decided in the given time",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """The formats, `--details`, `--redact`, `--fail-if` and so on, alike in compare, run and resume."""
    add_formats(parser, html=HTML_INSTEAD)
    parser.add_argument(
        "--details",
        action="store_true",
        help="print the whole report instead of ten lines (as pgassay report does)",
    )
    parser.add_argument(
        "--fail-if",
        choices=("slower", "faster"),
        help="exit with 3 if any arm is found slower (or faster) than its control",
    )
    add_redact(parser)
    add_quiet_and_no_wait(parser)


def add_quiet_and_no_wait(parser: "argparse._ActionsContainer") -> None:
    """`--quiet` and `--no-wait`, alike in all commands that measure."""
    add_quiet(parser)
    add_no_wait(parser, "another experiment")


def add_quiet(parser: "argparse._ActionsContainer", meanwhile: str = "runs") -> None:
    """`--quiet`; meanwhile: what the command does while nothing is printed."""
    parser.add_argument("--quiet", action="store_true", help=f"print nothing while it {meanwhile}")


def add_no_wait(parser: "argparse._ActionsContainer", other: str = "an experiment") -> None:
    """`--no-wait`, of what needs the host to itself; other: who may have it."""
    parser.add_argument(
        "--no-wait", action="store_true", help=f"fail immediately if {other} is running on this host"
    )


def add_seconds(
    parser: "argparse._ActionsContainer", help: str, default: float | None = None, **bounds: float
) -> None:
    """`--seconds`: how long something is looked at that would go on for ever."""
    read = typed(quantities.seconds, **bounds)
    parser.add_argument("--seconds", type=read, default=default, metavar="TIME", help=help)


def add_jobs(parser: "argparse._ActionsContainer") -> None:
    """`--jobs`, alike in the commands that build PostgreSQL."""
    parser.add_argument(
        "--jobs",
        type=whole,
        metavar="N",
        help="parallel compile jobs (default: one for each processor)",
    )


def add_catalogue(parser: "argparse._ActionsContainer") -> None:
    """`--catalogue`, alike in the commands about volumes."""
    parser.add_argument(
        "--catalogue",
        type=folder,
        metavar="FILE",
        action="append",
        default=[],
        help="a TOML file of your own that adds volumes, instances and prices or corrects them",
    )


def folder_or_server(text: str) -> "Path | str":
    """A path, or a connection string of libpq: a URI, or keywords and values that name no folder."""
    import re

    # A connection string may be longer than any file's name.
    if re.match(r"postgres(ql)?://|\s*[a-z_]+\s*=", text) and not os.path.exists(text):  # noqa: PTH110
        return text
    return folder(text)


def statement_numbers(typed: str | None, count: int | None) -> tuple[str, ...]:
    """The numbers of `--only`; `count`: what --statements says. Raises UsageError for what is none."""
    only = tuple(filter(None, (word.strip() for word in (typed or "").split(","))))
    wrong = next((word for word in only if not word.removeprefix("-").isdecimal()), None)
    if wrong is not None or (typed is not None and not only):
        raise UsageError(
            f"--only '{wrong or typed}' is not a queryid of pg_stat_statements: write a number, as "
            "--only -1234567890123456789"
        )
    if only and count is not None:
        raise UsageError("--only chooses the statements: leave --statements out")
    return only
