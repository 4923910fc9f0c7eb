"""PostgreSQL's own sources with commits of which it is known what they do: each search answers right.

All searches build in one home: the first build takes minutes, each of those after it seconds, and only what a
search visits is built. They take up to 15 GB there, and hours:
`pytest tests/server/bisecting/test_planted_tree.py -m slow -n 0`,
with `-k` and a case's name for one of them.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import whole_tool
from samples.builds.planted_tree import (
    HOT,
    NO_INDEX,
    WARM,
    another_catalogue,
    branch,
    broken,
    distribution_sources,
    quiet_line,
    repaired,
    seconds_of_a_spin,
    spinning,
    without_indexes,
)
from samples.builds.source_tree import git

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(3 * 3600),
    # A second try would take hours more.
    pytest.mark.flaky(reruns=0),
]
# With fewer clients the processors sleep between two messages, and what waking them takes is measured: on a
# virtual machine more than a transaction.
CLIENTS = 4 * (os.cpu_count() or 1)
WORKLOAD = ("--workload", f"select-only:clients={CLIENTS},duration=2s", "--scale", "1")
# A search has an hour; the trial or the build that goes on then comes to its end.
SEARCH_S = 2 * 3600
HOUR = ("--max-time", "1h")
# One with nothing to find uses all that it is given: enough for a wrong claim, seldom for a margin of 3 %.
NOTHING_TO_FIND = ("--margin", "3%", "--max-time", "15m")


@dataclass(frozen=True)
class Planted:
    """The repository, where its builds are, and the hashes of the plants of each branch, in their order."""

    clone: Path
    home: Path
    plants: dict[str, list[str]]

    def search(self, bad: str, out: Path, limits: tuple[str, ...] = HOUR, good: str = "released") -> dict:
        """The answer of a search from a good end to a branch."""
        ends = (f"git:{self.clone}@{good}", f"git:{self.clone}@{bad}")
        words = ("bisect", *ends, *WORKLOAD, *limits, "--json", "--out", out)
        return whole_tool.result_of(whole_tool.run(*words, home=self.home, timeout=SEARCH_S))


@pytest.fixture(scope="module")
def quiet(require: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """The repository before anything is planted."""
    require("apt", "source-tools")
    clone = distribution_sources(tmp_path_factory.mktemp("sources"), "18")
    quiet_line(clone)
    with whole_tool.private_home() as home:
        yield Planted(clone, home, {})


@pytest.fixture(scope="module")
def planted(quiet: Planted, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The repository with a branch for each plant, as slow as said on this machine."""
    folder = tmp_path_factory.mktemp("calibrated")
    names = f"build=git:{quiet.clone}@released,git:{quiet.clone}@quiet"
    words = (
        "compare",
        names,
        *WORKLOAD,
        "--layouts",
        "1",
        "--blocks",
        "2",
        "--json",
        "--out",
        folder / "out",
    )
    arms = whole_tool.result_of(whole_tool.run(*words, home=quiet.home, timeout=SEARCH_S))["arms"]
    # All processors are busy, so that a transaction takes what they do in so many seconds.
    cpu_s_a_transaction = (os.cpu_count() or 1) / arms[0]["median"]
    spins_a_transaction = cpu_s_a_transaction / seconds_of_a_spin(folder)

    def slower(share: float, function: tuple[str, str] = HOT) -> tuple[str, list]:
        return f"{share:.0%} slower", [spinning(function, round(share * spins_a_transaction))]

    clone = quiet.clone
    subject, edits = slower(0.3)
    plants = {
        "slow30": branch(clone, "slow30", slower(0.3)),
        "slow10": branch(clone, "slow10", slower(0.1)),
        "slow5": branch(clone, "slow5", slower(0.05)),
        "two": branch(clone, "two", slower(0.2), slower(0.2, WARM)),
        "repaired": branch(clone, "repaired", slower(0.3), ("repair", [spinning(HOT, 0)])),
        "default": branch(clone, "default", ("another default", [without_indexes])),
        "catalogue": branch(clone, "catalogue", ("catalogue", [another_catalogue]), slower(0.3)),
        "unbuilt": branch(
            clone,
            "unbuilt",
            ("does not build", [broken(WARM[0])]),
            (subject, [repaired(WARM[0]), *edits]),
        ),
    }
    plants["cancel"] = branch(
        clone, "cancel", slower(0.2, WARM), slower(0.2), ("faster", [spinning(WARM, 0)])
    )
    for name in plants:
        assert int(git(clone, "rev-list", "--count", name)) >= 64
    return Planted(clone, quiet.home, plants)


def culprits(document: dict) -> list[set[str]]:
    return [{each["name"] for each in step["culprits"]} for step in document["steps"]]


def test_a_line_without_a_change_of_speed_has_nothing_to_find(quiet: Planted, tmp_path: Path) -> None:
    """Moved and unused functions, a slower client, another catalogue, a commit that does not build."""
    document = quiet.search("quiet", tmp_path / "out", NOTHING_TO_FIND)
    assert document["verdict"] in ("no difference", "undecided")
    assert document["steps"] == []


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        pytest.param("quiet^{/move a function}~10", "quiet^{/move a function}~1", id="comments"),
        pytest.param(
            "quiet^{/a client that sleeps}~1", "quiet^{/a client that sleeps}", id="a slower client"
        ),
    ],
)
def test_what_leaves_the_server_as_it_is_needs_no_trial(
    quiet: Planted, tmp_path: Path, good: str, bad: str
) -> None:
    document = quiet.search(bad, tmp_path / "out", good=good)
    assert document["headline"] == "Both ends build the same server: nothing to find."
    assert document["trials"] == 0


def test_a_function_at_another_place_is_no_slower_one(quiet: Planted, tmp_path: Path) -> None:
    moved = "quiet^{/move a function}"
    document = quiet.search(moved, tmp_path / "out", NOTHING_TO_FIND, good=f"{moved}~1")
    assert document["verdict"] in ("no difference", "undecided")
    assert document["steps"] == [] and document["trials"] > 0


@pytest.mark.parametrize("name", ["slow30", "slow10", "catalogue"])
def test_a_slower_function_is_found_within_an_hour(planted: Planted, tmp_path: Path, name: str) -> None:
    document = planted.search(name, tmp_path / "out")
    assert document["verdict"] == "found"
    ((found),) = culprits(document)
    assert planted.plants[name][-1][:10] in found
    assert len(found) <= 3
    # None where the hour was over before it was reverted.
    if len(found) == 1 and document["reverted"] is not None:
        assert document["reverted"]["is_confirmed"] is not False
    assert document["seconds_used"] <= 3700


def test_five_percent_are_never_blamed_on_another_commit(planted: Planted, tmp_path: Path) -> None:
    document = planted.search("slow5", tmp_path / "out")
    print(json.dumps({name: document[name] for name in ("headline", "ratio", "interval", "trials")}))
    for found in culprits(document):
        assert planted.plants["slow5"][0][:10] in found


def test_two_steps_are_told_as_two(planted: Planted, tmp_path: Path) -> None:
    document = planted.search("two", tmp_path / "out")
    first, second = (each[:10] for each in planted.plants["two"])
    assert document["verdict"] == "two steps"
    assert first in culprits(document)[0]
    assert second in culprits(document)[1]


def test_what_was_repaired_is_no_difference_of_the_ends(planted: Planted, tmp_path: Path) -> None:
    document = planted.search("repaired", tmp_path / "out", NOTHING_TO_FIND)
    assert document["verdict"] in ("no difference", "undecided")
    if document["verdict"] == "no difference":
        assert "name an earlier bad end" in document["notes"][0]
    # The same command with that earlier end finds it.
    slow, repair = planted.plants["repaired"]
    earlier = planted.search(f"{repair}~1", tmp_path / "earlier")
    assert slow[:10] in culprits(earlier)[0]


def test_two_changes_that_cancel_are_no_difference_of_the_ends(planted: Planted, tmp_path: Path) -> None:
    """From where one function is slow: another gets as slow, then the first one is as fast as before."""
    good, slow, faster = planted.plants["cancel"]
    document = planted.search("cancel", tmp_path / "out", NOTHING_TO_FIND, good=good)
    assert document["verdict"] in ("no difference", "undecided")
    earlier = planted.search(f"{faster}~1", tmp_path / "earlier", good=good)
    assert slow[:10] in culprits(earlier)[0]


def test_another_default_is_told_as_one(planted: Planted, tmp_path: Path) -> None:
    document = planted.search("default", tmp_path / "out")
    assert planted.plants["default"][0][:10] in culprits(document)[0]
    assert any(
        "It may be a default, not code" in note and any(name in note for name in NO_INDEX)
        for note in document["notes"]
    )
    assert any(note.startswith("The plan of ") for note in document["notes"])


def test_a_commit_that_does_not_build_stays_with_the_next_one(planted: Planted, tmp_path: Path) -> None:
    """Nor do the harmless commits between the two."""
    document = planted.search("unbuilt", tmp_path / "out")
    broken, slow = planted.plants["unbuilt"]
    between = git(planted.clone, "rev-list", f"{broken}^..{slow}", "--", "src").split()
    assert {broken, slow} < {*between}
    assert culprits(document)[0] == {each[:10] for each in between}
    assert (
        "A commit that does not build or run can't be distinguished from the next one that does."
        in document["notes"]
    )
