"""The plan's part for servers that run already: what can be asked of somebody else's server.

Their caches, data and start are not ours to change, so options about them are refused; what is varied or set
is what a session can change, or the server itself.
"""

from collections.abc import Sequence

import psycopg

from pgassay.design.arms import Candidate
from pgassay.environment.linux import machine
from pgassay.environment.remote.connection_parameters import Resolved
from pgassay.environment.remote.round_trip import first_round_trip_ms
from pgassay.environment.remote.session_settings import (
    READ_ONLY,
    check_session_settings,
    session_parameters,
)
from pgassay.environment.remote.settings_swap import differences_sentence
from pgassay.environment.server.sessions import connect
from pgassay.errors import UsageError, first_line
from pgassay.experiment.planning.connections import (
    KnownServer,
    NamedServers,
    inspect,
    resolve_all,
    storable_command,
    take_servers,
)
from pgassay.experiment.planning.io_traps import io_warnings
from pgassay.experiment.planning.remote_options import (
    cache_of,
    processors_of,
    refuse_secrets,
    refuse_what_needs_provisioning,
)
from pgassay.experiment.planning.request import CompareRequest
from pgassay.experiment.planning.servers import (
    Base,
    Description,
    Judged,
    OnStage,
    ParsedRequest,
    PlannedGrid,
    ServerConnections,
)
from pgassay.factors.base import Factor
from pgassay.factors.server import NAME, kind_of
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.experiment import Environment, Protocol
from pgassay.model.workload import WorkloadSpec
from pgassay.trial.measure import statement_plans

_NOT_RESTORED = (
    "nothing is restored between the trials on a remote server: each finds the rows, the dead "
    "row versions and the WAL left by earlier trials"
)


class RemoteServers:
    """Servers named by server= or --server; known once `find` has asked them."""

    def __init__(self, request: CompareRequest, on_stage: OnStage) -> None:
        """Raises UsageError for what only servers of pgassay's own can be asked, or servers named twice."""
        refuse_what_needs_provisioning(request)
        self._request = request
        self._on_stage = on_stage
        self._named = take_servers(request)
        self._known: tuple[KnownServer, ...] = ()
        self._vcpus: tuple[float | None, ...] = ()
        self._described: dict[str, dict[str, object]] = {}

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors as typed, without server=."""
        return self._named.factors

    @property
    def messages(self) -> tuple[str, ...]:
        """That a password which was typed is kept nowhere."""
        if not any(each.resolved.has_typed_secret for each in self._known):
            return ()
        return (
            "the password that you typed is used but not stored: 'pgassay resume' will need "
            "it in a password file, a service file or $PGPASSWORD",
        )

    @property
    def command(self) -> tuple[str, ...]:
        """The command line without any password."""
        return storable_command(self._request.command, self._named, [each.resolved for each in self._known])

    @property
    def connections(self) -> ServerConnections:
        """The servers with their passwords, and what is kept of each beside the experiment."""
        documents = {
            each.name: {
                **self._described[each.name],
                "settings": dict(each.facts.settings),
                "extensions": dict(each.facts.extensions),
            }
            for each in self._known
        }
        return ServerConnections({each.name: each.resolved for each in self._known}, documents)

    def base(self, factors: tuple[Factor, ...], workload: WorkloadSpec, given: dict[str, str]) -> Base:
        """Ask every server; server= has its place among the factors, with the servers' names as levels.

        Where the workload only reads, no session can write.
        """
        request, named = self._request, self._named
        _refuse_the_guard({*given, *(factor.name for factor in factors)})
        _refuse_unfit(workload, request, named)
        resolved = resolve_all(named.strings, lambda stage: self._on_stage(stage, None))
        refuse_secrets(request, resolved)
        self._vcpus = processors_of(request, len(resolved))
        _check_writes(workload.writes, request, resolved)
        self._known = tuple(inspect(each, workload) for each in resolved)
        _check_scales(self._known, request)
        if named.is_factor:
            kind = kind_of({each.name: each.patch() for each in self._known})
            factor = Factor(name=NAME, levels=tuple(each.name for each in self._known), kind=kind)
            factors = (*factors[: named.index], factor, *factors[named.index :])
        settings = given if workload.writes else {**READ_ONLY, **given}
        spec = ArmSpec(settings=settings, workload=workload, **self._known[0].patch())
        plans_kept = request.plans or "estimate"
        protocol = Protocol(
            cache=cache_of(request),
            observe=request.observe,
            plans=plans_kept,
            plans_as_prepared=plans_kept != "off",
            before_trial=request.before_trial or "",
        )
        return Base(spec, protocol, factors)

    def check(self, candidates: list[Candidate]) -> None:
        """Every arm's settings hold in a session of its server, and its statements can be planned there."""
        servers = {each.name: each.resolved for each in self._known}
        seen = set()
        for index, (_, spec) in enumerate(candidates):
            self._on_stage("checking every level on its server", index / len(candidates))
            if spec.server is None:
                continue
            resolved = servers[spec.server.name]
            identity = (spec.server.name, tuple(sorted(spec.settings.items())), spec.workload.statements)
            if identity not in seen:
                seen.add(identity)
                check_session_settings(resolved, spec.settings)
                _check_statements(resolved, spec)

    def judge(self, parsed: ParsedRequest, on_stage: OnStage) -> Judged:
        """All combinations, once each server was reached as it will be measured; times the round trips."""
        on_stage("measuring the round trip", None)
        trips = {each.name: first_round_trip_ms(each.resolved.parameters, each.name) for each in self._known}
        self._described = {
            each.name: _described(each, trips[each.name], vcpus)
            for each, vcpus in zip(self._known, self._vcpus, strict=True)
        }
        return Judged(parsed.candidates)

    def _with_settings(self, arms: Sequence[Arm]) -> list[Arm]:
        """The arms with all settings that their servers show, below those of their own."""
        shown = {each.name: each.facts.settings for each in self._known}
        return [
            arm.model_copy(
                update={
                    "spec": arm.spec.model_copy(
                        update={"settings": {**shown[arm.spec.server.name], **arm.spec.settings}}
                    )
                }
            )
            for arm in arms
            if arm.spec.server is not None
        ]

    def describe(self, parsed: ParsedRequest, grid: PlannedGrid) -> Description:
        """In what the servers differ, and what their data meet."""
        databases = dict.fromkeys(each.resolved.server.dbname for each in self._known)
        return Description(
            data=f"remote database {', '.join(databases)}",
            confounds=_confounds(parsed, self._known) if self._named.is_factor and grid.contrasts else (),
            warnings=(
                *io_warnings(self._with_settings(grid.arms), parsed.base.spec, parsed.compared.factor),
                *((_NOT_RESTORED,) if parsed.workload.writes else ()),
            ),
            environment=Environment.model_validate(
                {
                    "machine": machine.facts(),
                    "machine_id": machine.machine_id(),
                    "servers": self._described,
                }
            ),
            swap=self._request.swap or "",
        )


def _refuse_the_guard(names: set[str]) -> None:
    """What keeps a workload that reads from writing is nobody's to turn off."""
    for name in sorted(names & {*READ_ONLY, "transaction_read_only"}):
        raise UsageError(
            f"{name} is on for a workload that reads and off for one that writes (as "
            f"--allow-writes DATABASE permits): leave {name} out"
        )


def _refuse_unfit(workload: WorkloadSpec, request: CompareRequest, named: NamedServers) -> None:
    if workload.is_maintenance:
        raise UsageError(
            "workload maintenance needs its data restored before every run, which is not possible on a "
            "remote server: measure it on a server that pgassay starts, with --dataset"
        )
    if workload.is_replay:
        raise UsageError(
            "workload replay needs the captured data restored before every run, which is not possible "
            "on a remote server: name a copy with --dataset, or replay it once with pgassay replay"
        )
    if request.swap is not None and len(named.strings) != 2:
        raise UsageError(
            f"--swap gives each of two servers the other's settings, and {len(named.strings)} "
            f"{'is' if len(named.strings) == 1 else 'are'} named: write {NAME}=DSN,DSN, or leave --swap out"
        )
    if request.swap is not None and not request.swap.strip():
        raise UsageError('--swap is empty: write --swap "COMMAND"')


def _check_writes(writes: bool, request: CompareRequest, servers: tuple[Resolved, ...]) -> None:
    """A workload that writes runs only in a database that the user named for it."""
    named = request.allow_writes
    for each in servers:
        database = each.server.dbname
        if writes and named is None:
            raise UsageError(
                f"workload {request.workload} writes, and would change database "
                f"{database} of {each.server.name}: to permit that, add --allow-writes {database}"
            )
        if named is not None and named != database:
            raise UsageError(
                f"--allow-writes {named} names a different database than {database}, "
                f"to which {each.server.name} connects: name the same"
            )


def _check_scales(known: tuple[KnownServer, ...], request: CompareRequest) -> None:
    scales = {each.name: each.dataset.scale for each in known}
    if len(set(scales.values())) > 1:
        listed = ", ".join(f"{scale} on {name}" for name, scale in scales.items())
        raise UsageError(
            f"the pgbench tables have different scales ({listed}): load them with the same scale by "
            "'pgbench -i'"
        )
    scale = known[0].dataset.scale
    if request.scale not in (CompareRequest.scale, scale):
        raise UsageError(
            f"--scale {request.scale}: the tables of {known[0].name} have scale {scale}: leave --scale out"
        )


def _check_statements(resolved: Resolved, spec: ArmSpec) -> None:
    with connect(session_parameters(resolved, spec.settings)) as session:
        for statement in spec.workload.statements:
            try:
                statement_plans.explain(session, statement)
            except psycopg.Error as error:
                raise UsageError(
                    f"{resolved.server.name} can't plan statement {statement.name} ({first_line(error)}): "
                    "correct its SQL, or the database's tables"
                ) from None


def _described(known: KnownServer, trip_ms: float, vcpus: float | None) -> dict[str, object]:
    """What reports show of a server; its processors where the user gave their number."""
    server = known.resolved.server
    return {
        **server.model_dump(exclude={"name", "connection", "major"}),
        "round_trip_ms": round(trip_ms, 4),
        **({} if vcpus is None else {"vcpus": vcpus}),
    }


def _confounds(parsed: ParsedRequest, known: tuple[KnownServer, ...]) -> tuple[str, ...]:
    """What differs between the servers beside the factor: with two of them always the machines."""
    control = parsed.compared.control if parsed.compared.factor == NAME else known[0].name
    first = next(each for each in known if each.name == control)
    varied = {factor.name for factor in parsed.base.factors}
    sentences = []
    for other in known:
        if other.name == control:
            continue
        pair = f"{other.name} and {first.name}"
        if other.facts.identity and other.facts.identity == first.facts.identity:
            sentences.append(f"{pair} are the same server: only the connection differs")
            continue
        if parsed.request.swap:
            sentences.append(
                f"{pair} are two machines with a copy of the data each: before the swap "
                "hardware and settings are confounded; the two halves together separate them"
            )
        else:
            sentences.append(
                f"{pair} are two machines with a copy of the data each: hardware, network and settings are "
                'confounded, so the difference belongs to the servers as they are (--swap "COMMAND" swaps '
                "their settings halfway and separates the two)"
            )
        sentence = differences_sentence((other.name, first.name), (other.facts, first.facts), varied)
        sentences += [sentence] if sentence else []
    return tuple(sentences)
