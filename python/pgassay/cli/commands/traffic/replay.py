"""`pgassay replay DIR DSN`: a capture played against a server, and what came out otherwise."""

import argparse
import math
import sys

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pgassay.analysis.profile.flame import FlameNode
    from pgassay.model.traffic.replay_result import ReplayResult
    from pgassay.traffic.replaying import ReplayRequest, ReplayStart

EXIT_LOOK = 3
SPEED_MIN, SPEED_MAX = 0.01, 1000.0
_LINE_EVERY_S = 10.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "replay",
        help="replay a capture against a copy, and report what differs",
        description="Opens the sessions of a capture again, sends what their clients sent, at the same "
        "times, and compares what comes back: rows, command tags, errors, times. The data must be a "
        "copy as of the start of the capture. Exit status 3: too much differed, or the player was the "
        "limit.",
        epilog="examples:\n"
        "  pgassay replay monday 'host=copy dbname=shop' --allow-writes shop\n"
        "  pgassay replay monday 'host=copy dbname=shop' --allow-writes shop --speed max --json\n"
        "  pgassay replay monday 'host=/tmp dbname=shop' --allow-writes shop --profile --html replay.html",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add("folder", type=options.folder, metavar="DIR", help="the capture's folder")
    add("server", metavar="DSN", help="the server with the copy, by a connection string of libpq")
    add("--allow-writes", metavar="DATABASE", help="this database is a copy and may be written to")
    add(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="FACTOR|max",
        help="divide the times between statements by this; max: as fast as their order allows (default 1)",
    )
    add(
        "--from",
        type=options.duration,
        metavar="TIME",
        dest="begin",
        help="only what was sent from this time on, as 5m; the data must be a copy as of then",
    )
    add("--until", type=options.duration, metavar="TIME", help="only what was sent before this time, as 10m")
    add("--users", type=_names, default=(), metavar="NAME,NAME", help="only the sessions of these users")
    add(
        "--databases",
        type=_names,
        default=(),
        metavar="NAME,NAME",
        help="only the sessions in these databases",
    )
    add(
        "--max-diverged",
        type=options.fraction,
        default=0.01,
        metavar="FRACTION",
        help="not valid if statements with more than this share of the time differ (default 0.01)",
    )
    add(
        "--profile",
        action="store_true",
        help="sample the server's processes with perf meanwhile, and list the functions by time per "
        "statement; the server must be on this machine",
    )
    options.add_formats(parser, "the replay", html="write a page with drawings here as well")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play, and print what came out."""
    from pgassay.report.traffic.replay_page import page_of
    from pgassay.traffic.replaying import ReplayRequest, replay

    if arguments.begin and arguments.until and arguments.begin >= arguments.until:
        raise UsageError(
            f"--from {arguments.begin:g} s is not before --until {arguments.until:g} s: nothing would be "
            "played"
        )
    request = ReplayRequest(
        folder=arguments.folder,
        connection=arguments.server,
        speed=arguments.speed,
        from_s=arguments.begin,
        until_s=arguments.until,
        users=arguments.users,
        databases=arguments.databases,
        allow_writes=arguments.allow_writes,
        bound=arguments.max_diverged,
    )
    told = _Told()
    if not arguments.profile:
        result, flame = replay(request, told.start, told.progress), None
    else:
        result, flame = _profiled(request, told)
    told.end()
    publish(page_of(result, flame), arguments)
    return 0 if result.is_valid else EXIT_LOOK


def _profiled(request: "ReplayRequest", told: "_Told") -> "tuple[ReplayResult, FlameNode]":
    """Play while perf samples the server: the result with its functions, and their stacks."""
    from pgassay.running_server.server_profile import profiled_server
    from pgassay.traffic.replaying import replay

    server = profiled_server(request.connection)
    with server.sampled() as samples:
        result = replay(request, told.start, told.progress)
    profile, flame = samples.profile(result.replayed, "statement")
    return result.model_copy(update={"profile": profile}), flame


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        found = float(text.removesuffix("x"))
    except ValueError:
        found = math.nan
    if not SPEED_MIN <= found <= SPEED_MAX:
        raise argparse.ArgumentTypeError(
            f"{text}: write a factor from {SPEED_MIN:g} to {SPEED_MAX:g}, as 2, or max"
        )
    return found


def _names(text: str) -> tuple[str, ...]:
    found = tuple(name for name in text.split(",") if name)
    if not found:
        raise argparse.ArgumentTypeError("the list of names is empty: write NAME,NAME")
    return found


class _Told:
    """What the user reads meanwhile, on standard error."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()
        self._next_s = 0.0
        self._statements = 0

    def start(self, start: "ReplayStart") -> None:
        from pgassay.report.text import duration, plural

        self._statements = start.statements
        print(
            f"{plural(start.statements, 'statement')} of {plural(start.sessions, 'session')}, captured in "
            f"{duration(start.seconds_captured)}, go to {start.server}. Ctrl-C ends the replay.",
            file=sys.stderr,
        )
        for note in start.notes:
            print(f"note: {note}", file=sys.stderr)

    def progress(self, progress: "Mapping[str, Any]") -> None:
        from pgassay.report.text import duration, seconds

        if not self._is_live and progress["elapsed_s"] < self._next_s:
            return
        self._next_s = progress["elapsed_s"] + _LINE_EVERY_S
        line = (
            f"{duration(progress['elapsed_s'])}: {progress['replayed']:,} of {self._statements:,} "
            f"statements, {progress['open']:,} sessions open, {seconds(progress['behind_s'])} behind"
        )
        sys.stderr.write(line + ("\x1b[K\r" if self._is_live else "\n"))
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_live:
            sys.stderr.write("\x1b[K")
