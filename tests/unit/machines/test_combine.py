"""Stored experiments of several machines as one result: what belongs together, is refused, is said."""

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from frozen import archive
from pgassay.analysis.machines.combine import combine
from pgassay.analysis.machines.gather import MachineDescription, gather_machines
from pgassay.analysis.machines.machine_sentences import disagreement_note, limit_words
from pgassay.analysis.verdicts.compare import analyse
from pgassay.errors import UsageError
from pgassay.model.arm import ArmSpec, RemoteServer
from pgassay.model.experiment import Experiment
from pgassay.model.machines.combined import CombinedResult, MachineResult
from pgassay.record.experiment import StoredExperiment, load
from pgassay.report import combine as report
from pgassay.report import schema
from pgassay.report.charts import machines_chart
from pgassay.report.charts.drawing import NARROW_PX, WIDE_PX
from project_files import unpack_archive
from samples.machines.stored import on


def test_equal_machines_have_one_effect_and_six_speak_for_others() -> None:
    result = combine([on(f"host{number}") for number in range(1, 7)])
    (arm,) = result.arms
    assert arm.these_machines.verdict == "faster"
    assert arm.these_machines.blocks == 72
    assert arm.machines_like_these.machines == 6
    assert arm.machines_like_these.ratio == pytest.approx(1.05, abs=0.02)
    assert [machine.name for machine in result.machines] == [f"host{number}" for number in range(1, 7)]
    first, second = result.verdict.splitlines()
    assert first.startswith("On these 6 machines io_method=method1 is ")
    assert second.startswith("On machines like these io_method=method1 ")
    # More blocks than one machine has, so a narrower interval than any machine's own.
    low, high = arm.these_machines.interval or (0, 9)
    assert all(
        high - low < ends[1] - ends[0]
        for machine in result.machines
        if (ends := machine.interval) is not None
    )


def test_below_six_machines_nothing_is_said_of_others() -> None:
    result = combine([on(f"host{number}") for number in range(1, 6)])
    like_these = result.arms[0].machines_like_these
    assert (like_these.ratio, like_these.interval, like_these.needed) == (None, None, 6)
    assert "5 machines are too few at 5 %: it takes 6 at least" in result.verdict


def test_where_machines_disagree_each_is_told_with_what_sets_it_apart() -> None:
    experiments = [on(f"host{number}", blocks=25) for number in range(1, 6)]
    experiments.insert(3, on("slow", -0.08, blocks=25, kernel="6.8"))
    result = combine(experiments)
    these = result.arms[0].these_machines
    assert (these.ratio, these.interval, these.withheld) == (None, None, True)
    assert result.arms[0].disagreement > 20
    first = result.verdict.splitlines()[0]
    assert "the machines disagree: faster on 5 of 6; on slow slower: " in first
    assert "[kernel: 6.8 instead of 6.1]" in first
    slow = next(machine for machine in result.machines if machine.name == "slow")
    assert slow.verdict == "slower"
    assert slow.confounds == ("kernel: 6.8 (most: 6.1)",)
    assert result.confounds == ("kernel: 6.1 on host1, host2, host3, host4 and host5; 6.8 on slow",)


def test_machines_may_agree_in_the_direction_and_disagree_by_how_much() -> None:
    result = combine([on("a", 0.05, blocks=30), on("b", 0.30, blocks=30)])
    assert "the machines disagree by how much: faster on 2 of 2; on a " in result.verdict


def test_one_machine_says_what_its_experiment_says() -> None:
    """To the digit: the other has no block yet."""
    alone = on("a", blocks=10)
    own = analyse(alone).arms[1]
    result = combine([alone, on("b", blocks=0, stopped="running")])
    these = result.arms[0].these_machines
    assert these.machines == 1
    assert these.ratio == pytest.approx(own.ratio, abs=1e-12)
    assert these.interval == pytest.approx(own.interval, abs=1e-12)
    assert these.verdict == own.verdict


def test_two_experiments_of_a_host_are_one_machine() -> None:
    result = combine([on("a", seed=1), on("a", seed=2), on("b")])
    assert [machine.name for machine in result.machines] == ["a", "b"]
    assert [machine.blocks for machine in result.machines] == [24, 12]
    assert result.machines[0].experiments == ("/results/a-1", "/results/a-2")
    assert result.arms[0].these_machines.machines == 2
    assert any("2 experiments of a count as one machine" in each for each in result.warnings)


def test_containers_of_one_host_are_one_machine_whatever_they_are_called() -> None:
    """Each has a name and an identity of its own; the boot is the kernel's, and all share that."""
    pods = [on(f"pod{number}", boot="of-the-node") for number in range(1, 7)]
    result = combine(pods)
    assert [machine.name for machine in result.machines] == ["pod1, pod2, pod3, pod4, pod5 and pod6"]
    assert result.arms[0].machines_like_these.ratio is None
    assert result.arms[0].these_machines.blocks == 72


def test_what_is_one_machine_by_its_name_and_by_its_boot_is_one_in_all() -> None:
    """A host before and after it was restarted, and a container on it since then."""
    parts = [
        on("other"),
        on("pod", boot="second"),
        on("host", boot="first"),
        on("host", seed=3, boot="second"),
    ]
    found = gather_machines(parts)
    assert [sorted(part.stored.experiment.environment.machine.hostname or "" for part in machine.parts)
            for machine in found] == [["other"], ["host", "host", "pod"]]  # fmt: skip


def test_what_the_user_declares_decides() -> None:
    experiments = [on("a", boot="one"), on("b", boot="one"), on("c")]

    def told(**declared: str) -> dict[Path, MachineDescription]:
        return {
            each.folder: MachineDescription(name, counts_as=declared.get(name, ""))
            for each, name in zip(experiments, "abc", strict=True)
        }

    def names(found: dict[Path, MachineDescription]) -> list[str]:
        return [machine.name for machine in gather_machines(experiments, found)]

    assert names(told()) == ["a and b", "c"]
    assert names(told(a="x", b="y")) == ["a", "b", "c"]
    assert names(told(b="rack", c="rack")) == ["a", "b and c"]


def test_a_machine_that_goes_on_is_no_unit_yet() -> None:
    machines = [on(f"host{number}") for number in range(1, 6)]
    result = combine([*machines, on("host6", stopped="running")])
    assert result.arms[0].these_machines.machines == 6
    assert result.arms[0].machines_like_these.machines == 5
    assert any("host6 is still running" in each for each in result.warnings)


def test_remote_servers_are_the_machines() -> None:
    def at(host: str) -> Callable[[Experiment], Experiment]:
        def change(plan: Experiment) -> Experiment:
            server = RemoteServer(
                name=host, connection=f"host={host}", host=host, port=5432, dbname="d", user="u",
                version="18.1", major=18,
            )  # fmt: skip
            arms = tuple(
                arm.model_copy(update={"spec": arm.spec.model_copy(update={"server": server})})
                for arm in plan.arms
            )
            return plan.model_copy(update={"arms": arms})

        return change

    result = combine([on("client", seed=1, change=at("db1")), on("client", seed=2, change=at("db2"))])
    assert [machine.name for machine in result.machines] == ["db1", "db2"]


def without_arms(plan: Experiment) -> Experiment:
    renamed = tuple(
        arm.model_copy(update={"levels": {"io_method": "other"}}) if arm.role == "arm" else arm
        for arm in plan.arms
    )
    return plan.model_copy(update={"arms": renamed})


def on_other_data(plan: Experiment) -> Experiment:
    def moved(spec: ArmSpec) -> ArmSpec:
        return spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"scale": 100})})

    arms = tuple(arm.model_copy(update={"spec": moved(arm.spec)}) for arm in plan.arms)
    return plan.model_copy(update={"arms": arms})


def with_another_load(plan: Experiment) -> Experiment:
    def busier(spec: ArmSpec) -> ArmSpec:
        assert spec.workload.load is not None
        load = spec.workload.load.model_copy(update={"clients": 64})
        return spec.model_copy(update={"workload": spec.workload.model_copy(update={"load": load})})

    arms = tuple(arm.model_copy(update={"spec": busier(arm.spec)}) for arm in plan.arms)
    return plan.model_copy(update={"arms": arms})


def other_cache(plan: Experiment) -> Experiment:
    return plan.model_copy(update={"protocol": plan.protocol.model_copy(update={"cache": "warm-pages"})})


@pytest.mark.parametrize(
    ("others", "complaint"),
    [
        ([], "there is one experiment: name the folders of two or more"),
        ([on("a")], "hold the same trials: name each experiment once"),
        ([on("b", margin=0.05)], "/results/a-97 and /results/b-98 can't be combined: their margin differs"),
        ([on("b", pool_twin=False)], "their pooling of the twin differs"),
        ([on("b", change=without_arms)], "does not compare io_method=method1 with io_method=sync"),
        ([on("b", change=other_cache)], "the cache state is cold in one and warm-pages in the other"),
        ([on("b", change=on_other_data)], "the scale of the data is 1 in one, 100 in the other"),
        ([on("b", change=with_another_load)], "what tpcb stands for is not the same in both"),
        (
            [on("b", change=lambda plan: plan.model_copy(update={"baseline": "shipped"}))],
            "the baseline is fixed in one and shipped in the other",
        ),
        (
            [on("b", change=lambda plan: plan.model_copy(update={"swap": "swap.sh"}))],
            "swapped the settings of two servers halfway",
        ),
    ],
)
def test_what_is_no_experiment_of_one_design_is_refused(
    others: list[StoredExperiment], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint.replace("(", r"\(")):
        combine([on("a"), *others])


def check(result: CombinedResult) -> dict[str, Any]:
    text = report.page_of(result).json()
    document: dict[str, Any] = json.loads(text)
    jsonschema.validate(document, schema.COMBINED.schema(), cls=jsonschema.Draft202012Validator)
    assert text.endswith("}\n")
    return document


def test_the_document_obeys_its_schema() -> None:
    document = check(combine([on("a"), on("b", -0.1), on("c", blocks=0, stopped="running")]))
    assert {"name", "blocks", "ratio", "interval", "confounds"} <= document["machines"][0].keys()
    assert document["machines"][2]["ratio"] is None
    assert schema.COMBINED.file.read_text(encoding="utf-8") == schema.COMBINED.text()


def test_a_name_can_t_steer_the_terminal_and_the_same_is_said_in_markdown() -> None:
    result = combine([on("evil\x1b[2J"), on("b|c")])
    shown = report.page_of(result).terminal(unicode=False)
    assert "\x1b" not in shown
    assert shown.isascii()
    assert "Each machine alone" in shown
    marked = report.page_of(result).markdown()
    assert result.verdict.splitlines()[1] in marked
    assert "| b&#124;c |" in marked


def test_several_arms_share_the_error_rate() -> None:
    one = combine([on("a"), on("b")]).arms[0].these_machines.interval
    many = combine([on("a", arms=3), on("b", arms=3)])
    assert len(many.arms) == 3
    assert [machine.arm for machine in many.machines[:2]] == [many.arms[0].name] * 2
    assert one is not None
    assert "are too few at 5 % over 3 comparisons: it takes 7 at least" in many.verdict


@pytest.mark.parametrize("seed", range(4))
def test_blocks_that_come_late_never_take_back_what_an_earlier_look_said(seed: int) -> None:
    """A machine was away: its blocks ended among the others', and were looked at after them."""
    here = on("here", 0.0, blocks=10, seed=seed, spread=0.03)
    away = on("away", 0.03, blocks=10, seed=100 + seed, spread=0.03)
    looks = {here.folder: (len(here.trials),), away.folder: (0,)}
    told = {folder: MachineDescription(folder.name, looks=counts) for folder, counts in looks.items()}
    before = ends(combine([here, replace(away, trials=())], told))
    after, by_their_clocks = ends(combine([here, away], told)), ends(combine([here, away]))
    assert before[0] - 1e-9 <= after[0] < after[1] <= before[1] + 1e-9
    # In the order of their clocks the interval would not hold together with that of the first look.
    assert by_their_clocks[1] > before[1]


def ends(result: CombinedResult) -> tuple[float, float]:
    low, high = result.arms[0].these_machines.interval or (None, None)
    assert low is not None
    assert high is not None
    return low, high


def test_a_machine_is_called_as_its_user_calls_it_and_what_it_said_is_compared() -> None:
    experiments = [on("a"), on("b"), on("c")]
    facts = [{("doctor", "io_uring"): status} for status in ("ok", "ok", "missing")]
    told = {
        stored.folder: MachineDescription(f"rack-{number}", facts[number])
        for number, stored in enumerate(experiments)
    }
    result = combine(experiments, told)
    assert [machine.name for machine in result.machines] == ["rack-0", "rack-1", "rack-2"]
    assert "doctor, io uring: ok on rack-0 and rack-1; missing on rack-2" in result.confounds
    assert result.machines[2].confounds == ("doctor, io uring: missing (most: ok)",)


def test_one_experiment_is_enough_where_others_are_to_follow() -> None:
    result = combine([on("a")], least=1)
    assert result.arms[0].these_machines.machines == 1
    assert "all 1 machines" not in result.family


def test_what_limits_a_machine_that_disagrees_is_said(tmp_path: Path) -> None:
    """By the causes that its own trials show: a real experiment on a disk that was limited."""
    with tarfile.open(archive.place("storage-grid")) as tar:
        unpack_archive(tar, tmp_path)
    (machine,) = gather_machines([load(tmp_path)], least=1)
    words = {arm.name: limit_words(machine, arm) for arm in machine.parts[0].stored.experiment.arms}
    limited = "io_method=sync storage=loop:size=1GB,read_mb_s=60"
    assert words[limited] == "the bandwidth of its storage, 63 MB/s"
    assert words[limited] not in [phrase for name, phrase in words.items() if "read_mb_s" not in name]
    own = [
        MachineResult(
            name=name, arm="a", blocks=9, ratio=ratio, interval=ends, verdict=verdict, limit=words[limited]
        )
        for name, ratio, ends, verdict in (
            ("host1", 1.1, (1.05, 1.15), "faster"),
            ("host2", 1.1, (1.05, 1.15), "faster"),
            ("host4", 0.9, (0.85, 0.95), "slower"),
        )
    ]
    note = disagreement_note(own)
    assert note.startswith("the machines disagree: faster on 2 of 3; on host4 slower: ")
    assert note.endswith("(limited by the bandwidth of its storage, 63 MB/s)")


def rows_drawn(result: CombinedResult, width_px: int = WIDE_PX) -> list[Any]:
    drawn: Any = machines_chart.specification(result, result.arms[0], width_px=width_px)
    return drawn["datasets"]["rows"]


@pytest.mark.parametrize("width_px", [NARROW_PX, WIDE_PX])
def test_the_page_draws_each_machine_and_both_answers(width_px: int) -> None:
    result = combine([on(f"host{number}") for number in range(1, 7)])
    rows = rows_drawn(result, width_px)
    assert [row["label"] for row in rows] == [
        *(f"host{number}" for number in range(1, 7)), "these machines", "machines like these",
    ]  # fmt: skip
    (arm,) = result.arms
    assert [(row["ratio"], (row["low"], row["high"])) for row in rows] == [
        (found.ratio, found.interval)
        for found in (*result.machines, arm.these_machines, arm.machines_like_these)
    ]
    assert len({row["colour"] for row in rows}) == 3
    page = report.page_of(result).html()
    assert all(f">{row['label']}</text>" in page for row in rows)


def test_what_is_not_known_of_machines_is_said_in_the_drawing() -> None:
    disagreeing = combine(
        [*(on(f"host{number}", blocks=25) for number in range(1, 4)), on("slow", -0.08, blocks=25)]
    )
    (*_, these, like_these) = rows_drawn(disagreeing)
    assert (these["ratio"], these["says"]) == (None, "no single effect fits them")
    assert (like_these["ratio"], like_these["says"]) == (None, "4 of the 6 machines needed")
    waiting = combine([on("a"), on("b", blocks=0, stopped="running")])
    assert rows_drawn(waiting)[1]["says"] == "no complete block"
    assert "no complete block" in report.page_of(waiting).html()
    alone = rows_drawn(combine([on("a")], least=1))
    assert [row["label"] for row in alone] == ["a", "machines like these"]


def test_of_many_machines_those_at_the_ends_are_drawn() -> None:
    result = combine([on(f"host{number}", number / 1000, blocks=5) for number in range(45)])
    rows = rows_drawn(result)[:-2]
    ratios = sorted(machine.ratio or 0 for machine in result.machines)
    assert [row["ratio"] for row in rows] == [*ratios[:20], *ratios[-20:]]
    drawn: Any = machines_chart.specification(result, result.arms[0], width_px=WIDE_PX)
    assert "the 20 slowest and the 20 fastest of 45 machines" in drawn["title"]["subtitle"][0]
