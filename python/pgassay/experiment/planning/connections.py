"""Servers that run already: from the connection strings typed to who answered, and what may be stored."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg

from pgassay.environment.remote.connection_parameters import Resolved, resolve
from pgassay.environment.remote.required_tables import scale_of
from pgassay.environment.remote.secrets import scrub
from pgassay.environment.remote.settings_swap import ServerFacts, read_facts
from pgassay.environment.server.sessions import connect
from pgassay.errors import UsageError, first_line
from pgassay.experiment.planning.request import CompareRequest
from pgassay.factors.base import level_text
from pgassay.factors.server import NAME, split_connection_strings
from pgassay.model.arm import DatasetSpec
from pgassay.model.build import Build
from pgassay.model.experiment import Experiment
from pgassay.model.storage import StorageSpec
from pgassay.model.workload import WorkloadSpec

OPTION = f"--{NAME}"
ORIGIN = "remote"
# A shorter one occurs in a command by chance.
SECRET_LENGTH_MIN = 4


@dataclass(frozen=True)
class NamedServers:
    """The connection strings as typed, and the other factors; `index` is that of server= among them."""

    strings: tuple[str, ...]
    factors: tuple[str, ...]
    index: int

    @property
    def is_factor(self) -> bool:
        """Whether servers are compared."""
        return len(self.strings) > 1


@dataclass(frozen=True)
class KnownServer:
    """A server that has answered, with what it says of itself."""

    resolved: Resolved
    facts: ServerFacts
    dataset: DatasetSpec

    @property
    def name(self) -> str:
        """How reports call it."""
        return self.resolved.server.name

    def patch(self) -> dict[str, object]:
        """What an arm's description says of it."""
        server = self.resolved.server
        build = Build(origin=ORIGIN, version=server.version, major=server.major, bin_directory=server.name)
        storage = StorageSpec(kind="remote")
        return {"server": server, "build": build, "dataset": self.dataset, "storage": storage}


def is_remote(request: CompareRequest) -> bool:
    """Whether a request names servers that run already."""
    return request.server is not None or any(_is_server(text) for text in request.factors)


def _is_server(factor: str) -> bool:
    return factor.partition("=")[0].strip().lower() == NAME


def take_servers(request: CompareRequest) -> NamedServers:
    """Separate the servers from the factors; raises UsageError when they are named twice over."""
    indexes = [index for index, text in enumerate(request.factors) if _is_server(text)]
    others = tuple(text for text in request.factors if not _is_server(text))
    if len(indexes) + (request.server is not None) > 1:
        raise UsageError(f"servers are named twice: give {NAME}=, with all its levels, or {OPTION}, once")
    if not indexes:
        return NamedServers((str(request.server).strip(),), others, 0)
    strings = split_connection_strings(request.factors[indexes[0]].partition("=")[2])
    if len(strings) == 1 and not others:
        raise UsageError(
            f"{NAME}= names one server and there is no other factor, so there is nothing to compare: name a "
            f"second server, or a setting and its levels, as work_mem=4MB,64MB"
        )
    return NamedServers(strings, others, indexes[0])


def resolve_all(strings: Sequence[str], on_stage: Callable[[str], None]) -> tuple[Resolved, ...]:
    """Ask every server; each gets a name of its own. Raises UsageError for the first that does not answer."""
    found = []
    for number, string in enumerate(strings, start=1):
        what = OPTION if len(strings) == 1 else f"{NAME}=, connection string {number}"
        on_stage("asking the servers")
        found.append(resolve(string, what))
    counted = Counter(each.server.name for each in found)
    distinct = [_with_user(each) if counted[each.server.name] > 1 else each for each in found]
    names = [each.server.name for each in distinct]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{NAME}= names {name} twice: give each server once (the twin is its duplicate)")
    return tuple(distinct)


def _with_user(resolved: Resolved) -> Resolved:
    server = resolved.server
    name = f"{server.user}@{server.name}"
    return replace(resolved, server=server.model_copy(update={"name": name}))


def inspect(resolved: Resolved, workload: WorkloadSpec) -> KnownServer:
    """Read a server's settings and the size of its tables; raises UsageError for tables that are missing."""
    server = resolved.server
    try:
        with connect(resolved.parameters) as control:
            facts = read_facts(control)
            scale = scale_of(control, workload, server)
    except psycopg.Error as error:
        raise UsageError(
            f"{server.name} can't be read ({first_line(error)}): correct the privileges of {server.user}"
        ) from None
    dataset = DatasetSpec(
        kind="remote",
        scale=scale,
        checksums=facts.settings.get("data_checksums") == "on",
        encoding=facts.settings.get("server_encoding", ""),
        locale="",
        source=server.dbname,
        database=server.dbname,
    )
    return KnownServer(resolved, facts, dataset)


def reconnect(experiment: Experiment) -> dict[str, Resolved]:
    """Ask the servers of a stored experiment again, by name.

    Raises UsageError when one does not answer, is another than it was, or needs the password that was typed
    then and never stored.
    """
    found = {}
    servers = {arm.spec.server.name: arm.spec.server for arm in experiment.arms if arm.spec.server}
    for name, planned in servers.items():
        resolved = resolve(planned.connection, f"server {name}")
        now = resolved.server
        fields = ("host", "port", "dbname", "user", "major")
        changed = [field for field in fields if getattr(now, field) != getattr(planned, field)]
        if changed:
            raise UsageError(
                f"server {name} has a different {' and '.join(changed)} now than when the "
                "experiment was planned: start a new experiment"
            )
        found[name] = replace(resolved, server=planned)
    return found


def storable_command(
    command: Sequence[str], named: NamedServers, found: Sequence[Resolved]
) -> tuple[str, ...]:
    """The command line with its connection strings written anew where they hold a password, without it."""
    stored = dict(zip(named.strings, (each.server.connection for each in found), strict=True))
    words: list[str] = []
    for word in command:
        before = words[-1] if words else ""
        if _is_server(word) or word.startswith(f"{OPTION}="):
            name = word.partition("=")[0]
            strings = named.strings if name != OPTION else (word.partition("=")[2].strip(),)
            shown = [stored.get(string, "") for string in strings]
            words.append(f"{name}={','.join(map(level_text, shown)) if name != OPTION else shown[0]}")
        elif before == OPTION:
            words.append(stored.get(word.strip(), ""))
        else:
            words.append(word)
    return tuple(words)


def refuse_secrets_in(command: str, found: Sequence[Resolved], option: str) -> None:
    """Raise UsageError for a user's command that holds a password: the command of an option is stored."""
    for each in found:
        secret = str(each.parameters["password"] or "")
        if len(secret) >= SECRET_LENGTH_MIN and scrub(command, [secret]) != command:
            raise UsageError(
                f"{option} contains the password for {each.server.name}, and the command is stored: "
                "have it read the password from a file"
            )


def secrets_of(servers: Mapping[str, Resolved]) -> list[str]:
    """The passwords of the servers, to be kept out of what others say."""
    return [str(each.parameters["password"]) for each in servers.values() if each.parameters["password"]]
