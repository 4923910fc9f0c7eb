"""What an agent answers without a server: facts, files, refusals, records."""

import base64
import hashlib
import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import analysis_samples as samples
import whole_tool
from pgassay.cli.outcome import REPORT_FILE, finish
from pgassay.environment.linux.machine import host_identity
from pgassay.fleet.agent import CHUNK_BYTES, Agent
from pgassay.fleet.agent_requests import Document
from pgassay.model.machines.doctor import DoctorReport


@pytest.fixture
def agent() -> Iterator[Agent]:
    with whole_tool.private_home() as home:
        yield Agent(home)


def ask(agent: Agent, **document: object) -> Document:
    """The answer to a request, both through JSON as on any way between two machines."""
    answer: Document = json.loads(json.dumps(agent.handle(json.loads(json.dumps(document)))))
    return answer


def put(agent: Agent, content: bytes, sha256: str, offset: int, size: int) -> Document:
    data = base64.b64encode(content).decode()
    return ask(agent, operation="put", sha256=sha256, offset=offset, bytes=size, data=data)


def test_facts_name_the_host_and_what_it_has(agent: Agent) -> None:
    facts = ask(agent, operation="facts")
    assert "error" not in facts
    assert facts["host"] == host_identity()
    assert facts["home"] == str(agent.home)
    doctor = DoctorReport.model_validate(facts["doctor"])
    assert "native" in {finding.name for finding in doctor.findings}
    assert facts["is_part_of_host"] is False


def test_a_file_comes_in_parts_in_any_order_of_repeats(agent: Agent) -> None:
    content = bytes(range(256)) * (CHUNK_BYTES // 200)
    sha256 = hashlib.sha256(content).hexdigest()
    assert ask(agent, operation="have", files=[sha256]) == {"files": []}
    first, rest = content[:CHUNK_BYTES], content[CHUNK_BYTES:]
    for _ in range(2):
        assert put(agent, first, sha256, 0, len(content)) == {"complete": False}
    assert put(agent, rest, sha256, CHUNK_BYTES, len(content)) == {"complete": True}
    assert put(agent, rest, sha256, CHUNK_BYTES, len(content)) == {"complete": True}
    assert ask(agent, operation="have", files=[sha256]) == {"files": [sha256]}


def test_a_damaged_file_is_never_there(agent: Agent) -> None:
    sha256 = hashlib.sha256(b"what was meant").hexdigest()
    answer = put(agent, b"what was sent", sha256, 0, 13)
    assert "arrived damaged: send it again" in str(answer["error"])
    assert ask(agent, operation="have", files=[sha256]) == {"files": []}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"operation": "guess"}, "is not an operation"),
        ({}, "is not an operation"),
        ({"operation": "state"}, "id is missing"),
        ({"operation": "state", "id": "../../etc"}, "is not a name of an experiment"),
        ({"operation": "have", "files": ["../../etc/passwd"]}, "is not a SHA-256"),
        ({"operation": "fetch", "id": "a", "name": "../secret", "offset": 0}, "is not a piece"),
        ({"operation": "fetch", "id": "a", "name": "experiment.json", "offset": -1}, "not a whole number"),
        ({"operation": "start", "id": "a", "request": {"words": []}}, "start: seed"),
        ({"operation": "facts", "noise_s": 1e9}, "use 0 to 60"),
    ],
)
def test_what_can_t_be_done_is_a_sentence(agent: Agent, document: dict[str, object], said: str) -> None:
    assert said in str(ask(agent, **document)["error"])


def test_a_file_is_placed_nowhere_but_below_the_experiment(agent: Agent) -> None:
    content = b"SELECT 1"
    sha256 = hashlib.sha256(content).hexdigest()
    put(agent, content, sha256, 0, len(content))
    for name in ("../up.sql", "/etc/up.sql", "results/experiment.json"):
        request = {"words": ["a=1,2"], "seed": 1, "blocks": 1, "max_time_s": 1.0, "files": {name: sha256}}
        assert "is not a path below" in str(ask(agent, operation="start", id="a", request=request)["error"])


def test_of_an_unknown_experiment_nothing_is_known_and_nothing_left(agent: Agent) -> None:
    state = ask(agent, operation="state", id="none")
    assert (state["state"], state["records"]) == ("unknown", [])
    assert ask(agent, operation="forget", id="none") == {"forgotten": True}
    assert ask(agent, operation="stop", id="none")["state"] == "unknown"


def test_a_machine_of_a_fleet_draws_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who asked for its trials draws one of each machine; what it says itself is the same."""
    plan = samples.experiment(arms=2)
    stored = replace(samples.stored(plan, samples.simulate(plan, 2)), folder=tmp_path)
    arguments = Namespace(json=True, redact=False, fail_if=None, draws_page=False)
    assert finish(stored, arguments) == 0
    assert json.loads(capsys.readouterr().out)["blocks"] == 2
    assert not (tmp_path / REPORT_FILE).exists()
