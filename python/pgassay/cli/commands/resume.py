"""`pgassay resume`: continue an experiment that was interrupted, or add blocks to one that ended."""

import argparse

from pgassay.cli import options


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "resume",
        help="continue a stored experiment where it stopped",
        description="Continues a stored experiment: a half-done block is finished in its own order. "
        "Adding blocks or time later does not weaken the verdict.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("folder", type=options.folder, metavar="FOLDER", help="the experiment's folder")
    options.add_options(
        parser,
        "resume",
        helps={
            "--blocks": "continue to N blocks in total, decided or not (default: the experiment's)",
            "--max-time": "a new time limit, in total (default: the experiment's)",
        },
        defaults={"--max-time": ""},
    )
    parser.add_argument(
        "--fleet",
        type=options.folder,
        metavar="FILE",
        help="the fleet file of an experiment on several machines, if it has moved",
    )
    options.add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run what is left and report."""
    from pgassay.cli.outcome import finish, progress_of
    from pgassay.experiment.running.loop import RunLimits
    from pgassay.experiment.running.run_experiment import run_resumed
    from pgassay.record import layout
    from pgassay.record.experiment import load_experiment

    if (arguments.folder / layout.FLEET_FILE).is_file():
        from pgassay.cli.spread_experiment import resume_on_fleet

        return resume_on_fleet(arguments)
    contract = load_experiment(arguments.folder).contract
    limits = RunLimits(
        blocks_max=arguments.blocks or contract.blocks_max,
        time_max_s=arguments.max_time_s or contract.time_max_s,
        until_decided=arguments.blocks is None and contract.until_decided,
    )
    with progress_of(arguments) as progress:
        stored = run_resumed(arguments.folder, limits, progress, wait=not arguments.no_wait)
    return finish(stored, arguments)
