"""A function that a tree renamed is compared with what it was: by the lines of two real small builds."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest
from profile_for_tests import profiled

import whole_tool
from pgassay.analysis.profile.flame import flames
from pgassay.analysis.profile.result import profile_result
from pgassay.cli import source_builds
from pgassay.environment.source_builds.function_renames import Body, body_of, matched, renamed_functions
from pgassay.errors import UsageError
from pgassay.experiment.running.profiling_rounds import renamed_in_arms, run_profile
from pgassay.progress import NullProgress
from pgassay.record.layout import PROFILE_FOLDER
from pgassay.record.renames import RENAMES_FILE, renames_of, write_renames
from pgassay.trial.target import Target
from samples.builds import source_tree

HASH, LOOKUP = "hash_search_with_hash_value", "hash_lookup"
# Not static, so that no compiler puts them into their caller.
SOURCE = """int other(void);
int {0}(int x);
int more(int x);
int
{0}(int x)
{{
	int sum = 0;

	for (int i = 0; i < x; i++)
		sum += i * x;
	if (sum > 100)
		return {0}(sum / 2);
	return sum;
}}
{1}int other(void) {{ return more(0) * {0}(1); }}
"""
MORE = """int
more(int x)
{
	volatile int y = x;

	while (y > 3)
		y = y - 1;
	return y;
}
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[..., None]) -> Iterator[Path]:
    """Branches `before` and `renamed`, where a function has another name and stands behind another one."""
    require("source-tools")
    clone = source_tree.clone_of_one(tmp_path / "postgres")
    name = "src/backend/other.c"
    source_tree.commit(clone, "before", name, MORE + SOURCE.format(HASH, ""))
    source_tree.commit(clone, "renamed", name, SOURCE.format(LOOKUP, MORE).replace("> 100", "> 99"))
    with whole_tool.private_home() as home:
        monkeypatch.setenv("PGASSAY_HOME", str(home))
        yield clone


def test_a_renamed_function_is_told_by_its_lines(clone: Path) -> None:
    names = [f"git:{clone}@{branch}" for branch in ("before", "renamed")]
    old, new = source_builds.provide(names, 1, quiet=True, layouts=1)
    assert renamed_functions(old, new) == {LOOKUP: HASH}
    assert renamed_functions(new, old) == {HASH: LOOKUP}
    assert renamed_functions(old, old) == {}
    package = old.model_copy(update={"source": None})
    assert renamed_functions(package, new) == {}
    # A branch that moved on is still known by what was built of it; a clone that has gone is not.
    source_tree.git(clone, "branch", "--force", "renamed", "before")
    assert renamed_functions(old, new) == {LOOKUP: HASH}
    clone.rename(clone.with_name("elsewhere"))
    assert renamed_functions(old, new) == {}


def body(name: str, text: str) -> Body:
    return Body(name, "x.c", tuple(text.split()))


def test_only_one_that_is_clearly_the_same_is_taken() -> None:
    old = body("old", "a b c d e f g h")
    assert matched([old], [body("new", "a b c d e x g h")]) == {"new": "old"}
    assert matched([old], [body("new", "a b c p q r s t")]) == {}
    # Two that are as similar: neither.
    assert matched([old], [body("new", "a b c d e x g h"), body("copy", "a b c d e y g h")]) == {}
    assert matched([old], [body("new", "a b c d e x g h"), body("same", "a b c d e f g h")]) == {
        "same": "old"
    }


def test_a_body_ends_at_its_brace_and_short_ones_say_nothing() -> None:
    text = "int\nf(int x)\n{\n\treturn f(x);\n\n}\nint g;\n"
    found = body_of("f", "x.c", 2, text)
    assert found is not None and found.lines == ("*(int x)", "{", "return *(x);")
    assert body_of("f", "x.c", 4, text) is None
    assert body_of("f", "x.c", 7, text) is None
    assert body_of("f", "x.c", 99, text) is None


def test_a_function_is_compared_under_the_name_that_it_has_in_the_control(tmp_path: Path) -> None:
    stored = profiled(tmp_path, rounds=12, factors={HASH: 0.8}, renamed={HASH: LOOKUP})
    assert stored.profile is not None
    arm = next(arm for arm in stored.experiment.arms if arm.role == "arm")
    # Without their being matched, one has gone and another has come.
    apart = profile_result(stored)
    assert apart is not None and {HASH, LOOKUP} <= {each.name for each in apart.functions}
    write_renames(stored.profile.folder, {arm.id: {LOOKUP: HASH}})
    found = profile_result(stored)
    assert found is not None
    assert LOOKUP not in {each.name for each in found.functions}
    assert found.sentences[0].startswith(f"{HASH} takes 2")
    assert any(f"{LOOKUP} in {arm.name} is compared as {HASH}" in note for note in found.notes)
    (flame,) = flames(stored, 4)
    text = str(flame.root)
    assert HASH in text and LOOKUP not in text


def test_what_was_renamed_is_recorded_by_arm_and_damage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = profiled(tmp_path, rounds=1)
    module = "pgassay.experiment.running.profiling_rounds.renamed_functions"
    monkeypatch.setattr(module, lambda *_: {LOOKUP: HASH})
    arm = next(arm for arm in stored.experiment.arms if arm.role == "arm")
    assert renamed_in_arms(stored.experiment) == {arm.id: {LOOKUP: HASH}}
    folder = tmp_path / PROFILE_FOLDER
    assert renames_of(folder) == {}
    write_renames(folder, {arm.id: {LOOKUP: HASH}})
    assert renames_of(folder) == {arm.id: {LOOKUP: HASH}}
    for damage in ("{", json.dumps({"format": 1}), json.dumps({"format": 1, "renamed": [1]})):
        (folder / RENAMES_FILE).write_text(damage)
        with pytest.raises(UsageError, match=RENAMES_FILE):
            renames_of(folder)
    assert profile_result(replace(stored, profile=None)) is None


def test_an_interruption_while_names_are_matched_leaves_no_profile_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = profiled(tmp_path / "made", rounds=1)
    protocol = made.experiment.protocol.model_copy(update={"profile_rounds": 1})
    experiment = made.experiment.model_copy(update={"protocol": protocol})
    stored = replace(made, experiment=experiment, folder=tmp_path, profile=None, stopped="blocks")
    module = "pgassay.experiment.running.profiling_rounds"

    def interrupted(*_: object) -> dict[str, str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{module}.renamed_functions", interrupted)
    target = cast(Target, None)
    with pytest.raises(KeyboardInterrupt):
        run_profile(stored, target, NullProgress())
    monkeypatch.setattr(f"{module}.renamed_functions", lambda *_: {LOOKUP: HASH})
    monkeypatch.setattr(f"{module}.ExperimentTrials", Mock())
    monkeypatch.setattr(f"{module}.run_experiment", lambda profile, *_: profile)
    assert run_profile(stored, target, NullProgress()).profile is not None
    assert [*renames_of(tmp_path / PROFILE_FOLDER).values()] == [{LOOKUP: HASH}]
