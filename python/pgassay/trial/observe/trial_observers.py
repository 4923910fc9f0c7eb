"""What is observed while a trial is measured: the server's threads, its machine, and an imitated volume.

Each is a context around the measured part. What it saw is put into the trial when that part has ended.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pgassay.record.columns import to_parquet
from pgassay.trial.caches.relations import Relation
from pgassay.trial.observe.registry import samplers
from pgassay.trial.observe.remote import observed_by_sql
from pgassay.trial.observe.runner import SamplerRunner
from pgassay.trial.observe.server_observer import ServerObserver, rate_hz
from pgassay.trial.snapshots import readings
from pgassay.trial.target import LocalTrialServer, ServerSession
from pgassay.trial.trial_state import TrialState


@contextmanager
def volume_imposed(trial: TrialState) -> Iterator[None]:
    """What an imitated volume imposes, meanwhile; its figures are the trial's."""
    if trial.machine is None:
        yield
        return
    with trial.machine.measured(trial.spec.arm) as delivered:
        yield
    if delivered is None:
        return
    trial.warnings += delivered.warnings
    for name, each in (("volume", delivered), *(("wal_volume", wal) for wal in delivered.wal)):
        if each.columns:
            trial.facts[name] = each.facts
            trial.observations[f"{name}.parquet"] = to_parquet(each.columns, sampler=name, version=1)
            trial.observations |= each.files


@contextmanager
def threads_observed(
    trial: TrialState, server: ServerSession, local: LocalTrialServer | None
) -> Iterator[None]:
    """What the threads of a server on this machine do and wait for, meanwhile; elsewhere what SQL tells."""
    if local is None:
        with observed_by_sql(trial, server):
            yield
        return
    rate = rate_hz(trial.arm, trial.spec.protocol)
    with ServerObserver(local.running, rate, trial.spec.protocol.sample_interval_s) as observer:
        yield
    # What the server spent on answering the samples is no work of the workload.
    trial.fields["server_cpu_s"] -= observer.own_cpu_s
    trial.facts["observer"] = observer.facts
    trial.observations |= observer.files()
    trial.warnings += observer.warnings


@contextmanager
def machine_sampled(
    trial: TrialState, local: LocalTrialServer | None, relations: Sequence[Relation]
) -> Iterator[None]:
    """The samplers of this machine, meanwhile, and the distance of its clocks at both ends."""
    if local is None:
        yield
        return
    files = [file for relation in relations for file in relation.files]
    watched = samplers(local.device, local.group, files, local.inherited)
    offset_ns = readings.clock_offset_ns()
    with SamplerRunner(watched, trial.spec.protocol.sample_interval_s) as runner:
        yield
    trial.fields["clock_offset_ns"] = (offset_ns, readings.clock_offset_ns())
    trial.observations |= runner.files()
    trial.warnings += runner.warnings
