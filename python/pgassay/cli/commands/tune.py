"""`pgassay tune`: what is slow, why, what mends it, and what does not."""

import argparse

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pgassay.model.tuning.answer import TuneResult
    from pgassay.terminal.progress import Progress
    from pgassay.tune.plan import TuneRequest
    from pgassay.tune.source.run import ServerRequest

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
SCALE_DEFAULT = 10


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "tune",
        help="find what makes statements faster, prove it on a copy, and say what did not help",
        description="Measures the statements of a file, or those of a server that took most time, in all or "
        "for a call, on a copy of the data, looks for indexes, rewrites of them, maintenance and "
        "settings, tries each on the copy, and proves what is worth it in fresh blocks of trials: the whole "
        "chosen set, and the set without each of its members.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add(
        "folder",
        type=options.folder_or_server,
        nargs="?",
        metavar="FOLDER|DSN",
        help="go on with results that are there: with the proof of tune's own, or from an experiment of "
        "compare or a file of diagnose --json; or tune the statements of a running server, by a connection "
        "string of libpq",
    )
    add(
        "--statements",
        type=options.whole,
        metavar="N",
        help="with a DSN: so many of those that took most in all, for a call or for a row (default 20)",
    )
    add(
        "--only",
        metavar="ID,ID",
        help="with a DSN: these statements alone, by their queryid in pg_stat_statements",
    )
    add(
        "--values",
        type=options.folder,
        metavar="FILE",
        help="with a DSN: statements with '-- parameters: …' above them, for their $1, $2 …",
    )
    add(
        "--log",
        type=options.folder,
        metavar="FILE",
        help="with a DSN: the server's log, which tells values of parameters",
    )
    add(
        "--arm",
        metavar="NAME",
        help="with the folder of a compare: which arm is tuned (default: the control)",
    )
    add("--workload", metavar="sql:FILE", help="the statements that are too slow")
    add(
        "--clients",
        type=options.whole,
        metavar="N",
        help="so many sessions execute the statements at once in the proof (default 1; with a DSN as many as "
        "are at work there on average)",
    )
    add(
        "--demo",
        action="store_true",
        help="tune statements that are known to be slow, and one that is not, on data of pgassay's own",
    )
    add(
        "--dataset",
        metavar="KIND[:SOURCE]",
        help="dump:FILE, folder:DATADIR (a physical copy), script:FILE or pgbench (default; with a DSN a "
        "dump of its database)",
    )
    add(
        "--scale",
        type=options.whole,
        default=SCALE_DEFAULT,
        metavar="N",
        help="pgbench scale of the data (default 10)",
    )
    add(
        "--max-time",
        type=options.duration,
        default=1800.0,
        metavar="TIME",
        help="at most so long for all of it, loading the data included, as 10m, 1h (default 30m)",
    )
    add(
        "--cache",
        metavar="STATE",
        help="warm-buffers (default where the data fit), warm-pages (default else), cold, cold-each, as-is",
    )
    add(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="a setting of the server as it is",
    )
    add(
        "--locale",
        metavar="NAME",
        help="the collation of the source's database, as en_US.utf8, icu:en-US or builtin:C.UTF-8 (default: "
        "that of the dump or of the database, C where none is known)",
    )
    add("--storage", default="host", metavar="KIND[:OPTIONS]", help="where the copies lie, as for compare")
    add("--memory", metavar="SIZE", help="cap on the server's memory, page cache included, as 2GB")
    add("--cpus", metavar="NUMBER", help="cap on the server's processors, as 1 or 0.5")
    add("--pg", metavar="BUILD", help="18, apt:18, installed:17, a bin folder or git:PATH@REVISION")
    add("--prepare", action="append", default=[], metavar="SQL|FILE", help="SQL run once on the copied data")
    add(
        "--settle",
        default="on",
        metavar="on|off",
        help="off: dead rows and hint bits are met as the load left them (default on)",
    )
    add(
        "--margin",
        type=options.fraction,
        default=0.03,
        metavar="FRACTION",
        help="gains smaller than this do not matter (default 0.03, that is 3%%)",
    )
    add(
        "--max-space",
        metavar="SIZE",
        help="all that is chosen may take so much more of the disk together, as 500MB (default: no limit)",
    )
    add("--no-rewrites", action="store_true", help="leave the statements as they are written")
    add("--seed", type=options.whole, metavar="N", help="seed of the order of the trials (default: drawn)")
    add("--out", type=options.folder, metavar="FOLDER", help="a new folder for the results")
    options.add_formats(parser, "the answer", html=options.HTML_INSTEAD)
    options.add_redact(parser)
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, prove, print, and write the page."""
    _require_parser()
    if not arguments.redact:
        return _run(arguments)
    from pgassay.analysis.redaction.sentences import sentence_without_literals
    from pgassay.errors import PgassayError

    try:
        return _run(arguments)
    except PgassayError as error:
        error.args = tuple(sentence_without_literals(str(each)) for each in error.args)
        raise


def progress_of(arguments: argparse.Namespace) -> "Progress":
    """How progress is shown; with --redact without the literals of what is tuned."""
    from pgassay.analysis.redaction.experiment import redacted_result
    from pgassay.analysis.redaction.sentences import sentence_without_literals
    from pgassay.cli import outcome
    from pgassay.terminal.progress import WithoutLiterals

    shown = outcome.progress_of(arguments)
    return WithoutLiterals(shown, sentence_without_literals, redacted_result) if arguments.redact else shown


def _run(arguments: argparse.Namespace) -> int:
    from pgassay.cli.source_builds import provide_named
    from pgassay.tune.inputs.base import kind_of
    from pgassay.tune.run import TOOLS, run_tune, with_rewrites
    from pgassay.tune.running.resume import resume_tune

    provide_named((arguments.pg,), quiet=arguments.quiet)
    if isinstance(arguments.folder, str):
        return _run_server(arguments)
    _refuse_options_of_servers(arguments)
    with progress_of(arguments) as progress:
        if arguments.folder is not None and kind_of(arguments.folder) == "tune":
            _refuse_other_options(arguments)
            result = resume_tune(
                arguments.folder, arguments.max_time, progress, TOOLS, wait=not arguments.no_wait
            )
            show(result, arguments)
            return status_of(result)
        tools = with_rewrites(TOOLS, wanted=not arguments.no_rewrites)
        result = run_tune(request_of(arguments), tools, progress, wait=not arguments.no_wait)
    show(result, arguments)
    return status_of(result)


def _run_server(arguments: argparse.Namespace) -> int:
    """Tune the statements of a running server."""
    from pgassay.tune.run import TOOLS, with_rewrites
    from pgassay.tune.source.run import tune_server

    wanted = server_request_of(arguments)
    with progress_of(arguments) as progress:
        tools = with_rewrites(TOOLS, wanted=not arguments.no_rewrites)
        result = tune_server(wanted, tools, progress, wait=not arguments.no_wait)
    show(result, arguments)
    return status_of(result)


def server_request_of(arguments: argparse.Namespace) -> "ServerRequest":
    """What the command line asks of a running server; raises UsageError for what has no place beside one."""
    from pgassay.errors import UsageError
    from pgassay.tune.source.run import STATEMENTS_DEFAULT, ServerRequest

    for name in ("workload", "demo", "arm"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name} has no place beside a DSN, whose own statements are tuned: leave one of them out"
            )
    only = options.statement_numbers(arguments.only, arguments.statements)
    if arguments.statements is not None and arguments.statements < 1:
        raise UsageError(f"--statements {arguments.statements} is too few: use at least 1")
    arguments.workload, arguments.dataset = "", arguments.dataset or ""
    return ServerRequest(
        arguments.folder,
        _tune_request(arguments),
        max(arguments.statements or STATEMENTS_DEFAULT, len(only)),
        arguments.values,
        arguments.log,
        only,
    )


def _refuse_options_of_servers(arguments: argparse.Namespace) -> None:
    """Raises UsageError for what means something with a running server alone."""
    from pgassay.errors import UsageError

    for name in ("statements", "only", "values", "log"):
        if getattr(arguments, name) is not None:
            raise UsageError(
                f"--{name} needs a running server: write pgassay tune DSN, as postgresql://USER@HOST/DATABASE"
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


def _refuse_other_options(arguments: argparse.Namespace) -> None:
    """What was measured decides what is gone on with: raises UsageError for words that would change it."""
    from pgassay.errors import UsageError

    others = ("seed", "out", "arm", "clients", "max_space")
    typed = [*given_options(arguments), *(each for each in others if getattr(arguments, each) is not None)]
    if typed:
        raise UsageError(
            f"--{typed[0].replace('_', '-')} has no place beside a FOLDER, whose proof goes on as it was "
            "planned: leave it out"
        )


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that say what is tuned on which servers, as far as they were typed, by name without --."""
    names = ("workload", "dataset", "demo", "cache", "settings", "locale", "memory", "cpus", "pg", "prepare")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name)}
    defaults = {"storage": "host", "settle": "on", "scale": SCALE_DEFAULT}
    given |= {name: value for name in defaults if (value := getattr(arguments, name)) != defaults[name]}
    return {("set" if name == "settings" else name): str(value) for name, value in given.items()}


def _choose_demo(arguments: argparse.Namespace) -> None:
    """Put the demonstration's files in the place of --workload and --dataset; raises UsageError for both."""
    from importlib.resources import files

    from pgassay.errors import UsageError

    if arguments.arm is not None:
        raise UsageError("--arm names an arm of an experiment: write the experiment's folder beside it")
    if arguments.demo:
        if arguments.workload is not None or arguments.dataset is not None:
            raise UsageError("--demo brings its own statements and data: leave --workload and --dataset out")
        shipped = files("pgassay.tune.demo")
        arguments.workload = f"sql:{shipped / 'slow.sql'}"
        arguments.dataset, arguments.settle = f"script:{shipped / 'data.sql'}", "off"
    elif arguments.workload is None:
        raise UsageError("tune needs the statements that are too slow: write --workload sql:FILE, or --demo")
    else:
        arguments.dataset = arguments.dataset or "pgbench"


def request_of(arguments: argparse.Namespace) -> "TuneRequest":
    """The request that the command line makes."""
    from pgassay.tune.plan import request_from

    if arguments.folder is None:
        _choose_demo(arguments)
        return _tune_request(arguments)
    return request_from(arguments.folder, _tune_request(arguments), given_options(arguments), arguments.arm)


def _tune_request(arguments: argparse.Namespace) -> "TuneRequest":
    from pgassay.experiment.planning.request import CompareRequest
    from pgassay.tune.plan import TuneRequest

    compare = CompareRequest(
        factors=(),
        workload=arguments.workload or CompareRequest.workload,
        scale=arguments.scale,
        # '' is a server's: its copy is yet to be dumped.
        dataset=CompareRequest.dataset if arguments.dataset is None else arguments.dataset,
        prepare=tuple(arguments.prepare),
        settle=arguments.settle,
        cache=arguments.cache,
        settings=tuple(arguments.settings),
        storage=arguments.storage,
        memory=arguments.memory,
        cpus=arguments.cpus,
        build=arguments.pg,
        max_time_s=arguments.max_time,
        margin=arguments.margin,
        seed=arguments.seed,
        command=tuple(arguments.words),
    )
    return TuneRequest(
        compare,
        out=arguments.out,
        locale=arguments.locale,
        clients=_clients(arguments),
        max_space_bytes=_max_space_bytes(arguments),
    )


def _max_space_bytes(arguments: argparse.Namespace) -> int | None:
    from pgassay.typed.quantities import size_bytes

    typed = arguments.max_space
    return None if typed is None else size_bytes(typed, "--max-space", example="500MB")


def _clients(arguments: argparse.Namespace) -> int | None:
    from pgassay.typed.quantities import whole
    from pgassay.workloads.load import CLIENTS_MAX

    if arguments.clients is None:
        return None
    return whole(str(arguments.clients), "--clients", least=1, most=CLIENTS_MAX)


def show(result: "TuneResult", arguments: argparse.Namespace) -> None:
    """Print the answer, and write the page into the folder of its results."""
    from pathlib import Path

    from pgassay.analysis.redaction.tuning import redacted
    from pgassay.report.tune.text import page_of

    shown = redacted(result) if arguments.redact else result
    publish(page_of(shown), arguments, keep=Path(result.folder) / REPORT_FILE)
