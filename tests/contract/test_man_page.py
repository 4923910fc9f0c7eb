"""The man page: groff has nothing to complain of, and it holds what `--help` prints."""

import argparse
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pgassay.cli import main
from steps.man_page import man_page, write_man_page


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as groff shows it, without breaks within words."""
    page = tmp_path_factory.mktemp("man") / "man1" / "pgassay.1"
    write_man_page(page)
    command = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=100n", str(page)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


def parsers() -> dict[str, argparse.ArgumentParser]:
    actions = main.parser()._actions
    return dict(next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices)


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("‐\n", "").replace("‐", "-"))


def test_every_command_and_option_is_there_with_its_help(
    require: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    require("groff")
    text = request.getfixturevalue("shown")
    plain = words(text)
    options = 0
    for name, parser in parsers().items():
        assert f"PGASSAY {name.upper()}" in text
        section = words(text.split(f"PGASSAY {name.upper()}\n")[1].split("\nPGASSAY ")[0])
        assert words(parser.description or "").strip() in section, name
        # What a command refuses, since it has no meaning there, stands in no help.
        for action in (each for each in parser._actions if each.help != argparse.SUPPRESS):
            for option in action.option_strings:
                assert option in section, (name, option)
                options += 1
            if action.help:
                help_text = words(parser._get_formatter()._expand_help(action))
                assert help_text in section, (name, action.dest)
    assert options > 80
    assert "EXIT STATUS" in plain


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = man_page()
    monkeypatch.setenv("COLUMNS", "200")
    assert man_page() == usual
    assert main.parser().format_help().count("\n") > 10


def test_lines_that_begin_like_orders_of_groff_are_text(tmp_path: Path) -> None:
    """No line begins with a dot or an apostrophe unless it is an order of the page's own."""
    del tmp_path
    orders = {line.split()[0] for line in man_page().splitlines() if line.startswith((".", "'"))}
    assert orders <= {".TH", ".SH", ".TP", ".PP", ".B", ".BR", ".I", ".br", ".nf", ".fi", ".ad", ".nh"}
