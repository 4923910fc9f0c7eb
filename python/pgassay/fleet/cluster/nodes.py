"""A scheduler and workers of Dask with nothing but what a fleet needs: no HTTP, no dashboard, little noise.

A worker has one more operation, `pgassay`: a request to its agent and the answer, both JSON texts. Dask
carries them as texts (msgpack), so nothing of ours is pickled.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
from distributed import Scheduler, Security, Worker
from distributed.comm.addressing import get_address_host
from distributed.utils import get_ip

from pgassay.fleet.agent_requests import Document
from pgassay.fleet.cluster.fleet_file import Certificates

OPERATION = "pgassay"
# A request that the worker answers itself: it is there.
PING: Document = {"operation": "ping"}
Answer = Callable[[Document], Document]
# Requests that take long (a machine's facts) must not keep short ones waiting.
_THREADS = 4
_CONFIGURATION = {
    # What would disturb a measurement: samples of its own threads, ticks, monitors, profiles.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    # HTTP has no certificates.
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    # How soon a machine counts as lost.
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "20s",
}


def configure(*, log_level: int = logging.CRITICAL, temporary: Path | None = None) -> None:
    """Set Dask up in this process, before a node or a connection is made.

    temporary: where its nodes keep files; a scheduler of Dask leaves a folder behind in the system's own.
    """
    dask.config.set(_CONFIGURATION | ({"temporary-directory": str(temporary)} if temporary else {}))
    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(log_level)


def security(certificates: Certificates) -> Security:
    """Mutual TLS with these files, for a process of any role; nothing goes without it."""
    return Security(
        require_encryption=True,
        tls_min_version=ssl.TLSVersion.TLSv1_3,
        tls_ca_file=str(certificates.authority),
        tls_client_key=str(certificates.key),
        tls_client_cert=str(certificates.certificate),
        tls_scheduler_key=str(certificates.key),
        tls_scheduler_cert=str(certificates.certificate),
        tls_worker_key=str(certificates.key),
        tls_worker_cert=str(certificates.certificate),
    )


class QuietScheduler(Scheduler):
    """Dask's scheduler without its HTTP server, which would listen without TLS."""

    def start_http_server(self, *_arguments: object, **_options: object) -> None:
        """Start none."""


class QuietWorker(Worker):
    """Dask's worker without its HTTP server."""

    def start_http_server(self, *_arguments: object, **_options: object) -> None:
        """Start none."""


def make_scheduler(certificates: Certificates, listen: str, port: int) -> QuietScheduler:
    """A scheduler, which listens when it is awaited."""
    return QuietScheduler(
        host=listen, port=port, protocol="tls", security=security(certificates), dashboard=False
    )


def make_worker(
    certificates: Certificates,
    *,
    scheduler: str,
    name: str,
    listen: str,
    port: int,
    folder: Path,
    answer: Answer,
    host: str,
    wait_s: float,
) -> Worker:
    """A worker, which joins the scheduler when it is awaited; TimeoutError when that takes over `wait_s`.

    listen: an address of this machine, '' for the one that reaches the scheduler. port: 0 for any. folder:
    for its temporary files.
    """
    worker = QuietWorker(
        scheduler,
        name=name,
        # Without an address Dask would listen at all of the machine's.
        host=listen or get_ip(get_address_host(scheduler)),
        port=port,
        nthreads=1,
        memory_limit=0,
        protocol="tls",
        security=security(certificates),
        local_directory=str(folder),
        death_timeout=wait_s,
        dashboard=False,
    )
    add_operation(worker, answer, host)
    return worker


def add_operation(worker: Worker, answer: Answer, host: str) -> None:
    """Let a worker answer requests: {"host": …, "answer": …} as a JSON text, whatever happens."""
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pgassay-request")

    loop = asyncio.get_running_loop()

    async def handle(document: str) -> str:
        request = json.loads(document)
        found = {} if request == PING else await loop.run_in_executor(threads, answer, request)
        return json.dumps({"host": host, "answer": found})

    worker.handlers[OPERATION] = handle
