"""`pgassay gate`: did this change slow anything down?"""

import argparse
import contextlib
import os
import sys

from pgassay.cli import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.experiment.gating.run_gate import GateOptions
    from pgassay.model.gates.gate import GateResult

EXIT_NOT_MEASURED = 5
EPILOG = """examples:
  pgassay gate gate.toml --baseline origin/main --markdown --junit gate.xml
  pgassay gate gate.toml --baseline v2.3 --history nightly
  pgassay gate gate.toml --baseline "host=old.example dbname=app"

exit codes: 0 no slow-down found, 1 a slow-down beyond its margin, 2 it can't be done as typed,
4 undecided for some workload or statement, 5 a server or a trial failed, or the output could not be
written, 130 interrupted
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "gate",
        help="compare a change with its baseline in one run, for continuous integration",
        description="Runs the workloads of a file on a change and on its baseline, in randomised blocks, and "
        "says which of them, or of their statements, the change slowed down. False alarms are bounded over "
        "all of them and over a year of runs.",
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    add = parser.add_argument
    add("file", type=options.folder, metavar="GATE.toml", help="the gate file: its workloads and the system")
    add(
        "--baseline",
        required=True,
        metavar="REF|FOLDER|git:PATH@REV|DSN",
        help="a git revision, another checkout, a PostgreSQL source tree, a build's bin folder, or a server "
        "by a connection string",
    )
    add(
        "--history",
        type=options.folder,
        metavar="FOLDER",
        help="folder of earlier gates on the same branch: their evidence counts, and this one is added",
    )
    options.add_options(parser, "gate", {"--out": "a new results folder for this gate"})
    add("--junit", type=options.folder, metavar="FILE", help="write JUnit XML here as well")
    options.add_formats(parser, markdown="for a pull request")
    add(
        "--dry-run",
        action="store_true",
        help="read and check everything, report what would be compared, measure nothing",
    )
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, judge, print, and end with what was found."""
    import errno

    from pgassay.cli.outcome import progress_of
    from pgassay.cli.source_builds import provide_named
    from pgassay.errors import MeasurementError
    from pgassay.experiment.gating.gate_file import read_gate_file
    from pgassay.experiment.gating.run_gate import GateOptions, run_gate

    chosen = GateOptions(
        file=arguments.file,
        baseline=arguments.baseline,
        history=arguments.history,
        out=arguments.out,
        command=tuple(arguments.words),
        seed=arguments.seed,
    )
    if arguments.dry_run:
        options.refuse_with(arguments, ("--json",), "--dry-run", "which measures nothing to be read there")
    if arguments.junit is not None:
        _check_junit(arguments.junit)
    provide_named((arguments.baseline, read_gate_file(arguments.file).system.pg), quiet=arguments.quiet)
    if arguments.dry_run:
        return _dry_run(chosen)
    try:
        with progress_of(arguments) as progress:
            result = run_gate(chosen, progress, wait=not arguments.no_wait)
    except MeasurementError as error:
        # 1 would say that the change is slower.
        error.exit_code = EXIT_NOT_MEASURED
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        failed = MeasurementError(f"{error.strerror}: free some space and run it again")
        failed.exit_code = EXIT_NOT_MEASURED
        raise failed from error
    _show(result, arguments)
    if result.outcome == "interrupted":
        with contextlib.suppress(OSError):
            print(
                f"pgassay: interrupted; nothing is left running; {result.folder} has the results so far",
                file=sys.stderr,
            )
    return result.exit_code


def _show(result: "GateResult", arguments: argparse.Namespace) -> None:
    """Write and print the result; raises MeasurementError where something could not be, once all was tried.

    Its exit code is that of a slow-down where there is one, which a full disk does not change. That nobody
    reads standard output any more is no failure.
    """
    from pgassay.analysis.gate.judge_gate import EXIT_SLOW_DOWN
    from pgassay.cli.output import publish
    from pgassay.errors import MeasurementError, PgassayError
    from pgassay.report.gate.gate_page import page_of

    problems = []
    # What a program reads comes first: whoever reads standard output may go.
    if arguments.junit is not None and (problem := _write_junit(arguments.junit, result)):
        problems.append(problem)
    shown = f"gate: {result.folder}; 'pgassay report FOLDER' shows each workload in it"
    is_printed = False
    for _ in range(2):
        try:
            publish(page_of(result), arguments, below=("", shown), is_printed=is_printed)
            sys.stdout.flush()
            break
        except PgassayError as error:
            problems.append(str(error))
            break
        except OSError as error:
            # An HTML page is still to be written.
            is_printed = True
            _print_to_nobody()
            if not isinstance(error, BrokenPipeError):
                problems.append(f"can't print the result ({error.strerror})")
    if problems:
        failed = MeasurementError(f"{problems[0]}; {result.folder} has the result")
        failed.exit_code = EXIT_SLOW_DOWN if result.exit_code == EXIT_SLOW_DOWN else EXIT_NOT_MEASURED
        raise failed


def _write_junit(target: "Path", result: "GateResult") -> str:
    """Write the file; returns what is wrong, '' where it is written."""
    from pgassay.errors import MeasurementError
    from pgassay.record.documents import write_file
    from pgassay.report.gate import junit

    try:
        write_file(target, junit.render(result))
    except MeasurementError as error:
        # Its own sentence is of a record that 'pgassay resume' completes.
        reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
        return f"can't write JUnit XML to {target} ({reason})"
    return ""


def _print_to_nobody() -> None:
    """Else the rest of the output would be tried again when the process ends, which changes its status."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


def _check_junit(target: "Path") -> None:
    """Raise UsageError before anything is measured where the file could not be written."""
    from pgassay.errors import UsageError

    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UsageError(f"can't write JUnit XML to {target}: name a file in an existing folder")


def _dry_run(chosen: "GateOptions") -> int:
    """Everything but the measuring: what is wrong is said, and what would be compared."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from pgassay.experiment.gating.run_gate import prepare_gate, sentences_before
    from pgassay.experiment.running.results_folder import check_folder

    check_folder(chosen.out)
    with tempfile.TemporaryDirectory(prefix="pgassay-gate-") as folder:
        prepared = prepare_gate(replace(chosen, out=None), Path(folder))
        for sentence in sentences_before(prepared):
            print(sentence)
    return 0
