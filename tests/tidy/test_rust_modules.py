"""No circle between the files of a Rust crate, by the references that stand in their text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = sorted(ROOT.glob("crates/*/src"))
# Comments, strings (also raw ones) and characters: nothing in them is a reference.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\])'|\bpub\([^)]*\)""",
    re.DOTALL,
)
INLINE_MODULE = re.compile(r"\bmod\s+(\w+)\s*\{")
DECLARATION = re.compile(r"\bmod\s+(\w+)\s*;")
USE = re.compile(r"\buse\s+([^;]+);")
# A path of two parts at least that does not go on to the left.
PATH = re.compile(r"(?<![\w:])(\w+(?:\s*::\s*\w+)+)")

Module = tuple[str, ...]


@dataclass
class SourceFile:
    """One file as a module: its place in the crate, its text without comments, its modules within."""

    module: Module
    text: str
    # Where an inline module begins and ends in the text, and its name.
    inline: list[tuple[int, int, str]] = field(default_factory=list)

    def module_at(self, position: int) -> Module:
        """The module, of the file or inline, that a position of the text is in."""
        return self.module + tuple(name for begin, end, name in self.inline if begin < position < end)


def module_of(path: Path, source: Path) -> Module:
    """`a/b.rs` and `a/b/mod.rs` are (a, b), `lib.rs` is (); `main.rs` is the root of a crate of its own."""
    parts = path.relative_to(source).with_suffix("").parts
    if parts == ("main",) and (source / "lib.rs").is_file():
        return ("main.rs",)
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def read(path: Path, source: Path) -> SourceFile:
    text = NOT_CODE.sub(" ", path.read_text("utf-8"))
    found = SourceFile(module_of(path, source), text)
    for match in INLINE_MODULE.finditer(text):
        depth, end = 1, match.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.inline.append((match.end(), end, match[1]))
    return found


def paths_of_use(tree: str) -> Iterator[Module]:
    """The paths of `a::{b, c::{d as e, *}}`, one after the other."""
    tree = re.sub(r"\s+as\s+\w+", "", tree).replace(" ", "").replace("\n", "")
    head, brace, rest = tree.partition("{")
    prefix = tuple(part for part in head.split("::") if part)
    if not brace:
        yield prefix
        return
    depth, begin, inner = 0, 0, rest[: rest.rindex("}")]
    for position, letter in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            branch = inner[begin:position]
            begin = position + 1
            if branch:
                yield from (prefix + path for path in paths_of_use(branch))


def references(file: SourceFile) -> Iterator[Module]:
    """Every path in a file that may lead to another of its crate, counted from the crate's root."""
    declared = set(DECLARATION.findall(file.text))
    for match in (*USE.finditer(file.text), *PATH.finditer(file.text)):
        here = file.module_at(match.start())
        paths = paths_of_use(match[1]) if match.re is USE else [tuple(re.split(r"\s*::\s*", match[1]))]
        for path in paths:
            if path[0] == "crate":
                yield path[1:]
            elif path[0] in ("self", "super"):
                ups = sum(1 for part in path if part == "super")
                yield here[: len(here) - ups] + tuple(part for part in path if part not in ("self", "super"))
            elif path[0] in declared:
                yield file.module + path


def graph(source: Path) -> dict[Module, set[Module]]:
    """Which file refers to which. A declaration `mod a;` alone is no reference; a use of `a` is."""
    files = [read(path, source) for path in sorted(source.rglob("*.rs"))]
    modules = {file.module for file in files}
    edges: dict[Module, set[Module]] = {file.module: set() for file in files}
    for file in files:
        for path in references(file):
            target = next(path[:length] for length in range(len(path), -1, -1) if path[:length] in modules)
            if target != file.module:
                edges[file.module].add(target)
    return edges


def circle(edges: dict[Module, set[Module]]) -> list[str] | None:
    """The files of one circle in their order, the first once more at the end; None where there is none."""
    finished: set[Module] = set()

    def follow(trail: list[Module]) -> list[Module] | None:
        for target in sorted(edges[trail[-1]] - finished):
            if target in trail:
                return [*trail[trail.index(target) :], target]
            if found := follow([*trail, target]):
                return found
        finished.add(trail[-1])
        return None

    for module in sorted(edges):
        if module not in finished and (found := follow([module])):
            return ["::".join(("crate", *each)) for each in found]
    return None


@pytest.mark.parametrize("source", CRATES, ids=lambda source: source.parent.name)
def test_no_files_of_a_crate_refer_to_each_other_in_a_circle(source: Path) -> None:
    edges = graph(source)
    assert len(edges) > 5
    assert sum(map(len, edges.values())) > len(edges) / 2, "references were read"
    assert circle(edges) is None


def crate(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


CIRCLES = {
    "by use": {"a.rs": "use crate::b::thing;", "b.rs": "use crate::a::other;"},
    "by a path in the code": {
        "a.rs": "fn f() -> u8 { crate::b::C }",
        "b.rs": "use super::a;\npub const C: u8 = 1;",
    },
    "over three files, in groups": {
        "a.rs": "use crate::{b::{self, x}, std_like as other};",
        "b.rs": "pub(crate) use super::c::{\n    d::Deep,\n    E,\n};",
        "c/mod.rs": "pub mod d;",
        "c/d.rs": "use super::super::a::*;",
    },
    "with the parent's own items": {
        "a/mod.rs": "mod b;\npub use b::thing;\npub const C: u8 = 1;",
        "a/b.rs": "use super::C;\npub fn thing() -> u8 { C }",
    },
    "with the root": {
        "lib.rs": "pub mod a;\npub use a::A;\npub struct B;",
        "a.rs": "pub struct A(crate::B);",
    },
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_a_circle_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    found = circle(graph(crate(tmp_path, {"lib.rs": "pub mod a;", **files})))
    assert found
    assert found[0] == found[-1]
    assert len(found) >= 3


def test_what_is_no_circle_is_not_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "pub mod a;\npub mod b;\nuse a::thing;",
        "main.rs": "use crate_of_lib::a;",
        # A parent that uses its child, and a child that uses its sibling through the parent's name.
        "a/mod.rs": "mod c;\npub mod d;\npub fn thing() { c::make() }",
        "a/c.rs": "use super::d::D;\npub fn make() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}",
        "a/d.rs": '//! Not [`crate::a::c`].\n/* crate::b::B */\npub struct D;\nconst T: &str = "crate::b";',
        "b.rs": 'pub struct B(crate::a::d::D);\nconst RAW: &str = r#"use crate::b; "quoted" crate::a"#;',
    }
    edges = graph(crate(tmp_path, files))
    assert circle(edges) is None
    assert edges["a",] == {("a", "c")}
    assert edges["a", "c"] == edges["b",] == {("a", "d")}
    assert edges["a", "d"] == edges["main.rs",] == set()
