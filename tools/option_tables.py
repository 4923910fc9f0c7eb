"""Writes the tables of options and the lists of keys in the documents, from what commands and files take.

Run `python tools/option_tables.py` after an option was added or changed. A region of a page begins with
`<!-- by tools/option_tables.py: options of COMMAND -->`, or `keys of file` (or `gate file`), and ends with
`<!-- end -->`.
"""

import argparse
import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from pgassay.cli import main
from pgassay.options import sizing, tuning
from pgassay.options.option import Option
from pgassay.options.table import OWN_OPTIONS, options_for

DOCS = Path(__file__).resolve().parents[1] / "docs"
_REGION = re.compile(
    r"(<!-- by tools/option_tables\.py: (\w+) of ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL
)
# Of options that are a command's own: where the guide says more of them.
_PAGES = {
    "--fleet": "fleet.md",
    "--spread": "fleet.md#spreading-a-grid-by-cells",
    "--plan": "compare.md#the-plan-alone",
    "--json": "scripting.md",
    "--redact": "reports.md#without-literals",
}
# What a command says in the documents of options that it shares.
_GUIDES = {"tune": tuning.GUIDES, "size": sizing.GUIDES}
# The forms of what is printed are the same everywhere, in whatever words a command's help says so.
_FORMS = {"--json", "--markdown", "--text"}
_DEFAULT = re.compile(r" \((default:? )([^()]*)\)")
_FLAG = re.compile(r"(?<![\w`])(--[a-z][\w-]*)")


def table(command: str) -> str:
    """The options of a command with their defaults and what they do."""
    actions = main.parser()._actions
    commands = next(each for each in actions if isinstance(each, argparse._SubParsersAction)).choices
    rows = _rows(commands[command], known_of(command), _GUIDES.get(command, {}))
    if command != "compare":
        rows = _without_repetition(rows, _rows(commands["compare"], known_of("compare"), {}))
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def known_of(command: str) -> dict[str, Option]:
    """The options of the table that a command takes, by flag."""
    return {option.flag: option for option in (*options_for(command), *OWN_OPTIONS.get(command, ()))}


def _rows(parser: argparse.ArgumentParser, known: dict[str, Option], guides: dict[str, str]) -> list[str]:
    """One for each option but --help; `guides`: the command's own words, by flag."""
    return [
        _row(action, known.get(action.option_strings[-1]), guides.get(action.option_strings[-1], ""))
        for action in parser._actions
        if action.option_strings and action.option_strings[-1] != "--help"
    ]


def _without_repetition(rows: list[str], of_compare: list[str]) -> list[str]:
    """The rows that compare's table lacks, and one that names the options that are the same there."""
    flags = {row: row.split(" | ")[0].removeprefix("| ") for row in rows}
    same = [row for row in rows if row in of_compare or flags[row].strip("`") in _FORMS]
    named = ", ".join(flags[row] for row in same)
    own = [row for row in rows if row not in same]
    return [*own, f"| {named} | | as for [compare](compare.md#compare) |"] if same else own


def _row(action: argparse.Action, option: Option | None, guide: str) -> str:
    flag, text = action.option_strings[-1], guide or (action.help or "").replace("%%", "%")
    # The default has a column of its own.
    default = _DEFAULT.search(text)
    is_as_in_the_table = option is not None and text.startswith(option.help)
    text = _FLAG.sub(r"`\1`", _DEFAULT.sub("", text))
    choices = [str(each) for each in action.choices or () if action.metavar is None]
    text = re.sub(rf"(?<![\w-])({'|'.join(choices) or '$'})(?=:)", r"`\1`", text)
    if any(f"`{each}`:" not in text for each in choices):
        text = f"{', '.join(f'`{each}`' for each in choices)}: {text}"
    if option is not None and option.guide and is_as_in_the_table:
        text = option.guide
    text += f": [more]({_PAGES[flag]})" if flag in _PAGES else ""
    if default is not None:
        usual = f"`{default[2]}`" if default[1] == "default " else default[2]
    else:
        usual = "off" if action.nargs == 0 else "none"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{flag}`", usual, text)) + " |"


def keys(kind: str) -> str:
    """The keys that a kind of file has, and which of them are no flag's name."""
    found = [option for option in options_for(kind) if option.file_key]
    others = ", ".join(f"`{each.file_key} = false` is `{each.flag}`" for each in found if each.key)
    listed = ", ".join(f"`{option.file_key}`" for option in found)
    return textwrap.fill(f"{listed} ({others})", 128, break_long_words=False, break_on_hyphens=False)


def page(path: Path) -> str:
    """A page with its regions made anew."""
    made = {"options": table, "keys": keys}
    return _REGION.sub(
        lambda found: f"{found[1]}\n{made[found[2]](found[3])}\n\n{found[4]}", path.read_text("utf-8")
    )


def pages() -> list[Path]:
    """The documents that have such regions."""
    return [path for path in sorted(DOCS.glob("*.md")) if _REGION.search(path.read_text("utf-8"))]


if __name__ == "__main__":
    for path in pages():
        path.write_text(page(path), "utf-8")
