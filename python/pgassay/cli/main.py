"""The entry point: parse, run one command, turn what ended it into an exit status.

Nothing heavy is imported here: `pgassay --help` must answer at once.
"""

import argparse
import errno
import math
import os
import signal
import sys
import time
from collections.abc import Sequence

from pgassay import __version__
from pgassay.cli import completion, options
from pgassay.cli.commands import (
    bisect,
    builds,
    calibrate,
    claims,
    clean,
    compare,
    diagnose,
    doctor,
    explain,
    fleet,
    gate,
    probe,
    resume,
    run,
    size,
    tune,
    volumes,
    watch,
)
from pgassay.cli.commands.loads import null_server, pgbench, sysbench
from pgassay.cli.commands.stored import combine, diff, history, index, report
from pgassay.cli.commands.stored import list as list_command
from pgassay.cli.commands.traffic import capture, replay, upgrade
from pgassay.cli.output import open_streams
from pgassay.errors import PgassayError

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from typing import NoReturn

# A new command is one file and one line here.
COMMANDS = (
    compare,
    tune,
    run,
    resume,
    report,
    list_command,
    index,
    diff,
    combine,
    claims,
    explain,
    replay,
    upgrade,
    gate,
    history,
    bisect,
    builds,
    calibrate,
    pgbench,
    sysbench,
    probe,
    null_server,
    capture,
    diagnose,
    watch,
    volumes,
    size,
    fleet,
    doctor,
    clean,
    completion,
)
EPILOG = """examples:
  pgassay compare work_mem=4MB,64MB --workload sql:my.sql --max-time 5m
  pgassay compare version=17,18 --workload oltp_read_only
  pgassay tune --dataset dump:shop.dump --workload sql:slow.sql
  pgassay diagnose 'host=db1 dbname=shop'
  pgassay upgrade 'host=db1 dbname=shop' --to 18
  pgassay size --workload tpcb:clients=20,duration=30s --scale 100
  pgassay doctor
"""
EXIT_INTERRUPTED = 130
EXIT_FAILED = 1
EXIT_USAGE = 2
CLEAN_UP_S = 15.0
# What is wrong with a path that was typed, wherever it is looked at first.
_OF_A_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP)
_REMEDY = "name another path, or correct its permissions"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Parser(argparse.ArgumentParser):
    """Complains in one sentence, and never repeats a password of a connection string."""

    def error(self, message: str) -> "NoReturn":
        from pgassay.cli.refusals import sentence

        self.exit(EXIT_USAGE, f"pgassay: {_harmless(sentence(self, message))}\n")

    def parse_args(  # type: ignore[override]  # argparse's overloads allow a namespace of another class
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """As argparse's, and words behind options count: `compare A=1,2 --scale 5 B=1,2` has two factors."""
        chosen, left = self.parse_known_args(args, namespace)
        if left:
            from pgassay.cli.refusals import take_late_words, unknown_words

            commands = self._commands()
            left = take_late_words(commands[chosen.command], chosen, left)
            if left:
                self.error(unknown_words(chosen.command, commands, left))
        chosen.given = options.given_options(self._commands()[chosen.command], chosen)
        return chosen

    def _commands(self) -> dict[str, argparse.ArgumentParser]:
        return next(each for each in self._actions if isinstance(each, argparse._SubParsersAction)).choices


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(
        prog="pgassay",
        description="A performance laboratory for PostgreSQL. Says which setting, version, index, "
        "statement or volume is faster and by how much, or that no difference matters: randomised "
        "blocks of trials on its own real servers, with caches that are verified cold or warm.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"pgassay {__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        command.register(subparsers)
    return top


class _Interruption:
    """Ends the command at a signal.

    An impatient second one must not cut short what stops the server; one that comes later is meant.
    """

    def __init__(self) -> None:
        self._raised_at = -math.inf

    def __call__(self, _signal: int, _frame: object) -> None:
        now = time.monotonic()
        if now - self._raised_at > CLEAN_UP_S:
            self._raised_at = now
            raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None, *, draws_page: bool = True) -> int:
    """Run one command; returns the exit status that the contract for scripts names.

    draws_page: write the HTML report beside an experiment's records, which takes a second or two.
    """
    open_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    own = next((command for command in (pgbench, sysbench) if command.is_own(words)), None)
    if own is not None and completion.VARIABLE not in os.environ:
        # Its words are read as the tool reads them whose command line it has.
        chosen = argparse.Namespace(run=own.run)
    else:
        whole = parser()
        if completion.VARIABLE in os.environ:
            completion.answer(whole)
        if not words:
            whole.print_help(sys.stderr)
            return EXIT_USAGE
        chosen = whole.parse_args(words)
        chosen.parse = whole.parse_args
    chosen.words = ["pgassay", *words]
    chosen.draws_page = draws_page
    interruption = _Interruption()
    for number in SIGNALS:
        # Whoever started us by nohup wants the experiment to outlive the terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interruption)
    try:
        options.check_html(chosen)
        status: int = chosen.run(chosen)
        sys.stdout.flush()
    except PgassayError as error:
        print(f"pgassay: {_harmless(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("pgassay: interrupted; nothing is left running", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; what was recorded is whole.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno in _OF_A_PATH and error.filename:
            print(f"pgassay: {_harmless(str(error.filename))}: {error.strerror}: {_REMEDY}", file=sys.stderr)
            return EXIT_USAGE
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f" in {error.filename}" if error.filename else ""
        print(f"pgassay: {error.strerror}{where}: free some space and run it again", file=sys.stderr)
        return EXIT_FAILED
    return status


def _harmless(message: str) -> str:
    """What is printed of a message: no password, and nothing that steers a terminal.

    A slip of the fingers may have put a connection string where a message repeats what was typed; a function
    in the data may have put anything into what a server says.
    """
    from pgassay.model.redaction import without_secrets
    from pgassay.report.text import clean_lines

    return clean_lines(without_secrets(message))


if __name__ == "__main__":
    sys.exit(main())
