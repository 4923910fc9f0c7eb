"""What finders are asked with: the workload as it is, and later with what was chosen."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pgassay.environment.home import home
from pgassay.environment.last_probe import last_probe
from pgassay.environment.linux import machine
from pgassay.environment.linux.device import device_of
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.model.storage import StorageSpec
from pgassay.tune.alternatives import other_storages, other_versions
from pgassay.tune.candidate import AdvisedMachine, Candidate, Symptom
from pgassay.tune.copy import TrialCopy
from pgassay.tune.facts.schema import SchemaFacts
from pgassay.tune.search.selection import Baseline, total_s
from pgassay.tune.source.origin import CopyOrigin
from pgassay.tune.tools import TuneTools, found_by
from pgassay.tune.tune_plan import PlannedTune

# What a server has that nobody configured, and the servers of trials have otherwise.
SOURCE_SETTINGS = {"autovacuum": "on"}
# Cache states in which statements read what is in memory.
_OF_MEMORY = ("warm-pages", "warm-buffers")
Plans = Mapping[str, tuple[ExplainedPlan, ...]]


def symptom_for(
    planned: PlannedTune,
    baseline: Baseline,
    plans: Plans,
    facts: SchemaFacts,
    origin: CopyOrigin | None,
    load_s: float,
) -> Symptom:
    """What finders judge. `load_s`: what loading the data took."""
    return Symptom(
        statements=planned.statements,
        plans=plans,
        facts=facts,
        share=_shares(baseline),
        machine=AdvisedMachine(
            memory_bytes=planned.spec.memory_bytes or machine.memory_bytes(),
            processors=machine.cores_usable(),
            reads_memory=planned.base.protocol.cache in _OF_MEMORY,
            empties_buffers=planned.base.protocol.cache in ("warm-pages", "cold", "cold-each"),
            **_probed(planned),
        )
        if origin is None or origin.is_here
        else AdvisedMachine(),
        has_physical_state=planned.has_physical_state,
        versions=other_versions(planned.spec, load_s, planned.request.max_time_s),
        storages=other_storages(planned.spec),
        gain_min=min(Symptom.gain_min, planned.request.margin),
        endless=baseline.endless_statements,
        clients=max(planned.spec.workload.connections, origin.clients if origin is not None else 1),
        held_by=origin.held_by if origin is not None else "",
    )


def _probed(planned: PlannedTune) -> dict[str, float | None]:
    """What the last probe of the disk of the copies says; {} where none is kept, or they are on a volume."""
    probe = last_probe(device_of(home())) if planned.spec.storage == StorageSpec() else None
    if probe is None:
        return {}
    return {
        "random_read_us": probe.ceilings.latency_us_depth_1.get("p50"),
        "sequential_read_mb_s": probe.ceilings.sequential_read_mb_s,
    }


def unprobed(planned: PlannedTune, origin: CopyOrigin | None) -> str:
    """What is said where advice on reads of the disk is left out, since no probe of it is kept; else ''."""
    is_elsewhere = origin is not None and not origin.is_here
    if is_elsewhere or planned.base.protocol.cache in _OF_MEMORY or _probed(planned):
        return ""
    if planned.spec.storage != StorageSpec():
        return ""
    return (
        "this disk has not been probed, so there is no advice on its reads (random_page_cost, "
        f"effective_io_concurrency, io_method): run 'pgassay probe {home()}' once"
    )


def _shares(baseline: Baseline) -> dict[str, float]:
    """Each statement's part of the workload's time, with all sets of its values."""
    whole = total_s(baseline.weights, baseline.seconds)
    share: dict[str, float] = {}
    for each in baseline.statements:
        weighted = baseline.weights[each.name] * baseline.seconds[each.name]
        share[each.of.name] = share.get(each.of.name, 0.0) + weighted / (whole or 1.0)
    return share


def facts_of_source(
    facts: SchemaFacts, given: Mapping[str, str], origin: CopyOrigin | None = None
) -> SchemaFacts:
    """The facts without what pgassay's own servers are started with so that nothing disturbs a trial.

    A source has autovacuum on, unless it was said that it has not. What a server that was read has counted
    takes the place of its copy's counts.
    """
    settings = facts.settings | {name: SOURCE_SETTINGS[name] for name in SOURCE_SETTINGS if name not in given}
    facts = facts.model_copy(update={"settings": settings})
    return facts if origin is None or origin.counted is None else facts.counted_by(origin.counted)


def ask_finders_again(
    tools: TuneTools, copy: TrialCopy, symptom: Symptom, given: Mapping[str, str]
) -> Callable[[Baseline, Plans, Mapping[str, str]], tuple[Candidate, ...]]:
    """Asks the finders of the plans with what is applied to the copy just then, and of its catalogs.

    `symptom`: that of the workload as it is. What its server has counted stays: on the copy it was the search
    that read and wrote. Neither versions nor storages are offered again.
    """

    def ask(upon: Baseline, plans: Plans, texts: Mapping[str, str]) -> tuple[Candidate, ...]:
        facts = facts_of_source(tools.read_facts(copy.session), given).counted_by(symptom.facts)
        statements = tuple(
            each.model_copy(update={"sql": texts.get(each.name, each.sql)}) for each in symptom.statements
        )
        again = replace(
            symptom,
            statements=statements,
            plans={**symptom.plans, **plans},
            facts=facts,
            share=_shares(upon),
            versions=(),
            storages=(),
            endless=upon.endless_statements,
        )
        return found_by(tools, again)

    return ask
