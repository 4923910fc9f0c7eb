"""Writes the tables of docs/published-experiments.md from the examples that have claims.

Run `python tools/published_experiments.py` after an example was added or its first comment changed. A row is
the question (the first line of the comment) and how many claims the file has. What was published is in the
comment's paragraph "Published", which no file may lack.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "published-experiments.md"
BEGIN = "<!-- by tools/published_experiments.py -->"
END = "<!-- end -->"
HEAD = "| question | claims |\n|---|--:|"


def paragraphs(text: str) -> list[str]:
    """The paragraphs of the comment that a file begins with, each on one line."""
    comment = text.partition("\n\n")[0]
    found: list[list[str]] = [[]]
    for line in comment.splitlines():
        words = line.removeprefix("#").strip()
        if words:
            found[-1].append(words)
        elif found[-1]:
            found.append([])
    return [" ".join(lines) for lines in found if lines]


def row(path: Path, document: dict[str, Any]) -> str:
    """The row of one example; raises ValueError for a comment without what was published."""
    found = paragraphs(path.read_text("utf-8"))
    if not any(each.startswith("Published") for each in found):
        raise ValueError(f"{path.name}: its comment has no paragraph that begins with 'Published'")
    link = f"[{found[0]}](../examples/{path.name})"
    cells = (link, str(len(document["claim"])))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def tables() -> str:
    """A table for each publication, in the order of their dates, the newest first."""
    rows: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / "examples").glob("*.toml")):
        document = tomllib.loads(path.read_text("utf-8"))
        if "claim" in document:
            source = document["claim"][0]["source"]
            rows.setdefault((source.get("date", ""), source["title"]), []).append(row(path, document))
    parts = [
        f"### {title} ({date})\n\n{HEAD}\n" + "\n".join(rows[date, title])
        for date, title in sorted(rows, reverse=True)
    ]
    return "\n\n".join(parts)


def page() -> str:
    """The page with its tables made anew."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
