"""`pgassay bisect`: which commit, or which release, made a difference?"""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.experiment.planning.request import CompareRequest

TIME_DEFAULT_S = 3600.0
MARGIN_DEFAULT = 0.02
PARENT = "pgassay-bisect"
# Of each comparison of a script.
SCRIPT_TIME_S = 600.0
EXIT_INTERRUPTED = 130
# Of a search what, typed otherwise, makes another one of it.
_ASKED = (
    "workload",
    "metric",
    "scale",
    "dataset",
    "prepare",
    "cache",
    "settings",
    "storage",
    "memory",
    "cpus",
)
EPILOG = """examples:
  pgassay bisect git:~/postgres@v1 git:~/postgres@HEAD --workload select-only --max-time 1h
  pgassay bisect git:~/postgres@v1 git:~/postgres@HEAD --workload sql:slow.sql --path src/backend
  pgassay bisect version=17.0..17.10 --workload oltp_read_only
  pgassay bisect build=npm:16,npm:17,npm:18 --workload select-only:duration=10s
  pgassay bisect git:~/postgres@v1 git:~/postgres@HEAD --workload tpcb --script step.sh
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "bisect",
        help="find the commit, or the release, that made it slower",
        description="Measures both ends first. If they differ, it builds and measures commits between them, "
        "each in the same blocks as both ends, until all but a few are excluded with 95 % confidence.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "line",
        nargs="+",
        metavar="GOOD BAD",
        help="two revisions of a clone, each as git:PATH@REVISION; or one line: version=17.0..17.10, the "
        "releases at hand, or build=BUILD,BUILD,…, a list of builds, the good one first",
    )
    parser.add_argument(
        "--workload",
        required=True,
        metavar="W[:OPTIONS]",
        help="what is measured, as in compare: select-only, tpcb:clients=8,duration=20s, sql:FILE, …",
    )
    parser.add_argument(
        "--path",
        metavar="PATH",
        help="only commits that change something below this path of the tree, as src/backend",
    )
    parser.add_argument(
        "--max-time",
        type=options.duration,
        default=TIME_DEFAULT_S,
        metavar="TIME",
        help="at most so long, builds and all, as 90s, 12m, 3h (default 1h); the same command continues",
    )
    parser.add_argument(
        "--margin",
        type=options.fraction,
        default=MARGIN_DEFAULT,
        metavar="FRACTION",
        help="ends that differ by less have nothing to find (default 0.02, that is 2%%)",
    )
    _add_trials(parser)
    parser.add_argument(
        "--jobs", type=options.whole, metavar="N", help="compilers at once (default: processors)"
    )
    parser.add_argument("--seed", type=options.whole, metavar="N", help="seed of the order of the trials")
    parser.add_argument(
        "--out",
        type=options.folder,
        metavar="FOLDER",
        help="the folder of the records, new or of an earlier run of the same search (default: below "
        f"{PARENT})",
    )
    parser.add_argument(
        "--script",
        type=options.folder,
        metavar="FILE",
        help="measure nothing: write a script for 'git bisect run', which compares each commit with the good "
        "end, and say how to use it",
    )
    options.add_quiet_and_no_wait(parser)
    options.add_formats(parser, "the answer")
    parser.set_defaults(run=run)


def _add_trials(parser: argparse.ArgumentParser) -> None:
    """What a trial is, as in compare."""
    parser.add_argument(
        "--metric", metavar="NAME", help="of a load, what is compared, as in compare (default throughput)"
    )
    parser.add_argument(
        "--scale", type=options.whole, default=10, metavar="N", help="pgbench scale of the data (default 10)"
    )
    parser.add_argument(
        "--dataset",
        default="pgbench",
        metavar="KIND[:SOURCE]",
        help="pgbench (default), sysbench, dump:FILE, folder:DATADIR or script:FILE",
    )
    parser.add_argument(
        "--prepare", action="append", default=[], metavar="SQL|FILE", help="SQL, run once on the data"
    )
    parser.add_argument(
        "--cache", metavar="STATE", help="cold, cold-each, warm-buffers, warm-pages or as-is, as in compare"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="NAME=VALUE", help="a setting of all"
    )
    parser.add_argument(
        "--storage", default="host", metavar="KIND[:OPTIONS]", help="where the data lie, as in compare"
    )
    parser.add_argument("--memory", metavar="SIZE", help="cap on a server's memory, as 2GB")
    parser.add_argument("--cpus", metavar="NUMBER", help="cap on a server's processors, as 1 or 0.5")


def run(arguments: argparse.Namespace) -> int:
    """Search, or write the script of those who drive it themselves."""
    from pgassay.bisecting.line import line_of
    from pgassay.bisecting.run import BisectOptions, run_bisection
    from pgassay.bisecting.script import write_script
    from pgassay.experiment.planning.request import check_request, parse_settings
    from pgassay.report.bisection import page_of
    from pgassay.terminal.progress import NullProgress, PlainProgress
    from pgassay.workloads.registry import parse_workload

    line = line_of(arguments.line, arguments.path)
    if arguments.script is not None:
        print(write_script(arguments.script, line, arguments.words, arguments.margin, SCRIPT_TIME_S))
        return 0
    request = _request(arguments)
    # A slip in the workload is said before anything is built.
    check_request(request)
    parse_settings(request.settings)
    parse_workload(request.workload)
    chosen = BisectOptions(
        line=line,
        compare=request,
        out=arguments.out or _folder(line.places[0].build, line.places[-1].build),
        asked={name: str(getattr(arguments, name) or "") for name in (*_ASKED, "path", "margin")},
        command=_command(arguments.words),
        jobs=arguments.jobs,
    )
    with NullProgress() if arguments.quiet else PlainProgress() as progress:
        result, is_interrupted = run_bisection(chosen, progress, wait=not arguments.no_wait)
    publish(page_of(result), arguments)
    if is_interrupted:
        print("pgassay: interrupted; nothing is left running: type it again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _request(arguments: argparse.Namespace) -> "CompareRequest":
    from pgassay.experiment.planning.request import CompareRequest

    return CompareRequest(
        factors=(),
        workload=arguments.workload,
        metric=arguments.metric,
        scale=arguments.scale,
        dataset=arguments.dataset,
        prepare=tuple(arguments.prepare),
        cache=arguments.cache,
        settings=tuple(arguments.settings),
        storage=arguments.storage,
        memory=arguments.memory,
        cpus=arguments.cpus,
        max_time_s=arguments.max_time,
        margin=arguments.margin,
        seed=arguments.seed,
        # Whether a plan changed is told; what its parts took is for those who ask why.
        plans="estimate",
    )


def _folder(good: str, bad: str) -> "Path":
    """The folder of a line whose name nobody gave: the same for the same two ends."""
    import hashlib
    from pathlib import Path

    ends = [build.rpartition("@")[2].rpartition("/")[2][:12] for build in (good, bad)]
    key = hashlib.sha256(f"{good} {bad}".encode()).hexdigest()[:6]
    return Path(PARENT) / f"{ends[0]}-{ends[1]}-{key}".replace(":", "-")


def _command(words: "list[str]") -> str:
    import shlex

    return shlex.join(words)
