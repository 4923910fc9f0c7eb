"""From a request that names servers to an experiment on them: what can be asked of somebody else's server."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from pgassay import __version__
from pgassay.design.arms import Compared, apply_levels, build_arms, choose_control, combinations
from pgassay.environment.linux import machine
from pgassay.environment.remote.resolve import Resolved
from pgassay.environment.remote.round_trip import first_round_trip_ms
from pgassay.environment.remote.session_settings import (
    READ_ONLY,
    check_session_settings,
    session_parameters,
)
from pgassay.environment.remote.settings import differences_sentence
from pgassay.environment.server.sessions import connect
from pgassay.errors import UsageError
from pgassay.experiment.planning.availability import Candidate
from pgassay.experiment.planning.command import repeatable
from pgassay.experiment.planning.own_data import workload_of
from pgassay.experiment.planning.remote_servers import (
    Found,
    Typed,
    inspect,
    refuse_secrets_in,
    resolve_all,
    storable_command,
    take_servers,
)
from pgassay.experiment.planning.request import CompareRequest, check_request, parse_settings
from pgassay.factors.base import Factor
from pgassay.factors.registry import parse_factors
from pgassay.factors.server import NAME, kind_of
from pgassay.model.arm import ArmSpec
from pgassay.model.experiment import Contrast, Experiment, Protocol, StatisticalContract
from pgassay.model.workload import WorkloadSpec
from pgassay.trial.measure import plans

Notify = Callable[[str, float | None], None]
CACHE = "as-is"
# What belongs to a server that pgassay starts itself: the factor, or the field and its option.
_FACTORS_OF_OUR_OWN = ("version", "build", "storage", "read_ahead", "memory", "cpus", "prepare")
_OPTIONS_OF_OUR_OWN = {
    "dataset": "--dataset",
    "prepare": "--prepare",
    "storage": "--storage",
    "memory": "--memory",
    "cpus": "--cpus",
    "build": "--pg",
}


@dataclass(frozen=True)
class RemoteUnderstood:
    """A request whose every word has been understood, and whose servers have answered."""

    request: CompareRequest
    typed: Typed
    factors: tuple[Factor, ...]
    compared: Compared
    found: tuple[Found, ...]
    candidates: list[Candidate]
    writes: bool

    @property
    def servers(self) -> dict[str, Resolved]:
        """The servers by name, with their passwords."""
        return {each.name: each.resolved for each in self.found}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should hear before anything runs."""
        if not any(each.resolved.has_typed_secret for each in self.found):
            return ()
        return (
            "the password that was typed is used and stored nowhere: 'pgassay resume' will need it in a "
            "password file, a service file or $PGPASSWORD",
        )


def understand_remote(request: CompareRequest, notify: Notify) -> RemoteUnderstood:
    """Read every word and ask the servers; raises UsageError, in one sentence without any password."""
    check_request(request)
    _refuse_what_needs_our_own(request)
    typed = take_servers(request)
    others = parse_factors(list(typed.factors)) if typed.factors else ()
    workload = workload_of(request, others)
    given = parse_settings(request.settings)
    _refuse_settings_twice(given, others)
    _refuse_the_guard({*given, *(factor.name for factor in others)})
    _refuse_unfit(workload, request, typed)
    resolved = resolve_all(typed.strings, lambda stage: notify(stage, None))
    refuse_secrets_in(request.swap or "", resolved)
    writes = workload.writes
    _check_writes(writes, request, resolved)
    found = tuple(inspect(each, workload) for each in resolved)
    _check_scales(found, request)
    factors = _with_servers(typed, others, found)
    compared = choose_control(factors, request.control)
    settings = given if writes else {**READ_ONLY, **given}
    base = ArmSpec(settings=settings, workload=workload, **found[0].patch())
    candidates = [(levels, apply_levels(factors, levels, base)) for levels in combinations(factors)]
    _check_arms(candidates, {each.name: each.resolved for each in found}, notify)
    return RemoteUnderstood(request, typed, factors, compared, found, candidates, writes)


def plan_remote(parsed: RemoteUnderstood, notify: Notify) -> tuple[Experiment, dict[str, Any]]:
    """The experiment, and what is to be kept of each server beside it."""
    request, found = parsed.request, parsed.found
    seed = request.seed if request.seed is not None else secrets.randbelow(2**31)
    arms, contrasts = build_arms(parsed.factors, parsed.compared, parsed.candidates, seed)
    notify("measuring the round trip", None)
    trips = {each.name: first_round_trip_ms(each.resolved.parameters, each.name) for each in found}
    contract = StatisticalContract(
        metric=parsed.candidates[0][1].workload.metric,
        margin=request.margin,
        alpha=request.alpha,
        blocks_max=request.blocks,
        time_max_s=request.max_time_s,
        seed=seed,
        pool_twin=request.pool_twin,
        covariate=request.covariate,
        contrasts=len(contrasts),
    )
    resolved = [each.resolved for each in found]
    command = storable_command(request.command, parsed.typed, resolved)
    experiment = Experiment(
        pgassay_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=repeatable(command, seed),
        title=_title(parsed),
        arms=arms,
        contrasts=contrasts,
        contract=contract,
        protocol=Protocol(cache=CACHE),
        confounds=_confounds(parsed, contrasts),
        warnings=_warnings(parsed),
        swap=request.swap or "",
        environment={
            "machine": machine.facts(),
            "machine_id": machine.machine_id(),
            "servers": {each.name: _described(each, trips[each.name]) for each in found},
        },
    )
    return experiment, {each.name: _document(each, trips[each.name]) for each in found}


def _refuse_what_needs_our_own(request: CompareRequest) -> None:
    defaults = CompareRequest(factors=())
    for field, option in _OPTIONS_OF_OUR_OWN.items():
        if getattr(request, field) != getattr(defaults, field):
            raise UsageError(
                f"{option} is for servers that pgassay starts itself, and {NAME} names one that runs "
                f"already: leave {option} out"
            )
    for text in request.factors:
        name = text.partition("=")[0].strip().lower()
        if name in _FACTORS_OF_OUR_OWN:
            raise UsageError(
                f"{name}= is for servers that pgassay starts itself, and {NAME} names one that runs already: "
                "leave one of them out"
            )
    if request.cache not in (None, CACHE):
        raise UsageError(
            f"--cache {request.cache}: nothing can be done about the caches of a remote server without its "
            f"operating system: leave --cache out, or write --cache {CACHE}"
        )
    if request.skip_unavailable:
        raise UsageError("--skip-unavailable has no meaning for a remote server: leave it out")


def _refuse_settings_twice(given: dict[str, str], factors: tuple[Factor, ...]) -> None:
    for factor in factors:
        if factor.name in given:
            raise UsageError(
                f"{factor.name} is a factor and is also fixed by --set {factor.name}: leave one of them out"
            )


def _refuse_the_guard(names: set[str]) -> None:
    """What keeps a workload that reads from writing is nobody's to turn off."""
    for name in sorted(names & {*READ_ONLY, "transaction_read_only"}):
        raise UsageError(
            f"{name} is on for a workload that reads and off for one that writes, which --allow-writes "
            f"DATABASE allows: leave {name} out"
        )


def _refuse_unfit(workload: WorkloadSpec, request: CompareRequest, typed: Typed) -> None:
    if workload.is_maintenance:
        raise UsageError(
            "workload maintenance needs its data restored before every run, which can't be done to a remote "
            "server: measure it on data of pgassay's own, with --dataset"
        )
    if request.swap is not None and len(typed.strings) != 2:
        raise UsageError(
            f"--swap gives each of two servers the other's settings, and {len(typed.strings)} "
            f"{'is' if len(typed.strings) == 1 else 'are'} named: write {NAME}=DSN,DSN, or leave --swap out"
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
                f"workload {request.workload} writes, and would change database {database} of "
                f"{each.server.name}: where that is meant, write --allow-writes {database}"
            )
        if named is not None and named != database:
            raise UsageError(
                f"--allow-writes {named} names another database than {database}, to which "
                f"{each.server.name} connects: name the same"
            )


def _check_scales(found: tuple[Found, ...], request: CompareRequest) -> None:
    scales = {each.name: each.dataset.scale for each in found}
    if len(set(scales.values())) > 1:
        told = ", ".join(f"{scale} on {name}" for name, scale in scales.items())
        raise UsageError(
            f"the pgbench tables are of different scales ({told}): load them alike with 'pgbench -i'"
        )
    scale = found[0].dataset.scale
    if request.scale not in (CompareRequest.scale, scale):
        raise UsageError(
            f"--scale {request.scale}: the tables of {found[0].name} are of scale {scale}: leave --scale out"
        )


def _with_servers(typed: Typed, others: tuple[Factor, ...], found: tuple[Found, ...]) -> tuple[Factor, ...]:
    if not typed.is_factor:
        return others
    names = tuple(each.name for each in found)
    factor = Factor(name=NAME, levels=names, kind=kind_of({each.name: each.patch() for each in found}))
    return (*others[: typed.place], factor, *others[typed.place :])


def _check_arms(candidates: list[Candidate], servers: Mapping[str, Resolved], notify: Notify) -> None:
    """Every arm's settings hold in a session of its server, and its statements can be planned there."""
    seen = set()
    for index, (_, spec) in enumerate(candidates):
        notify("checking every level on its server", index / len(candidates))
        if spec.server is None:
            continue
        resolved = servers[spec.server.name]
        identity = (spec.server.name, tuple(sorted(spec.settings.items())), spec.workload.text)
        if identity in seen:
            continue
        seen.add(identity)
        check_session_settings(resolved, spec.settings)
        _check_statements(resolved, spec)


def _check_statements(resolved: Resolved, spec: ArmSpec) -> None:
    with connect(session_parameters(resolved, spec.settings)) as session:
        for statement in spec.workload.statements:
            try:
                plans.explain(session, statement)
            except psycopg.Error as error:
                told = str(error).strip().splitlines()[0]
                raise UsageError(
                    f"{resolved.server.name} can't plan statement {statement.name} ({told}): correct its "
                    "SQL, or the database's tables"
                ) from None


def _described(found: Found, trip_ms: float) -> dict[str, Any]:
    """What reports show of a server."""
    server = found.resolved.server
    return {
        **server.model_dump(exclude={"name", "connection", "major"}),
        "round_trip_ms": round(trip_ms, 4),
    }


def _document(found: Found, trip_ms: float) -> dict[str, Any]:
    return {
        **_described(found, trip_ms),
        "settings": dict(found.facts.settings),
        "extensions": dict(found.facts.extensions),
    }


def _title(parsed: RemoteUnderstood) -> str:
    ways = [", ".join(factor.levels) for factor in parsed.factors if factor.name == "sql"]
    workload = ways[0] if ways else parsed.request.workload
    databases = ", ".join(dict.fromkeys(each.resolved.server.dbname for each in parsed.found))
    return f"{' '.join(factor.name for factor in parsed.factors)} on {workload}, remote database {databases}"


def _confounds(parsed: RemoteUnderstood, contrasts: tuple[Contrast, ...]) -> tuple[str, ...]:
    """What differs between the servers beside the factor: with two of them always the machines."""
    if not parsed.typed.is_factor or not contrasts:
        return ()
    control = parsed.compared.control if parsed.compared.factor == NAME else parsed.found[0].name
    first = next(each for each in parsed.found if each.name == control)
    varied = {factor.name for factor in parsed.factors}
    sentences = []
    for other in parsed.found:
        if other.name == control:
            continue
        pair = f"{other.name} and {first.name}"
        if other.facts.identity and other.facts.identity == first.facts.identity:
            sentences.append(f"{pair} are one and the same server: only the way to it differs")
            continue
        if parsed.request.swap:
            sentences.append(
                f"{pair} are two machines with a copy of the data each: before the swap their hardware and "
                "their settings are one difference; the two halves together tell them apart"
            )
        else:
            sentences.append(
                f"{pair} are two machines with a copy of the data each: hardware, network and settings are "
                'confounded, so the difference belongs to the servers as they are (--swap "COMMAND" swaps '
                "their settings halfway and tells them apart)"
            )
        sentence = differences_sentence((other.name, first.name), (other.facts, first.facts), varied)
        sentences += [sentence] if sentence else []
    return tuple(sentences)


def _warnings(parsed: RemoteUnderstood) -> tuple[str, ...]:
    sentences = []
    if parsed.writes:
        sentences.append(
            "nothing is restored between the trials on a remote server: each meets the rows, the dead row "
            "versions and the WAL that those before it left"
        )
    return tuple(sentences)
