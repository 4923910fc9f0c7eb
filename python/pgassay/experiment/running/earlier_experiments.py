"""What earlier experiments on this machine took, in home()/history.json: an entry for each kind of them."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from pgassay.durable import replace_file
from pgassay.environment.datasets import describe as describe_dataset
from pgassay.environment.home import home
from pgassay.environment.server.server_caps import describe_limits
from pgassay.model.experiment import Experiment
from pgassay.storage.parse import describe

# 2: limits around pgassay's process are a part of the key.
_FORMAT = 2
_ENTRIES_MAX = 500
# A first scale outside of these would make the first blocks worthless, whatever the history says.
_FIRST_SCALE_MIN, _FIRST_SCALE_MAX = 0.002, 0.5


@dataclass(frozen=True)
class TrialHistory:
    """Mean wall time of one trial, and the spread of single trials (None: unknown).

    spread: its upper bound (80 %), for promises; spread_median: as likely too small as too large. strata_s:
    the mean wall time of a trial in each stratum of a grid.
    """

    trial_s: float
    spread: float | None
    spread_median: float | None = None
    strata_s: Mapping[str, float] = field(default_factory=dict)


_ENTRIES = TypeAdapter(dict[str, TrialHistory])


def history_file() -> Path:
    """Where it is kept."""
    return home() / "history.json"


def recall(experiment: Experiment) -> TrialHistory | None:
    """What the last experiment of the same kind took on this machine; None where there was none."""
    known = _read().get(_key(experiment))
    return known if known is not None and known.trial_s else None


def remember(experiment: Experiment, known: TrialHistory) -> None:
    """Keep what this experiment took, for the next one; raises OSError.

    What earlier ones took in strata that this one did not run is kept.
    """
    entries = _read()
    earlier = entries.pop(_key(experiment), None)
    strata_s = {**(earlier.strata_s if earlier else {}), **known.strata_s}
    entries[_key(experiment)] = replace(known, strata_s=strata_s)
    kept = {key: asdict(each) for key, each in list(entries.items())[-_ENTRIES_MAX:]}
    document = json.dumps({"format": _FORMAT, "entries": kept}, indent=1, ensure_ascii=False, allow_nan=False)
    replace_file(history_file(), f"{document}\n".encode())


def with_known_scale(experiment: Experiment, known: TrialHistory | None) -> Experiment:
    """The plan with the first scale of its evidence from earlier experiments of its kind on this machine.

    The scale is the spread of an arm's log speed less the mean of its controls': a single trial's, times
    √(1 + 1/controls). Unchanged when none is known; it is fixed before the first trial, so the evidence is
    valid however wrong it may be.
    """
    spread = known and (known.spread_median or known.spread)
    if not spread:
        return experiment
    pooled = experiment.contract.pool_twin and all(item.twin_id for item in experiment.contrasts)
    scale = spread * math.sqrt(1.5 if pooled else 2.0)
    first = float(f"{min(max(scale, _FIRST_SCALE_MIN), _FIRST_SCALE_MAX):.3g}")
    return experiment.model_copy(
        update={"contract": experiment.contract.model_copy(update={"first_scale": first})}
    )


def _key(experiment: Experiment) -> str:
    spec = experiment.arms[0].spec
    servers = sorted({arm.spec.server.name for arm in experiment.arms if arm.spec.server})
    where = " ".join(servers) if servers else describe(spec.storage)
    clients = sorted(
        {
            arm.spec.workload.connections
            for arm in experiment.arms
            if arm.spec.workload.load or arm.spec.workload.is_mix
        }
    )
    parts = [spec.build.version, spec.workload.text, str(clients), describe_dataset(spec.dataset)]
    parts += [caps] if (caps := describe_limits(spec)) else []
    # What ran slowed down on purpose tells nothing of the noise of what has the machine for itself.
    limits = experiment.environment.limits
    parts += [f"{limits.cpus:g} of the processors"] if limits.cpus is not None else []
    parts += [f"nice {limits.niceness}"] if limits.niceness else []
    parts += [experiment.baseline] if experiment.baseline != "fixed" else []
    parts += [experiment.design.between] if experiment.design.between != "nothing" else []
    parts += ["rounds in a start"] if experiment.contract.unit == "start" else []
    if latency := experiment.contract.metric.latency:
        # A tail scatters several times as much as a mean, and more the nearer the server is to its limit.
        loads = [arm.spec.workload.load for arm in experiment.arms]
        parts += [f"{latency} at {sorted({load.pace.text for load in loads if load and load.pace})}"]
    # The least of several executions scatters less than one.
    parts += ["several executions"] if experiment.protocol.executions else []
    return " | ".join([*parts, experiment.protocol.cache, where])


def _read() -> dict[str, TrialHistory]:
    try:
        stored = json.loads(history_file().read_bytes())
        if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
            return {}
        return _ENTRIES.validate_python(stored.get("entries"))
    except (OSError, ValueError):
        return {}  # no history, one cut short or spoilt: the next rehearsal makes it anew
