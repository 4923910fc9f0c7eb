"""Sections as Markdown, for an issue or a wiki: nothing that was recorded becomes markup, link or mention."""

import re
from collections.abc import Iterable, Iterator

from pgassay.report import text
from pgassay.report.section import (
    STRONG,
    Block,
    Bullets,
    Code,
    Fold,
    Item,
    Paragraph,
    Section,
    Subheading,
    Table,
    columns_shown,
    shown,
)

# Signs that begin markup wherever they stand; the underscore does so only at the edge of a word.
_SPECIAL = re.compile(r"[\\`*{}\[\]<>|~&!$]|(?<!\w)_|_(?!\w)|:(?=//)")
# A host may turn these into a mention or a reference; the '#' of an entity made here is none.
_REFERENCE = re.compile(r"(?<!&)[@#](?=\w)")
# What a host makes a link of without any sign of markup.
_ADDRESS = re.compile(r"\b(www)\.", re.IGNORECASE)
# Signs that begin a heading, a list or a rule where a line begins with them.
_BEGINNING = re.compile(r"^(\d{1,9}(?=[.)])|)([-+#.)])(?=[-+#]*(?:\s|$))")


def escape(content: str) -> str:
    """A text that Markdown shows as it is: no markup, link, mention or table column comes of it."""
    plain = _SPECIAL.sub(lambda match: f"&#{ord(match.group())};", text.clean(content))
    plain = _ADDRESS.sub(r"\1&#46;", plain)
    return _REFERENCE.sub(lambda match: f"{match.group()}&#8203;", plain)


def beginning(content: str) -> str:
    """As `escape` for a text with which a line begins: it becomes no heading, list or rule either."""
    return _BEGINNING.sub(lambda match: f"{match[1]}&#{ord(match[2])};", escape(content).lstrip(), count=1)


def code(content: str) -> str:
    """A code span that holds the text whatever back-ticks are in it; for a place outside tables."""
    cleaned = text.clean(content)
    fence = "`"
    while fence in cleaned:
        fence += "`"
    room = " " if cleaned.startswith("`") or cleaned.endswith("`") else ""
    return f"{fence}{room}{cleaned}{room}{fence}"


def render(sections: Iterable[Section]) -> str:
    """The sections in order, with an empty line between their parts."""
    return (
        "\n\n".join(part for section in shown(sections, "markdown") for part in _section(section) if part)
        + "\n"
    )


def _section(section: Section) -> list[str]:
    parts = list(_blocks(section.blocks))
    if not parts or not section.title or "markdown" not in section.titled:
        return parts
    if "markdown" in section.folded:
        return [_folded(section.title, parts)]
    return [f"{beginning(section.title)}:", *parts]


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in shown(blocks, "markdown"):
        match block:
            case Paragraph():
                yield f"**{escape(block.text)}**" if block.tone == STRONG else beginning(block.text)
            case Subheading():
                yield f"{beginning(block.text)}:"
            case Bullets():
                yield "\n".join(
                    [*([f"{beginning(block.title)}:", ""] if block.title else []), *map(_item, block.items)]
                )
            case Table():
                yield _table(block)
            case Code():
                yield f"{escape(block.label)}: {code(block.text)}" if block.label else _lines(block)
            case Fold():
                parts = list(_blocks(block.blocks))
                yield _folded(block.title, parts) if parts else ""
            case _:
                # Drawings and trees are a page's.
                continue


def _item(item: Item) -> str:
    return f"- {beginning(item.text)}" + (f" ({escape(item.detail)})" if item.detail else "")


def _lines(block: Code) -> str:
    """A block of lines between fences: lines that are only moved in would belong to a list above them."""
    shown_text = text.clean_lines(text.excerpt(block.text, block.characters_max))
    fence = "```"
    while fence in shown_text:
        fence += "`"
    return f"{fence}\n{shown_text}\n{fence}"


def _folded(title: str, parts: list[str]) -> str:
    content = "\n\n".join(parts)
    return f"<details><summary>{escape(title)}</summary>\n\n{content}\n\n</details>"


def _table(table: Table) -> str:
    """A heading of a group becomes the first cell of each of its rows."""
    places = columns_shown(table, "markdown")
    heads = [escape(table.columns[place].name) for place in places]
    marks = ["--:" if table.columns[place].is_figure else "---" for place in places]
    if table.grouped_by:
        heads, marks = [escape(table.grouped_by), *heads], ["---", *marks]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(marks)}|"]
    for group in table.groups:
        words = ", ".join(word for word, _ in group.marks)
        first = [escape(f"{group.heading} ({words})" if words else group.heading)] if table.grouped_by else []
        for row in group.rows:
            if "markdown" in row.where:
                cells = [*first, *(escape(row.cells[place].text) for place in places)]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
