"""Markdown as a reader of it makes HTML of it: nothing that was recorded becomes markup."""

import re

import pytest
from markdown_it import MarkdownIt

from pgassay.report import markdown
from pgassay.report.section import Block, Bullets, Code, Item, Paragraph, Section, Subheading, bullets

SQL = "CREATE INDEX ON a (b_c)\n  WHERE x *y* = '<img src=x>' AND z = '```' AND u = '[a](http://b)';"


def read(*blocks: Block) -> str:
    """The HTML of a page with these blocks."""
    return str(MarkdownIt("commonmark").render(markdown.render([Section("", "a", blocks)])))


@pytest.mark.parametrize("above", [Paragraph("above"), bullets(["above"]), bullets(["above"], title="Done")])
def test_a_block_of_lines_stays_one_below_a_list_too(above: Block) -> None:
    """Lines that are moved in by four belong to a list above them, and are markup there."""
    shown = read(above, Code(SQL))
    assert not re.search("<(em|img|a)\\b", shown)
    assert "<pre><code>CREATE INDEX ON a (b_c)\n  WHERE x *y* = '&lt;img" in shown


@pytest.mark.parametrize(
    "text", ["# x", "1. x", "12) x", "- x", "+ x", "---", "* x", "> x", "    x", "- - -"]
)
def test_a_text_begins_no_heading_list_or_rule(text: str) -> None:
    shown = read(
        Paragraph(text), Subheading(text), bullets([text], title=text), Bullets((Item(text, detail="y"),))
    )
    assert re.sub("</?(p|ul|li)>", "", shown).count("<") == 0
    assert shown.count("<li>") == 2


def test_figures_at_a_beginning_stay_as_they_are() -> None:
    assert (
        markdown.render([Section("", "a", (Paragraph("-0.5 % to +1.2 %, 3 of 4"),))])
        == "-0.5 % to +1.2 %, 3 of 4\n"
    )


def test_an_address_is_no_link_where_a_host_makes_links_of_texts() -> None:
    assert "www." not in markdown.escape("see www.example.com and WWW.example.com").lower()
