"""`pgassay toy WORD`: repeats a word."""

import argparse


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("toy", help="repeats a word")
    parser.add_argument("word", metavar="WORD")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the word twice."""
    print(arguments.word, arguments.word)
    return 0
