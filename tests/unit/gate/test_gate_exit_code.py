"""The exit code of a gate whose output can't be written: the finding's, or 5, and never 0 for a slow-down."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pgassay.model.gates.gate import GateResult
from pgassay.record.gates import write_gate
from simulated_gates import Nights, workload_of

PROGRAM = """import sys
from pathlib import Path
from pgassay.experiment.gating import run_gate
from pgassay.record.gates import load_gate

result = load_gate(Path(sys.argv[1]))
run_gate.run_gate = lambda *_words, **_named: result
from pgassay.cli.main import main

sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    workload = workload_of(tmp_path_factory.mktemp("gate"), statements=1)
    return Nights(workload, seed=3, statements=1, spread=0.01, blocks=20)


def ended(folder: Path, result: GateResult, words: Sequence[str], to: int | str) -> tuple[int, str]:
    """The exit code and standard error of a gate with this result; to: a device, or a file's number."""
    (folder / "kept").mkdir()
    write_gate(folder / "kept", result)
    (folder / "gate.toml").write_text('[workloads.w]\nworkload = "select-only"\n')
    output = os.open(to, os.O_WRONLY) if isinstance(to, str) else to
    command = [sys.executable, "-c", PROGRAM, str(folder / "kept")]
    try:
        finished = subprocess.run(
            [*command, "gate", str(folder / "gate.toml"), "--baseline", "main", "--quiet", *words],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    finally:
        os.close(output)
    return finished.returncode, finished.stderr


@pytest.mark.parametrize(("slower", "code"), [(-0.1, 1), (0.0, 0)])
def test_who_reads_the_output_and_goes_changes_nothing(
    line: Nights, tmp_path: Path, slower: float, code: int
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["--junit", str(tmp_path / "gate.xml"), "--html", str(tmp_path / "gate.html")]
    assert ended(tmp_path, line.night({"q00": slower}), words, writing) == (code, "")
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == str(code)
    assert (tmp_path / "gate.html").exists()


@pytest.mark.parametrize(("slower", "code"), [(-0.1, 1), (0.0, 5)])
def test_a_full_disk_is_no_slow_down_and_hides_none(
    line: Nights, tmp_path: Path, slower: float, code: int
) -> None:
    words = ["--junit", str(tmp_path / "gate.xml")]
    found, said = ended(tmp_path, line.night({"q00": slower}), words, "/dev/full")
    assert (found, "can't print the result" in said) == (code, True)
    assert (tmp_path / "gate.xml").exists()


@pytest.mark.parametrize(("slower", "code"), [(-0.1, 1), (0.0, 5)])
def test_a_file_that_can_not_be_written_in_the_end(
    line: Nights, tmp_path: Path, slower: float, code: int
) -> None:
    found, said = ended(tmp_path, line.night({"q00": slower}), ["--junit", "/proc/gate.xml"], os.devnull)
    assert found == code
    assert "can't write JUnit XML to /proc/gate.xml" in said and "has the result" in said
