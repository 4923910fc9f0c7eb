"""Where the limit moves from the storage to the processors along a factor of a grid."""

from itertools import product

import pytest

import report_examples as examples
from pgassay.analysis.causes.crossover import crossover_sentences
from pgassay.model.arm import Arm
from pgassay.model.cause import Cause


def grid(**factors: list[str]) -> list[Arm]:
    base = examples.arms(["sync"], [""])[0]
    made = []
    for combination in product(*factors.values()):
        levels = dict(zip(factors, combination, strict=True))
        name = " ".join(f"{factor}={level}" for factor, level in levels.items())
        made.append(base.model_copy(update={"name": name, "levels": levels, "stratum": ""}))
    return made


def limit(arm: Arm, cause: str) -> Cause:
    return Cause(
        arm=arm.name,
        stratum=arm.stratum,
        kind="limit",
        cause=cause,
        layer="infrastructure",
        seconds=1.0,
        share=1.0,
        evidence={},
        gain_if_lifted=None,
        remedy="",
        trials=1,
        observed=1,
    )


@pytest.mark.parametrize(
    "cause", ["backend-writes", "extension", "wal-insert", "wal-fsync", "checkpoint-wait"]
)
def test_what_writes_wait_for_is_on_the_storage_s_side(cause: str) -> None:
    arms = grid(clients=["1", "50"])
    (sentence,) = crossover_sentences(arms, [limit(arms[0], cause), limit(arms[1], "all-cores")])
    assert sentence == "Along clients the limit moves from the storage to the processors (1 → 50)."


def test_the_levels_between_which_it_moves_are_named() -> None:
    arms = grid(range_size=["100", "1000", "10000"])
    limits = ["storage-iops", "storage-latency", "backend-core"]
    causes = [limit(arm, cause) for arm, cause in zip(arms, limits, strict=True)]
    assert crossover_sentences(arms, causes) == (
        "Along range_size the limit moves from the storage to the processors (1000 → 10000).",
    )
    # What lies on neither side hides no move, and a move back is none.
    causes[1] = limit(arms[1], "client-bound")
    assert "(100 → 10000)" in crossover_sentences(arms, causes)[0]
    assert crossover_sentences(arms, [limit(arm, "row-locks") for arm in arms]) == ()
    backwards = [limit(arm, cause) for arm, cause in zip(arms, reversed(limits), strict=True)]
    assert crossover_sentences(arms, backwards) == ()


def test_each_factor_of_a_grid_has_its_sentence() -> None:
    arms = grid(storage=["slow", "fast"], clients=["1", "50"])
    limits = ["storage-latency", "storage-iops", "storage-latency", "all-cores"]
    causes = [limit(arm, cause) for arm, cause in zip(arms, limits, strict=True)]
    by_storage, by_clients = crossover_sentences(arms, causes)
    assert by_storage == (
        "Along storage the limit moves from the storage to the processors in 1 of 2 combinations "
        "(clients=50: slow → fast)."
    )
    assert "Along clients" in by_clients and "(storage=fast: 1 → 50)" in by_clients


def test_twins_and_faults_say_nothing() -> None:
    arms = grid(clients=["1", "50"])
    causes = [limit(arms[0], "storage-iops"), limit(arms[1], "all-cores")]
    assert crossover_sentences([arms[0], arms[1].model_copy(update={"role": "twin"})], causes) == ()
    assert crossover_sentences(arms, [causes[0], causes[1].model_copy(update={"kind": "fault"})]) == ()


def test_many_moves_are_counted() -> None:
    arms = grid(clients=[str(number) for number in range(5)], storage=["slow", "fast"])
    sides = {"slow": "storage-iops", "fast": "backend-core"}
    (sentence,) = crossover_sentences(arms, [limit(arm, sides[arm.levels["storage"]]) for arm in arms])
    assert "in 5 of 5 combinations" in sentence and sentence.endswith("; and 2 more).")
