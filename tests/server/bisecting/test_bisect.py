"""A line of real builds, one of which starts its servers with another default: the search finds it.

The builds are the machine's own behind a program that starts it, as a package with another default would be.
"""

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from pgassay.environment.builds.registry import resolve
from pgassay.report.schema import BISECT

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
# Every lookup reads the whole table: more than a hundred times as slow.
SLOW = ("enable_indexscan=off", "enable_indexonlyscan=off", "enable_bitmapscan=off")
COUNT, PLANTED = 3, 2
ROUNDS = 3
# Other experiments on the host come first.
BUSY_S = 1800
WORKLOAD = ("--workload", "select-only:duration=500ms,clients=1,warmup=0s", *whole_tool.SMALL)


@pytest.fixture(scope="module")
def line() -> Iterator[list[Path]]:
    """Bin folders 0 to 2, where the account of the servers can enter; the last uses no index."""
    real = Path(resolve("18").bin_directory)
    top = Path(tempfile.mkdtemp(prefix="pgassay-test-", dir="/tmp"))
    top.chmod(0o755)
    try:
        yield [_build(top / str(number), real, SLOW if number >= PLANTED else ()) for number in range(COUNT)]
    finally:
        shutil.rmtree(top)


def _build(folder: Path, real: Path, settings: tuple[str, ...]) -> Path:
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True)
    for program in real.iterdir():
        if program.name != "postgres":
            (bin_folder / program.name).symlink_to(program)
    words = " ".join(f"-c {setting}" for setting in settings)
    starter = bin_folder / "postgres"
    starter.write_text(
        f'#!/bin/sh\n# build {folder.name}\n[ "$1" = -D ] && exec {real}/postgres "$@" {words}\n'
        f'exec {real}/postgres "$@"\n'
    )
    starter.chmod(0o755)
    return bin_folder


def _command(line: list[Path], out: Path, *more: str) -> list[str]:
    builds = ",".join(str(path) for path in line)
    return ["bisect", f"build={builds}", *WORKLOAD, "--out", str(out), "--max-time", "10m", "--json", *more]


@pytest.mark.shares_machine
def test_the_build_with_another_default_is_found_and_an_interrupted_search_continues(
    line: list[Path], tmp_path: Path
) -> None:
    # A hundredfold is seen in a fifth of a second; perf below needs longer.
    command = [word.replace("=500ms", "=200ms") for word in _command(line, tmp_path / "out")]
    with whole_tool.start(*command) as begun:
        while not (tmp_path / "out" / "ends" / "blocks").is_dir():
            time.sleep(0.1)
            assert begun.poll() is None, begun.communicate()
        begun.send_signal(signal.SIGINT)
        said = begun.communicate(timeout=120)
    assert begun.returncode == 130, said
    assert "run it again to continue" in said[1]
    before = json.loads((tmp_path / "out" / "bisect.json").read_text())
    document = whole_tool.result_of(whole_tool.run(*command))
    jsonschema.validate(document, BISECT.schema(), cls=jsonschema.Draft202012Validator)
    after = json.loads((tmp_path / "out" / "bisect.json").read_text())
    assert after["rounds"][: len(before["rounds"])] == before["rounds"]
    assert document["verdict"] == "found"
    assert [each["name"] for each in document["steps"][0]["culprits"]] == [str(line[PLANTED])]
    assert document["ratio"] > 10
    assert document["headline"].startswith("The slow-down of ")
    other = whole_tool.run(*command, "--scale", "2")
    assert "searched with a different scale" in whole_tool.assert_one_sentence(other, 2)


@pytest.mark.shares_machine
def test_a_build_whose_server_does_not_start_is_left_out(line: list[Path], tmp_path: Path) -> None:
    broken = _build(line[0].parents[1] / "broken", Path(resolve("18").bin_directory), ())
    starter = broken / "postgres"
    starter.write_text(starter.read_text().replace("[ ", 'test "$1" = -D && exit 1\n[ ', 1))
    command = _command([line[0], broken, line[PLANTED]], tmp_path / "out")
    ended = whole_tool.run(*(word.replace("=500ms", "=200ms") for word in command))
    document = whole_tool.result_of(ended)
    assert document["verdict"] == "found", ended.stderr
    assert [each["name"] for each in document["steps"][0]["culprits"]] == [str(broken), str(line[PLANTED])]
    assert document["untestable"] == [str(broken)]
    assert f"{broken} is left out, its server does not start" in ended.stderr


@pytest.mark.slow
def test_releases_of_one_major_are_fetched_and_searched(tmp_path: Path, require: Callable[..., None]) -> None:
    require("npm")
    with whole_tool.private_home() as home:
        fetched = whole_tool.run("builds", "install", "npm:17.8..17.10", home=home)
        assert fetched.returncode == 0, fetched.stderr
        words = ("bisect", "version=17.8..17.10", *WORKLOAD, "--margin", "20%", "--json")
        ended = whole_tool.run(*words, "--max-time", "10m", "--out", tmp_path / "out", home=home)
        document = whole_tool.result_of(ended)
    assert (document["kind"], document["candidates"]) == ("builds", 2)
    assert document["headline"] == "The ends do not differ beyond 20 %: nothing to find."


@pytest.mark.slow
@pytest.mark.timeout(2000)
def test_both_sides_of_the_found_step_are_profiled(
    line: list[Path], tmp_path: Path, require: Callable[..., None]
) -> None:
    """Of three builds the ends find the last or the round after them: what is left of the time is perf's."""
    require("perf")
    command = _command(line, tmp_path / "out", "--profile", "--profile-rounds", str(ROUNDS))
    with whole_tool.prepared_home() as home:
        document = whole_tool.result_of(whole_tool.run(*command, home=home, timeout=BUSY_S))
        jsonschema.validate(document, BISECT.schema(), cls=jsonschema.Draft202012Validator)
        assert document["verdict"] == "found"
        found = document["profile"]
        # A round of which other processes spoilt a trial twice does not count.
        assert 1 <= found["rounds"] <= ROUNDS
        # The sides of the step, and not the ends of the line.
        sides = [f"build={line[place]}" for place in (PLANTED - 1, PLANTED)]
        assert [arm["name"] for arm in found["arms"]] == sides
        # All that the step adds is time within the executor: reading the whole table.
        scans = [each for each in found["callers"] if each["name"] in ("ExecSeqScan", "heap_getnextslot")]
        assert scans and all(each["arms"][1]["us"] > 3 * each["arms"][0]["us"] for each in scans)
        # What is there is not measured again, and the page names where all functions are.
        shown = whole_tool.run(*(word for word in command if word != "--json"), "--quiet", home=home)
        assert f"pgassay report {tmp_path / 'out'}/profile" in " ".join(
            shown.stdout.replace("\\\n", " ").split()
        )
        again = whole_tool.result_of(whole_tool.run(*command, home=home))
    assert again["profile"] == found and again["trials"] == document["trials"]


@pytest.mark.shares_machine
def test_ends_that_are_one_program_have_nothing_to_find(line: list[Path], tmp_path: Path) -> None:
    first = str(line[0])
    command = [
        "bisect",
        f"build={first},{line[1]},{line[0].parent}",
        *WORKLOAD,
        "--out",
        str(tmp_path / "out"),
    ]
    ended = whole_tool.run(*command, "--quiet")
    assert ended.returncode == 0, ended.stderr
    assert "Both ends build the same server: nothing to find." in ended.stdout
