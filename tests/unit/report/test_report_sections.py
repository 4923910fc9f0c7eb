"""Sections: one definition that the terminal, Markdown and HTML show, and that a comparison's page lists."""

import re

import pytest

import report_examples as examples
from pgassay.analysis.verdicts.compare import analyse
from pgassay.report import markdown, terminal
from pgassay.report.compare import page as comparison
from pgassay.report.compare.material import Material
from pgassay.report.html import page
from pgassay.report.section import (
    HTML,
    MARKDOWN,
    STRONG,
    TERMINAL,
    Bars,
    Beside,
    Bullets,
    Cell,
    Code,
    Column,
    Figure,
    Fold,
    Group,
    Item,
    Paragraph,
    Row,
    Section,
    Subheading,
    Table,
    Tree,
    TreeLine,
    bullets,
    plain_table,
)

HOSTILE = f"{examples.HOSTILE}\x1b[2J | `c` @all"


def toy(material: Material) -> Section:
    """A section as somebody would add it: how many trials each arm has."""
    rows = [(material.label(arm), str(arm.trials)) for arm in material.result.arms]
    return Section("Toy", "toy", (plain_table(("arm", "toy trials"), rows),), link="Toy")


def outputs(section: Section) -> dict[str, str]:
    return {
        "terminal": terminal.render([section], width=100),
        "markdown": markdown.render([section]),
        "html": page.render("Toys", [section], footer="toys"),
    }


def test_a_new_section_is_a_function_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    added = comparison.SectionOfComparison(toy)
    monkeypatch.setattr(comparison, "SECTIONS", (*comparison.SECTIONS, added))
    stored = examples.stored(blocks=4)
    result = analyse(stored)
    shown = comparison.page_of(result, stored).terminal(width=100, unicode=False)
    assert re.search(r"Toy\n\n arm +toy trials\n -+\n io_method=sync +4\n", shown)
    assert (
        "| arm | toy trials |\n|---|--:|\n| io_method=sync | 4 |"
        in comparison.page_of(result, stored).markdown()
    )
    made = comparison.page_of(result, stored).html()
    assert '<h2 id="toy">Toy</h2>' in made and '<a href="#toy">Toy</a>' in made
    assert '<td class="name">io_method=sync</td><td class="number">4</td>' in made


def test_an_output_shows_what_is_meant_for_it() -> None:
    section = Section(
        "Heading",
        "heading",
        (
            Paragraph("for all", STRONG),
            Paragraph("for terminals", where=TERMINAL),
            Paragraph("for issues", where=MARKDOWN),
            Paragraph("for pages", where=HTML),
        ),
        titled=HTML,
    )
    said = outputs(section)
    assert said["terminal"] == "for all\nfor terminals\n"
    assert said["markdown"] == "**for all**\n\nfor issues\n"
    assert "for pages" in said["html"] and "for terminals" not in said["html"]
    assert [name for name, shown in said.items() if "Heading" in shown] == ["html"]


def test_a_section_without_blocks_is_left_out_of_every_output() -> None:
    section = Section("Nothing", "nothing", (Paragraph("x", where=frozenset()),), link="Nothing")
    assert all("Nothing" not in shown for shown in outputs(section).values())


def test_whatever_was_recorded_is_harmless_in_every_output() -> None:
    columns = (Column(HOSTILE, is_figure=False), Column("n"))
    rows = (Row((Cell(HOSTILE, notes=(HOSTILE,)), Cell("1")), bar=((0.9, 1.2), 1.1)),)
    section = Section(
        HOSTILE,
        "hostile",
        (
            Paragraph(HOSTILE),
            Subheading(HOSTILE),
            bullets([HOSTILE], title=HOSTILE),
            Bullets((Item(HOSTILE, detail=HOSTILE, marks=(HOSTILE,)),)),
            Table(columns, (Group(rows, HOSTILE, ((HOSTILE, True),)),), HOSTILE, Bars("speed", 0.03)),
            Code(HOSTILE, label="Again"),
            Code(f"{HOSTILE}\n{HOSTILE}"),
            Fold(HOSTILE, (Beside(((Tree((TreeLine(1, HOSTILE, differs=True),)),),)),), marks=(HOSTILE,)),
            Figure("none of this name"),
        ),
        link="hostile",
        folded=MARKDOWN,
    )
    said = outputs(section)
    for shown in said.values():
        assert "\x1b" not in shown
    assert said["terminal"].isascii()
    for shown in (
        said["html"],
        re.sub(r"^(```+)$.*?^\1$|`+ ?[^\n]*`+", "", said["markdown"], flags=re.M | re.S),
    ):
        assert "<script>" not in shown
    rows_shown = [line for line in said["markdown"].splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows_shown} == {4}


@pytest.mark.parametrize("width", range(40, 90))
def test_no_figure_is_cut_off_in_a_narrow_table(width: int) -> None:
    heads = ("arm", "verdict", "ratio", "interval", "transactions/s", "trials")
    columns = tuple(Column(head, is_figure=place > 1) for place, head in enumerate(heads))
    cells = ("synchronous_commit=on", "inconclusive", "5.957x", "0.0811 - 7.992", "507.3", "17")
    row = Row(tuple(map(Cell, cells)), bar=((1.1, 1.3), 1.2))
    table = Table(columns, (Group((row,)),), bars=Bars("speed", 0.03))
    shown = terminal.render([Section("", "arms", (table,))], width=width)
    for head, cell in zip(heads[1:], cells[1:], strict=True):
        named = shown.partition("Not shown in this width:")[2].partition(".")[0]
        assert (head in named) != (re.search(rf"(?<!\S){re.escape(cell)}(?!\S)", shown) is not None), shown
    assert ("Not shown in this width" in shown) == (width < 78)


def test_a_narrow_table_has_its_bars_below() -> None:
    columns = (Column("arm", is_figure=False), Column("verdict", is_figure=False), Column("ratio"))
    row = Row((Cell("worker"), Cell("faster", "faster"), Cell("1.2x")), bar=((1.1, 1.3), 1.2))
    table = Table(columns, (Group((row,)),), bars=Bars("speed", 0.03))
    wide = terminal.render([Section("", "arms", (table,))], width=120)
    narrow = terminal.render([Section("", "arms", (table,))], width=70)
    assert "against the margin" in wide and "log scale" not in wide
    assert "speed, log scale" in narrow and "against the margin" not in narrow
    assert "\x1b[1;32mfaster" in terminal.render([Section("", "arms", (table,))], width=70, colour=True)


@pytest.mark.parametrize("width", range(84, 130, 5))
def test_a_table_of_words_has_its_last_column_whole(width: int) -> None:
    heads = ("fix", "layer", "verdict", "interval", "takes", "on disk", "writes")
    columns = tuple(Column(head, is_figure=place > 2) for place, head in enumerate(heads))
    fixes = ("1. Index on customers((lower(email)))", "2. Write day-report otherwise (function range)")
    cells = [
        (fix, "design", "not decided (so far)", "1.1 to 3.4", "492 ms", "4.21 MB", "1.00 x") for fix in fixes
    ]
    table = Table(columns, (Group(tuple(Row(tuple(map(Cell, row))) for row in cells)),))
    shown = terminal.render([Section("", "fixes", (table,))], width=width)
    assert len(re.findall(r"4\.21 MB +1\.00 x$", shown, re.MULTILINE)) == 2, shown
