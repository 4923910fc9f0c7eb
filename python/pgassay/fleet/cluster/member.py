"""What each machine of a fleet does for `pgassay fleet start` and `stop`: documents in, documents out.

Run in the process of `fleet start` for what is on its own machine, and elsewhere as `pgassay fleet member`,
with the document on standard input. So both do the same, and a private key is made where it stays.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import JsonValue, ValidationError

import pgassay
from pgassay.environment.cgroup.caps import usable_memory_bytes
from pgassay.environment.home import home, home_path
from pgassay.environment.linux import machine
from pgassay.environment.linux.processes import process_ids
from pgassay.errors import MeasurementError, UsageError
from pgassay.fleet.agent_requests import Document
from pgassay.fleet.cluster import network_namespace
from pgassay.fleet.cluster.certificates import Identity, is_name
from pgassay.fleet.cluster.fleet_file import NODES
from pgassay.fleet.cluster.node_folder import STARTED_BY, NodeFolder, NodeSettings
from pgassay.native.binary import build_id

_START_TIMEOUT_S = 60.0
# How long an experiment may take to stop its server before its worker is killed.
_END_PATIENCE_S = 60.0
# Starting a fleet makes its folders before its processes.
_STARTED_WITHIN_S = 3600.0
_POLL_S = 0.05
_FORMAT = 1


def handle(document: Document) -> dict[str, JsonValue]:
    """Do what is asked. Raises UsageError or MeasurementError with the reason."""
    name = document.get("operation")
    operation = _OPERATIONS.get(name) if isinstance(name, str) else None
    if operation is None:
        raise UsageError(
            f"{name!r} is not an operation of this pgassay: install the same version on all machines."
        )
    return operation(document)


def _hello(_document: Document) -> dict[str, JsonValue]:
    """What must be alike on all machines, and what each has."""
    return {
        "format": _FORMAT,
        "pgassay": pgassay.__version__,
        "sources": sources(),
        "native": build_id(),
        "dask": _dask_version(),
        "host": machine.host_identity(),
        "memory_bytes": usable_memory_bytes(),
    }


def sources() -> str:
    """A checksum of pgassay's Python files: what they measure is compared only between equal ones."""
    folder = Path(pgassay.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _dask_version() -> str | None:
    try:
        return version("distributed")
    except PackageNotFoundError:
        return None


def _prepare(document: Document) -> dict[str, JsonValue]:
    """Make a key; answers the signing request."""
    folder = _folder(document)
    folder.path.mkdir(parents=True, exist_ok=True)
    return {"request": Identity.make(folder.identity.folder).request(folder.path.name)}


def _start(document: Document) -> dict[str, JsonValue]:
    """Start the process, once; answers where it listens."""
    folder = _folder(document)
    try:
        settings = NodeSettings.model_validate(document.get("settings"))
    except ValidationError as error:
        raise UsageError(f"can't start a machine of the fleet: {error.errors()[0]['msg']}") from error
    if folder.owner() is None:
        folder.identity.install(_text(document, "certificate"), _text(document, "authority"))
        folder.write_settings(settings)
        _spawn(folder, settings)
    return {"address": folder.address() or ""}


def _spawn(folder: NodeFolder, settings: NodeSettings) -> None:
    """Start the process and wait until it listens. Raises MeasurementError with its last words otherwise."""
    with folder.log.open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", "pgassay.fleet.cluster.process", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(settings.home),
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_TIMEOUT_S
    while folder.address() is None:
        if started.poll() is not None:
            raise MeasurementError(
                f"{settings.name} ended at its start ({folder.last_words()}): see {folder.log} there"
            )
        if time.monotonic() > deadline:
            folder.end(_END_PATIENCE_S)
            raise MeasurementError(
                f"{settings.name} did not reach {settings.scheduler} within {_START_TIMEOUT_S:g} s: "
                "does a firewall let it through?"
            )
        time.sleep(_POLL_S)


def _environment(own_home: Path | None) -> dict[str, str]:
    """The starter's environment without what it says of Dask, and without a password."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DASK_")}
    kept.pop("PGPASSWORD", None)
    if own_home is not None:
        kept["PGASSAY_HOME"] = str(own_home)
    # A folder that is not there: a user's configuration of Dask could load other code.
    return {**kept, "DASK_CONFIG": "/nonexistent", "DASK_ROOT_CONFIG": "/nonexistent"}


def _state(document: Document) -> dict[str, JsonValue]:
    folder = _folder(document)
    owner = folder.owner()
    return {"pid": None if owner is None else owner.pid, "address": folder.address()}


def _stop(document: Document) -> dict[str, JsonValue]:
    """End the process and what it runs, remove its keys and its folder; answers whether one ran."""
    folder = _folder(document)
    if not folder.path.is_dir():
        return {"ended": False}
    try:
        settings = folder.settings()
    except UsageError:
        settings = None
    ended = folder.end(_END_PATIENCE_S)
    if settings is not None and settings.role == "worker":
        _end_experiments(folder)
        _sweep(settings.home or home())
    # What sweeps finds it as well, since its process has ended.
    shutil.rmtree(folder.path, ignore_errors=True)
    with contextlib.suppress(OSError):  # other machines of the fleet are here too
        folder.path.parent.rmdir()
    return {"ended": ended}


def remove_dead() -> list[str]:
    """Remove the folders of fleets none of whose processes runs here, and what their workers left.

    Returns a sentence for each. One that is about to be started has no process either: it stays for a while.
    """
    sentences = []
    for fleet in sorted(path for path in (home_path() / NODES).glob("*") if path.is_dir()):
        folders = [NodeFolder(path) for path in fleet.iterdir() if path.is_dir()]
        if any(folder.may_run() for folder in folders):
            continue
        if not any(folder.has_begun for folder in folders) and _age_s(fleet) < _STARTED_WITHIN_S:
            continue
        for folder in folders:
            with contextlib.suppress(UsageError):
                own_home = folder.settings().home
                _end_experiments(folder)
                # What lies in this home is swept by whoever asks.
                if own_home is not None and own_home != home_path():
                    _sweep(own_home)
        shutil.rmtree(fleet, ignore_errors=True)
        sentences.append(f"Removed the keys and logs of the fleet {fleet.name}, of which nothing runs here.")
    return sentences


def _age_s(folder: Path) -> float:
    """The time since something was made in a folder or just below it."""
    return time.time() - max(path.stat().st_mtime for path in (folder, *folder.iterdir()))


def _end_experiments(folder: NodeFolder) -> None:
    """A killed worker's experiment ends by itself: wait for it; what does not end is killed."""
    deadline = time.monotonic() + _END_PATIENCE_S
    while (left := _started_by(folder)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


def _started_by(folder: NodeFolder) -> list[int]:
    variable = f"{STARTED_BY}={folder.path}".encode()
    found = []
    for pid in process_ids():
        with contextlib.suppress(OSError):
            if variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def _sweep(own_home: Path) -> None:
    """Remove what a killed worker left; while another experiment has the host, the next one's start does."""
    if not any((own_home / "registry").glob("*.json")):
        return
    prefix = network_namespace.command_prefix(sys.executable) if own_home != home() else (sys.executable,)
    subprocess.run(
        [*prefix, "-m", "pgassay.cli.main", "clean", "--no-wait"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PGASSAY_HOME": str(own_home)},
        check=False,
    )


def node_folder(fleet: str, name: str) -> NodeFolder:
    """Where a process of a fleet has its folder on this machine."""
    return NodeFolder(home() / NODES / fleet / name)


def _folder(document: Document) -> NodeFolder:
    fleet, name = _text(document, "fleet"), _text(document, "name")
    if not is_name(fleet) or not is_name(name):
        raise UsageError(f"{fleet}/{name} is not a name of a machine of a fleet: start the fleet again.")
    return node_folder(fleet, name)


def _text(document: Document, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise UsageError(f"{key} is missing: install the same pgassay on all machines.")
    return value


_OPERATIONS: Mapping[str, Callable[[Document], dict[str, JsonValue]]] = {
    "hello": _hello,
    "prepare": _prepare,
    "start": _start,
    "state": _state,
    "stop": _stop,
}


def serve(text: str) -> str:
    """`handle` for texts: a document, or {"error": sentence}."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise UsageError("`pgassay fleet member` is asked by `pgassay fleet start`, not by hand.")
        answer = handle(document)
    except (UsageError, MeasurementError) as error:
        answer = {"error": str(error)}
    except ValueError:
        answer = {"error": "`pgassay fleet member` is asked by `pgassay fleet start`, not by hand."}
    return json.dumps(answer)
