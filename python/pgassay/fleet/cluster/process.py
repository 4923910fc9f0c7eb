"""One process of a fleet, a scheduler or a worker: `python -m pgassay.fleet.cluster.process FOLDER`.

The folder, which the member made, says what it is; the process says there where it listens. It ends at
SIGTERM, and a worker also when no scheduler has been there for a while; what its agent runs ends with it,
whatever ends it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path

from distributed import Worker

from pgassay.environment.cgroup.group import Cgroup, memory_limit
from pgassay.environment.home import home
from pgassay.fleet.agent import Agent
from pgassay.fleet.cluster import network_namespace, nodes
from pgassay.fleet.cluster.fleet_file import certificates_of
from pgassay.fleet.cluster.node_folder import STARTED_BY, NodeFolder, NodeSettings

_AGAIN_S = 1.0
_log = logging.getLogger("pgassay.fleet")


def main() -> None:
    """Serve until told to end."""
    folder = NodeFolder(Path(sys.argv[1]))
    settings = folder.settings()
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=logging.INFO)
    nodes.configure(log_level=logging.ERROR, temporary=folder.path)
    # What is started from here, and is still there when this has been killed, is known by it.
    os.environ[STARTED_BY] = str(folder.path)
    with folder.running():
        if settings.role == "scheduler":
            asyncio.run(_serve_scheduler(folder, settings))
        else:
            with _part_of_host(folder, settings) as python:
                agent = Agent(home(), is_part_of_host=settings.is_part_of_host, python=python)
                asyncio.run(_serve_worker(folder, settings, agent))


async def _serve_scheduler(folder: NodeFolder, settings: NodeSettings) -> None:
    ending = _ending()
    async with nodes.make_scheduler(
        certificates_of(folder.identity), settings.listen, settings.port
    ) as scheduler:
        folder.say_ready(scheduler.address)
        await ending.wait()


async def _serve_worker(folder: NodeFolder, settings: NodeSettings, agent: Agent) -> None:
    """Be a worker of the scheduler; of the next one, when it has gone and comes back in time.

    Dask's worker ends when its scheduler does. The agent stays, and so does what it runs.
    """
    ending, port = _ending(), settings.port
    last_seen_s = time.monotonic()
    while not ending.is_set() and time.monotonic() - last_seen_s < settings.give_up_s:
        worker = nodes.make_worker(
            certificates_of(folder.identity),
            scheduler=settings.scheduler,
            name=settings.name,
            listen=settings.listen,
            port=port,
            folder=folder.path / "dask",
            answer=agent.handle,
            host=settings.host,
            wait_s=settings.give_up_s - (time.monotonic() - last_seen_s),
        )
        if await _joins(worker, ending):
            port = worker.port
            folder.say_ready(worker.address)
            _log.info("joined %s as %s", settings.scheduler, settings.name)
            await _first_of(worker.finished(), ending.wait())
            last_seen_s = time.monotonic()
        if ending.is_set():
            break
        _log.info("no scheduler at %s", settings.scheduler)
        await _first_of(asyncio.sleep(_AGAIN_S), ending.wait())
    # An experiment takes seconds to stop its server; the scheduler is still answered meanwhile.
    await asyncio.get_running_loop().run_in_executor(None, agent.close)
    await worker.close(executor_wait=False)


async def _joins(worker: Worker, ending: asyncio.Event) -> bool:
    """Whether it is the scheduler's now; a name that the scheduler still believes taken is tried again."""

    async def join() -> bool:
        try:
            await worker
        except (OSError, ValueError, RuntimeError, TimeoutError) as error:
            _log.info("not joined: %s", type(error).__name__)
            return False
        return True

    return bool(await _first_of(join(), ending.wait())) and not ending.is_set()


async def _first_of(*waiting: Coroutine[object, object, object]) -> object:
    """What the first of them answers; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in waiting]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return next(iter(done)).result()


def _ending() -> asyncio.Event:
    """Set when the process is told to end."""
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    return ending


@contextlib.contextmanager
def _part_of_host(folder: NodeFolder, settings: NodeSettings) -> Iterator[tuple[str, ...]]:
    """This process and all that it starts get their part of the host; yields what begins each command.

    Cores by the affinity, which children inherit; memory by a control group; the lock by a network namespace.
    """
    if not settings.is_part_of_host:
        yield (sys.executable,)
        return
    os.sched_setaffinity(0, settings.cores)
    namespace = network_namespace.open_namespace(home())
    group = None
    if settings.memory_bytes is not None:
        # The fleet's id as well: a container's process numbers may be those of a neighbour's.
        name = f"fleet-{folder.path.parent.name}-{settings.name}"
        group = Cgroup.create(name, memory_limit(settings.memory_bytes))
        _enter(group.paths)
    try:
        yield network_namespace.command_prefix(sys.executable, f"/proc/{os.getpid()}/fd/{namespace}")
    finally:
        if group is not None:
            _enter([path.parent for path in group.paths])
            group.remove()
        os.close(namespace)


def _enter(groups: Sequence[Path]) -> None:
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


if __name__ == "__main__":
    main()
