"""Documents say things in the words that DBAs use: phrases of a translated syntax are refused."""

import re
from pathlib import Path

import pytest

from project_files import ROOT

DOCS = ROOT / "docs"
MAPS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
NATIVE = ROOT / "crates" / "native" / "README.md"
PAGES = [*MAPS, NATIVE, *sorted(DOCS.glob("*.md"))]
# Code and printed output are what the product says: its messages have their own review.
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r'"[^"\n]*"')
# Each pattern with what to write instead.
BANNED = {
    r"\bbeside\b": "with, next to, compared with, in addition to",
    r"\b(?:is|are|was|were|be) told\b": "is reported, is said, is shown",
    r"\btold (?:as|of|apart|and not|with|by|to be|where)\b": "reported as, distinguished, given with",
    r"\btells? (?:it|them|this|that|these|which|what|how|when|whether|each|one|apart)\b": "says, shows",
    r"\b(?:go|goes|went|gone|going) on\b(?! a\b)": "continue",
    r"\bof those that\b": "name them",
    r"\bthose that\b.*\bthose that\b": "name them once",
    r"(?:^|[.:;|] )(?-i:Of) (?:an?|the|these|such|two|all|its|it)\b": "begin with the subject",
    r"\bone and the same\b": "the same",
    r"\bby itself alone\b": "alone",
    r"\bmends?\b|\bmended\b|\bmending\b": "fixes, repairs",
    r"\bits kin\b|\bthe like\b": "name them",
    r"\bis no (?:valid |proof\b|experiment\b|measurement\b|key\b|condition\b|machine\b)": "is not a",
    r"\bare no (?:columns|evidence)\b": "are not",
    r"\bmay be given several times\b|\bcan be given several times\b": "repeatable",
    r"(?<!there )\b(?:is|are) no (?:fault|step|ceiling|part|build|example|verdict|cause)\b": "is not a",
    r"\bis of an? \w+ that\b": "needs, is for",
    r"\b(?:comes?|came|do|does|did|plans?|executes?|writes?)(?: \w+)? otherwise\b": "differently",
    r"\bcan't be told\b|\btold from\b": "can't be distinguished",
    r"\bas it is on the\b": "as on the",
    r"\b(?:began|begins|got to an end)\b: look at": "check",
    r"\btold for\b|\btelling for\b": "reported for",
    r"\blooked at for\b": "checked for",
    r"\bas (?:was|is) said above\b|\bas described above\b": "a link",
    r"\bprice(?:d|s)? of which\b": "whose price",
    r"\d e[+-]\d|\d[eE][+-]\d\d": "figures without exponents",
    r"\b\d+(?:\.\d+)? times (?:as (?:fast|slow|long)|slower|faster)\b": "3.5 × as fast, 3.5 × as slow",
    r"\btwice as (?:fast|slow)\b": "2 × as fast, 2 × as slow",
    r"\bhalf as fast(?! again)\b": "2 × as slow",
    r"\b[5-9]\d % slower\b": "3.5 × as slow",
    r"\b1\d\d % faster\b": "2.4 × as fast",
}


def prose_of(text: str) -> list[tuple[int, str]]:
    """The lines outside of code and quotes, with their numbers; what was code is left blank."""
    blank = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    return [(number, QUOTED.sub(" ", line)) for number, line in enumerate(blank.splitlines(), start=1)]


def banned_in(text: str) -> list[str]:
    """Each banned phrase of a document: its line, the phrase, what to write instead."""
    return [
        f"{number}: {found.group()} → {instead}"
        for number, line in prose_of(text)
        for pattern, instead in BANNED.items()
        for found in re.finditer(pattern, line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_document_uses_a_banned_phrase(page: Path) -> None:
    assert not banned_in(page.read_text("utf-8"))


def test_a_banned_phrase_would_be_noticed() -> None:
    assert len(PAGES) > 20
    assert len(banned_in("Of a plan it is told beside the tree.\n")) == 3
    assert len(banned_in("It took 3.5 times as long: 71 % slower, and goes on.\n")) == 3
    assert not banned_in('`beside` and "goes on" are quoted.\n```\nthis is told\n```\n')
