"""The command that repeats an experiment: what is pasted into a shell is what was typed."""

import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import report_examples as examples
from pgassay.record.experiment import StoredExperiment
from pgassay.report import text
from pgassay.report.compare import page as comparison
from pgassay.report.compare.repeat_and_cite import reproduce_command
from pgassay.report.section import Code, Section
from pgassay.report.terminal import render

STATEMENT = "sql:SELECT 17 % 3, '5 %', 'größe – 3 × 4' -- a comment\nFROM t WHERE x = 'it''s' AND y = '\\'"
COMMAND = ("pgassay", "compare", "work_mem=4MB,64MB", "--workload", STATEMENT, "--statement", "a=SELECT\t1")


def words_of(command: str) -> list[str]:
    """What a shell makes of a command line; C: the shell itself takes bytes as they are."""
    script = f"printf '%s\\0' {command}"
    made = subprocess.run(["bash", "-c", script], env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True)
    return made.stdout.decode().split("\0")[:-1]


def stored() -> StoredExperiment:
    made = examples.stored(blocks=4)
    experiment = made.experiment.model_copy(update={"command": COMMAND})
    return replace(made, experiment=experiment)


def test_a_page_repeats_the_command_that_was_typed() -> None:
    assert words_of(reproduce_command(stored())) == list(COMMAND)


def test_a_mail_repeats_the_command_that_was_typed() -> None:
    made = stored()
    mail = comparison.page_of(examples.result(made), made).text()
    assert mail.isascii()
    assert words_of(mail.partition("To repeat it:\n")[2]) == list(COMMAND)


@settings(max_examples=20)
@given(word=some.text(some.characters(exclude_categories=("Cs", "Cn"), exclude_characters="\0"), min_size=1))
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_word_of_any_signs_comes_back(word: str, is_ascii: bool) -> None:
    shown = text.shell_word(word, is_ascii=is_ascii)
    assert shown.isprintable() and (shown.isascii() or not is_ascii)
    assert words_of(shown) == [word]


def test_a_statement_to_be_copied_has_no_other_signs_where_only_ascii_is_shown() -> None:
    section = Section("", "a", (Code("SELECT '3 × 4 – ü'"),))
    assert render([section], width=80, unicode=True) == "  SELECT '3 × 4 – ü'\n"
    assert render([section], width=80, unicode=False) == "  SELECT '3 \\xd7 4 \\u2013 \\xfc'\n"


def test_signs_of_our_own_have_a_plain_form() -> None:
    assert text.ascii_only("“cold”: −3 % of 10⁶") == '"cold": -3 % of 10^6'
