"""`pgassay run FILE.toml`: the same experiment as `compare`, from a file."""

import argparse

from pgassay.cli import options
from pgassay.cli.commands.compare import run_or_plan


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run the experiment that a TOML file describes",
        description="Runs the experiment in a file: the options of 'compare' as keys, the factors as a "
        "table.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("file", type=options.folder, metavar="FILE.toml", help="the experiment file")
    options.add_options(
        parser,
        "run",
        helps={
            "--seed": "seed of the order of the trials (default: the file's)",
            "--max-time": "time limit (default: the file's max-time)",
        },
        defaults={"--max-time": ""},
    )
    options.add_plan(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file, then do as compare does."""
    from dataclasses import replace

    from pgassay.experiment.planning.experiment_file import read_file

    request = read_file(arguments.file, arguments.out, tuple(arguments.words))
    if arguments.seed is not None:
        request = replace(request, seed=arguments.seed)
    if arguments.max_time_s is not None:
        request = replace(request, max_time_s=arguments.max_time_s)
    return run_or_plan(request, arguments)
