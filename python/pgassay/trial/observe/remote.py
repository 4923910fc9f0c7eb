"""What can be observed of a remote server during a trial: looks at its sessions, and what it counts of reads.

Both over sessions of their own, which begin before the measured part and end after it. Whatever fails in it
costs these files and nothing else.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from pgassay.errors import first_line
from pgassay.trial.observe.base import Sampler
from pgassay.trial.observe.runner import SamplerRunner
from pgassay.trial.observe.server_observer import ServerObserver, rate_hz
from pgassay.trial.observe.server_reads import INTERVAL_S, ServerReadsSampler
from pgassay.trial.target import ServerSession
from pgassay.trial.trial_state import TrialState

# A look at a server elsewhere is a round trip, and somebody else's processors answer it.
_RATE_MAX_HZ = 10.0
_FAST_FACTOR = 2.0
# How often looks are put out: the reads in flight are a mean over several windows of them.
_OUTPUT_S = 0.5


@contextmanager
def observed_by_sql(trial: TrialState, server: ServerSession) -> Iterator[None]:
    """Observe meanwhile, as often as the protocol says ('off': not at all); the files are the trial's."""
    protocol = trial.spec.protocol
    most_hz = _RATE_MAX_HZ * (_FAST_FACTOR if protocol.observe == "fast" else 1.0)
    rate = min(most_hz, rate_hz(trial.arm, protocol))
    if rate <= 0:
        yield
        return
    with ExitStack() as stack:
        observer = stack.enter_context(ServerObserver(server, rate, _OUTPUT_S))
        runner = stack.enter_context(SamplerRunner(_samplers(trial, server, stack), INTERVAL_S))
        yield
    trial.facts["observer"] = observer.facts
    trial.observations |= observer.files() | runner.files()
    trial.warnings += [*observer.warnings, *runner.warnings]


def _samplers(trial: TrialState, server: ServerSession, stack: ExitStack) -> list[Sampler]:
    try:
        session = stack.enter_context(server.connect_to_look("pgassay reads"))
    except psycopg.Error as error:
        trial.warnings.append(f"not all is observed: what the server reads: {first_line(error)}")
        return []
    return [ServerReadsSampler(session, trial.arm.build.major)]
