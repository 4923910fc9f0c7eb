"""Plays a capture as a load and takes its observation."""

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from pgassay.errors import InvalidTrialError, MeasurementError
from pgassay.model.arm import ArmSpec
from pgassay.model.traffic.replay_result import ReplayFamily
from pgassay.model.traffic.trial_replay import Replayed, ReplayedFamily
from pgassay.model.trial import LoadObservation, StatementObservation
from pgassay.model.workload import ReplayOptions, WorkloadSpec
from pgassay.native.replay_commands import ReplayProgress, ReplayReady, ReplayRecord, play
from pgassay.record import layout
from pgassay.record.observations import stddev_ms
from pgassay.traffic import play_plan
from pgassay.traffic.tables import words_of
from pgassay.trial.measure.histogram_log import histogram_log, line_of
from pgassay.trial.target import ServerSession
from pgassay.trial.trial_state import Observation

# Of those that have no name in the workload the first are kept, and those that came out otherwise.
_OTHERS_MAX = 100


def run(server: ServerSession, spec: ArmSpec, on_progress: Callable[[ReplayProgress], None]) -> Observation:
    """Play the capture once; raises MeasurementError when it can't be played or is another than was planned.

    The mean time of each statement family, of executions that came out as in the capture, becomes that of
    the statement of its name, and so has a verdict.
    """
    options = spec.workload.replay
    if play_plan.identity(Path(options.folder)) != options.identity:
        raise MeasurementError(
            f"the capture {options.folder} is not the one that was planned: put that back, or start again"
        )
    document, notes = _document(server, options)
    ready, ended = play(document, on_progress)
    families = play_plan.families_of(ended["families"])
    means_s = play_plan.same_mean_s(ended["families"])
    names = {play_plan.named(each.sql): each.name for each in spec.workload.statements}
    measured = ended["measured"]
    histogram = base64.b64decode(measured["histogram"])
    log = (
        ("all", measured["latency_ms"]["max"], measured["histogram"]),
        ("own-delay", measured["own_delay_ms"]["max"], measured["own_delay_histogram"]),
    )
    return Observation(
        statements=[
            _statement(names[each.text], means_s[each.text])
            for each in families
            if each.text in names and means_s.get(each.text, 0.0) > 0
        ],
        load=_observed(ready, ended, families, names, stddev_ms(histogram)),
        clock_ns=(measured["start_ns"], measured["end_ns"]),
        files={
            layout.HISTOGRAM_FILE: histogram,
            layout.HISTOGRAM_LOG_FILE: histogram_log(
                line_of(tag, 0, ended["seconds"], most_ms, found) for tag, most_ms, found in log
            ).encode(),
        },
        warnings=notes,
    )


def assert_same_work(workload: WorkloadSpec, load: LoadObservation) -> None:
    """Raise InvalidTrialError where more came out otherwise than the workload allows."""
    replayed = load.replayed
    if replayed is None:
        return
    bound = workload.replay.bound
    if replayed.diverged_share <= bound:
        return
    worst = max(replayed.families, key=lambda each: each.diverged)
    lost = f" (sessions lost: {replayed.sessions_lost:,})" if replayed.sessions_lost else ""
    raise InvalidTrialError(
        f"statements with {100 * replayed.diverged_share:.1f} % of the captured time differ "
        f"from the capture, and {100 * bound:g} % is allowed{lost}; most often "
        f"({worst.diverged:,} of {worst.calls:,}) {worst.text[:80]}: {worst.captured} then, {worst.now} now: "
        "are the data a copy as of the capture's beginning? (max_diverged= allows more)"
    )


def _document(server: ServerSession, options: ReplayOptions) -> tuple[dict[str, object], list[str]]:
    parameters = server.parameters()
    with server.connect_another("pgassay control") as session:
        words, tables = words_of(session, 0)
        roles, missing = play_plan.role_options(session)
    return {
        "connect": dict(parameters),
        "folder": options.folder,
        "speed": options.speed,
        "from_s": options.from_s,
        "until_s": options.until_s,
        "sample": options.sample,
        "users": list(options.users),
        "databases": {options.database: parameters["dbname"]},
        "names": {options.database: {word: touch.document() for word, touch in words.items()}},
        "tables": tables,
        "options": {parameters["dbname"]: roles},
        # The data are a copy that is restored where the workload says that it writes.
        "writes": True,
    }, [missing] if missing else []


def _statement(name: str, mean_s: float) -> StatementObservation:
    return StatementObservation(name=name, elapsed_s=mean_s, rows=0, cold=False, aio=False)


def _observed(
    ready: ReplayReady,
    ended: ReplayRecord,
    families: list[ReplayFamily],
    names: Mapping[str, str],
    stddev: float,
) -> LoadObservation:
    player, measured = ended["player"], ended["measured"]
    kept, left_out = kept_families(families, names)
    return LoadObservation(
        transactions=ended["replayed"],
        elapsed_s=ended["seconds"],
        errors=0,
        client_cpu_s=player["cpu_s"],
        latency_ms=measured["latency_ms"] | {"stddev": stddev},
        own_delay_ms=measured["own_delay_ms"],
        client_idle_s=max(0.0, ended["seconds"] - player["cpu_s"] - player["without_processor_s"]),
        client_run_queue_s=player["without_processor_s"],
        threads=1,
        replayed=Replayed(
            statements=ready["statements"],
            diverged=sum(each.diverged for each in families),
            diverged_share=play_plan.diverged_share(families),
            other_values=sum(each.other_values for each in families),
            lacking=ended["lacking"],
            reordered=ended["reordered"],
            replaced=ended["replaced"],
            waited_s=ended["waited_s"],
            sessions=ready["sessions"],
            sessions_lost=ended["sessions_lost"],
            failures=ended["failures"],
            behind_ms=ended["behind_ms"] or {},
            families=tuple(_family(names.get(each.text, ""), each) for each in kept),
            families_left_out=len(left_out),
            seconds_left_out=sum(each.seconds_captured for each in left_out),
        ),
    )


def kept_families(
    families: Sequence[ReplayFamily], names: Collection[str]
) -> tuple[list[ReplayFamily], list[ReplayFamily]]:
    """Those that a trial's record keeps, in their order, and the rest, which came out as in the capture.

    names: the texts of those that have a name in the workload, and come first.
    """
    named = [each for each in families if each.text in names]
    others = [each for each in families if each.text not in names]
    rest = others[_OTHERS_MAX:]
    otherwise = [each for each in rest if each.diverged or each.other_values]
    return [*named, *others[:_OTHERS_MAX], *otherwise], [
        each for each in rest if not (each.diverged or each.other_values)
    ]


def _family(name: str, each: ReplayFamily) -> ReplayedFamily:
    return ReplayedFamily(
        name=name,
        text=each.text,
        calls=each.calls,
        diverged=each.diverged,
        other_values=each.other_values,
        seconds_captured=each.seconds_captured,
        seconds=each.seconds,
        captured=each.example.captured if each.example else "",
        now=each.example.now if each.example else "",
    )
