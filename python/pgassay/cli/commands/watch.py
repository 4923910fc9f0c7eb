"""`pgassay watch`: watch a running server, or a running experiment, live in the terminal."""

import argparse
import sys

from pgassay.cli import options
from pgassay.value_syntax.quantities import seconds

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Callable

    from pgassay.model.running_server.watch import WatchSample
    from pgassay.watch.drawing.screen import Screen
    from pgassay.watch.reading.watched_experiment import ExperimentWatch
    from pgassay.watch.reading.watched_server import ServerWatch

    Source = ServerWatch | ExperimentWatch

INTERVAL_DEFAULT = 1.0
INTERVAL_MIN, INTERVAL_MAX = 0.2, 3600.0
SECONDS_MIN = 0.001
# How long a key waits to be heard.
_SLICE_S = 0.25
_SHORTEST_S = 0.001


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "watch",
        help="watch a running server, or a running experiment, live in the terminal",
        description="Shows once a second what a server's connections wait for, what its threads use, its "
        "throughput, its device and its processors, until Ctrl-C. For an experiment's folder: the "
        "running trial, the estimates so far, and the server that is being measured.",
        epilog="examples:\n"
        "  pgassay watch postgresql://localhost/shop\n"
        "  pgassay watch 'host=db1 dbname=shop' --seconds 30 --json\n"
        "  pgassay watch pgassay-results/2026-11-21-101500-io-method",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "target", metavar="DSN|FOLDER", help="a connection string, or the folder of an experiment's results"
    )
    parser.add_argument(
        "--interval",
        type=options.typed(seconds, least=INTERVAL_MIN, most=INTERVAL_MAX),
        default=INTERVAL_DEFAULT,
        metavar="TIME",
        help="time between two screens or lines (default 1)",
    )
    options.add_seconds(parser, "stop after this long", least=SECONDS_MIN)
    parser.add_argument("--json", action="store_true", help="print one JSON object per interval, a line each")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Watch until the time is over, the experiment has ended, or the user says so."""
    try:
        with _source(arguments.target) as source:
            last = _watch(source, arguments)
    except KeyboardInterrupt:
        # The usual way to end it, as with vmstat: nothing has failed.
        return 0
    if not arguments.json and last is not None:
        from pgassay.watch.drawing.interval_lines import last_lines

        print(*last_lines(last), sep="\n", end="\n" if last_lines(last) else "")
    return 0


def _source(target: str) -> "Source":
    """A folder where there is one by this name, a server otherwise."""
    import os

    from pgassay.errors import UsageError

    if os.path.isdir(target):  # noqa: PTH112 (a connection string is no path)
        from pathlib import Path

        from pgassay.watch.reading.watched_experiment import ExperimentWatch, take_lowest_priority

        take_lowest_priority()
        return ExperimentWatch(Path(target))
    if "=" not in target and "://" not in target:
        raise UsageError(
            f"'{target}' is neither a folder nor a connection string: name the folder of an experiment as "
            "'pgassay list' prints it, or write postgresql://USER@HOST:PORT/DATABASE"
        )
    from pgassay.watch.reading.watched_server import ServerWatch

    return ServerWatch(target, "DSN")


def _watch(source: "Source", arguments: argparse.Namespace) -> "WatchSample | None":
    """Show each interval; returns the last sample of an experiment that nobody runs, else None."""
    from pgassay.watch.drawing.screen import Screen, can_draw

    if arguments.json or not can_draw(sys.stdout):
        return _intervals(source, arguments, _writer(as_json=arguments.json), None)
    with Screen(sys.stdout, sys.stdin) as screen:
        return _intervals(source, arguments, screen.show, screen)


def _intervals(
    source: "Source",
    arguments: argparse.Namespace,
    show: "Callable[[WatchSample], None]",
    screen: "Screen | None",
) -> "WatchSample | None":
    """One sample after each interval, on a grid of the clock, the last when the time is over."""
    import time

    if source.is_over:
        last = source.finish()
        show(last)
        return last
    begun = time.monotonic()
    ends = begun + arguments.seconds if arguments.seconds is not None else float("inf")
    due = begun
    # The sum of intervals may miss the end by the last bit of a number.
    while ends - due > _SHORTEST_S:
        now = time.monotonic()
        due = min(ends, max(due + arguments.interval, now))
        while now < due:
            source.wait(min(due, now + _SLICE_S))
            if screen is not None and screen.is_asked_to_end():
                return None
            now = time.monotonic()
        sample = source.sample()
        show(sample)
        if sample.experiment is not None and not sample.experiment.is_running:
            return source.finish()
    return None


def _writer(*, as_json: bool) -> "Callable[[WatchSample], None]":
    """Writes each interval on standard output at once: whoever reads it must not wait for a full buffer."""
    from pgassay.report.page import json_text
    from pgassay.watch.drawing.interval_lines import PlainLines

    plain = PlainLines()
    shown: set[str] = set()

    def write(sample: "WatchSample") -> None:
        if as_json:
            sys.stdout.write(json_text(sample, is_line=True))
        else:
            for sentence in sample.missing:
                if sentence not in shown:
                    shown.add(sentence)
                    print(f"not seen: {sentence}", file=sys.stderr)
            sys.stdout.write("".join(f"{line}\n" for line in plain.lines(sample)))
        sys.stdout.flush()

    return write
