"""The workflow files of examples/gate: they parse, and the commands in them are those that pgassay has."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pgassay.cli import main
from pgassay.experiment.gating.gate_file import read_gate_file
from pgassay.workloads.registry import parse_workload

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "gate"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
FILES = [*WORKFLOWS, FOLDER / "Jenkinsfile"]
# Those of JUnit and Markdown that a workflow hands on must be those that its commands write.
WRITTEN = re.compile(r"[\w-]+\.(?:md|xml|html)\b")


def strings(value: object) -> Iterator[str]:
    """Every string of a document, at whatever depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def command_lines(file: Path) -> list[str]:
    """Each line of a workflow that runs pgassay."""
    if file.suffix == ".yml":
        texts = list(strings(yaml.safe_load(file.read_text("utf-8"))))
    else:
        texts = re.findall(r"sh '([^']*)'", file.read_text("utf-8"))
    return [line for text in texts for line in text.splitlines() if line.startswith("pgassay ")]


def words_of(line: str) -> list[str]:
    """The arguments of pgassay: without redirections."""
    words = shlex.split(re.split(r"\s>{1,2}\s", line)[0])
    return words[1:]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_commands_of_a_workflow_are_parsed(file: Path) -> None:
    lines = command_lines(file)
    found = [main.parser().parse_args(words_of(line)) for line in lines]
    assert len([line for line in lines if line.startswith("pgassay gate ")]) == 2
    assert len([line for line in lines if line.startswith("pgassay history ")]) == 1
    gates = [each for each in found if hasattr(each, "baseline")]
    # A pull request has no earlier runs; a night has those before it.
    assert [each.history is not None for each in gates] == [False, True]
    assert all(each.file == Path("gate.toml") and each.markdown and each.junit for each in gates)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_a_workflow_hands_on_is_what_its_commands_write(file: Path) -> None:
    lines = " ".join(command_lines(file))
    content = re.sub(r"^\s*(#|//).*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
    assert set(WRITTEN.findall(content)) <= set(WRITTEN.findall(lines))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_a_document_with_jobs(file: Path) -> None:
    document = yaml.safe_load(file.read_text("utf-8"))
    # YAML 1.1 reads GitHub's `on:` as a truth value.
    keys = {"on" if key is True else key for key in document}
    needed = {
        "github-actions.yml": {"name", "on", "jobs"},
        "gitlab-ci.yml": {"stages", "gate-merge-request", "gate-nightly"},
        "buildkite.yml": {"steps"},
    }
    assert needed[file.name] <= keys
    json.dumps(document, default=str)


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(SystemExit):
        main.parser().parse_args(words_of("pgassay gate gate.toml --base main > gate.md"))


def test_the_jenkins_file_is_balanced() -> None:
    content = re.sub(r"'[^']*'", "''", (FOLDER / "Jenkinsfile").read_text("utf-8"))
    assert content.count("{") == content.count("}") > 10
    assert content.count("(") == content.count(")")


def test_the_example_s_gate_is_valid() -> None:
    gate = read_gate_file(FOLDER / "gate.toml")
    assert [Path(name).name for name in gate.system.prepare] == [
        "001-branch-index.sql",
        "002-overdrawn-index.sql",
    ]
    assert {name: each.max_time_s for name, each in gate.workloads.items()} == {
        "statements": 720.0,
        "transfers": 480.0,
    }
    assert len(parse_workload(gate.workloads["statements"].workload).statements) == 4


@pytest.mark.server
@pytest.mark.shares_machine
def test_the_example_is_planned(tmp_path: Path, require, capsys) -> None:
    """Against a checkout that lacks its last migration, as a pull request's base would."""
    require("server")
    for path in FOLDER.rglob("*"):
        if path.suffix in (".toml", ".sql") and "002" not in path.name:
            target = tmp_path / path.relative_to(FOLDER)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    words = ["gate", str(FOLDER / "gate.toml"), "--baseline", str(tmp_path), "--dry-run"]
    assert main.main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("gate: statements and transfers against")
    assert "6 units" in said
