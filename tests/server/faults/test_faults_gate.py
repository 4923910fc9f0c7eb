"""A gate that is interrupted: what was measured is kept, said, and no run of any history."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import whole_tool
from pgassay.record.gates import load_gate, load_gates
from pgassay.record.layout import GATE_FILE, attempt_folders
from whole_tool import leftovers, wait_for

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
GATE = """
max-time = "20m"
runs-per-year = 2

[system]
pg = "{build}"
[system.set]
work_mem = "{work_mem}"

[workloads.first]
workload = "sql:quick.sql"
scale = 1
cache = "as-is"
blocks = 1
observe = "off"

[workloads.second]
workload = "sql:quick.sql"
scale = 1
cache = "as-is"
blocks = 500
observe = "off"
"""


@pytest.fixture(scope="module")
def home(require: Callable[..., None]) -> Iterator[Path]:
    require("server")
    with whole_tool.prepared_home() as folder:
        yield folder


def gate_of(folder: Path) -> tuple[Path, Path]:
    """A gate's file, and its baseline's folder."""
    _, build = whole_tool.build()
    for name, work_mem in (("change", "8MB"), ("baseline", "4MB")):
        (folder / name).mkdir()
        (folder / name / "gate.toml").write_text(GATE.format(build=build, work_mem=work_mem))
        (folder / name / "quick.sql").write_text("-- name: count\nSELECT count(*) FROM pgbench_branches;\n")
    return folder / "change" / "gate.toml", folder / "baseline"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_measured_is_kept_and_counts_as_no_run(
    number: signal.Signals, home: Path, tmp_path: Path
) -> None:
    file, baseline = gate_of(tmp_path)
    history, xml, before = tmp_path / "nightly", tmp_path / "gate.xml", whole_tool.socket_folders()
    words = ("--baseline", str(baseline), "--history", str(history), "--junit", str(xml), "--json")
    process = whole_tool.start("gate", str(file), *words, home=home)

    def is_in_the_second() -> bool:
        found = list(history.glob("*/second"))
        return bool(found) and len(attempt_folders(found[0])) >= 2

    wait_for(is_in_the_second, "trials of the second workload", process=process)
    process.send_signal(number)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "interrupted; nothing is left running" in said.splitlines()[-1], said
    assert "Traceback" not in said
    (folder,) = history.iterdir()
    document = json.loads(out)
    assert load_gate(folder).model_dump(mode="json", by_alias=True) == document
    assert (document["outcome"], document["exit_code"]) == ("interrupted", 130)
    assert [each["name"] for each in document["workloads"]] == ["first", "second"]
    assert document["workloads"][0]["blocks"] == 1 and document["workloads"][1]["trials"] >= 2
    assert document["rule"]["units"] == 2
    assert ElementTree.parse(xml).getroot().get("errors") != "0"
    # No night: neither for the next gate nor for whoever looks back.
    assert load_gates(history) == []
    shown = whole_tool.run("history", str(history), "--json")
    assert json.loads(shown.stdout)["runs"] == []
    assert leftovers(home, before, [process.pid]) == []


@pytest.mark.slow
def test_before_the_first_trial_nothing_is_kept(home: Path, tmp_path: Path) -> None:
    file, baseline = gate_of(tmp_path)
    history = tmp_path / "nightly"
    process = whole_tool.start(
        "gate", str(file), "--baseline", str(baseline), "--history", str(history), home=home
    )
    wait_for(lambda: list(history.glob("*/first")), "the first workload", process=process)
    if any(attempt_folders(each) for each in history.glob("*/first")):
        pytest.skip("the first trial was quicker than the signal")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    found = list(history.iterdir())
    assert found == [] or (found[0] / GATE_FILE).is_file()
