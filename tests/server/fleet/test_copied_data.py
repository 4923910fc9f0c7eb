"""Data that one machine of a fleet has travel to those that lack them: real homes, real snapshots."""

import base64
import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from direct_machines import (
    PACE,
    DirectFleet,
    DirectMachine,
    Heard,
    asked,
    assert_one_experiment,
    fleet_of,
)
from pgassay.fleet.agent_requests import Document, MachineLostError
from pgassay.fleet.spreading import spread_plan as plans
from pgassay.fleet.spreading.run_spread import run_spread
from pgassay.model.machines.combined import CombinedResult
from pgassay.record.experiment import load

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
WORDS = ("random_page_cost=4,2", "--workload", "select-only:duration=200ms,warmup=0ms", "--seed", "11")


@pytest.fixture(autouse=True)
def needs(require: Callable[..., None]) -> None:
    require("server", "root")


@pytest.fixture
def fleet() -> Iterator[DirectFleet]:
    """alpha has the data, and says that making them took long; beta has none."""
    with fleet_of("alpha", "beta") as machines:
        say_it_took(machines["alpha"].home, 500.0)
        shutil.rmtree(snapshot(machines["beta"].home))
        yield machines


def say_it_took(home: Path, seconds: float) -> None:
    """Let a snapshot say that making it took so long."""
    facts = snapshot(home) / "pgassay-snapshot.json"
    facts.write_text(json.dumps(json.loads(facts.read_bytes()) | {"seconds": seconds}))


def snapshot(home: Path) -> Path:
    (found,) = (path for path in (home / "data/snapshots").iterdir() if path.is_dir())
    return found


def content(folder: Path) -> dict[str, str]:
    """What every file below a folder holds, and how it is owned and closed."""
    return {
        str(path.relative_to(folder)): (
            f"{path.stat().st_uid} {path.stat().st_mode:o} "
            + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder")
        )
        for path in sorted(folder.rglob("*"))
    }


def left(home: Path) -> list[Path]:
    return [*home.glob("data/snapshots/*partial*"), *home.glob("registry/*.json")]


def spread(fleet: DirectFleet, out: Path) -> tuple[CombinedResult, Heard]:
    """A comparison, which took place; what came of it and what was said."""
    heard = Heard()
    folder, result = run_spread(asked(*WORDS, "--blocks", "2", out=out), fleet, heard, PACE)
    assert (folder, result.stopped) == (out, "blocks")
    assert not [path for machine in fleet.machines() for path in left(machine.home)]
    return result, heard


def run(fleet: DirectFleet, out: Path) -> str:
    """What was said of a comparison, which took place."""
    return "\n".join(spread(fleet, out)[1].messages)


@pytest.mark.slow
def test_data_that_one_machine_has_are_copied_to_the_other(fleet: DirectFleet, tmp_path: Path) -> None:
    alpha, beta = (fleet[name].home for name in ("alpha", "beta"))
    key, held = snapshot(alpha).name, content(snapshot(alpha))
    result, heard = spread(fleet, tmp_path / "out")
    assert_one_experiment(fleet, tmp_path / "out", result, heard)
    said = "\n".join(heard.messages)
    assert "alpha has the data (scale 1, " in said
    assert "the data are on beta too: " in said
    assert snapshot(beta).name == key
    assert content(snapshot(beta)) == held
    (copy,) = plans.read(tmp_path / "out").copies
    assert (copy.key, copy.source, copy.machines) == (key, "alpha", ("beta",))
    assert copy.bytes > 20 << 20
    # What was copied is what was measured on.
    trials = load(tmp_path / "out/machines/beta").trials
    assert any(trial.record.status == "ok" for trial in trials)


class OnTheWay:
    """Stands between the coordinator and a machine: `meet` sees each question and answer about data."""

    def __init__(self, machine: DirectMachine, meet: Callable[[Document, Document], Document]) -> None:
        self._ask, self._meet = machine.request, meet
        self.count = 0
        machine.request = self.request  # type: ignore[method-assign]  # the machine stays as it is

    def request(self, document: Document, *, timeout_s: float = 60.0) -> Document:
        answer = self._ask(document, timeout_s=timeout_s)
        return self._meet(document, answer) if document.get("operation") == "data" else answer


@pytest.mark.slow
def test_what_is_damaged_on_the_way_is_sent_again(fleet: DirectFleet, tmp_path: Path) -> None:
    damaged: list[object] = []

    def damage(asked_: Document, answer: Document) -> Document:
        if asked_.get("ask") != "part" or asked_.get("number") != 2 or len(damaged) == 2:
            return answer
        damaged.append(asked_["number"])
        content = bytearray(zlib.decompress(base64.b64decode(str(answer["data"]))))
        content[1000] ^= 1
        return {**answer, "data": base64.b64encode(zlib.compress(bytes(content))).decode()}

    OnTheWay(fleet["alpha"], damage)
    held = content(snapshot(fleet["alpha"].home))
    assert "the data are on beta too: " in run(fleet, tmp_path / "out")
    assert damaged == [2, 2]
    assert content(snapshot(fleet["beta"].home)) == held


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_connection_that_is_cut(fleet: DirectFleet, tmp_path: Path, *, comes_back: bool) -> None:
    """For a moment the copy goes on where it was; for longer the machine makes its own."""
    cut: list[float] = []

    def part(asked_: Document, answer: Document) -> Document:
        if asked_.get("ask") == "put" and asked_.get("number") == 2 and (comes_back <= (len(cut) < 3)):
            cut.append(time.monotonic())
            raise MachineLostError("beta is away")
        return answer

    OnTheWay(fleet["beta"], part)
    said = run(fleet, tmp_path / "out")
    assert len(cut) >= 3
    copies = plans.read(tmp_path / "out").copies
    if comes_back:
        assert "the data are on beta too: " in said
        assert [copy.machines for copy in copies] == [("beta",)]
    else:
        assert "beta can't take the data (beta is away): it makes its own" in said
        assert copies == ()
    made = json.loads((snapshot(fleet["beta"].home) / "pgassay-snapshot.json").read_bytes())
    assert (made["seconds"] == 500.0) is comes_back


@pytest.mark.slow
def test_a_way_that_is_slower_than_making_is_given_up(fleet: DirectFleet, tmp_path: Path) -> None:
    say_it_took(fleet["alpha"].home, 4.0)

    def delay(asked_: Document, answer: Document) -> Document:
        time.sleep(1.5 * (asked_.get("ask") == "put"))
        return answer

    OnTheWay(fleet["beta"], delay)
    said = run(fleet, tmp_path / "out")
    assert re.search(
        r"beta: copying the rest of the data at .* would take .*, making them .*: it makes its own", said
    )
    assert plans.read(tmp_path / "out").copies == ()


@pytest.mark.slow
def test_what_nobody_has_is_made_by_the_one_that_is_much_sooner(fleet: DirectFleet, tmp_path: Path) -> None:
    """Both have made such data before, of another version: that says how long each takes."""
    alpha, beta = (fleet[name].home for name in ("alpha", "beta"))
    key = snapshot(alpha).name
    say_it_took(alpha, 3.0)
    subprocess.run(["cp", "-a", snapshot(alpha), beta / "data/snapshots" / ("0" * 20)], check=True)
    snapshot(alpha).rename(alpha / "data/snapshots" / ("0" * 20))
    say_it_took(beta, 900.0)
    said = run(fleet, tmp_path / "out")
    assert "alpha makes the data (scale 1), which beta would make more slowly" in said
    assert "the data are on beta too: " in said
    assert content(alpha / "data/snapshots" / key) == content(beta / "data/snapshots" / key)


@contextmanager
def small_disk(home: Path, megabytes: int) -> Iterator[Path]:
    """The snapshots of a home on a disk of their own."""
    place = home / "data/snapshots"
    owner = place.stat()
    options = f"size={megabytes}m,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("is_full_at_once", [True, False])
def test_a_full_disk_is_told_in_one_sentence(
    fleet: DirectFleet, tmp_path: Path, *, is_full_at_once: bool
) -> None:
    heard = Heard()
    with small_disk(fleet["beta"].home, 60 if is_full_at_once else 240) as place:

        def fill(asked_: Document, answer: Document) -> Document:
            if asked_.get("ask") == "put" and asked_.get("number") == 1:
                with contextlib.suppress(OSError), (place / "filling").open("wb") as file:
                    while True:
                        file.write(bytes(1 << 20))
            return answer

        OnTheWay(fleet["beta"], fill)
        result = run_spread(asked(*WORDS, "--blocks", "2", out=tmp_path / "out"), fleet, heard, PACE)[1]
        assert {path.name for path in place.iterdir() if path.is_dir()} == set()
    (sentence,) = (line for line in heard.messages if line.startswith("beta can't take the data"))
    expected = "MB are free: free some space" if is_full_at_once else "no space is left in "
    assert expected in sentence
    assert re.search(r"beta ended: .*free", "\n".join(heard.messages))
    assert result.arms[0].these_machines.machines == 1
