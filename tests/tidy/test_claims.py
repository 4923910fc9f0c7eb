"""What the documents and docstrings claim about the code is so: paths, signatures, names that they cite."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from project_files import nodes, project_files, syntax

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "pgassay"
MAPS = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOP = ("python", "crates", "tests", "tools", "benchmarks", "examples", "docs", "schemas")
# Folders of a machine's home and of a folder of results, which the maps describe too.
NOT_OF_THE_PROJECT = {"registry/"}
# A citation that is not of this code, by its first word: a library that readers may have, Linux's settings.
ELSEWHERE = {"kernel", "polars"}
SPAN = re.compile(r"`+([^`\n]+)`+")
PATH = re.compile(r"(?:[\w.-]+/)+(?:[\w.-]+)?|[\w-]+\.(?:py|rs)")
SIGNATURE = re.compile(r"((?:\w+\.)*)(\w+)\(([^()]*)\)(?: -> (.+))?")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
# In running text: two words in small letters around a dot, one of them of several parts.
CITED = re.compile(r"(?<![\w./`'\"-])((?:[a-z]\w*\.)+[a-z]\w*)(?![\w/.'\"-])")
# Without any of these there is no citation: code in backticks, or a word on both sides of a dot.
CITING = re.compile(r"`|\w\.\w")
SUFFIXES = {
    "py",
    "rs",
    "c",
    "h",
    "md",
    "sql",
    "toml",
    "json",
    "conf",
    "csv",
    "log",
    "hdr",
    "parquet",
    "pid",
    "dat",
    "libs",
}


@cache
def project_paths() -> frozenset[str]:
    """Every file of the project, and every folder that holds one, as /path/from/the/root."""
    files = [Path("/", path.relative_to(ROOT)) for path in project_files()]
    return frozenset(str(path) for file in files for path in (file, *file.parents))


def exists(path: str) -> bool:
    """Whether a file or folder of the project ends like this; a word in capitals stands for any name."""
    pattern = re.sub(r"\\?\b[A-Z]{2,}\b", r"[^/]+", re.escape(path.rstrip("/")))
    return any(re.search(f"/{pattern}$", known) for known in project_paths())


def spans(document: Path) -> Iterator[tuple[int, str]]:
    """Each piece of code in a document, outside its blocks, with its line."""
    in_block = False
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            yield from ((number, text) for text in SPAN.findall(line))


@pytest.mark.parametrize("document", [*MAPS, *GUIDES], ids=lambda path: path.name)
def test_a_path_that_a_document_names_exists(document: Path) -> None:
    def is_ours(text: str) -> bool:
        return document in MAPS or text.endswith((".py", ".rs")) or text.split("/")[0] in TOP

    named = [(number, text) for number, text in spans(document) if PATH.fullmatch(text) and is_ours(text)]
    assert len(named) > 50 or document not in MAPS
    wrong = [(number, text) for number, text in named if text not in NOT_OF_THE_PROJECT and not exists(text)]
    assert not [f"{document.name}:{number} {text}" for number, text in wrong]


@dataclass
class Definition:
    """A class, function or module: what it is made of, and the parameters and the answer of a function."""

    members: set[str] = field(default_factory=set)
    bases: list[str] = field(default_factory=list)
    parameters: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""


@dataclass
class Code:
    """The definitions of the Python package."""

    modules: dict[str, Definition] = field(default_factory=dict)
    classes: dict[str, list[Definition]] = field(default_factory=dict)
    functions: dict[str, list[Definition]] = field(default_factory=dict)
    in_modules: dict[tuple[str, str], Definition] = field(default_factory=dict)

    def has_member(self, name: str, member: str) -> bool:
        """Whether a class of this name, or one that it extends, has the member."""
        return any(
            member in made.members or any(self.has_member(base, member) for base in made.bases)
            for made in self.classes.get(name, [])
        )


def assigned(node: ast.AST) -> set[str]:
    """The names, and the attributes of self, that a statement gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    leaves = [leaf for target in targets if target is not None for leaf in ast.walk(target)]
    names = {leaf.id for leaf in leaves if isinstance(leaf, ast.Name)}
    return names | {leaf.attr for leaf in leaves if isinstance(leaf, ast.Attribute)}


def names_of(nodes: list[ast.stmt]) -> set[str]:
    """The names that a body defines, imports or assigns, in its branches too."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= assigned(node)
        else:
            found |= names_of([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
    return found


def function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    parameters = [
        (each.arg, ast.unparse(each.annotation) if each.annotation else "")
        for each in given
        if each.arg not in ("self", "cls")
    ]
    return Definition(parameters=parameters, answer=ast.unparse(node.returns) if node.returns else "")


@cache
def code() -> Code:
    """All that the package defines."""
    made = Code()
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = syntax(path)
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        made.modules[module] = Definition(names_of(tree.body))
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                members = names_of(node.body)
                inner = [each for each in ast.walk(node) if isinstance(each, ast.Assign | ast.AnnAssign)]
                members |= {name for each in inner for name in assigned(each)}
                bases = [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]
                made.classes.setdefault(node.name, []).append(Definition(members, bases))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                made.functions.setdefault(node.name.lstrip("_"), []).append(function(node))
                if node in tree.body:
                    made.in_modules[module, node.name] = function(node)
    for module in made.modules:
        made.modules[module].members |= {
            name.rpartition(".")[2] for name in made.modules if name.rpartition(".")[0] == module
        }
    return made


@cache
def modules_named(name: str) -> list[str]:
    """The modules whose name ends with these words."""
    return [module for module in code().modules if f".{module}".endswith(f".{name}")]


@cache
def resolves(name: str) -> bool:
    """Whether a dotted name is a module, something in one, a member of a class, or of another library."""
    words = name.split(".")
    if modules_named(name):
        return True
    for cut in range(1, len(words)):
        for module in modules_named(".".join(words[:cut])):
            if words[cut] in code().modules[module].members and (
                len(words) == cut + 1 or code().has_member(words[cut], words[cut + 1])
            ):
                return True
    if words[0] in code().classes:
        return code().has_member(words[0], words[1])
    if words[0] in ELSEWHERE:
        return True
    return bool(re.fullmatch(r"\w+", words[0])) and importlib.util.find_spec(words[0]) is not None


# --- Signatures that the maps quote.


@cache
def rust_functions() -> dict[str, list[Definition]]:
    """The functions of the crates, with the names of their parameters."""
    found: dict[str, list[Definition]] = {}
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        for name, given in re.findall(r"\bfn (\w+)(?:<[^>]*>)?\(([^)]*)\)", path.read_text("utf-8")):
            words = re.findall(r"_?(\w+)\s*:", given)
            found.setdefault(name, []).append(Definition(parameters=[(word, "") for word in words]))
    return found


def fits(quoted: str, answer: str | None, made: Definition) -> bool:
    """Whether the function begins with the parameters quoted, by name or type, and answers that type."""
    words = [word.partition("=")[0].strip().lstrip("*") for word in quoted.split(",") if word.strip()]
    words = [word for word in words if word != "…"]
    if len(words) > len(made.parameters):
        return False
    first = zip(words, made.parameters, strict=False)
    keywords = {name for name, _ in made.parameters}
    return all(
        word in (name, name.lstrip("_"), annotation) or word in keywords for word, (name, annotation) in first
    ) and answer in (None, made.answer)


def candidates(before: str, name: str) -> list[Definition]:
    """The functions that a quotation can mean: of the module named before it, or any of that name."""
    if not before:
        return [*code().functions.get(name, []), *rust_functions().get(name, [])]
    modules = modules_named(before.rstrip("."))
    return [code().in_modules[module, name] for module in modules if (module, name) in code().in_modules]


@pytest.mark.parametrize("document", MAPS, ids=lambda path: path.name)
def test_a_signature_that_a_map_quotes_is_the_code_s(document: Path) -> None:
    wrong, seen = [], 0
    for number, text in spans(document):
        match = SIGNATURE.fullmatch(text)
        if match is None or '"' in text or match[2][0].isupper():
            continue
        seen += 1
        if not any(fits(match[3], match[4], made) for made in candidates(match[1], match[2])):
            wrong.append(f"{document.name}:{number} {text}")
    assert seen > 4
    assert not wrong


# --- Names that docstrings cite.


@dataclass(frozen=True)
class Docstring:
    """Where it stands, what it says, and the parameters of its function, which it may speak of."""

    place: str
    text: str
    parameters: frozenset[str]


def docstrings() -> Iterator[Docstring]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes(path):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            # Most of them cite nothing, so that what is their function's own need not be gathered.
            if text and CITING.search(text):
                own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
                own |= {name for each in ast.walk(node) for name in assigned(each)}
                place = f"{path.relative_to(PACKAGE)}:{node.body[0].lineno}"
                yield Docstring(place, text, frozenset(own))


def is_unknown(dotted: str, docstring: Docstring) -> bool:
    """Whether it is no file, no view of PostgreSQL, nothing of a parameter, and nowhere in the code."""
    first, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
    if last in SUFFIXES or first.startswith("pg_") or resolves(dotted):
        return False
    # What a parameter has is known here unless it is a function, and of no class.
    of_a_class = any(code().has_member(name, last) for name in code().classes)
    return first not in docstring.parameters or (last in code().functions and not of_a_class)


def cited_wrongly(docstring: Docstring) -> Iterator[str]:
    """Each file, function or dotted name of a docstring that is nowhere in the code."""
    for text in SPAN.findall(docstring.text):
        signature = SIGNATURE.fullmatch(text)
        if PATH.fullmatch(text) and text.endswith((".py", ".rs")):
            if not exists(text):
                yield text
        elif signature and not signature[3].isdigit() and not signature[2].startswith("pg_"):
            before, name = signature[1].rstrip("."), signature[2]
            known = name in code().functions or name in docstring.parameters or name in rust_functions()
            if not (resolves(f"{before}.{name}") or before in docstring.parameters if before else known):
                yield text
        elif DOTTED.fullmatch(text) and is_unknown(text, docstring):
            yield text
    for path in re.findall(r"(?<![\w./])[\w/]+\.(?:py|rs)\b", SPAN.sub("", docstring.text)):
        if not exists(path):
            yield path
    for text in CITED.findall(SPAN.sub("", docstring.text)):
        words = text.split(".")
        if ("_" in text or modules_named(words[0])) and is_unknown(text, docstring):
            yield text


def test_what_a_docstring_cites_exists() -> None:
    wrong = {(each.place, text) for each in docstrings() for text in cited_wrongly(each)}
    assert not [f"{place} {text}" for place, text in sorted(wrong)]


def test_a_name_that_is_nowhere_is_found_out() -> None:
    """The check itself: what it must object to, and what it must let pass."""
    wrong = (
        "As twins.twin_bound, `nowhere.py`, `analysis/nowhere.py`, `no_such_function(x)`, `SqlSession.dance`."
    )
    right = (
        "As primary_family.twin_bound of `verdicts/checks/twin.py` and base.py, `SqlSession.connect`, "
        "`time.monotonic_ns`, `trial.run_trial.run_trial`, `io_uring_setup(2)`, `given(x)`, `e.g.` or "
        "pg_stat_activity.state, toc.dat."
    )
    found = set(cited_wrongly(Docstring("here", wrong, frozenset())))
    assert found == {
        "twins.twin_bound",
        "nowhere.py",
        "analysis/nowhere.py",
        "no_such_function(x)",
        "SqlSession.dance",
    }
    assert not list(cited_wrongly(Docstring("here", right, frozenset({"given"}))))
