"""Functions whose time per transaction differs: found where planted, not where there is nothing."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from profile_for_tests import RATE_HZ, STACKS, TRANSACTIONS, profiled

from pgassay.analysis.profile.result import profile_result
from pgassay.analysis.profile.stacks import begun, stacks_of
from pgassay.errors import UsageError
from pgassay.model.profile.result import FunctionTimes, ProfileResult
from pgassay.record import layout
from pgassay.record.stacks import STACKS_FILE, folded_stacks, to_folded

HASH = "hash_search_with_hash_value"


def result(folder: Path, **changes: object) -> ProfileResult:
    found = profile_result(profiled(folder, **changes))  # type: ignore[arg-type]
    assert found is not None
    return found


def named(functions: tuple[FunctionTimes, ...], name: str) -> FunctionTimes:
    return next(each for each in functions if each.name == name)


def test_a_function_that_takes_less_is_told_with_its_interval(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=12, factors={HASH: 0.8})
    function = named(found.functions, HASH)
    control, arm = function.arms
    assert (control.verdict, arm.verdict) == ("control", "less")
    assert control.us == pytest.approx(2000 / RATE_HZ / TRANSACTIONS * 1e6, rel=0.05)
    assert arm.ratio == pytest.approx(0.8, abs=0.04)
    assert arm.interval is not None
    low, high = arm.interval
    assert low is not None and high is not None and low < 0.8 < high < 1
    assert len(found.sentences) == 1
    assert found.sentences[0].startswith(f"{HASH} takes ")
    assert "less [" in found.sentences[0] and "per transaction in io_method=method1" in found.sentences[0]
    # What calls it and much else moves less, and its other callees not at all.
    assert named(found.functions, "palloc").arms[1].verdict == "inconclusive"


def test_a_function_that_is_new_in_an_arm_is_found_too(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=12, factors={"palloc": 0.0})
    arm = named(found.functions, "palloc").arms[1]
    assert (arm.us, arm.verdict) == (0.0, "less")
    assert arm.ratio is not None and 0 < arm.ratio < 0.01
    assert re.fullmatch(
        r"palloc takes [\d.]+ µs per transaction in io_method=sync, none in io_method=method1",
        found.sentences[0],
    )


def test_the_same_function_in_the_kernel_has_a_word_for_it(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=12, factors={"finish_task_switch_[k]": 2.0})
    (sentence,) = found.sentences
    assert re.match(r"finish_task_switch \(kernel\) takes (1\.9\d|2(\.0\d)?) × the time \[", sentence), (
        sentence
    )
    assert any("interrupts off" in note for note in found.notes)


def test_equal_arms_have_no_function_that_differs(tmp_path: Path) -> None:
    false = sum(bool(result(tmp_path / str(seed), rounds=10, seed=seed).sentences) for seed in range(30))
    assert false <= 3  # at a level of 0.05, 3 or fewer of 30 in 94 of 100 cases


def test_callers_hold_what_they_call_and_the_way_of_starting_is_left_out(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=3)
    names = {each.name for each in found.callers}
    assert {"exec_simple_query", "secure_read", "_bt_search"} <= names
    assert not names & {"_start", "main", "ServerLoop", "PostgresMain"}
    assert sum(each.share for each in found.functions) == pytest.approx(1.0, abs=0.01)
    assert begun("[unknown];CheckpointerMain;write_[k]") == ("CheckpointerMain", "write_[k]")
    assert begun("[unknown];[unknown];a;b") == ("a", "b")
    assert begun("[unknown]") == ("[unknown]",)


def test_too_few_rounds_are_said_and_claim_nothing(tmp_path: Path) -> None:
    found = result(tmp_path, rounds=2, factors={HASH: 0.1})
    assert not found.sentences
    assert "2 rounds are too few" in found.notes[0]


def test_an_experiment_without_a_profile_has_none(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=1)
    assert profile_result(replace(stored, profile=None)) is None
    assert stored.profile is not None
    assert profile_result(replace(stored, profile=replace(stored.profile, trials=()))) is None


def test_stacks_are_stored_as_they_are_and_damage_is_told(tmp_path: Path) -> None:
    place = tmp_path / layout.OBSERVATIONS_FOLDER
    place.mkdir()
    assert folded_stacks(tmp_path) is None
    counts = {stack: int(count) for stack, count in STACKS.items()}
    (place / STACKS_FILE).write_bytes(to_folded(counts))
    assert folded_stacks(tmp_path) == counts
    read = stacks_of(tmp_path)
    assert read is not None and sum(read.values()) == sum(counts.values())
    garbled = bytearray(to_folded(counts))
    # The first byte that is compressed: a block of a kind that there is none of.
    garbled[10] |= 0b110
    for damage in (b"", b"no gzip", to_folded(counts)[:-20], bytes(garbled)):
        (place / STACKS_FILE).write_bytes(damage)
        with pytest.raises(UsageError, match="is damaged"):
            folded_stacks(tmp_path)
