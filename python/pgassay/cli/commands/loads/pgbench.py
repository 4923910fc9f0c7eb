"""`pgassay pgbench`: pgbench's own command line, on the native load generator."""

import argparse
import os
import sys

from pgassay import __version__
from pgassay.cli import options

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgassay.native.pgbench_command import PgbenchProgress
    from pgassay.pgbench.options import PgbenchOptions
    from pgassay.pgbench.run_load import Interval, Run, Show

NAME = "pgbench"
_VERSION = "pgbench (PostgreSQL) 18, of pgassay"
EXIT_ABORTED = 2


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line, for help and completion; `run_words` reads what is typed."""
    from pgassay.pgbench.options import BENCHMARKING, COMMON, INITIALISATION, SELECTION

    parser = subparsers.add_parser(
        NAME,
        help="pgbench's own command line and report, followed by what pgbench leaves out",
        description="Initialises pgbench's tables (-i) or runs its scripts and yours, with the options, "
        "messages, files, report and exit status of PostgreSQL 18's pgbench. Below the report: percentiles, "
        "whether the client was the limit, the server's settings.",
        epilog="examples:\n"
        "  pgassay pgbench -i -s 10 shop\n"
        "  pgassay pgbench -c 8 -j 2 -T 30 -P 5 -r -f my.sql@3 -b select-only@1 shop\n"
        "  alias pgbench='pgassay pgbench'",
        allow_abbrev=False,
        add_help=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("database", nargs="?", metavar="DBNAME", help="the database, or a connection string")
    for title, group in (
        ("initialisation", INITIALISATION),
        ("what to run", SELECTION),
        ("benchmarking", BENCHMARKING),
        ("common", COMMON),
    ):
        added = parser.add_argument_group(title)
        for option in group:
            names = [f"-{option.letter}"] if option.letter else []
            names.append(f"--{option.name}")
            if option.value:
                added.add_argument(*names, metavar=option.value, help=option.help)
            else:
                added.add_argument(*names, action="store_true", help=option.help)
        if group is COMMON:
            added.add_argument("-V", "--version", action="store_true", help="print the version")
            added.add_argument("-?", "--help", action="help", help="print this help")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """What `main` does before it reads other commands: pgbench's words are not argparse's."""
    return run_words(arguments.words[2:])


def is_own(words: "Sequence[str]") -> bool:
    """Whether the words are pgbench's to read, and not a question for help that argparse answers."""
    return words[:1] == [NAME] and words[1:2] not in (["--help"], ["-?"])


def run_words(words: "Sequence[str]") -> int:
    """Read pgbench's words, do it, return pgbench's exit status."""
    from pgassay.model.redaction import without_secrets
    from pgassay.pgbench.command_line import WrongWordError
    from pgassay.pgbench.messages import TRY_HELP, PgbenchError, say, tell

    if list(words[:1]) in (["--version"], ["-V"]):
        print(_VERSION)
        return 0
    try:
        return _do(words)
    except WrongWordError as error:
        print(without_secrets(str(error)), file=sys.stderr)
        say(TRY_HELP, "hint")
        return error.exit_code
    except PgbenchError as error:
        tell(error)
        return error.exit_code


def _do(words: "Sequence[str]") -> int:
    from pgassay.pgbench import scripts
    from pgassay.pgbench.options import parse

    chosen = parse(words, os.environ)
    if chosen.lists_scripts:
        print(scripts.builtins_listed(), file=sys.stderr)
        return 0
    if chosen.shown_script:
        shown = scripts.find_builtin(chosen.shown_script)
        print(f"-- {shown.name}: {shown.title}\n{shown.text}", file=sys.stderr)
        return 0
    if chosen.is_initialisation:
        from pgassay.pgbench.initialise import initialise

        initialise(chosen)
        return 0
    from pgassay.pgbench import run_load

    def greet(version: str) -> None:
        if not chosen.is_json:
            print(f"{NAME} (pgassay {__version__}, server {version})", flush=True)

    return _tell(run_load.run(chosen, greet, _shown(chosen) if chosen.is_json else None))


def _shown(chosen: "PgbenchOptions") -> "Show":
    from pgassay.pgbench import extra_report

    def show(interval: "Interval", progress: "PgbenchProgress") -> None:
        document = extra_report.progress_document(chosen, interval, progress)
        print(document.model_dump_json(by_alias=True), flush=True)

    return show


def _tell(finished: "Run") -> int:
    """The report, or the document, and what is said of a run that was aborted."""
    from pgassay.pgbench import extra_report, report
    from pgassay.pgbench.messages import say

    record = finished.record
    if record["aborted"] and finished.chosen.exits_on_abort:
        for thread in record["aborted_threads"]:
            say(f"Run was aborted due to an error in thread {thread}", "error")
        return EXIT_ABORTED
    if finished.chosen.is_json:
        # Among the intervals' documents it is a line as they are.
        indent = None if finished.chosen.progress_s else 2
        print(extra_report.document(finished).model_dump_json(by_alias=True, indent=indent))
    else:
        _print(report.lines(finished))
        print()
        _print(extra_report.lines(finished))
    sys.stdout.flush()
    if record["aborted"]:
        say("Run was aborted; the above results are incomplete.", "error")
        return EXIT_ABORTED
    return 0


def _print(lines: "Iterator[str]") -> None:
    for line in lines:
        print(line)
