"""`pgassay run FILE.toml`: the same experiment as `compare`, from a file."""

import argparse

from pgassay.cli import options
from pgassay.cli.commands.compare import run_or_plan


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run the experiment that a TOML file describes",
        description="Runs the experiment of a file: the options of 'compare' as keys, factors as a table.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("file", type=options.folder, metavar="FILE.toml", help="the experiment's file")
    parser.add_argument("--out", type=options.folder, metavar="FOLDER", help="a new folder for the results")
    parser.add_argument(
        "--seed", type=options.whole, metavar="N", help="seed of the order of the trials, before the file's"
    )
    parser.add_argument(
        "--max-time",
        type=options.duration,
        metavar="TIME",
        help="at most so long, before the file's max-time",
    )
    options.add_plan(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file, then do as compare does."""
    from dataclasses import replace

    from pgassay.experiment.planning.file import read_file

    request = read_file(arguments.file, arguments.out, tuple(arguments.words))
    if arguments.seed is not None:
        request = replace(request, seed=arguments.seed)
    if arguments.max_time is not None:
        request = replace(request, max_time_s=arguments.max_time)
    return run_or_plan(request, arguments)
