"""perf around the measured part of a trial, where its protocol asks for it."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pgassay.environment.linux.perf import SWITCH_PERIOD, PerfRecording, Stacks, find_perf
from pgassay.environment.linux.perf_counters import PerfCounting, has_counters
from pgassay.errors import MeasurementError
from pgassay.model.build import Build
from pgassay.record.stacks import STACKS_FILE, WAITS_FILE, to_folded
from pgassay.trial.profile.script_text import ScriptReader, fold, fold_waits
from pgassay.trial.target import LocalTrialServer
from pgassay.trial.trial_state import TrialState

FRAME_POINTERS = "-fno-omit-frame-pointer"


def stacks_of(build: Build) -> Stacks:
    """How the callers of this build's functions are found."""
    return "frame pointers" if FRAME_POINTERS in build.cflags else "unwound"


@contextmanager
def profiled(trial: TrialState, local: LocalTrialServer | None) -> Iterator[None]:
    """perf samples all processes of the server meanwhile; does nothing where none is asked for.

    What it recorded becomes folded stacks: those of the measured part, on the clock of the trial.
    Raises MeasurementError where perf fails.
    """
    rate_hz = trial.spec.protocol.profile_hz
    if not rate_hz or local is None:
        yield
        return
    perf, stacks = find_perf(), stacks_of(trial.arm.build)
    pids = local.running.server.process_ids()
    has_waits = perf.has_waits and stacks == "frame pointers"
    recording = PerfRecording(perf, pids, rate_hz, stacks, waits=has_waits)
    counting = PerfCounting(perf, pids) if has_counters(perf) else None
    try:
        with recording, counting or nullcontext():
            began_ns = time.monotonic_ns()
            yield
            ended_ns = time.monotonic_ns()
        trial.stage("reading the profile")
        began_s = time.monotonic()
        first_ns, last_ns = trial.observation.clock_ns or (began_ns, ended_ns)
        reader = ScriptReader(recording.lines())
        waits: Counter[str] = Counter()
        ran = fold_waits(reader, first_ns=first_ns, last_ns=last_ns, period=SWITCH_PERIOD, waits=waits)
        folded = fold(
            ran, callers=stacks != "none", keep=lambda sample: first_ns <= sample.clock_ns <= last_ns
        )
    finally:
        recording.close()
    samples = sum(folded.values())
    if not samples:
        raise MeasurementError("perf has no sample of the server: measure for longer, as duration=10s")
    trial.facts["profile"] = {
        "perf": perf.version,
        "event": perf.event,
        "rate_hz": rate_hz,
        "stacks": stacks,
        "samples": samples,
        "lost": reader.lost,
        "reading_s": round(time.monotonic() - began_s, 3),
        "counters": counting is not None,
        "switch_period": SWITCH_PERIOD if has_waits else 0,
        **({} if counting is None else counting.counts(first_ns, last_ns)),
    }
    trial.observations[STACKS_FILE] = to_folded(folded)
    if has_waits:
        trial.observations[WAITS_FILE] = to_folded(waits)
