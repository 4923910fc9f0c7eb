"""What compare and run share: a new experiment is measured and reported, or its plan alone is shown."""

import argparse
import sys

from pgassay.cli.outcome import finish, progress_of
from pgassay.cli.output import is_unicode
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.running.planned import plan_alone
from pgassay.experiment.running.run import run_new
from pgassay.report import planned as planned_report


def run_or_plan(request: CompareRequest, arguments: argparse.Namespace) -> int:
    """Plan, measure and report; with `--plan` say what that would take."""
    if not arguments.plan:
        with progress_of(arguments) as progress:
            all_blocks = getattr(arguments, "all_blocks", False)
            stored = run_new(request, progress, wait=not arguments.no_wait, until_decided=not all_blocks)
        return finish(stored, arguments)
    with progress_of(arguments) as progress:
        planned = plan_alone(request, progress, wait=not arguments.no_wait)
    if arguments.json:
        sys.stdout.write(planned_report.render_json(planned))
    else:
        sys.stdout.write(planned_report.render(planned, unicode=is_unicode()))
    return 0
