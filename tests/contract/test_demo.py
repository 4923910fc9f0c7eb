"""`make demo`: its command lines mean what they say, and an ordinary account gets the other one."""

import os
import shlex
from collections.abc import Callable

import pytest

from pgassay.cli import main
from pgassay.errors import UsageError
from pgassay.factors.registry import parse_factors
from pgassay.storage.parse import parse_storage
from pgassay.workloads.registry import parse_workload
from steps import demo, project

LINES = [demo.LIMITED_VOLUME, demo.ORDINARY_ACCOUNT.format(method="worker")]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the demonstration would have run in its place."""
    run: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: run.append([str(program), *words[1:]]))
    monkeypatch.setattr(demo, "asynchronous_method", lambda: "worker")
    return run


@pytest.mark.parametrize("line", LINES)
def test_its_lines_are_comparisons_of_io_methods(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.ROOT)
    arguments = main.parser().parse_args(shlex.split(line))
    factors = parse_factors(list(arguments.factors))
    assert [factor.name for factor in factors] == ["io_method"]
    assert len(parse_workload(arguments.workload).statements) == 1
    assert arguments.cache == "cold-each"
    # All is to end within three minutes, loading included.
    assert arguments.max_time_s <= 150


def test_the_volume_is_limited_in_requests_alone() -> None:
    spec = parse_storage(demo.VOLUME)
    assert (spec.kind, spec.read_ahead_kb, spec.read_iops, spec.read_mb_s) == ("loop", 64, 1000, None)


def test_an_ordinary_account_is_told_why_and_gets_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], commands: list[list[str]]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    demo._run()
    assert commands == [[str(project.PGASSAY), *LINES[1].split()]]
    told = capsys.readouterr().out.splitlines()
    assert "which only root may" in told[0]
    assert told[-1] == f"$ pgassay {LINES[1]}"


def test_without_limits_the_volume_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> dict[str, str]:
        raise UsageError("There is no control group here.")

    monkeypatch.setattr("pgassay.storage.loop.LoopKind.capability", lambda _self: None)
    monkeypatch.setattr("pgassay.storage.cgroup_limits.limits_for", refuse)
    assert demo.why_no_limited_volume() == "There is no control group here."


@pytest.mark.server
@pytest.mark.shares_machine
def test_with_root_it_takes_the_limited_volume(
    require: Callable[[str], None], capsys: pytest.CaptureFixture[str], commands: list[list[str]]
) -> None:
    require("loop")
    require("cgroup-limits")
    demo._run()
    assert commands == [[str(project.PGASSAY), *LINES[0].split()]]
    assert "1000 requests a second" in capsys.readouterr().out
