"""Plays a capture against a server, and sums up what came out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from pgassay.environment.remote.connection_parameters import CONTROL_NAME, Resolved, resolve
from pgassay.environment.remote.read_only import NotReadOnlyError, connect_guarded
from pgassay.environment.remote.session_settings import READ_ONLY, session_parameters
from pgassay.environment.server.sessions import ConnectionParameters
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.traffic.replay_result import Percentiles, ReplayPlayer, ReplayResult
from pgassay.native.process import NativeProcess, StatementError
from pgassay.traffic import manifest
from pgassay.traffic.play_plan import databases_of, diverged_share, families_of, role_options
from pgassay.traffic.tables import TouchDocument, never_analysed, words_of

BOUND_DEFAULT = 0.01
# The catalogs tell of partitions' roots since then.
_MAJOR_MIN = 12
# A player that is busy for more of its time, or sends later than this by its own doing, may be the limit.
_BUSY_SHARE_MAX = 0.8
_LATE_P99_MAX_MS = 5.0
_TEXT_SHOWN = 160
_UNFINISHED = (
    "the capture is incomplete (it was killed, is still running, or is damaged): the part before that was "
    "replayed"
)
_NEVER_ANALYSED = (
    "{} of {} never analysed, so plans are guesses: run ANALYZE on the copy before a replay (a dump that "
    "was restored has no statistics)"
)


@dataclass(frozen=True)
class ReplayRequest:
    """What was asked for. `speed` None: as fast as the order between sessions allows."""

    folder: Path
    connection: str
    speed: float | None = 1.0
    from_s: float | None = None
    until_s: float | None = None
    users: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    allow_writes: str | None = None
    bound: float = BOUND_DEFAULT
    # When no server says anything for so long all sessions end; None: the player's own, a minute.
    silent_s: float | None = None


@dataclass(frozen=True)
class ReplayStart:
    """What there is to play."""

    sessions: int
    statements: int
    seconds_captured: float
    server: str
    notes: tuple[str, ...] = ()


def replay(
    request: ReplayRequest,
    on_start: Callable[[ReplayStart], None],
    on_progress: Callable[[Mapping[str, Any]], None],
) -> ReplayResult:
    """Play a capture once; Ctrl-C (KeyboardInterrupt) ends it early, with what came out until then.

    Raises UsageError for what can't be done as typed, MeasurementError where the player ended by itself.
    """
    known = manifest.read(request.folder)
    captured = _databases(request)
    resolved = resolve(request.connection, "DSN", major_min=_MAJOR_MIN)
    _refuse_unguarded(request, resolved)
    target = resolved.server.dbname
    databases = {next(iter(captured)): target} if len(captured) == 1 else {name: name for name in captured}
    document, notes = _document(request, resolved, databases)
    process = NativeProcess("replay")
    try:
        process.send(document)
        try:
            ready = process.receive()["ready"]
        except StatementError as error:
            raise UsageError(error.message) from None
        _check_writes(request, ready, databases, resolved.server.name)
        if not ready["statements"]:
            raise UsageError(
                f"{request.folder} has no statements to replay with this --from, --until, --users or "
                f"--databases: 'pgassay capture show {request.folder}' says what it has"
            )
        if ready["unfinished"]:
            notes.append(_UNFINISHED)
        on_start(
            ReplayStart(
                ready["sessions"],
                ready["statements"],
                ready["seconds_captured"],
                resolved.server.name,
                tuple(notes),
            )
        )
        ended = _until_over(process, on_progress)
    finally:
        process.end()
    return _result(request, resolved, known, ready, ended, notes)


def _databases(request: ReplayRequest) -> list[str]:
    """The capture's databases that are to be played."""
    found = databases_of(request.folder, request.users)
    for name in request.databases:
        if name not in found:
            raise UsageError(
                f"--databases {name}: the capture has no sessions in it, but in "
                f"{', '.join(found) or 'none'}: name one of these"
            )
    chosen = [name for name in found if not request.databases or name in request.databases]
    if not chosen:
        raise UsageError(
            f"{request.folder} has no sessions of {', '.join(request.users) or 'anybody'}: see pgassay "
            f"capture show {request.folder} for its users"
        )
    return chosen


def _document(
    request: ReplayRequest, resolved: Resolved, databases: dict[str, str]
) -> tuple[dict[str, object], list[str]]:
    names: dict[str, dict[str, TouchDocument]] = {}
    notes: list[str] = []
    options: dict[str, dict[str, str]] = {}
    missing, tables = "", 0
    for captured, target in list(databases.items()):
        try:
            with _connected(request.connection, target) as session:
                words, tables = words_of(session, tables)
                names[captured] = {word: touch.document() for word, touch in words.items()}
                options[target], missing = role_options(session)
                if unknown := never_analysed(session):
                    notes.append(_NEVER_ANALYSED.format(unknown, target))
        except psycopg.OperationalError as error:
            if len(databases) == 1:
                raise MeasurementError(f"{target} can't be read: {str(error).splitlines()[0]}") from None
            raise UsageError(
                f"the capture has sessions in database {captured}, which {resolved.server.name} "
                "does not have or does not allow: restore it there, or choose with --databases"
            ) from None
    if missing:
        notes.append(missing)
    return {
        "connect": dict(parameters_of(request, resolved)),
        "folder": str(request.folder.resolve()),
        "speed": request.speed,
        "from_s": request.from_s,
        "until_s": request.until_s,
        "users": list(request.users),
        "databases": databases,
        "names": names,
        "tables": tables,
        "options": options,
        "writes": request.allow_writes is not None,
        "silent_s": request.silent_s,
    }, notes


def parameters_of(request: ReplayRequest, resolved: Resolved) -> ConnectionParameters:
    """How sessions are opened: where nothing may be written, the server refuses what its text did not tell.

    A function may write in dynamic SQL, or by another connection.
    """
    if request.allow_writes is not None:
        return resolved.parameters
    return session_parameters(resolved, READ_ONLY)


def _refuse_unguarded(request: ReplayRequest, resolved: Resolved) -> None:
    """Raise UsageError where sessions must be read-only and would not be."""
    if request.allow_writes is not None:
        return
    server = resolved.server
    try:
        connect_guarded(parameters_of(request, resolved)).close()
    except NotReadOnlyError as error:
        raise UsageError(
            f"{server.name} {error}, so nothing would keep the replay from writing: name the server itself "
            f"and not a pooler, or, of a copy that may be written to, add --allow-writes {server.dbname}"
        ) from None


def _connected(connection: str, database: str) -> "psycopg.Connection[tuple[object, ...]]":
    text = conninfo.make_conninfo(connection, dbname=database, application_name=CONTROL_NAME)
    return psycopg.connect(text, autocommit=True)


def _check_writes(
    request: ReplayRequest, ready: Mapping[str, Any], databases: dict[str, str], server: str
) -> None:
    named, targets = request.allow_writes, sorted(set(databases.values()))
    if named is not None and set(named.split(",")) != set(targets):
        raise UsageError(
            f"--allow-writes {named} names another database than {','.join(targets)}, where this capture is "
            "replayed: name the same"
        )
    if ready["writing"] and named is None:
        example = " ".join(str(ready["writing_example"]).split())[:_TEXT_SHOWN]
        raise UsageError(
            f"the capture has statements that may write ({example}), and would change database "
            f"{', '.join(targets)} of {server}: replay it on a copy, and write --allow-writes "
            f"{','.join(targets)}"
        )


def _until_over(process: NativeProcess, on_progress: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    try:
        while True:
            line = process.receive()
            if "ended" in line:
                ended: dict[str, Any] = line["ended"]
                return ended
            on_progress(line["progress"])
    except KeyboardInterrupt:
        # What was played until now is still worth its report.
        pass
    for line in process.last_words():
        if "ended" in line:
            stopped: dict[str, Any] = line["ended"]
            return stopped
    raise MeasurementError("the player ended unexpectedly: run the replay again on a fresh copy")


def _result(
    request: ReplayRequest,
    resolved: Resolved,
    known: dict[str, object],
    ready: Mapping[str, Any],
    ended: Mapping[str, Any],
    notes: list[str],
) -> ReplayResult:
    families = families_of(ended["families"])
    share = diverged_share(families)
    player = _player(ended)
    server = known.get("server")
    is_stopped = bool(ended["is_stopped"])
    return ReplayResult(
        folder=str(request.folder),
        server=resolved.server.name,
        server_version=resolved.server.version,
        captured_version=str(server["version"]) if isinstance(server, dict) and "version" in server else None,
        speed=request.speed,
        seconds_captured=ended["seconds_captured"],
        seconds=ended["seconds"],
        is_stopped=is_stopped,
        is_valid=not (share > request.bound or player.is_limit or is_stopped),
        bound=request.bound,
        statements=ready["statements"],
        replayed=ended["replayed"],
        diverged=sum(each.diverged for each in families),
        diverged_share=share,
        other_values=sum(each.other_values for each in families),
        lacking=ended["lacking"],
        reordered=ended["reordered"],
        replaced=ended["replaced"],
        waited_s=ended["waited_s"],
        sessions=ready["sessions"],
        sessions_left_out=ready["left_out"],
        sessions_lost=ended["sessions_lost"],
        failures=ended["failures"],
        busy_captured_s=sum(each.seconds_captured for each in families),
        busy_s=sum(each.seconds for each in families),
        latency_ms=ended["latency_ms"],
        behind_ms=ended["behind_ms"],
        player=player,
        families=families,
        notes=notes,
    )


def _player(ended: Mapping[str, Any]) -> ReplayPlayer:
    own = ended["player"]
    late = Percentiles.model_validate(own["late_ms"]) if own["late_ms"] else None
    late_p99_ms = late.p99 if late else 0.0
    is_busy = own["cpu_s"] > _BUSY_SHARE_MAX * max(ended["seconds"], 1e-9)
    return ReplayPlayer(
        cpu_s=own["cpu_s"],
        without_processor_s=own["without_processor_s"],
        late_p99_ms=late_p99_ms,
        late_ms=late,
        is_limit=is_busy or late_p99_ms > _LATE_P99_MAX_MS,
    )
