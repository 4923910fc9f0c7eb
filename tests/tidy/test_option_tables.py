"""The tables of options and the lists of keys in the documents are those of the commands and the files."""

import argparse
import re

import pytest

import option_tables
from pgassay.cli import main

# The pages that are to name every option of their command; those of pgbench and sysbench are the tools' own.
WHOLE = (
    *("bisect", "capture", "claims", "compare", "diagnose", "doctor", "explain", "gate", "probe", "replay"),
    *("size", "tune", "upgrade", "watch"),
)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    parsers = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(parsers[0].choices) if parsers else {}


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    """The long options of a command and of its own commands."""
    own = {each.option_strings[-1] for each in parser._actions if each.option_strings} - {"--help"}
    return own.union(*map(flags_of, subcommands(parser).values()))


@pytest.mark.parametrize("command", WHOLE)
def test_a_page_names_every_option_of_its_command_and_its_table_no_other(command: str) -> None:
    page = (option_tables.DOCS / f"{command}.md").read_text("utf-8")
    flags = flags_of(subcommands(main.parser())[command])
    assert not {flag for flag in flags if not re.search(rf"`[^`]*{re.escape(flag)}(?![\w-])", page)}
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `--")]
    assert rows and set(re.findall(r"--[a-z][\w-]*", " ".join(rows))) <= flags


def test_the_tables_are_current() -> None:
    pages = option_tables.pages()
    assert len(pages) >= 3
    remedy = "run 'python tools/option_tables.py'"
    assert not [path.name for path in pages if option_tables.page(path) != path.read_text("utf-8")], remedy


def test_a_row_has_the_default_and_what_the_documents_say() -> None:
    rows = {line.split(" | ")[0]: line for line in option_tables.table("compare").splitlines()}
    assert rows["| `--max-time`"].startswith("| `--max-time` | `15m` | ")
    assert (
        rows["| `--storage`"]
        == "| `--storage` | `host` | where the data directories are: [storage](storage.md) |"
    )
    assert rows["| `--quiet`"] == "| `--quiet` | off | print nothing while it runs |"
    resumed = option_tables.table("resume")
    assert "| `--blocks` | the experiment's | continue to N blocks in total" in resumed
    assert "`pool = false` is `--no-pool`" in " ".join(option_tables.keys("gate file").split())
