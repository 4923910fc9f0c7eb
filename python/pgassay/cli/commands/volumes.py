"""`pgassay volumes`: what a cloud volume gives, for how long, at what price; and fitting one of your own."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.commands import volumes_mount
from pgassay.cli.output import publish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pgassay.cloud_volumes.catalogue import LoadedCatalogue

FIT = "fit"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "volumes",
        help="what a cloud volume delivers, for how long, at what price; or describe your own from fio's "
        "figures",
        description="Lists the cloud volumes of the catalogue, or explains the named ones: IOPS and "
        "throughput, how long a burst lasts, latency, the monthly price, and which figures are "
        "assumed. 'fit' creates a catalogue entry from what fio measured (--output-format=json); "
        "'mount' imitates a volume in real time until Ctrl-C (needs root and FUSE).",
        epilog="Examples:\n  pgassay volumes gp2,size=100GiB,instance=m6g.large\n"
        "  pgassay volumes gp3,size=400GiB,iops=12000 P20 --simulate depth=32,duration=60s\n"
        "  pgassay volumes fit depth1.json depth32.json --name mine\n"
        "  pgassay volumes mount gp3,size=100GiB FOLDER --json",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "volumes",
        nargs="*",
        metavar="VOLUME",
        help="NAME,size=100GiB,… with iops=, throughput=, credits=, instance=, region=; or fit FILE…; "
        "or mount VOLUME FOLDER",
    )
    options.add_catalogue(parser)
    parser.add_argument(
        "--simulate", metavar="LOAD", help="run a load on the models, such as depth=32,size=8kB,duration=60s"
    )
    options.add_formats(parser, "the volumes")
    fit = parser.add_argument_group("of 'fit'")
    fit.add_argument("--name", help="the volume's name (default own)")
    fit.add_argument("--size", help="its size, such as 100GiB (default: that of fio's file)")
    fit.add_argument(
        "--output",
        type=options.folder,
        metavar="FILE",
        help="write the entry to this file instead of standard output",
    )
    mount = parser.add_argument_group("of 'mount'")
    mount.add_argument("--used", metavar="SIZE", help="how much data it must hold (default 4GB, or its size)")
    mount.add_argument(
        "--closest",
        action="store_true",
        help="imitate a volume that is faster than this machine as well as it can",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List, explain, simulate, fit or mount."""
    _check(arguments)
    if arguments.volumes[:1] == [FIT]:
        return _fit(arguments)
    if arguments.volumes[:1] == [volumes_mount.MOUNT]:
        return volumes_mount.run(arguments, _loaded(arguments))
    from pgassay.cloud_volumes.explain import explain, list_types
    from pgassay.cloud_volumes.pattern import parse_pattern, simulate_load
    from pgassay.report.volumes import page_of

    loaded = _loaded(arguments)
    if not arguments.volumes:
        result = list_types(loaded)
    else:
        pattern = None if arguments.simulate is None else parse_pattern(arguments.simulate)
        result = explain(_texts(arguments.volumes), loaded)
        if pattern is not None:
            result = result.model_copy(update={"simulated": simulate_load(result.volumes, pattern)})
    publish(page_of(result), arguments)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that means nothing for what is done."""
    word = next(iter(arguments.volumes), "")
    if word != FIT:
        options.refuse_without(arguments, ("--name", "--size", "--output"), "'pgassay volumes fit'")
    if word != volumes_mount.MOUNT:
        options.refuse_without(arguments, ("--used", "--closest"), "'pgassay volumes mount'")
    if word in (FIT, volumes_mount.MOUNT):
        of_results = ("--simulate", "--markdown", "--text", "--html")
        options.refuse_with(arguments, of_results, f"'pgassay volumes {word}'")
    if word == FIT:
        options.refuse_with(arguments, ("--json",), "'pgassay volumes fit'", "which writes TOML")
    if not word:
        options.refuse_without(arguments, ("--simulate",), "a volume, as gp2,size=100GiB")


def _loaded(arguments: argparse.Namespace) -> "LoadedCatalogue":
    """The catalogue with the file in the home, where there is one, and those that were named."""
    from pgassay.cloud_volumes.catalogue import OWN_FILE, load_catalogue
    from pgassay.environment.home import home_path

    own = home_path() / OWN_FILE
    return load_catalogue([*([own] if own.is_file() else []), *arguments.catalogue])


def _texts(words: list[str]) -> list[str]:
    """The volumes: a word that begins with an option belongs to the one before it."""
    from pgassay.cloud_volumes.parse import KEYS

    texts: list[str] = []
    for word in words:
        if texts and word.partition("=")[0].strip() in KEYS:
            texts[-1] += f",{word}"
        else:
            texts.append(word)
    return texts


def _fit(arguments: argparse.Namespace) -> int:
    """Fit, check the entry by reading it, and write it."""
    from datetime import date
    from pathlib import Path

    from pgassay.cloud_volumes.fio import read_fio
    from pgassay.cloud_volumes.fit import GIB, fit, to_toml
    from pgassay.errors import UsageError
    from pgassay.model.volumes.catalogue import SIZE_GIB_MAX
    from pgassay.value_syntax.quantities import size_bytes

    files = [Path(word) for word in arguments.volumes[1:]]
    if not files:
        raise UsageError(
            "'pgassay volumes fit' needs fio's output: run fio --output-format=json --output=FILE"
        )
    size_gib = None
    if arguments.size is not None:
        size_gib, rest = divmod(size_bytes(arguments.size, "--size", example="100GiB"), GIB)
        if rest or not 1 <= size_gib <= SIZE_GIB_MAX:
            raise UsageError(
                f"--size {arguments.size} is not a whole number of GiB from 1 to {SIZE_GIB_MAX}: "
                "write for example --size 100GiB"
            )
    runs = [run for file in files for run in read_fio(file)]
    entry = to_toml(fit(runs, arguments.name or "own", size_gib), date.today())
    if arguments.output is None:
        sys.stdout.write(entry)
        return 0
    try:
        with arguments.output.open("x", encoding="utf-8") as output:
            output.write(entry)
    except OSError as error:
        raise UsageError(
            f"can't write {arguments.output} ({error.strerror}): name another file with --output"
        ) from error
    print(f"{arguments.output}: use it with --catalogue {arguments.output}", file=sys.stderr)
    return 0
