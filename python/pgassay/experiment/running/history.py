"""What earlier experiments on this machine tell about a new one: how long a trial takes, its spread.

Without any, one trial is rehearsed: it is run and recorded like a trial, in a folder of its own that
is thrown away, and enters no statistic.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pgassay.analysis.verdicts.primary import single_trial_spread
from pgassay.environment.cleanup.scratch import scratch_folder
from pgassay.environment.datasets import describe as describe_dataset
from pgassay.environment.home import home
from pgassay.environment.server.limits import describe_limits
from pgassay.environment.storage.parse import describe
from pgassay.errors import MeasurementError
from pgassay.experiment.running.loop import TrialRunner, expected_trial_s
from pgassay.experiment.running.schedule import next_step
from pgassay.model.experiment import Experiment
from pgassay.record.read import StoredExperiment
from pgassay.record.write import to_json, write_file

_FORMAT = 1
_ENTRIES_MAX = 500


@dataclass(frozen=True)
class Known:
    """Mean wall time of one trial, and the upper bound of the spread of single trials (None: unknown)."""

    trial_s: float
    spread: float | None


def _key(experiment: Experiment) -> str:
    spec = experiment.arms[0].spec
    clients = sorted({arm.spec.workload.load.clients for arm in experiment.arms if arm.spec.workload.load})
    parts = [spec.build.version, spec.workload.text, str(clients), describe_dataset(spec.dataset)]
    parts += [caps] if (caps := describe_limits(spec)) else []
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
    trial_s = expected_trial_s(stored)
    entry = _read().get(_key(stored.experiment))
    if trial_s is not None:
        return Known(trial_s, single_trial_spread(stored))
    if entry is None or not entry["trial_s"]:
        return None
    return Known(trial_s=entry["trial_s"], spread=entry["spread"])


def remember(stored: StoredExperiment) -> None:
    """Keep what this experiment took, for the next one."""
    trial_s = expected_trial_s(stored)
    if trial_s is None:
        return
    entries = _read()
    entries.pop(_key(stored.experiment), None)
    entries[_key(stored.experiment)] = asdict(Known(trial_s, single_trial_spread(stored)))
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
