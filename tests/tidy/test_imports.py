"""Which room may import which (ARCHITECTURE.md), without circles, and without weight at the start."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from project_files import nodes, syntax

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "pgassay"
# Each room and the rooms it may import beside itself; `errors` and the version are everybody's.
ALLOWED = {
    "model": set(),
    "native": {"model"},
    # The types of what an option can be.
    "options": {"model", "value_syntax"},
    "sql_text": set(),
    "durable": set(),
    "words": set(),
    # What whoever measures tells; what shows it is the terminal's.
    "progress": {"model"},
    "value_syntax": set(),
    # The doctor asks whether the native binary is there, and tries every kind of storage; a server's WAL may
    # lie on a storage of its own.
    "environment": {"model", "value_syntax", "sql_text", "native", "durable", "storage"},
    # A storage may be a volume of the catalogue.
    "storage": {"model", "value_syntax", "native", "durable", "environment", "cloud_volumes"},
    # Loads are simulated by the native binary.
    "cloud_volumes": {"model", "value_syntax", "native"},
    # Recordings of stored trials are replayed by the native binary.
    "sizing": {"model", "environment", "storage", "native", "cloud_volumes", "record", "words"},
    # The native binary reads the scripts that it will run.
    # What there is to play of a capture is asked when the experiment is planned.
    "workloads": {"model", "value_syntax", "sql_text", "native", "traffic"},
    # A level is a patch of an arm: of its storage and workload too, which their own rooms can read.
    "factors": {"model", "value_syntax", "workloads", "environment", "storage", "sql_text", "native"},
    "design": {"model", "factors", "sql_text"},
    "record": {"model", "durable"},
    "trial": {
        "model", "environment", "storage", "workloads", "record", "native", "sql_text", "traffic", "words",
    },
    # Plans as EXPLAIN printed them, and those that an experiment executed.
    "plans": {"model", "record", "words", "sql_text"},
    # Settings of servers are sizes, as they are typed.
    "analysis": {"model", "value_syntax", "record", "plans", "workloads", "words", "sql_text"},
    "probe": {"model", "environment", "storage", "native", "analysis", "words"},
    # A server that runs already is sampled as a trial is, and judged by the same rules.
    # Its statements are read and planned as `tune` does.
    "running_server": {
        "model", "environment", "storage", "trial", "record", "plans", "analysis", "native", "tune", "words",
    },
    # What is read of it once an interval, and how a terminal shows that. Which arm a running trial is of
    # follows from the design.
    "watch": {
        "model", "environment", "storage",
        "design", "trial", "record", "analysis", "native", "running_server", "report",
        "words",
    },
    "report": {"model", "record", "plans", "analysis", "probe", "words"},
    "terminal": {"model", "report", "analysis", "words", "progress"},
    "notebook": {"model", "record", "analysis"},
    # pgbench's command line: libpq finds the server, the native binary runs the load.
    "pgbench": {"model", "environment", "native", "sql_text"},
    # A server's own traffic: the native binary records it, libpq finds the server.
    "traffic": {"model", "environment", "native", "sql_text", "durable", "words"},
    # sysbench's, which connects and asks for the settings in the same way.
    "sysbench": {"model", "environment", "native", "pgbench"},
    # What a query sorts by is in its text.
    "experiment": {
        "model", "value_syntax", "options", "environment", "storage",
        "workloads", "factors", "design", "record", "trial",
        "plans", "analysis", "progress", "probe", "words", "sql_text", "durable",
    },
    # A candidate is an arm of an experiment; its symptom is a plan, its answer a report's sections. Another
    # volume is a candidate with a price.
    "tune": {
        "model", "value_syntax", "environment", "storage",
        "workloads", "factors", "design", "record", "plans", "analysis", "experiment", "native",
        "sql_text", "durable", "words", "progress", "cloud_volumes", "trial", "options", "traffic",
    },
    # A machine of a fleet runs the command line as a process, and sends home what that recorded.
    "fleet": {
        "model", "environment", "native", "record", "trial", "analysis", "experiment", "durable", "words",
        "factors", "workloads", "terminal", "probe", "options",
    },
    # The copies of `tune DSN`, and the blocks of `compare` between two versions; traffic is played first as a
    # trial plays it.
    "upgrade": {
        "model", "value_syntax", "environment", "storage",
        "workloads", "factors", "experiment", "plans", "analysis", "progress", "tune",
        "sql_text", "words", "traffic", "trial", "record", "native",
    },
    # Experiments of a few builds each, and what they say together.
    "bisecting": {
        "model", "environment", "factors", "record", "plans", "analysis", "experiment", "progress", "words",
    },
    # What can be typed is completed: factors and workloads by name.
    "cli": {
        "model", "value_syntax", "options", "environment", "storage",
        "record", "plans", "analysis", "report", "experiment", "probe",
        "running_server", "watch",
        "terminal", "progress", "cloud_volumes", "native", "factors", "workloads", "sizing", "tune", "fleet",
        "pgbench", "sysbench", "traffic", "upgrade",
        "bisecting",
    },
}  # fmt: skip
HEAVY = (
    "numpy", "scipy", "psycopg", "pyarrow", "altair", "pydantic", "rich", "jinja2", "hdrh", "pglast",
    "vl_convert", "dask", "distributed", "cryptography",
)  # fmt: skip


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules of pgassay that one import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        assert node.level == 0, "imports are absolute"
        origin = node.module or ""
        names = [f"{origin}.{alias.name}" for alias in node.names]
        names = [name if name in MODULES else origin for name in names]
    return [name for name in names if name.split(".")[0] == "pgassay"]


def is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_at_start(module: str) -> set[str]:
    """What importing the module imports: not what functions import later, nor what types alone need."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(syntax(MODULES[module]).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_for_types_only(node):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(imported(node))
        waiting.extend(ast.iter_child_nodes(node))
    return found


@cache
def all_imports(module: str) -> frozenset[str]:
    return frozenset(
        name
        for node in nodes(MODULES[module])
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imported(node)
    )


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_room_is_known() -> None:
    assert {room(module) for module in MODULES} - {"", "errors"} == set(ALLOWED)


def test_a_module_imports_only_what_its_room_may() -> None:
    # `pgassay.open` imports what it needs when it is called.
    allowed = ALLOWED | {"": {"notebook", "traffic"}, "errors": set()}
    forbidden = []
    for module in MODULES:
        own = room(module)
        others = {room(name) for name in all_imports(module)} - {own, "errors", ""}
        forbidden += [f"{module} of {own}/ may not import {name}" for name in sorted(others - allowed[own])]
    assert not forbidden


def test_what_analyses_and_reports_never_reaches_a_machine() -> None:
    """Through any chain of imports: a stored experiment is analysed on a laptop without a server."""
    machine = {"environment", "storage", "trial", "experiment", "cli", "native"}
    pure = ("model", "record", "plans", "analysis", "report", "terminal")
    for start in [
        name
        for name in MODULES
        if room(name) in pure or name.startswith(("pgassay.probe.analysis", "pgassay.watch.drawing"))
    ]:
        seen, waiting = set(), [start]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(all_imports(name))
        assert not {name for name in seen if room(name) in machine}, start


def test_no_circle_of_imports() -> None:
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module in finished:
            return
        for other in sorted(imports_at_start(module)):
            visit(other, (*path, module))
        finished.add(module)

    for module in MODULES:
        if module != "pgassay":
            visit(module, ())


def test_the_start_of_the_command_line_is_light() -> None:
    script = "import sys, json, pgassay.cli.main as m; m.parser(); print(json.dumps(sorted(sys.modules)))"
    run = [sys.executable, "-c", script]
    finished = subprocess.run(run, capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = {name.split(".")[0] for name in json.loads(finished.stdout)}
    assert "pgassay" in loaded
    assert not loaded & set(HEAVY)
