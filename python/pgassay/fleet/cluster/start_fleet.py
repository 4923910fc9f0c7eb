"""`pgassay fleet start` and `stop`: certificates, the scheduler, a worker on each machine, fleet.toml.

The file is written before anything is started, so that whatever a crash leaves can be ended by it.
"""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pgassay.environment.home import LOCAL_WORKERS, home
from pgassay.environment.linux import machine as host_id
from pgassay.errors import PgassayError, UsageError
from pgassay.fleet.cluster import fleet_file, host_shares, hosts
from pgassay.fleet.cluster.certificates import Authority, Identity
from pgassay.fleet.cluster.fleet_file import FleetFile, MachineEntry
from pgassay.fleet.cluster.node_folder import NodeFolder, NodeSettings

SCHEDULER = "scheduler"
Say = Callable[[str], None]
_AT_ONCE = 32
_Each = TypeVar("_Each")
_Answer = TypeVar("_Answer")


def start_local(count: int, path: Path, *, port: int, give_up_s: float, say: Say) -> FleetFile:
    """Workers on this machine, each with its part of it when there are several."""
    parts = host_shares.divide_host(count)
    host = str(hosts.here({"operation": "hello"})["host"])
    _refuse_a_second_local_fleet()
    machines = [
        MachineEntry(
            name=f"local-{number}",
            host=host,
            port=port + number if port else None,
            is_part_of_host=count > 1,
            cores=part.cores,
            memory_bytes=part.memory_bytes,
            home=local_home(number),
        )
        for number, part in enumerate(parts, start=1)
    ]
    for machine in machines:
        _make_local_home(machine)
    return _start_new(_plan("local", "127.0.0.1", port, give_up_s), machines, path, say)


def start_ssh(
    targets: Sequence[hosts.SshHost], path: Path, *, listen: str | None, port: int, give_up_s: float, say: Say
) -> FleetFile:
    """A worker on each host, and the scheduler here, at the address by which this machine reaches them.

    Raises UsageError for two machines of one name, and where a host lacks the same pgassay.
    """
    ours = hosts.here({"operation": "hello"})
    say(f"asking {len(targets)} machines")
    answers = _on_all(targets, lambda target: target({"operation": "hello"}))
    for target, answer in zip(targets, answers, strict=True):
        hosts.check_equal(target.name, answer, ours)
    machines = [
        MachineEntry(
            name=target.name, host=str(answer["host"]), ssh=target.target, port=port + 1 if port else None
        )
        for target, answer in zip(targets, answers, strict=True)
    ]
    plan = _plan("ssh", listen or _own_address(targets[0].target, targets[0].config), port, give_up_s)
    plan = plan.model_copy(update={"program": targets[0].program, "ssh_config": targets[0].config})
    return _start_new(plan, machines, path, say)


def _plan(kind: fleet_file.Kind, listen: str, port: int, give_up_s: float) -> FleetFile:
    fleet = fleet_file.new_id()
    folder = home() / fleet_file.NODES / fleet
    return FleetFile(
        id=fleet,
        kind=kind,
        scheduler=_tls_address(listen, port or _free_port(listen)),
        folder=folder,
        give_up_s=give_up_s,
        certificates=fleet_file.certificates_of(Identity(folder / "client" / "identity")),
    )


def _start_new(plan: FleetFile, machines: Sequence[MachineEntry], path: Path, say: Say) -> FleetFile:
    fleet = FleetFile.model_validate(
        plan.model_dump() | {"machine": [each.model_dump() for each in machines]}
    )
    if path.exists():
        raise UsageError(
            f"{path} is there already: type pgassay fleet stop --file {path} first, pgassay fleet start "
            "without --local and --ssh to start again what has ended, or name another file with --file"
        )
    fleet_file.write(fleet, path)
    try:
        Authority.make(fleet.folder / "authority", f"fleet {fleet.id}")
        identity = Identity.make(Identity(fleet.folder / "client" / "identity").folder)
        _sign(fleet, identity)
        # Whoever has lost the file finds the fleet by it.
        fleet_file.write(fleet, fleet.folder / fleet_file.DEFAULT)
        start_missing(fleet, say)
    except BaseException:
        say("ending what was started")
        stop(fleet, path, lambda _sentence: None)
        raise
    return fleet


def _sign(fleet: FleetFile, identity: Identity) -> None:
    """The certificate of the commands on this machine."""
    authority = Authority(fleet.folder / "authority")
    identity.install(authority.sign(identity.request("client")), authority.certificate)


def start_missing(fleet: FleetFile, say: Say) -> list[str]:
    """Start the scheduler and the workers that do not run; returns their names.

    What is started gets a new key and certificate; a machine that comes back has the name that it had.
    Raises UsageError for a cluster that was started by others, and on another machine than the fleet's.
    """
    if fleet.kind == "existing" or not (fleet.folder / "authority").is_dir():
        raise UsageError(
            "only the machine and account that started a fleet can start its processes again: "
            "the authority's key stayed there"
        )
    _sign(fleet, Identity(fleet.folder / "client" / "identity"))
    address = urlsplit(fleet.scheduler)
    settings = NodeSettings(
        role="scheduler", name=SCHEDULER, listen=address.hostname or "", port=address.port or 0
    )
    started = []
    if _start_one(fleet, hosts.here, settings):
        started.append(SCHEDULER)
        say(f"scheduler at {fleet.scheduler}")

    def start(machine: MachineEntry) -> bool:
        return _start_one(fleet, ask_of(fleet, machine), _settings(fleet, machine))

    for machine, is_new in zip(fleet.machine, _on_all(fleet.machine, start), strict=True):
        if is_new:
            started.append(machine.name)
            say(f"worker on {machine.name}")
    return started


def _settings(fleet: FleetFile, machine: MachineEntry) -> NodeSettings:
    return NodeSettings(
        role="worker",
        name=machine.name,
        scheduler=fleet.scheduler,
        listen="127.0.0.1" if machine.ssh is None else "",
        port=machine.port or 0,
        host=machine.host,
        is_part_of_host=machine.is_part_of_host,
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        home=machine.home,
        give_up_s=fleet.give_up_s,
    )


def _start_one(fleet: FleetFile, ask: hosts.Ask, settings: NodeSettings) -> bool:
    """Whether it did not run before."""
    place = {"fleet": fleet.id, "name": settings.name}
    if ask({"operation": "state", **place})["pid"] is not None:
        return False
    authority = Authority(fleet.folder / "authority")
    request = str(ask({"operation": "prepare", **place})["request"])
    ask(
        {
            "operation": "start",
            **place,
            "certificate": authority.sign(request),
            "authority": authority.certificate,
            "settings": settings.model_dump(mode="json"),
        }
    )
    return True


def stop(fleet: FleetFile, path: Path, say: Say) -> list[str]:
    """End the workers with what they run, then the scheduler; remove keys and file; returns failures.

    Where a machine can't be reached, the file stays, so that it can be tried again; that worker ends by
    itself.
    """

    def end(machine: MachineEntry) -> str:
        try:
            ended = ask_of(fleet, machine)({"operation": "stop", "fleet": fleet.id, "name": machine.name})
        except PgassayError as error:
            return f"{machine.name} was not ended: {error}"
        say(f"{machine.name} {'ended' if ended['ended'] else 'did not run'}")
        return ""

    failures = [sentence for sentence in _on_all(fleet.machine, end) if sentence]
    if fleet.kind != "existing":
        hosts.here({"operation": "stop", "fleet": fleet.id, "name": SCHEDULER})
    if not failures:
        if fleet.kind != "existing":
            shutil.rmtree(fleet.folder, ignore_errors=True)
        path.unlink(missing_ok=True)
    return failures


def ask_of(fleet: FleetFile, machine: MachineEntry) -> hosts.Ask:
    """How to ask a machine's member."""
    if machine.ssh is None:
        return hosts.here
    return hosts.SshHost(machine.ssh, fleet.program, fleet.ssh_config)


def local_home(number: int) -> Path:
    """The home of a local worker: one for each number, so that data made once serve the next fleet too."""
    return home() / LOCAL_WORKERS / str(number)


def _make_local_home(machine: MachineEntry) -> None:
    """A home that sees the builds and tools that are unpacked here already."""
    if machine.home is None:
        return
    machine.home.mkdir(parents=True, exist_ok=True)
    for folder in (machine.home, machine.home.parent, machine.home.parent.parent):
        folder.chmod(0o755)
    # Where the machine has no id, its home has: workers of one host must not count as several machines.
    host_id.machine_id()
    if (own := home() / "machine-id").is_file():
        (machine.home / "machine-id").write_bytes(own.read_bytes())
    for shared in ("builds", "tools"):
        there = machine.home / shared
        (home() / shared).mkdir(exist_ok=True)
        if not there.is_symlink() and not there.exists():
            there.symlink_to(home() / shared)


def _refuse_a_second_local_fleet() -> None:
    nodes = home() / fleet_file.NODES
    for folder in sorted(nodes.glob("*/local-*")) if nodes.is_dir() else ():
        if NodeFolder(folder).owner() is not None:
            raise UsageError(
                f"the worker {folder.name} of another fleet runs on this machine already: "
                "type pgassay fleet stop where that was started"
            )


def _on_all(each: Sequence[_Each], do: Callable[[_Each], _Answer]) -> list[_Answer]:
    """The answers of all, asked side by side, in their order; raises what the first that failed raised."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(do, each))


def _own_address(target: str, config: Path | None) -> str:
    """The address by which this machine reaches a host, as ssh resolves its name."""
    options = [] if config is None else ["-F", str(config)]
    asked = subprocess.run(["ssh", "-G", *options, "--", target], capture_output=True, text=True, check=False)
    words = dict(line.split(" ", 1) for line in asked.stdout.splitlines() if " " in line)
    try:
        found = socket.getaddrinfo(words.get("hostname", target), 9, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as any_socket:
            any_socket.connect(address)  # of datagrams: nothing is sent
            return str(any_socket.getsockname()[0])
    except OSError as error:
        raise UsageError(
            f"how {target} reaches this machine is not known ({error.strerror}): "
            "name this machine's address with --listen"
        ) from error


def _free_port(listen: str) -> int:
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        try:
            probe.bind((listen, 0))
        except OSError as error:
            raise UsageError(
                f"--listen {listen}: {error.strerror}: name an address of this machine"
            ) from error
        return int(probe.getsockname()[1])


def _tls_address(listen: str, port: int) -> str:
    return f"tls://[{listen}]:{port}" if ":" in listen else f"tls://{listen}:{port}"
