"""Whether the arms that are compared can be one running server, so that a block is one start of it.

Arms that differ by what a session can change, or by their statements' text, take turns in one server. What
a server must be started with, data of an arm's own, and a cache state that an execution uses up, ask for a
trial of each arm with a server of its own.
"""

from collections.abc import Sequence

from pgassay.environment.server.settings import classify
from pgassay.environment.server.validation import build_settings
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model.arm import Arm
from pgassay.model.experiment import BlockDesign, CacheState, Protocol

# The states that an execution leaves as it found them.
LASTING: tuple[CacheState, ...] = ("warm-buffers", "as-is")


def reason_for_restarts(
    request: CompareRequest, arms: Sequence[Arm], protocol: Protocol, design: BlockDesign
) -> str:
    """Why each trial has a server of its own, in a clause; '' where the arms take turns in one server."""
    return (
        _of_request(request, protocol, design)
        or next(filter(None, (_of_arm(arm, protocol) for arm in arms)), "")
        or _unlike(arms)
    )


def _of_request(request: CompareRequest, protocol: Protocol, design: BlockDesign) -> str:
    if request.restart == "each":
        return "--restart each asks for it"
    if protocol.cache not in LASTING:
        return f"with --cache {protocol.cache} an execution changes what the next one finds in memory"
    if request.between == "neutral":
        return "--between neutral is for trials, one after the other"
    if request.covariate != "none":
        return f"--covariate {request.covariate} is read before each trial"
    if protocol.executions or protocol.statement_limits or protocol.repetitions > 1:
        return "a trial executes its statements several times by itself"
    return "" if design.data_copies else "each arm has the copy of the data that it names"


def _of_arm(arm: Arm, protocol: Protocol) -> str:
    workload = arm.spec.workload
    if arm.spec.server is not None:
        return "the servers run already"
    if workload.kind != "statements" or workload.is_mix or workload.is_maintenance:
        return "only statements that are executed one by one can take turns"
    if arm.spec.leaves_data_changed and not (protocol.rolls_back and arm.spec.dataset.settled):
        return "the statements change the data"
    if arm.spec.memory_bytes is not None or arm.spec.cpus is not None:
        return "the servers are capped"
    return ""


def _unlike(arms: Sequence[Arm]) -> str:
    """What a server must be started with, and the arms of a stratum differ in."""
    controls = {arm.stratum: arm for arm in arms if arm.role == "control"}
    for arm in arms:
        one, other = arm.spec, controls[arm.stratum].spec
        if one.data_identity != other.data_identity or one.build != other.build:
            return "the arms differ in their data or their version"
        if one.storage != other.storage:
            return "the arms differ in their storage"
        names = sorted(one.settings.keys() | other.settings.keys())
        varied = [name for name in names if one.settings.get(name) != other.settings.get(name)]
        facts = build_settings(one.build)
        fixed = [name for name in varied if classify(facts, name) != "session"]
        if fixed:
            return f"no session can change {fixed[0]}"
    return ""
