"""`pgassay tune`: what is slow, why, what mends it, and what does not."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.options.tuning import HELPS

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.tuning.tune_answer import TuneResult
    from pgassay.progress import Progress
    from pgassay.tune.source.tune_server import ServerRequest
    from pgassay.tune.tune_plan import TuneRequest

EPILOG = """\
examples:
  pgassay tune --dataset dump:shop.dump --workload sql:slow.sql --max-time 30m
  pgassay tune service=shop --statements 20

A server is read and never changed. Nothing is applied anywhere but on copies of
pgassay's own, which are removed at the end. What is recommended is written to apply.sql and undo.sql.
"""
EXIT_INTERRUPTED = 130
EXIT_FAILED = 1
REPORT_FILE = "report.html"
PARSER_LIBRARY = "pglast"
# Of a running server; and what a tuning that goes on from its own FOLDER still takes.
_OF_SERVERS = ("--statements", "--only", "--values", "--log")
_OF_GOING_ON = ("--max-time", "--json", "--markdown", "--redact", "--quiet", "--no-wait")
# What is tuned on which servers: an experiment's folder says these itself.
_TUNED = (
    *("--workload", "--dataset", "--demo", "--cache", "--set", "--locale", "--memory", "--cpus", "--pg"),
    *("--prepare", "--storage", "--settle", "--scale"),
)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "tune",
        help="find what makes statements faster, prove it on a copy, and report what did not help",
        description="Measures the statements of a file, or those of a server that took most time, in total "
        "or per call, on a copy of the data, looks for indexes, rewrites, maintenance and settings, "
        "tries each on the copy, and proves what is worth it in fresh blocks of trials: the whole "
        "chosen set, and the set without each of its members.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "folder",
        type=options.folder_or_server,
        nargs="?",
        metavar="FOLDER|DSN",
        help="continue from existing results: of tune (its proof), of an experiment of compare, or a file "
        "written by diagnose --json; or tune the statements of a running server, given as a libpq "
        "connection string",
    )
    options.add_own_options(parser, "tune")
    options.add_options(parser, "tune", HELPS, defaults={"--dataset": "", "--max-time": "30m"})
    options.add_formats(parser, "the answer", html=options.HTML_INSTEAD)
    options.add_redact(parser)
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, prove, print, and write the page."""
    _require_parser()
    if not arguments.redact:
        return _run(arguments)
    from pgassay.analysis.redaction.redacted_sentences import sentence_without_literals
    from pgassay.errors import PgassayError

    try:
        return _run(arguments)
    except PgassayError as error:
        error.args = tuple(sentence_without_literals(str(each)) for each in error.args)
        raise


def progress_of(arguments: argparse.Namespace) -> "Progress":
    """How progress is shown; with --redact without the literals of what is tuned."""
    from pgassay.analysis.redaction.redacted_experiment import redacted_result
    from pgassay.analysis.redaction.redacted_sentences import sentence_without_literals
    from pgassay.cli import outcome
    from pgassay.progress import WithoutLiterals

    shown = outcome.progress_of(arguments)
    return WithoutLiterals(shown, sentence_without_literals, redacted_result) if arguments.redact else shown


def _run(arguments: argparse.Namespace) -> int:
    from pgassay.cli.source_builds import provide_named
    from pgassay.tune.inputs.base import kind_of
    from pgassay.tune.run_tune import TOOLS, run_tune, with_rewrites
    from pgassay.tune.running.resume import resume_tune

    provide_named((arguments.build,), quiet=arguments.quiet)
    if isinstance(arguments.folder, str):
        return _run_server(arguments)
    options.refuse_without(arguments, _OF_SERVERS, "a running server, pgassay tune DSN")
    with progress_of(arguments) as progress:
        if arguments.folder is not None and kind_of(arguments.folder) == "tune":
            others = [flag for flag in arguments.given if flag not in _OF_GOING_ON]
            options.refuse_with(arguments, others, "a FOLDER", "whose proof continues as planned")
            result = resume_tune(
                arguments.folder, arguments.max_time_s, progress, TOOLS, wait=not arguments.no_wait
            )
            show(result, arguments)
            return status_of(result)
        tools = with_rewrites(TOOLS, wanted=not arguments.no_rewrites)
        result = run_tune(request_of(arguments), tools, progress, wait=not arguments.no_wait)
    show(result, arguments)
    return status_of(result)


def _run_server(arguments: argparse.Namespace) -> int:
    """Tune the statements of a running server."""
    from pgassay.tune.run_tune import TOOLS, with_rewrites
    from pgassay.tune.source.tune_server import tune_server

    wanted = server_request_of(arguments)
    with progress_of(arguments) as progress:
        tools = with_rewrites(TOOLS, wanted=not arguments.no_rewrites)
        result = tune_server(wanted, tools, progress, wait=not arguments.no_wait)
    show(result, arguments)
    return status_of(result)


def server_request_of(arguments: argparse.Namespace) -> "ServerRequest":
    """What the command line asks of a running server; raises UsageError for what has no place beside one."""
    from pgassay.tune.source.tune_server import STATEMENTS_DEFAULT, ServerRequest

    options.refuse_with(
        arguments, ("--workload", "--demo", "--arm"), "a DSN", "whose own statements are tuned"
    )
    only = options.statement_numbers(arguments.only, arguments.statements)
    arguments.workload, arguments.dataset = "", arguments.dataset or ""
    return ServerRequest(
        arguments.folder,
        _tune_request(arguments),
        max(arguments.statements or STATEMENTS_DEFAULT, len(only)),
        arguments.values,
        arguments.log,
        only,
    )


def status_of(result: "TuneResult") -> int:
    """130 where it was stopped, 1 where trials failed for good, else 0 whatever the answer is."""
    if result.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if result.proof is not None and result.proof.stopped == "failed" else 0


def _require_parser() -> None:
    """Raises UsageError where the library is missing that reads SQL by PostgreSQL's own grammar."""
    from importlib.util import find_spec

    from pgassay.errors import UsageError

    if find_spec(PARSER_LIBRARY) is None:
        raise UsageError(
            f"tune reads SQL with {PARSER_LIBRARY}, which is not installed: type pip install {PARSER_LIBRARY}"
        )


def _choose_demo(arguments: argparse.Namespace) -> None:
    """Put the demonstration's files in the place of --workload and --dataset; raises UsageError for both."""
    from importlib.resources import files

    from pgassay.errors import UsageError

    options.refuse_without(arguments, ("--arm",), "the FOLDER of an experiment")
    if arguments.demo:
        own = ("--workload", "--dataset")
        options.refuse_with(arguments, own, "--demo", "which has statements and data of its own")
        shipped = files("pgassay.tune.demo")
        arguments.workload = f"sql:{shipped / 'slow.sql'}"
        arguments.dataset, arguments.settle = f"script:{shipped / 'data.sql'}", "off"
    elif arguments.workload is None:
        raise UsageError("tune needs the statements that are too slow: write --workload sql:FILE, or --demo")
    else:
        arguments.dataset = arguments.dataset or "pgbench"


def request_of(arguments: argparse.Namespace) -> "TuneRequest":
    """The request that the command line makes."""
    from pgassay.tune.tune_plan import request_from

    if arguments.folder is None:
        _choose_demo(arguments)
        return _tune_request(arguments)
    given = {
        flag.removeprefix("--"): str(arguments.given[flag]) for flag in _TUNED if flag in arguments.given
    }
    return request_from(arguments.folder, _tune_request(arguments), given, arguments.arm)


def _tune_request(arguments: argparse.Namespace) -> "TuneRequest":
    from dataclasses import replace

    from pgassay.tune.tune_plan import TuneRequest

    # '' is a server's dataset: its copy is yet to be dumped.
    compare = options.request_of(arguments, out=None)
    if arguments.workload:
        compare = replace(compare, workload=arguments.workload)
    return TuneRequest(
        compare,
        out=arguments.out,
        locale=arguments.locale,
        clients=arguments.clients,
        max_space_bytes=arguments.max_space_bytes,
    )


def show(result: "TuneResult", arguments: argparse.Namespace) -> None:
    """Print the answer, and write the page into the folder of its results."""
    from pathlib import Path

    from pgassay.analysis.redaction.redacted_tuning import redacted
    from pgassay.report.tune.tune_page import page_of

    shown = redacted(result) if arguments.redact else result
    publish(page_of(shown), arguments, keep=Path(result.folder) / REPORT_FILE)
