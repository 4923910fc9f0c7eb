"""`--plan`: what an experiment takes and can decide, from its plan and what the machine remembers."""

import json
import math

import jsonschema
import pytest

import report_examples as examples
from pgassay.analysis.statistics.power import blocks_for_detection, minimum_blocks, resolvable_effect
from pgassay.experiment.running.earlier_experiments import TrialHistory
from pgassay.experiment.running.plan_preview import planned
from pgassay.model.experiment import BlockDesign, Experiment
from pgassay.model.result import Planned
from pgassay.model.workload import LoadSpec
from pgassay.report import schema
from pgassay.report.plan_preview import page_of


def experiment(strata: list[str], **contract: object) -> Experiment:
    made = examples.stored(strata=strata, levels=["sync", "worker"], blocks=1).experiment
    changed = made.contract.model_copy(update={"contrasts": len(made.contrasts), **contract})
    return made.model_copy(update={"contract": changed, "design": BlockDesign(strata="apart")})


def load(made: Experiment, duration_s: float) -> Experiment:
    """The same with a load in every arm."""
    arms = []
    for arm in made.arms:
        workload = arm.spec.workload.model_copy(
            update={
                "kind": "load",
                "load": LoadSpec(script="tpcb", clients=2, duration_s=duration_s, warmup_s=1),
            }
        )
        arms.append(arm.model_copy(update={"spec": arm.spec.model_copy(update={"workload": workload})}))
    return made.model_copy(update={"arms": tuple(arms)})


def checked(found: Planned) -> Planned:
    document = json.loads(page_of(found).json())
    jsonschema.validate(document, schema.PLANNED.schema(), cls=jsonschema.Draft202012Validator)
    return found


def test_what_is_known_of_an_earlier_experiment_decides_time_and_spread() -> None:
    made = experiment(["1", "8"], time_max_s=1200.0)
    found = checked(planned(made, TrialHistory(trial_s=10.0, spread=0.02, spread_median=0.01)))
    assert found.trials_per_round == len(made.arms) == 6
    assert (found.trial_s, found.trial_s_from, found.spread, found.spread_known) == (
        *(10.0, "earlier experiment"),
        *(0.01, True),
    )
    terms = {"pooled": True, "contrasts": 2, "alpha": 0.05}
    assert found.blocks_least == minimum_blocks(pooled=True, contrasts=2, alpha=0.05)
    assert found.blocks_wanted == blocks_for_detection(
        0.01 * math.sqrt(2), 0.03, pooled=True, contrasts=2, alpha=0.05
    )
    assert found.least_s == found.blocks_least * 60 and found.wanted_s == found.blocks_wanted * 60
    assert [cell.stratum for cell in found.cells] == ["clients=1", "clients=8"]
    for cell in found.cells:
        assert cell.blocks == 20
        assert cell.resolves == pytest.approx(
            resolvable_effect(20, 0.01 * math.sqrt(2), pooled=terms["pooled"], contrasts=2, alpha=0.05)
        )
        assert cell.is_decidable is True


def test_a_time_that_is_too_short_decides_nothing() -> None:
    found = checked(planned(experiment([""], time_max_s=60.0), TrialHistory(trial_s=10.0, spread=0.07)))
    (cell,) = found.cells
    assert (cell.blocks, cell.resolves, cell.is_decidable) == (2, None, False)
    assert "too few for a verdict" in page_of(found).terminal()
    assert "Nothing was measured" in page_of(found).terminal(unicode=False)
    wide = checked(planned(experiment([""], time_max_s=600.0), TrialHistory(trial_s=10.0, spread=0.3)))
    assert wide.cells[0].resolves is not None and wide.cells[0].is_decidable is False
    assert "not the margin of 3%" in page_of(wide).terminal().replace(" %", "%")


def test_without_a_history_a_load_tells_its_length_and_statements_nothing() -> None:
    found = checked(planned(load(experiment([""]), 20.0), None))
    assert found.trial_s_from == "length of the load" and found.trial_s is not None
    assert 21 < found.trial_s < 40 and found.spread_known is False
    unknown = checked(planned(experiment(["1", "8"]), None))
    assert (unknown.trial_s, unknown.least_s, unknown.wanted_s) == (None, None, None)
    assert [cell.blocks for cell in unknown.cells] == [None, None]
    assert "rehearsal of one trial" in page_of(unknown).terminal()


def test_the_schema_is_the_file_s() -> None:
    assert schema.PLANNED.file.read_text(encoding="utf-8") == schema.PLANNED.text()


def test_the_number_of_blocks_is_a_limit_too() -> None:
    found = planned(
        experiment([""], time_max_s=10_000.0, blocks_max=5), TrialHistory(trial_s=1.0, spread=0.01)
    )
    assert found.cells[0].blocks == 5


def test_starts_that_all_arms_share_are_counted_by_what_they_find() -> None:
    made = experiment([""], unit="start", time_max_s=120.0)
    found = checked(planned(made, TrialHistory(trial_s=1.0, spread=0.02, spread_median=0.02)))
    assert (found.blocks_least, found.cells[0].blocks) == (3, 40)
    few = planned(made, TrialHistory(trial_s=10.0, spread=0.02, spread_median=0.02)).cells[0]
    assert few.blocks == 4
    assert found.cells[0].resolves is not None and few.resolves is not None
    assert found.cells[0].resolves < few.resolves
    assert few.blocks < found.blocks_wanted <= 40 and found.cells[0].is_decidable


def test_why_trials_have_servers_of_their_own_is_said_where_starts_were_asked_for() -> None:
    made = experiment([""]).model_copy(update={"restarts": "a session can't change shared_buffers"})
    (said,) = planned(made, None).warnings
    assert said == "Each trial has its own server: a session can't change shared_buffers."
    assert said in page_of(planned(made, None)).terminal()
