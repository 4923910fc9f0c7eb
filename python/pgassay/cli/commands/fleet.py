"""`pgassay fleet`: start, check and stop the machines that an experiment is spread over."""

import argparse
import sys

from pgassay.cli import options
from pgassay.cli.output import publish
from pgassay.errors import UsageError
from pgassay.value_syntax import quantities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from pgassay.fleet.cluster.hosts import SshHost

FILE = "fleet.toml"
EXIT_LOST = 1
GIVE_UP_S = 1800.0
PORT_MAX = 65535


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "fleet",
        help="start, check and stop the machines that an experiment is spread over",
        description="'start' makes certificates, a scheduler of Dask and a worker on each machine, and "
        "writes fleet.toml, which 'compare --fleet' reads; with neither --local, --ssh nor --scheduler "
        "it restarts what has stopped of the fleet in the file. 'status' asks every machine; its exit status "
        "is 1 if one is lost. 'stop' stops the workers with what they run, and the scheduler. "
        "Needs pgassay[fleet].",
        epilog="examples:\n  pgassay fleet start --local 2\n  pgassay fleet start --ssh host1,host2,host3\n"
        "  pgassay fleet status --json\n  pgassay fleet stop",
        allow_abbrev=False,
        formatter_class=options.HelpFormatter,
    )
    # 'member' is what 'start' asks the other machines by; nobody types it.
    parser.add_argument(
        "action",
        choices=("start", "status", "stop", "member"),
        metavar="ACTION",
        help="start, status or stop",
    )
    parser.add_argument(
        "--file",
        type=options.folder,
        metavar="FILE",
        help=f"the fleet file (default {FILE})",
    )
    start = parser.add_argument_group("of 'start'")
    where = start.add_mutually_exclusive_group()
    where.add_argument(
        "--local",
        type=options.typed(quantities.whole, least=1),
        metavar="N",
        help="N workers on this machine, each with its own cores, memory, lock and home "
        "(2 and more need root)",
    )
    where.add_argument(
        "--ssh", metavar="HOSTS", help="a worker on each: host1,user@host2; ssh must work without a password"
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the Dask cluster at tls://HOST:PORT, with --trust-cluster, --ca, --certificate and --key",
    )
    start.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="with --ssh, this machine's address, at which the scheduler listens",
    )
    start.add_argument(
        "--port",
        type=options.whole,
        metavar="PORT",
        help="the scheduler's port; workers listen at the next ones (default: any that are free)",
    )
    start.add_argument(
        "--program", metavar="PATH", help="the pgassay command on the machines of --ssh (default pgassay)"
    )
    start.add_argument(
        "--ssh-config",
        type=options.folder,
        metavar="FILE",
        help="an ssh configuration file to use instead of your own",
    )
    start.add_argument(
        "--give-up",
        type=options.duration,
        metavar="TIME",
        help="how long the scheduler may be gone before a worker stops itself and what it runs (default 30m)",
    )
    start.add_argument(
        "--trust-cluster",
        action="store_true",
        help="required with --scheduler: whoever holds a certificate of that cluster can run programs as "
        "its workers' account",
    )
    start.add_argument(
        "--ca", type=options.folder, metavar="FILE", help="the authority's certificate of that cluster"
    )
    start.add_argument(
        "--certificate", type=options.folder, metavar="FILE", help="your certificate for that cluster"
    )
    start.add_argument("--key", type=options.folder, metavar="FILE", help="your private key for that cluster")
    status = parser.add_argument_group("of 'status'")
    options.add_formats(status, "the machines")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do one of them."""
    require_dask()
    from pathlib import Path

    if arguments.action == "member":
        from pgassay.fleet.cluster import member

        sys.stdout.write(member.serve(sys.stdin.read()))
        return 0
    _refuse_strangers(arguments)
    path = arguments.file or Path(FILE)
    return {"start": _start, "status": _status, "stop": _stop}[arguments.action](arguments, path.absolute())


def require_dask() -> None:
    """Raise UsageError where pgassay was installed without what fleets need."""
    from importlib.util import find_spec

    for name in ("distributed", "cryptography"):
        if find_spec(name) is None:
            raise UsageError(f"fleets need Dask ({name} is not installed): type pip install 'pgassay[fleet]'")


def _refuse_strangers(arguments: argparse.Namespace) -> None:
    """An option of another action, or of another way to start."""
    of_cluster = ("--trust-cluster", "--ca", "--certificate", "--key")
    of_ssh = ("--listen", "--program", "--ssh-config")
    of_workers = ("--port", "--give-up")
    if arguments.action != "start":
        of_start = ("--local", "--ssh", "--scheduler", *of_workers, *of_cluster, *of_ssh)
        options.refuse_without(arguments, of_start, "'pgassay fleet start'")
    if arguments.action != "status":
        of_status = tuple(f"--{name}" for name in options.FORMATS)
        options.refuse_without(arguments, of_status, "'pgassay fleet status'")
    if arguments.scheduler is None:
        options.refuse_without(arguments, of_cluster, "--scheduler")
    if arguments.ssh is None:
        options.refuse_without(arguments, of_ssh, "--ssh")
        if arguments.local is None:
            options.refuse_without(arguments, of_workers, "--local or --ssh")


def _start(arguments: argparse.Namespace, path: "Path") -> int:
    from pgassay.fleet.cluster import start_fleet

    port, give_up_s = _port(arguments), arguments.give_up or GIVE_UP_S
    if arguments.local is not None:
        start_fleet.start_local(arguments.local, path, port=port, give_up_s=give_up_s, say=_say)
    elif arguments.ssh is not None:
        start_fleet.start_ssh(
            _targets(arguments), path, listen=arguments.listen, port=port, give_up_s=give_up_s, say=_say
        )
    elif arguments.scheduler is not None:
        _join(arguments, path)
    else:
        from pgassay.fleet.cluster import fleet_file

        if not path.exists():
            raise UsageError(
                f"there is no {path} to restart a fleet from: name its machines with --local N, "
                "--ssh HOST,HOST or --scheduler tls://HOST:PORT"
            )
        if not start_fleet.start_missing(fleet_file.read(path), _say):
            _say("all of it is running already")
    print(f"{path}: use it with pgassay compare … --fleet {path.name}")
    return 0


def _port(arguments: argparse.Namespace) -> int:
    """The scheduler's port, 0 for any; raises UsageError where the ports of workers would not be ports."""
    port = arguments.port or 0
    # Those of other machines all listen at the next one.
    highest = PORT_MAX - (arguments.local or 1)
    if port > highest:
        raise UsageError(
            f"--port {port}: the scheduler listens there and workers at the next ports, of which {PORT_MAX} "
            f"is the last: use 1 to {highest}"
        )
    return port


def _targets(arguments: argparse.Namespace) -> "list[SshHost]":
    from pgassay.fleet.cluster.hosts import SshHost

    program = arguments.program or "pgassay"
    targets = [SshHost(word.strip(), program, arguments.ssh_config) for word in arguments.ssh.split(",")]
    names = [target.name for target in targets]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--ssh names {twice} twice: a machine has one worker")
    return targets


def _join(arguments: argparse.Namespace, path: "Path") -> None:
    import re

    from pgassay.fleet.cluster import existing_cluster
    from pgassay.fleet.cluster.fleet_file import Certificates

    if not re.fullmatch(r"tls://[^/\s@]+:\d{1,5}", arguments.scheduler):
        raise UsageError(
            f"--scheduler {arguments.scheduler}: write tls://HOST:PORT; a cluster without TLS lets anybody "
            "on its network run programs"
        )
    if not arguments.trust_cluster:
        raise UsageError(
            "Dask unpickles what it is sent, so whoever holds a certificate of this cluster can run programs "
            "as the account of its workers, and its scheduler as yours: add --trust-cluster if you trust them"
        )
    files = {name: getattr(arguments, name) for name in ("ca", "certificate", "key")}
    for name, file in files.items():
        if file is None or not file.is_file():
            raise UsageError(f"--scheduler needs --{name} FILE, a readable file: name the cluster's files")
    certificates = Certificates(
        authority=files["ca"].absolute(),
        certificate=files["certificate"].absolute(),
        key=files["key"].absolute(),
    )
    existing_cluster.join(arguments.scheduler, certificates, path)


def _status(arguments: argparse.Namespace, path: "Path") -> int:
    from datetime import UTC, datetime

    from pgassay.fleet.cluster.fleet_status import status
    from pgassay.report.listings import fleet_page

    found = status(path)
    publish(fleet_page(found, datetime.now(UTC)), arguments)
    is_whole = found.scheduler_answers and all(machine.state == "ready" for machine in found.machines)
    return 0 if is_whole else EXIT_LOST


def _stop(_arguments: argparse.Namespace, path: "Path") -> int:
    from pgassay.errors import MeasurementError
    from pgassay.fleet.cluster import existing_cluster, fleet_file, start_fleet

    fleet = fleet_file.read(path)
    if fleet.kind == "existing":
        existing_cluster.leave(fleet, path)
        return 0
    failures = start_fleet.stop(fleet, path, _say)
    if failures:
        raise MeasurementError(f"{'; '.join(failures)}; type pgassay fleet stop again")
    return 0


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
