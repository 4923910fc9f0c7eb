"""What `pgassay probe --prove` compares, and what it says of it."""

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

import probe_samples as samples
import report_examples as examples
from pgassay.cli.commands import probe
from pgassay.cli.main import main
from pgassay.environment.last_probe import read_document
from pgassay.errors import MeasurementError, UsageError
from pgassay.factors.config import parts_of
from pgassay.model.build import Build
from pgassay.model.probe import ProbeResult, Recommendation
from pgassay.probe.analysis.analyse import analyse_probe
from pgassay.probe.analysis.proof_command import nothing_to_prove, proof_of, settings_to_prove
from pgassay.probe.measuring import executor, session
from pgassay.report.probe import probe_page


def test_a_server_that_fails_while_it_is_timed_leaves_the_cost_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full disk: without a named build the cost is assumed, with one it is told."""
    build = cast(Build, SimpleNamespace(version="18.1", major=18))

    def full(_server: object) -> None:
        raise psycopg.OperationalError("could not extend file\nHINT: Check free disk space.")

    monkeypatch.setattr(executor, "resolve", lambda: build)
    monkeypatch.setattr(executor, "small_cluster", lambda _build: tmp_path / "cluster")
    monkeypatch.setattr(executor, "Server", lambda *_: nullcontext())
    monkeypatch.setattr(executor, "control", full)
    assert executor.executor_cost(None) == (executor.ASSUMED, 18)
    with pytest.raises(MeasurementError, match=r"18\.1.*extend file: free .* or name another build"):
        executor.executor_cost(build)


def recommended(**values: tuple[str, str]) -> ProbeResult:
    """A probe that recommends these: (value, default) by name."""
    found = analyse_probe(samples.record(samples.Machine()))
    made = {
        name.lower(): Recommendation(value=value, default=default, reason="…", knee=None, alternatives=())
        for name, (value, default) in values.items()
    }
    return found.model_copy(update={"recommend": made})


def test_both_levels_set_what_is_recommended_and_differs() -> None:
    result = recommended(
        io_method=("io_uring", "worker"),
        effective_io_concurrency=("64", "16"),
        io_combine_limit=("256kB", "128kB"),
        io_max_concurrency=("64", "64"),
        read_ahead_kb=("512", "128"),
    )
    wanted = settings_to_prove(result, 18)
    first, second = wanted.levels.removeprefix("config=").split(",")
    assert (
        parts_of(first)
        == wanted.defaults
        == {
            "io_method": "worker",
            "effective_io_concurrency": "16",
            "io_combine_limit": "128kB",
        }
    )
    assert parts_of(second) == wanted.recommended
    assert "io_max_combine_limit=256kB" in wanted.both


def test_a_proof_that_fails_leaves_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise MeasurementError("the disk is full")

    measured = samples.record(samples.Machine(), seconds=3.0)
    monkeypatch.setattr(session, "run_probe", lambda *_, **__: measured)
    monkeypatch.setattr(probe, "build_to_prove", lambda _: object())
    monkeypatch.setattr(probe, "prove", fails)
    out = tmp_path / "out"
    assert main(["probe", str(tmp_path), "--prove", "--out", str(out), "--json", "--quiet"]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert {file.name for file in out.iterdir()} == {"probe.json", "result.json", "report.html"}
    assert read_document(out / "result.json") == analyse_probe(measured)


@pytest.mark.parametrize(
    ("major", "names"),
    [(18, {"io_workers"}), (19, {"io_min_workers", "io_max_workers"})],
)
def test_workers_are_the_settings_of_the_version(major: int, names: set[str]) -> None:
    result = recommended(
        io_method=("worker", "worker"),
        io_workers=("6", "3"),
        io_min_workers=("4", "2"),
        io_max_workers=("12", "8"),
    )
    assert settings_to_prove(result, major).recommended.keys() == names


def test_workers_are_of_no_use_to_another_method() -> None:
    result = recommended(io_method=("sync", "worker"), io_workers=("6", "3"))
    assert settings_to_prove(result, 18).recommended == {"io_method": "sync"}


def test_defaults_leave_nothing_to_prove() -> None:
    result = recommended(io_method=("worker", "worker"), read_ahead_kb=("512", "128"))
    assert not settings_to_prove(result, 18).recommended
    said = nothing_to_prove(result, "18.6")
    assert "defaults" in said.sentence and "read-ahead" in said.sentence
    assert said.sentence in probe_page.page_of(result.model_copy(update={"proof": said})).terminal()


@pytest.mark.parametrize(
    ("arm", "word"),
    [
        ({"verdict": "faster", "ratio": 1.3, "interval": (1.2, 1.4)}, "Proven: io_method = sync is 30 % f"),
        ({"verdict": "slower", "ratio": 0.25, "interval": (0.2, 0.3)}, "Refuted: io_method = sync is 4 × as"),
        ({"verdict": "equivalent", "ratio": 1.0, "interval": (0.99, 1.01)}, "No difference"),
        ({"verdict": "inconclusive", "ratio": 1.1, "interval": (0.0, float("inf"))}, "Not decided"),
    ],
)  # fmt: skip
def test_the_answer_is_that_of_the_comparison(arm: dict[str, Any], word: str) -> None:
    result = recommended(io_method=("sync", "worker"))
    stored = examples.stored(levels=["worker", "sync"])
    compared = examples.result(stored)
    control, other, *_ = compared.arms
    compared = compared.model_copy(update={"arms": (control, other.model_copy(update=arm))})
    proof = proof_of(settings_to_prove(result, 18), compared, "18.6")
    assert proof.sentence.startswith(word)
    assert [work.name for work in proof.works] == ["all of it", *examples.STATEMENTS]
    assert (proof.works[0].interval is None) is (arm["verdict"] == "inconclusive")
    page = probe_page.proof_page(proof).terminal()
    assert proof.sentence in " ".join(page.split()) and proof.folder in page


@pytest.mark.parametrize(
    ("out", "told"), [("file", "is a file"), ("file/below", "file is a file"), ("closed/new", "can't write")]
)
def test_an_out_that_can_not_be_made_is_refused_before_anything_is_measured(
    out: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir()
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "closed")
    with pytest.raises(UsageError, match=told):
        probe._check_targets(argparse.Namespace(out=tmp_path / out))


def test_an_out_that_can_be_made_is_not_made_yet(tmp_path: Path) -> None:
    probe._check_targets(argparse.Namespace(out=tmp_path / "new" / "probe"))
    assert not (tmp_path / "new").exists()
