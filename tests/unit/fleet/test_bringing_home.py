"""What a machine finished comes home: whole, once, whatever happens on the way."""

import base64
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from direct_machines import PACE, Heard
from frozen import archive
from pgassay.fleet.agent import Agent
from pgassay.fleet.agent_requests import Document, MachineLostError
from pgassay.fleet.machine_runs import RunRequest
from pgassay.fleet.spreading.coordinate import Coordinator
from pgassay.fleet.spreading.member import Member
from pgassay.model.machines.spread import SpreadExperiment, SpreadFile, SpreadMachine, SpreadRun
from pgassay.record.experiment import load
from project_files import unpack_archive
from replay import recorded

RUN = SpreadRun(id="abc-1", folder="machines/alpha", seed=1)
Way = Callable[[Document, Document], Document]


class OverAWay:
    """A real agent, behind a way that may change its answers or lose them."""

    name, host, counts_as = "alpha", "alpha", ""

    def __init__(self, agent: Agent, way: Way) -> None:
        self._agent, self.way = agent, way
        self.asked: list[str] = []

    def request(self, document: Document, *, timeout_s: float = 60.0) -> Document:
        del timeout_s
        self.asked.append(str(document["operation"]))
        return self.way(document, json.loads(json.dumps(self._agent.handle(document))))


def straight(_document: Document, answer: Document) -> Document:
    return answer


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """The home of a machine on which an experiment has ended."""
    folder = tmp_path / "home/fleet/runs" / RUN.id
    with tarfile.open(archive.place("io-method-cold")) as tar:
        unpack_archive(tar, folder / "results")
    contract = load(folder / "results").experiment.contract
    (folder / "request.json").write_text(
        RunRequest(
            words=(), seed=1, blocks=contract.blocks_max, max_time_s=contract.time_max_s
        ).model_dump_json()
    )
    state = folder / "results/state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"stopped": "blocks"}))
    return Agent(tmp_path / "home")


def request_of(agent: Agent) -> RunRequest:
    return RunRequest.model_validate_json((agent.home / "fleet/runs" / RUN.id / "request.json").read_bytes())


def original(agent: Agent) -> Path:
    return agent.home / "fleet/runs" / RUN.id / "results"


def test_all_of_it_comes_home_once(agent: Agent, tmp_path: Path) -> None:
    machine = OverAWay(agent, straight)
    member = Member(machine, tmp_path / "out", (RUN,))
    visit = member.visit(request_of(agent), {}, stops=False)
    assert (visit.state, visit.stopped) == ("ended", "blocks")
    there, here = load(original(agent)), load(tmp_path / "out" / RUN.folder)
    assert visit.new == len(there.trials)
    assert [trial.record for trial in here.trials] == [trial.record for trial in there.trials]
    assert member.experiments[RUN.id].trials == here.trials
    fetched = machine.asked.count("fetch")
    again = Member(machine, tmp_path / "out", (RUN,))
    assert again.visit(request_of(agent), {}, stops=False).new == 0
    # The state alone may have changed.
    assert machine.asked.count("fetch") == fetched + 1
    assert "start" not in machine.asked


def test_what_is_damaged_on_the_way_is_asked_for_again(agent: Agent, tmp_path: Path) -> None:
    damaged: list[str] = []

    def way(document: Document, answer: Document) -> Document:
        name = str(document.get("name"))
        if document["operation"] == "fetch" and name not in damaged:
            damaged.append(name)
            content = bytearray(base64.b64decode(str(answer["data"])))
            content[len(content) // 2] ^= 1
            return {**answer, "data": base64.b64encode(bytes(content)).decode()}
        return answer

    member = Member(OverAWay(agent, way), tmp_path / "out", (RUN,))
    visit = member.visit(request_of(agent), {}, stops=False)
    assert visit.state == "ended"
    assert len(damaged) > visit.new > 0
    here, there = load(tmp_path / "out" / RUN.folder), load(original(agent))
    assert [trial.record for trial in here.trials] == [trial.record for trial in there.trials]


def test_what_is_damaged_every_time_is_not_kept(agent: Agent, tmp_path: Path) -> None:
    def way(document: Document, answer: Document) -> Document:
        is_trial = str(document.get("name")).startswith("trials/")
        return {**answer, "data": ""} if document["operation"] == "fetch" and is_trial else answer

    machine = OverAWay(agent, way)
    visit = Member(machine, tmp_path / "out", (RUN,)).visit(request_of(agent), {}, stops=False)
    assert visit.state == "failed"
    assert "arrived damaged 3 times" in visit.sentence
    assert not load(tmp_path / "out" / RUN.folder).trials
    # It is visited no more, so what it runs would go on with nobody to stop it.
    assert machine.asked[-1] == "stop"


@pytest.mark.parametrize("lost_after", [0, 1, 3, 5])
def test_a_way_that_breaks_loses_nothing(agent: Agent, tmp_path: Path, lost_after: int) -> None:
    count = 0

    def way(_document: Document, answer: Document) -> Document:
        nonlocal count
        count += 1
        if count > lost_after:
            raise MachineLostError("away")
        return answer

    machine = OverAWay(agent, way)
    member = Member(machine, tmp_path / "out", (RUN,))
    assert member.visit(request_of(agent), {}, stops=False).state == "lost"
    machine.way = straight
    assert member.visit(request_of(agent), {}, stops=False).state == "ended"
    here, there = load(tmp_path / "out" / RUN.folder), load(original(agent))
    assert [trial.record for trial in here.trials] == [trial.record for trial in there.trials]
    assert member.experiments[RUN.id].trials == here.trials


def test_what_came_before_the_way_broke_counts(agent: Agent, tmp_path: Path) -> None:
    """At a later visit: some of it is in memory already."""
    machine = OverAWay(agent, straight)
    there = original(agent)
    trials, later = there / "trials", tmp_path / "later"
    later.mkdir()
    for path in sorted(trials.iterdir())[2:]:
        path.rename(later / path.name)
    member = Member(machine, tmp_path / "out", (RUN,))
    assert member.visit(request_of(agent), {}, stops=False).new == 2
    for path in later.iterdir():
        path.rename(trials / path.name)
    fetched = 0

    def way(document: Document, answer: Document) -> Document:
        nonlocal fetched
        fetched += document["operation"] == "fetch" and str(document["name"]).startswith("trials/")
        if fetched > 2:
            raise MachineLostError("away")
        return answer

    machine.way = way
    visit = member.visit(request_of(agent), {}, stops=False)
    assert (visit.state, visit.new) == ("lost", 2)
    assert member.experiments[RUN.id].trials == load(tmp_path / "out" / RUN.folder).trials
    machine.way = straight
    assert member.visit(request_of(agent), {}, stops=False).state == "ended"
    assert member.experiments[RUN.id].trials == load(tmp_path / "out" / RUN.folder).trials


def test_a_plan_comes_home_as_its_trials_were_run(agent: Agent, tmp_path: Path) -> None:
    """The machine changes it until the first block: how many blocks run on a set of copies, what was said."""
    there, later = original(agent), tmp_path / "later"
    later.mkdir()
    (there / "trials").rename(later / "trials")
    plan = there / "experiment.json"
    document = json.loads(plan.read_text())
    member = Member(OverAWay(agent, straight), tmp_path / "out", (RUN,))
    member.visit(request_of(agent), {}, stops=True)
    design = {**document.get("design", {}), "blocks_per_copy": 3}
    plan.write_text(json.dumps(document | {"design": design, "warnings": ["said"]}))
    (later / "trials").rename(there / "trials")
    member.visit(request_of(agent), {}, stops=True)
    for experiment in (member.experiments[RUN.id].experiment, load(tmp_path / "out" / RUN.folder).experiment):
        assert experiment.design.blocks_per_copy == 3
        assert experiment.warnings == ("said",)


def test_a_machine_that_knows_nothing_of_what_came_home_says_so(agent: Agent, tmp_path: Path) -> None:
    machine = OverAWay(agent, straight)
    member = Member(machine, tmp_path / "out", (RUN,))
    member.visit(request_of(agent), {}, stops=False)
    request = request_of(agent)
    member.forget()
    assert member.visit(request, {}, stops=False).state == "forgotten"
    assert "start" not in machine.asked


def test_a_file_that_changed_since_the_plan_is_not_sent(tmp_path: Path) -> None:
    source = tmp_path / "a.sql"
    source.write_text("SELECT 2;")
    files = {"a.sql": SpreadFile(source=str(source), bytes=9, sha256="0" * 64)}
    machine = OverAWay(Agent(tmp_path / "home"), straight)
    request = RunRequest(words=(), seed=1, blocks=1, max_time_s=1.0, files={"a.sql": "0" * 64})
    visit = Member(machine, tmp_path / "out", (RUN,)).visit(request, files, stops=False)
    assert visit.state == "failed"
    assert "has changed since the experiment started" in visit.sentence
    assert "start" not in machine.asked


def test_a_machine_that_throttles_is_told(tmp_path: Path) -> None:
    """Real records, in which the fixed task before each trial takes longer from the ninth block on."""
    results = recorded(tmp_path / "home/fleet/runs" / RUN.id / "results", blocks=16)
    for file in results.glob("trials/*/attempt-*/trial.json"):
        record = json.loads(file.read_text())
        noise = 1 + 0.001 * (record["number"] % 7)
        file.write_text(json.dumps(record | {"canary_s": noise * (0.05 if record["block"] < 8 else 0.1)}))
    agent = Agent(tmp_path / "home")
    request = RunRequest(words=(), seed=1, blocks=16, max_time_s=3600.0)
    (results.parent / "request.json").write_text(request.model_dump_json())
    plan = SpreadExperiment(
        id="abc", created_at="", pgassay_version="", command=(), fleet_file="", words=(), seed=1,
        blocks_max=16, time_max_s=3600.0, until_decided=False,
        machines=(SpreadMachine(name="alpha", host="alpha", runs=(RUN,)),),
    )  # fmt: skip
    member = Member(OverAWay(agent, straight), tmp_path / "out", (RUN,))
    heard = Heard()
    (tmp_path / "out").mkdir()
    result = Coordinator(tmp_path / "out", plan, {"alpha": member}, heard, PACE).run()
    sentence = "alpha: The machine's processor became 2 × as slow at one moment, by a fixed task"
    assert sum(sentence in line for line in heard.messages) == 1
    assert any(sentence in line for line in result.warnings)
