"""A page in each of its forms, and the one way in which every command writes them."""

import argparse
import json
from pathlib import Path

import pytest

from pgassay.cli import main, options
from pgassay.cli.output import publish
from pgassay.report.page import Page
from pgassay.report.section import HTML, Paragraph, Section, plain_table

# Those that print lines while they run, or in the form of another tool.
WITHOUT_PAGE = {"watch", "pgbench", "sysbench"}
ROW = ("x × y", "1")
PAGE = Page(
    "A <title>",
    {"schema": 1, "value": float("nan"), "ends": (1.0, None)},
    lambda: [
        Section("Rows", "rows", (plain_table(("name", "n"), [ROW]), Paragraph("w " * 60))),
        Section("For pages", "pages", (Paragraph("only there"),), where=HTML),
    ],
)


def arguments(**given: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_formats(parser)
    return argparse.Namespace(**vars(parser.parse_args([])) | given)


def test_each_form_is_made_of_the_same_sections() -> None:
    for shown in (PAGE.terminal(), PAGE.markdown(), PAGE.html()):
        assert "x × y" in shown and "Rows" in shown
    assert "only there" in PAGE.html() and "only there" not in PAGE.terminal() + PAGE.markdown()
    assert "<title>A &lt;title&gt;" in PAGE.html()
    assert PAGE.text().isascii() and max(map(len, PAGE.text().splitlines())) <= 72
    assert json.loads(PAGE.json()) == {"schema": 1, "value": None, "ends": [1.0, None]}


def test_a_page_is_printed_in_the_form_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for form, said in (("json", PAGE.json()), ("markdown", PAGE.markdown()), ("text", PAGE.text())):
        publish(PAGE, arguments(**{form: True}), below=("next",))
        assert capsys.readouterr().out == said, "what stands below is for people"
    publish(PAGE, arguments(), below=("next",))
    assert capsys.readouterr().out.endswith("\nnext\n")


def test_the_html_page_goes_where_it_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, asked = tmp_path / "kept.html", tmp_path / "asked.html"
    publish(PAGE, arguments(), keep=kept)
    assert capsys.readouterr().out.endswith(f"\nreport: {kept}\n")
    publish(PAGE, arguments(html=asked, json=True), keep=tmp_path / "not.html")
    assert "report:" not in capsys.readouterr().out
    assert kept.read_text("utf-8") == asked.read_text("utf-8") == PAGE.html()
    assert not (tmp_path / "not.html").exists()


def test_every_command_that_prints_a_result_has_all_forms() -> None:
    found = next(each for each in main.parser()._actions if isinstance(each, argparse._SubParsersAction))
    forms = {f"--{name}" for name in options.FORMATS}
    with_json = {
        name: {option for action in each._actions for option in action.option_strings}
        for name, each in found.choices.items()
        if any("--json" in action.option_strings for action in each._actions)
    }
    assert len(with_json) > 20 and with_json.keys() >= WITHOUT_PAGE
    assert not [name for name, has in with_json.items() if name not in WITHOUT_PAGE and not has >= forms]


def test_a_missing_folder_is_said_before_anything_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["list", "/nowhere", "--html", "/nowhere/page.html"]) == 2
    said = capsys.readouterr()
    assert said.err == "pgassay: --html /nowhere/page.html: its folder does not exist, create it first\n"
    assert not said.out
