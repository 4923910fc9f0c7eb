"""Documents and messages use the words that DBAs use: phrases of a translated syntax are refused."""

import ast
import re
from pathlib import Path

import pytest

from project_files import ROOT

DOCS = ROOT / "docs"
MAPS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
NATIVE = ROOT / "crates" / "native" / "README.md"
PAGES = [*MAPS, NATIVE, *sorted(DOCS.glob("*.md"))]
# Code and printed output are what the product says: BANNED_IN_MESSAGES is for its messages.
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
    r"\bsomething else than\b": "something other than",
    r"\bfor ever\b": "always, permanently",
    r"\bgone through\b": "read, scanned",
    r"\bread whole\b": "read completely, the whole table",
    r"\b(?:into|after|every|for|with) so (?:many|much)\b": "this many",
    r"\bstands? behind\b": "follows",
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


# What is printed quotes figures and SQL as they are, so fewer phrases are refused than in documents.
BANNED_IN_MESSAGES = {
    r"(?<![Tt]here )\b(?:is|are) no (?!(?:longer|more|such|faster|slower)\b)[a-z]": "is not a, invalid",
    r"\bbesides?\b": "with, next to, compared with, in addition to",
    r"\b(?:is|are|was|were|be) told\b": "is reported, is shown, is known",
    r"\btold (?:as|of|apart|and not|with|by|from)\b": "reported as, distinguished, given with",
    r"\b(?:go|goes|went|gone|going) on\b": "continue",
    r"\bthose that\b.*\bthose that\b": "name them once",
    r"(?:^|[.:;] )Of (?:an?|the|these|such|two|all|its|it)\b": "begin with the subject",
    r"\bone and the same\b": "the same",
    r"\bmends?\b|\bmended\b|\bmending\b": "fix",
    r"\bits kin\b|\bthe like\b|\bits like\b": "name them",
    r"\bruns? already\b": "is running, a running server",
    r"\bis of an? \w+ that\b": "needs, is for",
    r"\bto be had\b|\bcan be had\b": "is available",
    r"\bat most so (?:long|many|much)\b": "time limit, maximum number of",
    r"\b(?:came|comes|come) out otherwise\b|\botherwise than\b": "differs",
    r"\banew\b": "again, reload, rebuild, restart",
    r"\boftener\b": "more often",
    r"\bin place of\b": "instead of",
    r"(?:^|[.:;] )Look (?:at|what|which|who|whether|how|when)\b": "check, find",
    r"\bwithout a word\b|\b(?:said|says) nothing\b": "unexpectedly, no error message",
    r"\b(?:read|searched|copied) whole\b": "completely, the whole table",
    r"\b(?:is|are|was|were) (?:not )?to be\b": "must, should",
    r"\b(?:is|are|was|were) not told\b": "is left out, is not known",
    r"\btells? (?:\w+ )?apart\b|\bcan't tell\b": "distinguishes, separates, can't say",
    r"\bsomething else than\b": "something other than",
    r"\bfor ever\b": "never ends, always",
    r"\bgone through\b": "read, scanned",
    r"\bis (?:always )?waited for\b": "pgassay waits for",
    r"\b(?:into|after|every|for|with) so (?:many|much)\b": "this many",
    r"\bis none of\b|\bthose of no\b": "is not one of, can't be",
    r"\bmore than nothing\b|\bless than no\b": "above 0, negative",
    r"\bstands? behind\b": "comes after, follows",
    r"\blook(?:ed)? at(?::|\b the address)": "check, read",
    r"\btwice as (?:fast|slow)\b|\d times as (?:fast|slow|long)\b": "2 × as fast",
}
# Formats that give a figure an exponent: 1.27e+03 is written 1,270.
EXPONENTS = re.compile(r"\d[eE][+-]\d\d\b")
# Where results are put into words, by figure() and amount(): all but percentiles and rounded numbers.
WORDED = (
    "report",
    "analysis",
    "sizing/size_sentences.py",
    "tune/answer",
    "tune/running",
    "tune/symptom.py",
    "upgrade",
)
PYTHON = sorted((ROOT / "python" / "pgassay").rglob("*.py"))
RUST = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
_RUST_TEXT = re.compile(r'(?<![\\\'])"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A key or an option that a sentence names.
_NAMED = re.compile(r"`[^`]*`")
_IS_SQL = re.compile(r"\bSELECT\b|\bUPDATE \w+ SET\b|\bDO \$")


def texts_of(source: str) -> list[tuple[int, str]]:
    """The sentences that a Python file prints, with their lines: its strings but for docstrings and SQL."""
    tree = ast.parse(source)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    found = [
        (
            node.lineno,
            "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values),
        )
        for node in joined
    ]
    # Docstrings, and the parts of an f-string, which is read as one text.
    parts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts |= {id(value) for node in joined for value in node.values}
    found += [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    ]
    return sorted((line, text) for line, text in found if " " in text and not _IS_SQL.search(text))


def rust_texts_of(source: str) -> list[tuple[int, str]]:
    """The sentences of a Rust file outside of its tests, with their lines."""
    code = re.sub(r"^\s*//.*$", "", source.partition("#[cfg(test)]")[0], flags=re.MULTILINE)
    return [
        (code.count("\n", 0, found.start()) + 1, re.sub(r"\\\n\s*", "", found[1]))
        for found in _RUST_TEXT.finditer(code)
        if " " in found[1] and not _IS_SQL.search(found[1])
    ]


def banned_in_texts(texts: list[tuple[int, str]]) -> list[str]:
    """Each banned phrase of the sentences: its line, the phrase, what to write instead."""
    phrases = [
        f"{line}: {found.group()} → {instead}"
        for line, text in texts
        for pattern, instead in BANNED_IN_MESSAGES.items()
        for found in re.finditer(pattern, _NAMED.sub(" ", text))
    ]
    return phrases + [f"{line}: {text} → no exponent" for line, text in texts if EXPONENTS.search(text)]


def test_no_message_uses_a_banned_phrase() -> None:
    found = {
        str(file.relative_to(ROOT)): phrases
        for files, texts in ((PYTHON, texts_of), (RUST, rust_texts_of))
        for file in files
        if (phrases := banned_in_texts(texts(file.read_text("utf-8"))))
    }
    assert not found


def test_a_banned_phrase_of_a_message_would_be_noticed() -> None:
    assert len(PYTHON) > 500
    assert len(RUST) > 50
    source = '"""It goes on."""\nsay(f"{name} is no name: mend it")\nsay("it took 1.27e+03 s")\n'
    assert [each.partition(" → ")[0] for each in banned_in_texts(texts_of(source))] == [
        "2: is no n",
        "2: mend",
        "3: it took 1.27e+03 s",
    ]
    assert not banned_in_texts(
        texts_of('run("SELECT a FROM b WHERE c is no d")\nsay("there is no such file")\n')
    )
    rust = '// It goes on.\nfail("the run goes \\\n    on");\n#[cfg(test)]\nfail("it goes on");\n'
    assert banned_in_texts(rust_texts_of(rust)) == ["2: goes on → continue"]


def with_exponents(source: str) -> list[int]:
    """The lines of figures that would have an exponent where they are large or small: `:.3g`, `:g`."""
    tree = ast.parse(source)
    rounded = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "float"
        for part in ast.walk(call)
    }
    found = []
    for text in (each for each in ast.walk(tree) if isinstance(each, ast.JoinedStr)):
        before = ""
        for part in text.values:
            is_percentile = before.endswith("p")
            before = str(part.value) if isinstance(part, ast.Constant) else ""
            if isinstance(part, ast.Constant) or id(part) in rounded or is_percentile:
                continue
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                format_ = ast.unparse(part.format_spec)
                found += [part.lineno] if re.search(r"[gG]['\"]", format_) else []
    return found


def test_no_figure_of_a_result_has_an_exponent() -> None:
    files = [
        file
        for place in WORDED
        for file in (
            ROOT / "python" / "pgassay" / place,
            *(ROOT / "python" / "pgassay" / place).rglob("*.py"),
        )
        if file.is_file()
    ]
    assert len(files) > 200
    found = {
        str(file.relative_to(ROOT)): lines
        for file in files
        if (lines := with_exponents(file.read_text("utf-8")))
    }
    assert not found, "write figure() or amount() of pgassay.words"


def test_a_figure_with_an_exponent_would_be_noticed() -> None:
    source = (
        'f"{gain:.3g} × as fast"\nf"{value:,.3g}"\nf"{rate:g} IOPS"\n'
        'f"p{percent:g}"\nfloat(f"{value:.4g}")\nf"{value:,.0f} g"\nf"{a:{\'g\' if b else \'f\'}}"\n'
    )
    assert with_exponents(source) == [1, 2, 3, 7]
