"""`pgassay probe`: what this disk and these cores can do for PostgreSQL's three ways to read."""

import argparse
import sys
from contextlib import contextmanager

from pgassay.cli import options
from pgassay.cli.output import is_for_reading, keep_page, print_page, publish
from pgassay.cli.stage_line import StageLine

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgassay.model.build import Build
    from pgassay.model.probe import ProbeComparison, ProbeProof, ProbeRecord, ProbeResult
    from pgassay.report.page import Page

SECONDS_DEFAULT = 60.0
PROOF_S_DEFAULT = 600.0
RESULT_FILE = "result.json"
REPORT_FILE = "report.html"
STATEMENTS_FILE = "probe-proof.sql"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "probe",
        help="measure a disk and the processor in the shape of PostgreSQL's reads, and recommend settings",
        description="Measures in about a minute, without PostgreSQL, what the disk below a folder can do "
        "and how well io_method=sync, worker and io_uring use it on these cores; then says which is "
        "fastest for which work, and what to set. It reads a file that it creates and removes.",
        epilog="example:\n  pgassay probe /var/lib/postgresql --html probe.html",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("path", type=options.folder, metavar="PATH", help="a folder on the disk to probe")
    parser.add_argument(
        "--file", type=options.folder, metavar="FILE", help="read this existing file, and write nothing"
    )
    options.add_seconds(parser, "total time (default 60)", SECONDS_DEFAULT)
    parser.add_argument(
        "--keep-read-ahead",
        action="store_true",
        help="never change the device's read-ahead, not even for a moment",
    )
    parser.add_argument(
        "--compare", type=options.folder, metavar="OLD.json", help="compare the disk with an older probe"
    )
    options.add_formats(parser, markdown="for an issue or a wiki")
    parser.add_argument(
        "--prove",
        action="store_true",
        help="then compare the recommended settings with the defaults, on servers with their data in PATH",
    )
    options.add_options(
        parser,
        "probe",
        {
            "--pg": "the build used to measure the executor's cost, such as 18 or apt:18",
            "--seed": "the order of the cells (default: random)",
            "--out": "keep every run, the result and the page in this folder",
            "--max-time": "time limit of --prove",
        },
        {"--max-time": f"{PROOF_S_DEFAULT / 60:g}m"},
    )
    options.add_quiet_and_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, judge, keep it as the last probe of this device, print; prove it."""
    from pgassay.cli.source_builds import provide_named
    from pgassay.probe.analysis.analyse import analyse_probe
    from pgassay.probe.measuring.session import ProbeRequest, run_probe
    from pgassay.report.probe.probe_page import page_of, proof_page

    old = _old(arguments.compare)
    _check_targets(arguments)
    provide_named((arguments.build,), quiet=arguments.quiet)
    build = build_to_prove(arguments)
    request = ProbeRequest(
        path=arguments.path,
        file=arguments.file,
        seconds=arguments.seconds,
        build=arguments.build,
        vary_read_ahead=not arguments.keep_read_ahead,
        seed=arguments.seed,
    )
    with StageLine(quiet=arguments.quiet) as progress:
        record = run_probe(request, progress.step, wait=not arguments.no_wait)
    result = analyse_probe(record)
    comparison = _comparison(result, old, arguments.compare)
    page = page_of(result, comparison)
    if build is not None:
        # A proof that fails, or is interrupted, must not take the probe with it.
        _keep(arguments, record, result, page)
        if is_for_reading(arguments):
            # Whoever waits for the proof has the probe to read.
            print_page(page, arguments)
        proof = prove(arguments, result, build)
        result = result.model_copy(update={"proof": proof})
        page = page_of(result, comparison)
        if is_for_reading(arguments):
            print_page(proof_page(proof), arguments)
    publish(page, arguments, is_printed=build is not None and is_for_reading(arguments))
    _keep(arguments, record, result, page)
    if arguments.out is not None:
        print(f"kept: {arguments.out}", file=sys.stderr)
    return 0


def build_to_prove(arguments: argparse.Namespace) -> "Build | None":
    """The build of the servers, None without --prove; what is wrong is said before a minute is spent."""
    from pgassay.environment.builds.registry import resolve
    from pgassay.errors import UsageError
    from pgassay.model.probe import FIRST_MAJOR
    from pgassay.options.option import excluding

    if not arguments.prove:
        options.refuse_without(arguments, ("--max-time",), "--prove (a probe alone has --seconds)")
        return None
    if arguments.compare is not None:
        raise excluding("--compare", "--prove")
    build = resolve(arguments.build)
    if build.major < FIRST_MAJOR:
        raise UsageError(
            f"--prove needs settings that {build.version} does not have: name a build of {FIRST_MAJOR} or "
            f"newer (--pg {FIRST_MAJOR})"
        )
    return build


def prove(arguments: argparse.Namespace, result: "ProbeResult", build: "Build") -> "ProbeProof":
    """The recommended settings against the defaults, in an experiment of its own."""
    from pgassay.analysis.verdicts.compare import analyse
    from pgassay.cli.outcome import progress_of
    from pgassay.environment.home import home_path
    from pgassay.experiment.planning.request import CompareRequest
    from pgassay.experiment.running.run_experiment import run_new
    from pgassay.model.storage import StorageSpec
    from pgassay.probe.analysis import proof_command
    from pgassay.record.documents import write_file
    from pgassay.storage.parse import describe

    wanted = proof_command.settings_to_prove(result, build.major)
    if not wanted.recommended:
        return proof_command.nothing_to_prove(result, build.version)
    statements = home_path() / STATEMENTS_FILE
    write_file(statements, proof_command.STATEMENTS.encode())
    storage = StorageSpec(kind="host", path=str(arguments.path.absolute()))
    request = CompareRequest(
        factors=(wanted.levels,),
        workload=f"sql:{statements}",
        scale=proof_command.SCALE,
        cache="cold-each",
        settings=wanted.both,
        storage=describe(storage),
        build=arguments.build,
        max_time_s=arguments.max_time_s,
        plans="off",
        seed=arguments.seed,
        command=tuple(arguments.words),
    )
    with progress_of(arguments) as progress, _removed_afterwards(arguments.path):
        stored = run_new(request, progress, wait=not arguments.no_wait)
    return proof_command.proof_of(wanted, analyse(stored), build.version)


@contextmanager
def _removed_afterwards(path: "Path") -> "Iterator[None]":
    """Remove what was made below the folder meanwhile: a disk that is probed is left as it was."""
    import shutil

    from pgassay.storage.host import FOLDER_NAME

    place = path / FOLDER_NAME
    before = {*place.iterdir()} if place.is_dir() else None
    try:
        yield
    finally:
        for made in {*place.iterdir()} - (before or set()) if place.is_dir() else ():
            shutil.rmtree(made, ignore_errors=True)
        if before is None and place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _old(file: "Path | None") -> "ProbeResult | None":
    from pgassay.environment.last_probe import read_document
    from pgassay.errors import UsageError

    if file is None:
        return None
    old = read_document(file)
    if old is None:
        raise UsageError(
            f"--compare {file} has no probe result: name a file written by 'pgassay probe --json'"
        )
    return old


def _check_targets(arguments: argparse.Namespace) -> None:
    """What can't be written is said before a minute is spent; nothing is made, since it may be refused."""
    import os

    from pgassay.errors import UsageError

    if arguments.out is None:
        return
    there = next(folder for folder in (arguments.out, *arguments.out.absolute().parents) if folder.exists())
    if not there.is_dir():
        of_it = "" if there == arguments.out else f": {there}"
        raise UsageError(f"--out {arguments.out}{of_it} is a file: name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--out {arguments.out}: can't write into {there}: name another folder")


def _comparison(
    result: "ProbeResult", old: "ProbeResult | None", file: "Path | None"
) -> "ProbeComparison | None":
    from pgassay.probe.analysis.diff import compare_probes

    return None if old is None else compare_probes(result, old, str(file))


def _keep(
    arguments: argparse.Namespace,
    record: "ProbeRecord",
    result: "ProbeResult",
    page: "Page",
) -> None:
    """The last probe of the device, and the folder with everything."""
    from pgassay.environment.last_probe import keep
    from pgassay.environment.linux.device import device_of
    from pgassay.record import layout
    from pgassay.record.documents import write_file
    from pgassay.report.page import json_text

    document = json_text(result)
    # A probe of a few seconds must not take the place of a whole one.
    if record.seconds >= SECONDS_DEFAULT / 2:
        keep(device_of(arguments.file or arguments.path), document)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_file(arguments.out / layout.PROBE_FILE, json_text(record).encode())
        write_file(arguments.out / RESULT_FILE, document.encode())
        keep_page(arguments.out / REPORT_FILE, page)
