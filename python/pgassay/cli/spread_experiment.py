"""What compare, resume and report share where an experiment is spread over a fleet."""

import argparse
from pathlib import Path

from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli.commands.fleet import require_dask
from pgassay.cli.options import refuse_with
from pgassay.cli.output import keep_page, publish
from pgassay.errors import UsageError
from pgassay.experiment.planning.request import CompareRequest
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.cell_assignment import check_words
from pgassay.fleet.spreading.results import stored_result
from pgassay.fleet.spreading.run_spread import SpreadRequest, resume_spread, run_spread
from pgassay.model.machines.combined import CombinedResult
from pgassay.record.experiment import load
from pgassay.record.layout import EXPERIMENT_FILE
from pgassay.report import combine
from pgassay.report.compare.page import page_of
from pgassay.terminal import fleet as views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pgassay.fleet.cluster.cluster_connection import DaskFleet

REPORT_FILE = "report.html"
# A page takes a second or two to make.
_PAGES_MAX = 12
_OF_ONE_MACHINE = ("--redact", "--no-wait")
EXIT_FAILED = 1
EXIT_CONDITION_HOLDS = 3


def compare_on_fleet(request: CompareRequest, arguments: argparse.Namespace) -> int:
    """Run it on the fleet's machines and report; raises UsageError for options that don't go with a fleet."""
    refuse_with(arguments, _OF_ONE_MACHINE, "several machines")
    words = list(request.command[request.command.index("compare") + 1 :])
    if arguments.spread == "cells":
        check_words(words, request.factors)
    spread = SpreadRequest(
        compare=request,
        words=tuple(words),
        command=request.command,
        fleet_file=arguments.fleet,
        until_decided=not request.all_blocks,
        spread=arguments.spread,
    )
    with _opened(arguments.fleet) as fleet, views.choose(quiet=arguments.quiet) as view:
        folder, result = run_spread(spread, fleet, view)
    return _finish(folder, result, arguments)


def resume_on_fleet(arguments: argparse.Namespace) -> int:
    """Go on where it stopped, with the machines that are left, and report."""
    refuse_with(arguments, _OF_ONE_MACHINE, "several machines")
    named = arguments.fleet or Path(plans.read(arguments.folder).fleet_file)
    with _opened(named) as fleet, views.choose(quiet=arguments.quiet) as view:
        result = resume_spread(
            arguments.folder, fleet, view, blocks_max=arguments.blocks, time_max_s=arguments.max_time_s
        )
    return _finish(arguments.folder, result, arguments)


def report_spread(arguments: argparse.Namespace) -> int:
    """The stored result again, with its page."""
    refuse_with(arguments, _OF_ONE_MACHINE, "several machines")
    if arguments.png:
        raise UsageError(
            f"an experiment on a fleet has no plots: name one of its machines, {arguments.folder}/machines"
        )
    result = stored_result(plans.read(arguments.folder), arguments.folder)
    publish(combine.page_of(result), arguments, keep=arguments.folder / REPORT_FILE)
    return 0


def _opened(path: Path) -> "DaskFleet":
    """The fleet of a file; raises UsageError, also where Dask is not there, which reports do without."""
    require_dask()
    from pgassay.fleet.cluster.cluster_connection import DaskFleet

    return DaskFleet.open(path)


def _finish(folder: Path, result: CombinedResult, arguments: argparse.Namespace) -> int:
    publish(combine.page_of(result), arguments, keep=folder / REPORT_FILE, is_measured=True)
    _write_pages(folder)
    if result.stopped == "failed":
        return EXIT_FAILED
    found = {arm.these_machines.verdict for arm in result.arms if not arm.these_machines.withheld}
    return EXIT_CONDITION_HOLDS if arguments.fail_if in found else 0


def _write_pages(folder: Path) -> None:
    """Each machine's own page, as `pgassay report` of its folder writes it; of many machines the first."""
    for machine in plans.read(folder).machines[:_PAGES_MAX]:
        for run in machine.runs:
            home = folder / run.folder
            if (home / EXPERIMENT_FILE).is_file():
                stored = load(home)
                keep_page(home / REPORT_FILE, page_of(analyse(stored), stored))
