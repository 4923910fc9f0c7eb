"""`pgassay combine` on stored experiments, as its user runs it."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

import whole_tool
from frozen import archive
from pgassay.report import schema
from project_files import unpack_archive

NAME = "io-method-cold"


def as_if_on(host: str, folder: Path) -> Path:
    """A real experiment unpacked as if it had run on another host, with nothing else changed."""
    with tarfile.open(archive.place(NAME)) as tar:
        unpack_archive(tar, folder)
    plan = folder / "experiment.json"
    document = json.loads(plan.read_text())
    document["environment"]["machine"] |= {
        "hostname": host,
        "machine_id": host,
        "boot_id": f"boot of {host}",
        "kernel": f"6.1-{host}",
    }
    plan.write_text(json.dumps(document))
    for file in folder.rglob("trial.json"):
        record = json.loads(file.read_text())
        file.write_text(json.dumps(record | {"host": host, "boot_id": f"boot of {host}"}))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    parent = tmp_path_factory.mktemp("machines")
    yield [as_if_on(f"host{number}", parent / f"host{number}") for number in (1, 2)]


def test_two_folders_become_one_result(folders: list[Path]) -> None:
    finished = whole_tool.run("combine", *folders)
    assert finished.returncode == 0, finished.stderr
    assert "Of machines like these: 2 machines are too few at 5 %" in finished.stdout
    assert "kernel: 6.1-host1 on host1; 6.1-host2 on host2" in finished.stdout
    document = json.loads(whole_tool.run("combine", *folders, "--json").stdout)
    jsonschema.validate(document, schema.COMBINED.schema(), cls=jsonschema.Draft202012Validator)
    assert [machine["name"] for machine in document["machines"]][:1] == ["host1"]
    alone = json.loads(whole_tool.run("report", folders[0], "--json").stdout)
    arm = next(arm for arm in alone["arms"] if arm["verdict"] != "control")
    these = document["arms"][0]["these_machines"]
    assert these["blocks"] == 2 * arm["blocks"]
    assert "| machine |" in whole_tool.run("combine", *folders, "--markdown").stdout


def test_what_can_t_be_combined_is_one_sentence(folders: list[Path], tmp_path: Path) -> None:
    complaint = whole_tool.assert_one_sentence(whole_tool.run("combine", folders[0], folders[0]), 2)
    assert "hold the same trials" in complaint
    complaint = whole_tool.assert_one_sentence(whole_tool.run("combine", folders[0], tmp_path), 2)
    assert "has no experiment" in complaint
