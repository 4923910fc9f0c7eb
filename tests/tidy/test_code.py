"""The rules of the house that a machine can check, on every file of the project."""

import ast
import re
from pathlib import Path

from project_files import nodes, project_files, syntax

ROOT = Path(__file__).resolve().parents[2]
FUNCTION_LINES_MAX = 60
GENERATED = ("Cargo.lock", "requirements.lock", "schemas/compare.schema.json")
# The parts of each word are joined here so that this file is not found by its own search.
LEFTOVERS = re.compile("|".join(("TO" + "DO", "FIX" + "ME", r"\bX" + r"XX\b", "NotImplemented" + "Error")))
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot)/")
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("py" + "pi", "org"),
            ("python" + "hosted", "org"),
            ("crates", "io"),
            ("index", "crates", "io"),
            ("registry", "npm" + "js", "org"),
            ("proxy", "go" + "lang", "org"),
        )
    )
)
# The one layer of Rust that makes system calls without a safe wrapper.
UNSAFE_FILES = frozenset(
    f"crates/probe/src/sys/{name}.rs" for name in ("files", "memory", "ring", "signals", "simd")
)


FILES = project_files()
NAMES = {path: str(path.relative_to(ROOT)) for path in FILES}
PYTHON = [path for path in FILES if path.suffix == ".py"]
PRODUCT = [path for path in PYTHON if NAMES[path].startswith("python/")]
RUST = [path for path in FILES if path.suffix == ".rs"]
WRITTEN = [path for path in FILES if NAMES[path] not in GENERATED and path.suffix not in (".json", ".png")]


def test_the_files_were_found() -> None:
    assert len(PRODUCT) > 100
    assert len(RUST) > 15
    assert ROOT / "README.md" in WRITTEN


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_a_function_stays_short() -> None:
    long = [
        f"{NAMES[path]}:{function.lineno} {function.name}"
        for path in PYTHON
        if not NAMES[path].startswith("tests/")
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
        and not is_a_table_of_options(function)
    ]
    assert not long


def is_a_table_of_options(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A function without a branch or a loop: one option of a command line after the other."""
    branching = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.IfExp, ast.Match)
    return not any(isinstance(node, branching) for node in ast.walk(function))


def test_every_module_and_public_name_says_what_it_is() -> None:
    silent = []
    for path in PRODUCT:
        public = (
            node
            for node in syntax(path).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        )
        silent += [
            f"{NAMES[path]} {getattr(node, 'name', '')}".strip()
            for node in (syntax(path), *public)
            if not ast.get_docstring(node)
        ]
    assert not silent


def test_only_the_command_line_prints_and_exits() -> None:
    """The one exception is the generator of the schema, a program of its own."""
    offenders = []
    for path in PRODUCT:
        name = NAMES[path]
        if name.startswith("python/pgassay/cli/") or name == "python/pgassay/report/schema.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called in ("print", "sys.exit", "exit", "quit", "sys.stdout.write"):
                    offenders.append(f"{name}:{node.lineno} {called}")
            if isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc):
                offenders.append(f"{name}:{node.lineno} SystemExit")
    assert not offenders


def test_only_the_command_line_parses_arguments() -> None:
    users = {
        NAMES[path] for path in PRODUCT if re.search(r"^\s*import argparse", path.read_text("utf-8"), re.M)
    }
    assert users
    assert all(name.startswith("python/pgassay/cli/") for name in users)


def test_no_exception_is_caught_blindly() -> None:
    blind = [
        f"{NAMES[path]}:{node.lineno}"
        for path in PRODUCT
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and is_blind(node)
    ]
    assert not blind


def is_blind(handler: ast.ExceptHandler) -> bool:
    """Bare, or of everything, without raising it on."""
    caught = ast.unparse(handler.type) if handler.type else ""
    raised = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return not caught or (caught in ("Exception", "BaseException") and not raised)


def test_nothing_was_left_lying_about() -> None:
    assert not [
        f"{NAMES[path]}:{number}: {line.strip()}"
        for path in WRITTEN
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1)
        if LEFTOVERS.search(line)
    ]


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    """Cargo.lock alone names Rust's own registry: cargo writes it so whatever mirror is used."""
    assert not [
        f"{NAMES[path]}:{number}: {line.strip()[:100]}"
        for path in FILES
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1)
        if MACHINE_PATHS.search(line) or (path.name != "Cargo.lock" and REGISTRY_HOSTS.search(line))
    ]


def test_rust_is_safe_outside_its_named_files() -> None:
    using = {NAMES[path] for path in RUST if re.search(r"\bunsafe\b(?!_code)", path.read_text("utf-8"))}
    assert using == UNSAFE_FILES
    for name in UNSAFE_FILES:
        text = (ROOT / name).read_text("utf-8")
        assert text.count("// SAFETY:") >= len(re.findall(r"\bunsafe\s*\{", text))
