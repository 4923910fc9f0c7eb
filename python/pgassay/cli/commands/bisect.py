"""`pgassay bisect`: which commit, or which release, made a difference?"""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from pathlib import Path

PARENT = "pgassay-bisect"
# Of each comparison of a script.
SCRIPT_TIME_S = 600.0
EXIT_INTERRUPTED = 130
# How it is searched, which makes no other search of it.
_OF_THE_RUN = ("max_time_s", "seed", "out", "profile", "profile_rounds")
# What a bisection makes of an experiment's options.
_HELPS = {
    "--workload": "required: the workload to measure, as in compare: select-only, "
    "tpcb:clients=8,duration=20s, sql:FILE, …",
    "--max-time": "time limit, builds included, as 90s, 12m, 3h; the same command continues",
    "--storage": "where to put the data, as in compare",
    "--profile": "once the step is found, run further trials of both sides in which perf samples the "
    "servers, and report which functions take more or less time per transaction",
    "--out": f"the results folder, new or from an earlier run of the same search (default: below {PARENT})",
    "--layouts": "link each measured commit K times, its functions in a different order each time, and "
    "draw one for each block; 1: as it was built (default: 16)",
}
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
        metavar="GOOD BAD | RANGE",
        help="two revisions of a clone, each as git:PATH@REVISION; or one range: version=17.0..17.10, "
        "the available releases, or build=BUILD,BUILD,…, a list of builds, the good one first",
    )
    parser.add_argument(
        "--path",
        metavar="PATH",
        help="only commits that change something below this path, as src/backend",
    )
    options.add_options(
        parser, "bisect", _HELPS, defaults={"--workload": "", "--max-time": "1h", "--margin": "2%"}
    )
    options.add_jobs(parser)
    parser.add_argument(
        "--script",
        type=options.folder,
        metavar="FILE",
        help="measure nothing: write a script for 'git bisect run' that compares each commit with the "
        "good end, and show how to use it",
    )
    options.add_quiet_and_no_wait(parser)
    options.add_formats(parser, "the answer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Search, or write the script of those who drive it themselves."""
    from dataclasses import replace

    from pgassay.bisecting.commit_line import line_of
    from pgassay.bisecting.run_bisection import BisectOptions, run_bisection
    from pgassay.bisecting.script import write_script
    from pgassay.environment.source_builds.tree_syntax import is_source
    from pgassay.errors import UsageError
    from pgassay.experiment.planning.experiment_plan import check_profile
    from pgassay.experiment.planning.request import parse_settings
    from pgassay.options.table import options_for
    from pgassay.progress import NullProgress
    from pgassay.report.bisection import page_of
    from pgassay.terminal.progress import PlainProgress
    from pgassay.workloads.registry import parse_workload

    if arguments.workload is None:
        raise UsageError("bisect needs a workload: write --workload select-only, or sql:FILE")
    line = line_of(arguments.line, arguments.path)
    if arguments.script is not None:
        words, margin, path = arguments.words, arguments.margin, arguments.path
        print(write_script(arguments.script, line, words, margin, SCRIPT_TIME_S, path))
        return 0
    # Whether a plan changed is told; what its parts took is for those who ask why.
    request = options.request_of(arguments, out=None, command=(), plans="estimate")
    if (request.layouts or 1) > 1 and not any(is_source(place.build) for place in line.places):
        raise UsageError(f"--layouts {request.layouts}: none of these builds is from source: leave it out")
    # A slip in the workload, and a perf that may not sample, are said before anything is built.
    check_profile(request)
    parse_settings(request.settings)
    parse_workload(request.workload)
    fields = [each.field for each in options_for("bisect") if each.field not in _OF_THE_RUN]
    chosen = BisectOptions(
        line=line,
        compare=replace(request, profile=False, profile_rounds=None),
        profile_rounds=request.rounds_of_profile,
        out=arguments.out or _folder(line.places[0].build, line.places[-1].build),
        asked={name: str(getattr(arguments, name) or "") for name in (*fields, "path")},
        command=_command(arguments.words),
        jobs=arguments.jobs,
    )
    with NullProgress() if arguments.quiet else PlainProgress() as progress:
        result, is_interrupted = run_bisection(chosen, progress, wait=not arguments.no_wait)
    publish(page_of(result), arguments)
    if is_interrupted:
        print("pgassay: interrupted; nothing is left running: run it again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


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
