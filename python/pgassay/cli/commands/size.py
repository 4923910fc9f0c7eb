"""`pgassay size`: which volume a workload needs, from the requests that it made."""

import argparse

from pgassay.cli import options
from pgassay.options.sizing import HELPS

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgassay.cloud_volumes.catalogue import LoadedCatalogue
    from pgassay.experiment.planning.request import CompareRequest
    from pgassay.model.volumes.size import SizeResult
    from pgassay.record.experiment import StoredExperiment
    from pgassay.sizing.server_volumes import CandidateVolume
    from pgassay.sizing.size import Wanted

PAGE_FILE = "size.html"
EXIT_FAILED = 1
# As fast as this machine goes, and so slow that all that waits at once is seen.
RECORDED_ON = ("volume:unlimited,trace=yes", "volume:unlimited,latency=1ms,trace=yes")
# The same where the WAL has a volume of its own.
RECORDED_APART = tuple(f"{each},wal={each}" for each in RECORDED_ON)
# Trials of each neighbour.
PROOF_BLOCKS = 2
# Of servers that run already; and of volumes, which are looked at only where requests can be recorded.
_ELSEWHERE = ("--before-trial", "--vcpus", "--allow-writes")
_OF_VOLUMES = ("--against", "--provider", "--instance", "--volume", "--wal", "--prove", "--proof")
# Equal arms, where nothing is varied on a server elsewhere; so many blocks of them.
EQUAL_ARMS = "copy=first,second"
ELSEWHERE_BLOCKS = 3


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "size",
        help="find which cloud volume a workload needs, and what it costs",
        description="Records the requests that a workload sends to its disk, or takes a stored experiment "
        "whose requests were recorded (--storage volume:…,trace=yes), and replays them on the volumes "
        "of the catalogue: reports the cheapest ones within a slow-down, beyond which IOPS, throughput "
        "and latency nothing is gained, and the price. --prove runs the workload on the recommended "
        "volume and its neighbours. Recording and --prove need root and FUSE. For a remote server "
        "(--server, or an experiment on one) it reports the most that faster storage could gain.",
        epilog="examples:\n"
        "  pgassay size --workload select-only:clients=20,duration=30s --scale 100 --slow-down 10%\n"
        "  pgassay size FOLDER --provider aws --size 500GiB --prove\n"
        "  pgassay size --server 'host=db dbname=app' --workload sql:statements.sql",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "folder", type=options.folder, nargs="?", metavar="FOLDER", help="a stored experiment with traces"
    )
    wanted = parser.add_argument_group("requirements")
    options.add_own_options(wanted, "size")
    options.add_catalogue(wanted)
    recorded = parser.add_argument_group("what to record, if no FOLDER is given")
    options.add_options(recorded, "size", HELPS, defaults={"--workload": ""})
    output = parser.add_argument_group("output")
    options.add_formats(output, markdown="for an issue or a wiki", html=options.HTML_INSTEAD)
    options.add_quiet_and_no_wait(output)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record or read, replay, prove, print, and write the page."""
    from pgassay.cli.output import publish
    from pgassay.record.experiment import load
    from pgassay.report.size.size_page import page_of
    from pgassay.sizing.proof import volumes_to_prove
    from pgassay.sizing.size import size

    _check(arguments)
    loaded, offers, wanted = _wanted(arguments)
    proofs = [load(folder) for folder in arguments.proof]
    stored = _measured(arguments) if arguments.folder is None else load(arguments.folder)
    if any(arm.spec.server is not None for arm in stored.experiment.arms):
        result = _bounded(arguments, stored, wanted, loaded)
    else:
        result = size(stored, offers, wanted, loaded, proofs)
    if arguments.prove:
        chosen = volumes_to_prove(stored, result.groups, loaded)
        if chosen.volumes:
            proofs.append(_proof(arguments, stored, chosen.volumes))
            result = size(stored, offers, wanted, loaded, proofs)
        result = result.model_copy(
            update={"warnings": (*result.warnings, *(f"{each}." for each in chosen.left_out))}
        )
    publish(page_of(result), arguments, keep=stored.folder / PAGE_FILE)
    return EXIT_FAILED if any(each.stopped == "failed" for each in (stored, *proofs)) else 0


def _check(arguments: argparse.Namespace) -> None:
    """What makes no sense together is said before anything is measured."""
    from pgassay.errors import UsageError

    if arguments.slow_down < 0:
        raise UsageError(
            "--slow-down says how much slower a volume may be: write a share of 0 or more, as 10%"
        )
    if arguments.server is None:
        options.refuse_without(arguments, _ELSEWHERE, "--server")
    else:
        _refuse_volumes(arguments, "--server")
    if arguments.folder is None and arguments.workload is None:
        raise UsageError(
            "pgassay size needs an experiment's folder, or a workload to record: write --workload full-scan"
        )
    if arguments.folder is not None:
        options.refuse_with(arguments, _of_recording(arguments), "a FOLDER", "which was recorded already")
    if any(each.partition("=")[0].strip() == "storage" for each in arguments.vary):
        raise UsageError("--vary storage=…: every volume is considered anyway: choose some with --volume")
    if any(each.partition("=")[0].strip() == "server" for each in arguments.vary):
        raise UsageError("--vary server=…: name one server with --server, and run size once for each")


def _of_recording(arguments: argparse.Namespace) -> "tuple[str, ...]":
    """The options that say what is recorded and how; a proof has its own time limit."""
    from pgassay.options.table import options_for

    flags = tuple(option.flag for option in options_for("size"))
    return (*(flag for flag in flags if not (arguments.prove and flag == "--max-time")), "--vary")


def _refuse_volumes(arguments: argparse.Namespace, what: str) -> None:
    """No request of a disk elsewhere can be recorded, so none can be replayed on a volume."""
    options.refuse_with(arguments, _OF_VOLUMES, what, "since requests of a remote server are not recorded")


def _bounded(
    arguments: argparse.Namespace, stored: "StoredExperiment", wanted: "Wanted", loaded: "LoadedCatalogue"
) -> "SizeResult":
    """What SQL alone tells of servers elsewhere: how much there is to gain at most."""
    from pgassay.analysis.descriptive.storage_bound import storage_bounds
    from pgassay.sizing.size import bounded

    _refuse_volumes(arguments, str(stored.folder))
    return bounded(stored, storage_bounds(stored), wanted, loaded)


def _measured(arguments: argparse.Namespace) -> "StoredExperiment":
    """The workload on a server elsewhere as it is, or with requests recorded on volumes of our own."""
    if arguments.server is None:
        return _recorded(arguments)
    request = options.request_of(
        arguments,
        factors=tuple(arguments.vary) or (EQUAL_ARMS,),
        calibrates=not arguments.vary,
        blocks=arguments.blocks or ELSEWHERE_BLOCKS,
        plans=arguments.plans or "off",
    )
    return _run(request, arguments)


def _wanted(arguments: argparse.Namespace) -> "tuple[LoadedCatalogue, Sequence[CandidateVolume], Wanted]":
    from pgassay.cloud_volumes.catalogue import OWN_FILE, load_catalogue
    from pgassay.environment.home import home_path
    from pgassay.sizing.candidates import candidates, reference
    from pgassay.sizing.size import Wanted

    own = home_path() / OWN_FILE
    loaded = load_catalogue([*([own] if own.is_file() else []), *arguments.catalogue])
    size_gib = max(1, -(-arguments.size // 1024**3))
    offers = candidates(
        loaded,
        size_gib,
        volumes=arguments.volume,
        providers=arguments.provider,
        instances=arguments.instance,
        wals=arguments.wal,
    )
    against = None
    if arguments.against is not None:
        against = reference(arguments.against, loaded, arguments.instance, arguments.wal)
    return loaded, offers, Wanted(slow_down=arguments.slow_down, size_gib=size_gib, against=against)


def _recorded(arguments: argparse.Namespace) -> "StoredExperiment":
    """Run the workload on the volumes on which requests are recorded, once unless more is asked for."""
    from pgassay.sizing.recordings import refuse_workloads
    from pgassay.storage.storage_options import split_wal
    from pgassay.workloads.registry import parse_workload

    workload = parse_workload(arguments.workload)
    if workload.load is None and any(each.partition("=")[0].strip() == "clients" for each in arguments.vary):
        workload = workload.model_copy(update={"clients": 1})
    refuse_workloads([workload], f"--workload {arguments.workload}")
    named = [*arguments.volume, *([] if arguments.against is None else [arguments.against])]
    is_apart = bool(arguments.wal) or any(split_wal(each)[1] is not None for each in named)
    volumes = RECORDED_APART if is_apart else RECORDED_ON
    request = options.request_of(
        arguments,
        factors=(f"storage={','.join(volumes)}", *arguments.vary),
        blocks=arguments.blocks or 1,
        plans=arguments.plans or "off",
    )
    return _run(request, arguments)


def _proof(
    arguments: argparse.Namespace, stored: "StoredExperiment", volumes: "Sequence[str]"
) -> "StoredExperiment":
    """The same workload on the recommended volumes and their neighbours, by what they give for ever."""
    from dataclasses import replace

    from pgassay.sizing.proof import memory_of

    names = list(volumes)
    request, factors = _request_of_stored(stored, arguments)
    # A comparison has two levels at least: of one volume alone the other is that without limits.
    if len(names) == 1:
        names.append("unlimited,wal=volume:unlimited" if ",wal=" in names[0] else "unlimited")
    levels = ",".join(f"volume:{name}" for name in names)
    varies_memory = any(each.partition("=")[0].strip() == "memory" for each in factors)
    request = replace(
        request,
        factors=(f"storage={levels}", *factors),
        storage="host",
        memory=request.memory if varies_memory else memory_of(stored) or request.memory,
        control=None,
        blocks=PROOF_BLOCKS,
        plans="off",
        max_time_s=arguments.max_time_s,
        out=None,
        command=tuple(arguments.words),
    )
    return _run(request, arguments)


def _request_of_stored(
    stored: "StoredExperiment", arguments: argparse.Namespace
) -> "tuple[CompareRequest, tuple[str, ...]]":
    """What was asked for when it was recorded, and its factors but for the storage."""
    from pgassay.errors import UsageError

    # As it was typed, with the program's own name or without.
    words = list(stored.experiment.command)
    words = words[1:] if words[:1] == ["pgassay"] else words
    name = words[0] if words else ""
    if name not in ("compare", "size"):
        raise UsageError(
            f"--prove repeats what 'pgassay compare' or 'size' ran, and {stored.folder} comes from "
            "another command: run the neighbours with compare, and name its folder with --proof"
        )
    recorded = arguments.parse(words)
    recorded.words = words
    factors = recorded.factors if name == "compare" else recorded.vary
    kept = tuple(each for each in factors if each.partition("=")[0].strip() != "storage")
    return options.request_of(recorded), kept


def _run(request: "CompareRequest", arguments: argparse.Namespace) -> "StoredExperiment":
    from pgassay.cli.outcome import progress_of
    from pgassay.cli.source_builds import provide_named
    from pgassay.experiment.running.run_experiment import run_new

    provide_named((request.build,), quiet=arguments.quiet)
    with progress_of(arguments) as progress:
        return run_new(request, progress, wait=not arguments.no_wait, until_decided=False)
