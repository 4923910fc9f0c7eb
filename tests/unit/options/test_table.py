"""The one table of options: what stands in it is what commands, files and the stored models take."""

import argparse
from pathlib import Path
from typing import get_args

import pytest

from pgassay.cli import main
from pgassay.errors import UsageError
from pgassay.experiment.gating.gate_file import read_gate_file
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.experiment.planning.request import CompareRequest
from pgassay.model import experiment as models
from pgassay.options.option import FILE, GATE_FILE, Option
from pgassay.options.table import OPTIONS, options_for

# What a key can be in a file, where the option's own default says nothing.
VALUES: dict[str, object] = {
    "cache": "warm-pages", "metric": "p99", "plans": "off", "blocks": 7, "profile-rounds": 3, "seed": 9,
    "layouts": 8,
    "memory": "2GB", "cpus": 0.5, "scale": 3, "margin": "5%", "alpha": 0.01, "max-time": "2 m",
}  # fmt: skip
MODELS = {
    "cache": models.CacheState, "baseline": models.Baseline, "covariate": models.Covariate,
    "observe": models.Observe, "between": models.Between, "restart": models.Restart,
    "plans": models.PlanKind, "decide": models.Decide,
}  # fmt: skip


def commands() -> dict[str, argparse.ArgumentParser]:
    actions = main.parser()._actions
    return dict(next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices)


def given(option: Option) -> object:
    if option.is_switch:
        return not option.standard
    if option.choices:
        return next(each for each in option.choices if each != option.standard)
    return ["a", "b"] if option.is_repeated else VALUES.get(option.file_key, "a")


def toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(value)
        if not isinstance(value, str)
        else f'"{value}"'
    )


def test_every_command_has_the_flags_that_the_table_gives_it() -> None:
    for name, parser in commands().items():
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert not {option.flag for option in options_for(name)} - flags, name
    assert {place for option in OPTIONS for place in option.takes} <= {*commands(), FILE, GATE_FILE}


@pytest.mark.parametrize(
    "option", [each for each in options_for(FILE) if each.file_key], ids=lambda each: each.flag
)
def test_a_key_of_a_file_means_what_its_flag_does(option: Option, tmp_path: Path) -> None:
    """The same value, wherever it is written; in a gate's file too where that has the key."""
    value = given(option)
    texts = value if isinstance(value, list) else [value]
    typed = (
        [option.flag] if option.is_switch else [word for each in texts for word in (option.flag, str(each))]
    )
    chosen = main.parser().parse_args(["compare", "work_mem=1MB,2MB", *typed])
    from_flag = getattr(chosen, option.field)
    file = tmp_path / "experiment.toml"
    needed = f"{option.needs.removeprefix('--')} = true\n" if option.needs else ""
    file.write_text(f'{needed}{option.file_key} = {toml(value)}\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    from_file = getattr(read_file(file, None, ()), option.field)
    assert from_file != option.standard
    assert (tuple(from_flag) if isinstance(from_flag, list) else from_flag) == from_file
    if GATE_FILE in option.takes and option.file_key not in ("workload", "max-time"):
        file.write_text(f'[workloads.a]\nworkload = "select-only"\n{option.file_key} = {toml(value)}\n')
        assert getattr(read_gate_file(file).workloads["a"], option.field) == from_file


def test_a_key_that_a_gate_does_not_have_is_refused_with_those_it_has(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    for option in options_for(FILE):
        if GATE_FILE not in option.takes:
            file.write_text(f'[workloads.a]\nworkload = "select-only"\n{option.file_key} = 1\n')
            with pytest.raises(UsageError, match=f"no key '{option.file_key}' in .* keys are .*margin"):
                read_gate_file(file)


def test_words_are_those_of_the_stored_models() -> None:
    of_the_table = {option.field: option.choices for option in OPTIONS if option.field in MODELS}
    assert of_the_table == {name: get_args(model) for name, model in MODELS.items()}


def test_what_is_said_of_an_option_is_what_happens_without_it() -> None:
    request = CompareRequest(())
    for option in OPTIONS:
        assert getattr(request, option.field) == option.standard
        if option.default:
            assert option.parse(option.default) == option.standard
            assert f"(default {option.default})" in option.full_help
    assert "'host=db password=x'" not in repr(CompareRequest((), server="host=db password=x"))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("scale = true", "scale = True is not a text or a number"),
        ("scale = 0", "scale: '0' is not a whole number from 1 to 100000"),
        ('cache = "hot"', "cache: 'hot' is not known: use cold, cold-each"),
        ('pool = "yes"', "pool = 'yes' is not a bool: write true or false"),
        ('server = ["password=geheim"]', "server is not a text or a number"),
        ("profile-rounds = 900", "profile-rounds: '900' is not a whole number from 1 to 200"),
        ("scales = 3", "there is no key 'scales': the keys are factors, set, claim, workload"),
    ],
)
def test_what_a_file_says_wrongly_is_named_with_its_place(line: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(f'{line}\n[factors]\nwork_mem = ["1MB", "2MB"]\n')
    with pytest.raises(UsageError) as raised:
        read_file(file, None, ())
    assert str(raised.value).startswith(f"{file}: {sentence}")
    assert "geheim" not in str(raised.value)
