"""`pgassay sysbench`: sysbench's own command line for its OLTP scripts, on the native load generator."""

import argparse
import sys

from pgassay import __version__
from pgassay.cli import options

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgassay.native.sysbench_commands import SysbenchProgress
    from pgassay.sysbench.connection import SysbenchServer
    from pgassay.sysbench.options import Options

NAME = "sysbench"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line, for help and completion; `run_words` reads what is typed."""
    from pgassay.sysbench.options import COMMANDS, GROUPS, SCRIPTS

    parser = subparsers.add_parser(
        NAME,
        help="sysbench's own command line and report for its OLTP scripts, followed by what it leaves out",
        description="Makes sysbench's tables (prepare), runs its scripts (run), reads the tables into memory "
        "(warmup) or drops them (cleanup), with sysbench's options, statements and report. Below the "
        "report: percentiles, errors by SQLSTATE, whether the client was the limit, the server's settings.",
        epilog="examples:\n"
        "  pgassay sysbench oltp_read_write prepare --tables=4 --table-size=100000 --pgsql-db=shop\n"
        "  pgassay sysbench oltp_read_write run --tables=4 --table-size=100000 --threads=8 --time=60\n"
        "  alias sysbench='pgassay sysbench'",
        allow_abbrev=False,
        add_help=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help=f"one of {', '.join(SCRIPTS)}")
    parser.add_argument("action", nargs="?", metavar="COMMAND", help=", ".join(COMMANDS))
    for title, group in GROUPS.items():
        added = parser.add_argument_group(title)
        for option in group:
            shown = f"{option.help} (default {option.default})" if option.default else option.help
            # More words than fit beside an option are left to its help.
            words = "|".join(option.words) if len(option.words) <= 5 else ""
            word = words or {"whole": "N", "number": "X", "switch": "on|off"}.get(option.kind, "TEXT")
            nargs = "?" if option.kind == "switch" else None
            added.add_argument(f"--{option.name}", metavar=word, nargs=nargs, help=shown.replace("%", "%%"))
    added = parser.add_argument_group("others")
    added.add_argument("--version", action="store_true", help="print the version")
    added.add_argument("--help", action="help", help="print this help")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """What `main` does before it reads other commands: sysbench's words are not argparse's."""
    return run_words(arguments.words[2:])


def is_own(words: "Sequence[str]") -> bool:
    """Whether the words are sysbench's to read, and not a question for help that argparse answers."""
    return words[:1] == [NAME] and len(words) > 1 and "--help" not in words


def run_words(words: "Sequence[str]") -> int:
    """Read sysbench's words, do it, return sysbench's exit status."""
    from pgassay.model.redaction import without_secrets
    from pgassay.sysbench.options import SysbenchError, parse

    if "--version" in words:
        print(f"sysbench 1.0.20, of pgassay {__version__}")
        return 0
    try:
        chosen = parse(words)
        for warning in chosen.warnings:
            print(warning, file=sys.stderr)
        return _do(chosen)
    except SysbenchError as error:
        print(without_secrets(str(error)), file=sys.stderr)
        return error.exit_code


def _do(chosen: "Options") -> int:
    from pgassay.sysbench.lua import name_of
    from pgassay.sysbench.options import COMMANDS, SysbenchError, refuse_options_of_others

    chosen.script = name_of(chosen.script)
    refuse_options_of_others(chosen)
    if chosen.command not in COMMANDS:
        said = f"Unknown command: {chosen.command}" if chosen.command else "A command is missing"
        raise SysbenchError(f"{said}: write prepare, run, warmup or cleanup after {chosen.script}")
    if chosen.command == "help":
        _print_options(chosen.script)
        return 0
    from pgassay.sysbench import tables
    from pgassay.sysbench.connection import connect

    def say(text: str) -> None:
        if chosen.whole("verbosity") >= 3 and not chosen.switch("json"):
            print(text, flush=True)

    server = connect(chosen)
    say(f"sysbench 1.0.20 (pgassay {__version__}, server PostgreSQL {server.version})\n")
    with server.session:
        if chosen.command == "run":
            return _run(chosen, server, say)
        if chosen.command == "prepare":
            tables.prepare(chosen, server, say)
        elif chosen.command == "cleanup":
            tables.cleanup(chosen, server, say)
        else:
            tables.warm_up(chosen, server, say)
    return 0


def _print_options(script: str) -> None:
    from pgassay.sysbench.options import options_of

    own = options_of(script)
    print(f"{script} options:" if own else f"{script} has no options of its own")
    for option in own:
        value = "[=on|off]" if option.kind == "switch" else "=N"
        print(f"  {f'--{option.name}{value}':<27} {option.help} [{option.default}]")
    print("\nOptions that all scripts have: pgassay sysbench --help")


def _run(chosen: "Options", server: "SysbenchServer", say: "Callable[[str], None]") -> int:
    from pgassay.sysbench import extra_report, report, run_load
    from pgassay.sysbench.options import SysbenchError

    def show(progress: "SysbenchProgress") -> None:
        print(extra_report.progress_document(chosen, progress).model_dump_json(by_alias=True), flush=True)

    is_json = chosen.switch("json")
    finished = run_load.run(chosen, server, say, show if is_json else None)
    failure = finished.record["failure"]
    status = 0 if failure is None else SysbenchError.exit_code
    if failure is not None:
        print(f"FATAL: {run_load.ended_by(failure)}", file=sys.stderr, flush=True)
    if is_json:
        # Among the intervals' documents it is a line as they are.
        indent = None if chosen.whole("report-interval") else 2
        print(extra_report.document(finished).model_dump_json(by_alias=True, indent=indent))
        return status
    for line in report.lines(finished):
        say(line)
    say("")
    for line in extra_report.lines(finished):
        say(line)
    return status
