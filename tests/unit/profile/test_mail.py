"""`report --text`: a mail's plain text of 72 columns, whatever the names and however many arms."""

import dataclasses
import shlex
from pathlib import Path

import pytest
from profile_for_tests import profiled

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.cli import main
from pgassay.model.experiment import Experiment
from pgassay.record.experiment import StoredExperiment, write_experiment
from pgassay.report.compare.page import page_of
from pgassay.report.mail.mail_text import COLUMNS, table

LONG = "io_method with a name that is longer than any column of a table in a mail can ever be"
COMMAND = ("pgassay", "compare", "io_method=sync,worker", "--set", "search_path='a,b'", *["--quiet"] * 12)


def mail(stored: StoredExperiment, **changes: object) -> str:
    plan = stored.experiment.model_copy(update={"command": COMMAND, **changes})
    made = dataclasses.replace(stored, experiment=plan)
    return page_of(analyse(made), made).text()


@pytest.mark.parametrize(
    "stored",
    [
        examples.stored(),
        examples.stored(levels=["sync", LONG, "\x1b[31mred\u202e"], blocks=6),
        examples.stored(levels=["sync", "worker"], strata=["clients=1", "clients=50"], blocks=8),
        examples.stored(blocks=0, stopped="failed"),
    ],
    ids=["three arms", "hostile names", "grid", "nothing measured"],
)
def test_no_line_is_wider_than_a_mail_and_all_is_ascii(stored: StoredExperiment) -> None:
    text = mail(stored)
    assert text.isascii()
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_it_has_what_a_reader_needs_in_a_year() -> None:
    stored = examples.stored()
    text = mail(stored)
    result = analyse(stored)
    words = " ".join(text.split())
    for arm in result.arms:
        assert f"{arm.name.removeprefix('io_method=')}" in words
    low, high = next(arm.interval for arm in result.arms if arm.verdict == "faster") or (0, 0)
    assert f"{low:.3f}-{high:.3f}" in text
    assert f"PostgreSQL {stored.experiment.arms[0].spec.build.version}" in words
    assert "Machine: " in text and "Workload: " in text
    assert f"{result.blocks} blocks of randomised trials" in words


def test_the_command_can_be_pasted() -> None:
    text = mail(examples.stored())
    command = text.partition("To repeat it:\n")[2]
    assert command.count("\\\n") >= 1
    assert shlex.split(command.replace("\\\n", " ")) == list(COMMAND)


def test_functions_that_differ_stand_in_the_mail(tmp_path: Path) -> None:
    text = mail(profiled(tmp_path, rounds=12, factors={"palloc": 1.4}))
    words = " ".join(text.split())
    assert "- palloc takes " in text and "more [" in words
    rows = [line.split()[0] for line in text.partition("  function ")[2].splitlines()[2:] if line.strip()]
    assert rows[0] == "palloc"
    assert "Instructions:" not in text
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_counted_instructions_stand_in_the_mail(tmp_path: Path) -> None:
    counts = {"control": 41_000.0, "arm": 38_950.0}
    text = mail(profiled(tmp_path, rounds=8, instructions=counts))
    words = " ".join(text.split())
    assert "Instructions: 41,000 in io_method=sync; 38,9" in words or "Instructions: 41,0" in words
    assert "(0.950x, 0.9" in words
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_a_table_without_room_is_a_list_and_loses_nothing() -> None:
    rows = [("one", *(f"{number}" * 12 for number in range(6))), ("x" * 90, *["y" * 80] * 6)]
    made = table(("name", *(f"column {number}" for number in range(6))), rows)
    assert max(map(len, made.splitlines())) <= COLUMNS
    assert made.replace("\n", "").replace(" ", "").count("y") == 480
    assert made.count("x") >= 90


def test_the_command_line_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    plan: Experiment = examples.stored().experiment
    write_experiment(folder, plan)
    assert main.main(["report", str(folder), "--text"]) == 0
    assert "To repeat it:" in capsys.readouterr().out
