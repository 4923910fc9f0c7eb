"""What pgassay says of stored experiments, to eleven digits: README.md in this folder."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from frozen import conversations, outputs
from frozen.corpus import PRIMARY, STRICT, TEXTS, Corpus, place
from frozen.digits import is_same
from native_servers import started_server

REMEDY = "tests/frozen/README.md says when an expectation may change"
DIFFERENCES_MAX = 3


@pytest.fixture(scope="module")
def corpus() -> Iterator[Corpus]:
    with Corpus() as opened:
        yield opened


def differences(found: Mapping[str, str], folder: Path) -> list[str]:
    """The first different lines of each document that is not as expected, missing or new."""
    expected = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*/*"))}
    said = [f"{name} is not made any more" for name in expected.keys() - found.keys()]
    said += [f"{name} is new" for name in found.keys() - expected.keys()]
    for name in sorted(expected.keys() & found.keys()):
        if not is_same(expected[name], found[name]):
            said.append(f"{name}: {_first_difference(expected[name], found[name])}")
    return said


def _first_difference(expected: str, found: str) -> str:
    old, new = expected.splitlines(), found.splitlines()
    for number, (before, now) in enumerate(zip(old, new, strict=False), start=1):
        if not is_same(before, now):
            return f"line {number}\n  was {before[:400]}\n  is  {now[:400]}"
    return f"{len(old)} lines were expected, and {len(new)} are there"


def summary(found: list[str]) -> str:
    return "\n".join([f"{len(found)} documents differ; {REMEDY}", *found[:DIFFERENCES_MAX]])


def test_the_set_has_experiments_of_all_kinds(corpus: Corpus) -> None:
    plans = {
        name: json.loads((corpus.folder / name / "experiment.json").read_bytes())
        for name in corpus.experiments
    }
    assert len(plans) >= 30
    families = {arm["spec"]["workload"]["family"] for plan in plans.values() for arm in plan["arms"]}
    assert families >= {"full-scan", "sql", "select-only", "tpcb", "oltp_read_only", "maintenance"}
    ends = {
        json.loads((corpus.folder / name / "state.json").read_bytes())["stopped"]
        for name in corpus.experiments
    }
    assert {"decided", "blocks", "failed", "interrupted"} <= ends
    observed = {file.relative_to(corpus.folder).parts[0] for file in corpus.folder.glob("*/**/waits.parquet")}
    assert len(observed) >= 6


def test_figures_verdicts_and_schedules_are_as_they_were(corpus: Corpus) -> None:
    found = differences(corpus.strict(), STRICT)
    assert not found, summary(found)


def test_primary_ratios_and_intervals_are_as_they_were(corpus: Corpus) -> None:
    """To eleven digits; an interval that was empty, whose ends stood in order, is null."""
    arms = 0
    for name, expected in json.loads(PRIMARY.read_bytes()).items():
        found = json.loads(corpus.strict()[f"{name}.json"])["arms"]
        assert len(found) == len(expected), name
        for was, arm in zip(expected, found, strict=True):
            arms += 1
            assert (arm["name"], arm["stratum"]) == (was["arm"], was["stratum"])
            ends = None if was["empty"] else was["interval"]
            for one, other in zip((arm["ratio"], arm["interval"]), (was["ratio"], ends), strict=True):
                assert is_same(json.dumps(one), json.dumps(other)), (name, arm["name"])
    assert arms >= 100


def test_texts_are_as_they_were(corpus: Corpus) -> None:
    """Words that got better are recorded anew: `python tests/frozen/record.py --texts`."""
    found = differences(corpus.texts(), TEXTS)
    assert not found, summary(found)


@pytest.mark.parametrize("name", outputs.BY_COMMAND)
def test_the_command_prints_what_the_renderers_make(corpus: Corpus, name: str) -> None:
    for documents, folder in zip(corpus.by_command(name), (STRICT, TEXTS), strict=True):
        assert documents
        for document, said in documents.items():
            assert is_same(place(folder, document).read_text("utf-8"), said), document


def test_the_native_binary_is_asked_as_it_was(corpus: Corpus) -> None:
    assert corpus.asked() == conversations.recorded()


@pytest.mark.server
@pytest.mark.shares_machine
def test_the_native_binary_answers_in_the_same_shape(corpus: Corpus) -> None:
    with started_server() as server:
        postmaster_pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        heard = conversations.listened(corpus.folder, server.parameters(), postmaster_pid)
    recorded = {path.name: path.read_text("utf-8") for path in conversations.TRANSCRIPTS.iterdir()}
    assert {name: conversations.shape(text) for name, text in heard.items()} == {
        name: conversations.shape(text) for name, text in recorded.items()
    }
