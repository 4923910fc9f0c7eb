"""`pgassay clean`: remove what crashed runs left, and with --all the kept datasets and images too."""

import argparse

from pgassay.cli import options


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "clean",
        help="remove what crashed runs left behind; with --all, kept datasets too",
        description="Removes servers, mounts, loop devices and cgroups that a crashed run left behind, and "
        "keys and logs of fleets that were killed. With --all also the datasets, working copies and images "
        "that are kept for the next experiment. Results are never touched.",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("--all", action="store_true", help="remove kept datasets and images as well")
    options.add_no_wait(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Sweep under the host's lock and say what was removed."""
    from pgassay.environment import home, lock
    from pgassay.environment.cleanup import registry
    from pgassay.environment.cleanup.source_copies import remove_kept_dumps, remove_source_copies

    with lock.acquire(not arguments.no_wait, lambda holder: print(lock.waiting_for(holder))):
        kept = remove_kept_dumps(at_once=True)
        for sentence in (*registry.sweep(), *kept, *remove_source_copies(), *_remove_dead_fleets()):
            print(sentence)
        if arguments.all:
            for sentence in home.remove_kept():
                print(sentence)
    return 0


def _remove_dead_fleets() -> list[str]:
    from importlib.util import find_spec

    # A fleet's keys are made with it: without it there was none.
    if find_spec("cryptography") is None:
        return []
    from pgassay.fleet.cluster.member import remove_dead

    return remove_dead()
