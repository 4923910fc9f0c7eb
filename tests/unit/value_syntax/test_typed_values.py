"""Typed values mean the same on the command line, in a file and in a list of options."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgassay.cli import options as cli_options
from pgassay.cloud_volumes.pattern import parse_pattern
from pgassay.environment.server.server_caps import parse_memory
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import read_file
from pgassay.storage.parse import parse_storage
from pgassay.value_syntax import option_lists, quantities
from pgassay.workloads.registry import parse_workload

GIB = 1024**3
DURATIONS = {"90": 90.0, "90s": 90.0, "5 m": 300.0, "5min": 300.0, "1.5h": 5400.0, "500ms": 0.5}


def in_a_file(folder: Path) -> Callable[[str], float]:
    def read(text: str) -> float:
        file = folder / "experiment.toml"
        file.write_text(f'max-time = "{text}"\n[factors]\nwork_mem = ["4MB", "8MB"]\n')
        return read_file(file, None, ()).max_time_s

    return read


def of_a_workload(text: str) -> float:
    load = parse_workload(f"select-only:duration={text}").load
    assert load is not None
    return load.duration_s


def of_a_simulated_load(text: str) -> float:
    return parse_pattern(f"duration={text}")["duration_s"]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_a_duration_is_the_same_everywhere(text: str, seconds: float, tmp_path: Path) -> None:
    assert quantities.seconds(text) == pytest.approx(seconds)
    readers = [cli_options.duration, of_a_simulated_load]
    if seconds >= 1:
        readers += [in_a_file(tmp_path), of_a_workload]
    assert {read(text) for read in readers} == {seconds}


def test_a_long_time_is_taken_by_the_command_line_and_by_a_file(tmp_path: Path) -> None:
    assert cli_options.duration("900h") == in_a_file(tmp_path)("900h") == 900 * 3600


@pytest.mark.parametrize("text", ["2GB", "2 GB", "2gb", "2GiB", "2048MiB", "2097152kB"])
def test_a_size_is_the_same_everywhere(text: str) -> None:
    storage = parse_storage(f"loop:size={text}").size_bytes
    assert quantities.size_bytes(text) == parse_memory(text, "--memory") == storage == 2 * GIB


def test_a_fraction_is_the_same_everywhere() -> None:
    assert cli_options.fraction("30%") == cli_options.fraction("0.3") == pytest.approx(0.3)
    for text in ("30%", "0.3"):
        assert parse_pattern(f"writes={text}")["write_share"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("parse", "text", "sentence"),
    [
        (quantities.seconds, "soon", "--x: 'soon' is not a duration: write for example 90s, 5m or 1h"),
        (quantities.seconds, "5 parsecs", "is not a duration"),
        (quantities.seconds, "99999d", "is more than 3650d"),
        (
            quantities.size_bytes,
            "4",
            "'4' is not a size: write a number and kB, MB, GB or TB",
        ),
        (quantities.size_bytes, "4QB", "is not a size"),
        (quantities.fraction, "nan", "is not a fraction: write 0.03 or 3%"),
        (quantities.whole, "-1", "is not a whole number of 0 or more: write digits only"),
        (quantities.processors, "two", "is not a number of processors: write 0.001 or more"),
    ],
)
def test_a_refusal_names_the_place_and_the_remedy(
    parse: Callable[[str, str], float], text: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=r"^--x: ") as caught:
        parse(text, "--x")
    assert sentence in str(caught.value)


def test_the_command_line_says_which_option_it_was() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--max-time", type=cli_options.duration)
    with pytest.raises(argparse.ArgumentError, match=r"argument --max-time: 'soon' is not a duration"):
        parser.parse_args(["--max-time", "soon"])


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_gets_a_sentence(text: str) -> None:
    numbers = (quantities.fraction, quantities.whole, quantities.processors)
    for parse in (quantities.seconds, quantities.size_bytes, *numbers):
        try:
            assert isinstance(parse(text), int | float)
        except UsageError as error:
            assert "write" in str(error)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5))
def test_escaped_parts_are_split_as_they_were(parts: list[str]) -> None:
    assert option_lists.split(option_lists.joined(parts)) == parts


def test_options_are_read_by_name() -> None:
    assert option_lists.of("a=1, b = two=2", "a thing", ("a", "b")) == {"a": "1", "b": "two=2"}
    assert option_lists.of("", "a thing", ()) == {}
    for text, sentence in (
        ("c=1", "a thing has no option 'c': its options are a, b"),
        ("a", "a thing: option a has no value: write a=…"),
        ("a=", "a thing: option a has no value"),
        ("a=1,a=2", "a thing: option a is given twice"),
    ):
        with pytest.raises(UsageError, match=sentence):
            option_lists.of(text, "a thing", ("a", "b"))
