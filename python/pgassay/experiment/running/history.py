"""What earlier experiments on this machine tell about a new one: how long a trial takes, its spread.

Without any, one trial is rehearsed: it is run and recorded like a trial, in a folder of its own that
is thrown away, and enters no statistic.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from pgassay.analysis.verdicts.primary import single_trial_spread
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.environment.datasets import describe as describe_dataset
from pgassay.environment.home import home
from pgassay.environment.server.limits import describe_limits
from pgassay.environment.storage.parse import describe
from pgassay.errors import MeasurementError
from pgassay.experiment.running.loop import TrialRunner
from pgassay.experiment.running.loop import expected_trial_s as mean_trial_s
from pgassay.experiment.running.schedule import next_step
from pgassay.model.experiment import Experiment
from pgassay.record.read import StoredExperiment
from pgassay.record.write import to_json, write_file

_FORMAT = 1
_ENTRIES_MAX = 500
# Of a trial of which nothing is known yet: settling and starting, and its statements.
_BETWEEN_TRIALS_S = 1.0
_STATEMENTS_S = 1.0
# A first scale outside of these would make the first blocks worthless, whatever the history says.
_FIRST_SCALE_MIN, _FIRST_SCALE_MAX = 0.002, 0.5


@dataclass(frozen=True)
class Known:
    """Mean wall time of one trial, and the spread of single trials (None: unknown).

    spread: its upper bound (80 %), for promises; spread_median: as likely too small as too large.
    """

    trial_s: float
    spread: float | None
    spread_median: float | None = None


def _key(experiment: Experiment) -> str:
    spec = experiment.arms[0].spec
    clients = sorted({arm.spec.workload.load.clients for arm in experiment.arms if arm.spec.workload.load})
    parts = [spec.build.version, spec.workload.text, str(clients), describe_dataset(spec.dataset)]
    parts += [caps] if (caps := describe_limits(spec)) else []
    parts += [experiment.baseline] if experiment.baseline != "fixed" else []
    servers = sorted({arm.spec.server.name for arm in experiment.arms if arm.spec.server})
    where = " ".join(servers) if servers else describe(spec.storage)
    parts += [experiment.design.between] if experiment.design.between != "nothing" else []
    return " | ".join([*parts, experiment.protocol.cache, where])


def _file() -> Path:
    return home() / "history.json"


def _read() -> dict[str, dict[str, float | None]]:
    try:
        stored = json.loads(_file().read_bytes())
    except (OSError, ValueError):
        return {}  # no history, or one cut short: the next rehearsal makes it anew
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        return {}
    entries: dict[str, dict[str, float | None]] = stored["entries"]
    return entries


def known(stored: StoredExperiment) -> Known | None:
    """What its own trials tell, when it is resumed; else what earlier experiments of the same kind took."""
    trial_s = mean_trial_s(stored)
    entry = _read().get(_key(stored.experiment))
    if trial_s is not None:
        return Known(trial_s, single_trial_spread(stored))
    if entry is None or not entry["trial_s"]:
        return None
    return Known(trial_s=entry["trial_s"], spread=entry["spread"])


def expected_trial_s(experiment: Experiment) -> float:
    """What a trial took in an earlier experiment of the same kind; else the least that it will."""
    entry = _read().get(_key(experiment))
    if entry and entry["trial_s"]:
        return entry["trial_s"]
    load = experiment.arms[0].spec.workload.load
    measured_s = _STATEMENTS_S if load is None else load.duration_s + load.warmup_s
    return _BETWEEN_TRIALS_S + measured_s


def with_known_scale(experiment: Experiment) -> Experiment:
    """The plan with the first scale of its evidence from earlier experiments of its kind on this machine.

    The scale is the spread of an arm's log speed less the mean of its controls': a single trial's, times
    √(1 + 1/controls). Unchanged when none is known; it is fixed before the first trial, so the evidence is
    valid however wrong it may be.
    """
    entry = _read().get(_key(experiment), {})
    spread = entry.get("spread_median") or entry.get("spread")
    if not spread:
        return experiment
    pooled = experiment.contract.pool_twin and all(item.twin_id for item in experiment.contrasts)
    scale = spread * math.sqrt(1.5 if pooled else 2.0)
    first = float(f"{min(max(scale, _FIRST_SCALE_MIN), _FIRST_SCALE_MAX):.3g}")
    return experiment.model_copy(
        update={"contract": experiment.contract.model_copy(update={"first_scale": first})}
    )


def remember(stored: StoredExperiment) -> None:
    """Keep what this experiment took, for the next one."""
    trial_s = mean_trial_s(stored)
    if trial_s is None:
        return
    entries = _read()
    entries.pop(_key(stored.experiment), None)
    known_now = Known(trial_s, single_trial_spread(stored), single_trial_spread(stored, confidence=0.5))
    entries[_key(stored.experiment)] = asdict(known_now)
    kept = dict(list(entries.items())[-_ENTRIES_MAX:])
    write_file(_file(), to_json({"format": _FORMAT, "entries": kept}))


def rehearse(experiment: Experiment, run: TrialRunner) -> Known:
    """Run a trial of the control once; raises MeasurementError with its reason when it does not succeed."""
    control = next(arm for arm in experiment.arms if arm.role == "control")
    spec = next_step(experiment, ()).spec
    with scratch_folder() as scratch:
        _, record = run(spec.model_copy(update={"arm": control}), scratch)
    if record.status != "ok":
        raise MeasurementError(f"the rehearsal of {control.name} was {record.status}: {record.reason}")
    return Known(trial_s=record.took_s, spread=None)
