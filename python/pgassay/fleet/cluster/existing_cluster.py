"""A Dask cluster that others started: its workers get the agent's operation by a plug-in of Dask.

The plug-in is the one thing of pgassay that travels pickled: a reference to the class below, and a checksum.
"""

from pathlib import Path

from distributed import Client, Worker, WorkerPlugin

from pgassay.environment.home import home
from pgassay.environment.linux import machine
from pgassay.errors import UsageError
from pgassay.fleet.agent import Agent
from pgassay.fleet.cluster import fleet_file, member, nodes
from pgassay.fleet.cluster.certificates import check_private, expires
from pgassay.fleet.cluster.fleet_file import Certificates, FleetFile

_NAME = "pgassay"
_CONNECT_TIMEOUT_S = 15


class AgentPlugin(WorkerPlugin):
    """Gives a worker its agent, whichever joins, now or later; takes it away when it is unregistered."""

    name = _NAME

    def __init__(self, sources: str) -> None:
        self._sources = sources
        self._agent: Agent | None = None

    def setup(self, worker: Worker) -> None:
        """Raises UsageError where another pgassay is installed there."""
        if member.sources() != self._sources:
            raise UsageError(f"the worker {worker.name} has another pgassay: install the same there")
        self._agent = Agent(home())
        nodes.add_operation(worker, self._agent.handle, machine.host_identity())

    def teardown(self, worker: Worker) -> None:
        """End what it runs."""
        worker.handlers.pop(nodes.OPERATION, None)
        if self._agent is not None:
            self._agent.close()


def join(scheduler: str, certificates: Certificates, path: Path) -> FleetFile:
    """Give all workers of the cluster an agent, and write the fleet's file.

    Raises UsageError where the cluster can't be used: not reached, no workers, another pgassay there.
    """
    if path.exists():
        raise UsageError(f"{path} is there already: name another file with --file")
    check_private(certificates.key)
    expires(certificates.certificate)
    nodes.configure()
    with _client(scheduler, certificates) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise UsageError(f"the cluster at {scheduler} has no workers: start some, then type this again")
        try:
            client.register_plugin(AgentPlugin(member.sources()))
        except UsageError:
            raise
        # What a worker raises there arrives here as it is, whatever it is.
        except Exception as error:
            raise UsageError(
                f"the workers of {scheduler} can't have pgassay's agent ({type(error).__name__}: {error}): "
                "install the same pgassay[fleet] where they run"
            ) from error
    fleet = FleetFile(
        id=fleet_file.new_id(),
        kind="existing",
        scheduler=scheduler,
        folder=path.parent.absolute(),
        certificates=certificates,
    )
    fleet_file.write(fleet, path)
    return fleet


def leave(fleet: FleetFile, path: Path) -> None:
    """Take the agents away, with what they run, and remove the file; the cluster goes on."""
    nodes.configure()
    with _client(fleet.scheduler, fleet.certificates) as client:
        client.unregister_worker_plugin(_NAME)
    path.unlink(missing_ok=True)


def _client(scheduler: str, certificates: Certificates) -> Client:
    try:
        return Client(
            scheduler,
            security=nodes.security(certificates),
            timeout=_CONNECT_TIMEOUT_S,
            set_as_default=False,
        )
    except (OSError, TimeoutError) as error:
        raise UsageError(
            f"no cluster at {scheduler} takes these certificates ({type(error).__name__}): check the "
            "address, --ca, --certificate and --key"
        ) from error
