"""A plug-in is one file and one line: a toy of each kind is added to a copy of pgassay so, and used.

The toys are in `plug_ins/`, as a contributor would write them. Each is put into its folder of the copy; its
registry gets one line in its table and the import that the line needs; nothing else is touched. What is used
then is the copy's own command line.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from native_probe import PAGE, break_page, probing
from pgassay.environment.builds.registry import resolve
from project_files import unpack_archive
from whole_tool import ROOT, build, environment, private_home, python_path, result_of, valid_trials

TOYS = Path(__file__).with_name("plug_ins")
# What the copy needs beside the package, in place: the native binary and what it was built from.
BESIDE = ("Cargo.lock", "Cargo.toml", "crates", "target")
# Runs the command line once for each list of words, and prints what each run ended with.
SEVERAL = """
import contextlib, io, json, sys
from pgassay.cli import main
ended = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main.main(words)
        except SystemExit as exit:
            status = exit.code
    ended.append([words, status, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""
# What a table ends with.
CLOSING = ("}", ")", "]", "];")
EXPERIMENTS = ROOT / "tests" / "frozen" / "experiments"


@dataclass(frozen=True)
class Toy:
    """A plug-in: its file's source and place, and what its registry gets.

    `table` is the line of the registry that opens its table, `line` the plug-in's line in it, `needs` the
    import that this line needs.
    """

    source: str
    file: str
    registry: str
    table: str
    line: str
    needs: str


def python_toy(source: str, folder: str, registry: str, table: str, line: str, *, name: str = "toy") -> Toy:
    """A plug-in of the package, whose line names it by its module."""
    file = f"python/pgassay/{folder}/{name}.py"
    needs = f"from pgassay.{folder.replace('/', '.')} import {name}"
    return Toy(source, file, f"python/pgassay/{registry}", table, line, needs)


FACTOR = python_toy(
    "factor.py", "factors", "factors/registry.py", "KINDS: dict[str, FactorKind] = {", '"toy": toy.KIND,'
)
WORKLOAD = python_toy(
    "workload.py",
    "workloads",
    "workloads/registry.py",
    "FAMILIES: dict[str, Callable[[str, str], WorkloadSpec]] = {",
    '"toy": toy.parse,',
)
SAMPLER = python_toy(
    "sampler.py",
    "trial/observe",
    "trial/observe/registry.py",
    "candidates: list[Sampler] = [",
    "toy.ToySampler(),",
)
STORAGE = python_toy(
    "storage.py",
    "storage",
    "storage/registry.py",
    "_TABLE: tuple[StorageKind, ...] = (",
    "toy.ToyKind(),",
)
DATASET = python_toy(
    "dataset.py",
    "environment/datasets",
    "environment/datasets/registry.py",
    "KINDS: dict[str, DatasetKind] = {",
    '"toy": toy.KIND,',
)
ORIGIN = python_toy(
    "origin.py",
    "environment/builds",
    "environment/builds/registry.py",
    "ORIGINS: tuple[Origin, ...] = (",
    "toy.ToyOrigin(),",
)
COMMAND = python_toy("command.py", "cli/commands", "cli/main.py", "COMMANDS = (", "toy,")
CHECK = python_toy(
    "check.py",
    "environment/doctor",
    "environment/doctor/registry.py",
    "CHECKS: tuple[Check, ...] = (",
    "toy.toy_place,",
)
CAUSE = python_toy(
    "cause.py",
    "analysis/causes/rules",
    "analysis/causes/registry.py",
    "RULES: tuple[Rule, ...] = (",
    "toy.TOYS,",
)
SECTION = python_toy(
    "section.py",
    "report/compare",
    "report/compare/page.py",
    "SECTIONS = (",
    "SectionOfComparison(toy.section),",
)
ENGINE = Toy(
    "engine.rs",
    "crates/probe/src/engines/toy.rs",
    "crates/probe/src/engines/mod.rs",
    "const ENGINES: &[(&str, Make)] = &[",
    '("toy", toy::make),',
    "pub mod toy;",
)


def add(root: Path, toy: Toy) -> None:
    """The plug-in's file goes into its folder, its line to its table's end, the import before the others."""
    file = root / toy.file
    assert not file.exists()
    shutil.copyfile(TOYS / toy.source, file)
    lines = (root / toy.registry).read_text("utf-8").split("\n")
    opening = next(number for number, line in enumerate(lines) if line.strip() == toy.table)
    indent = " " * (len(lines[opening]) - len(lines[opening].lstrip()))
    closing = next(
        number
        for number in range(opening, len(lines))
        if lines[number].startswith(indent) and lines[number].removeprefix(indent) in CLOSING
    )
    lines.insert(closing, f"{indent}    {toy.line}")
    first = next(number for number, line in enumerate(lines) if line.startswith(("from pgassay", "pub mod ")))
    lines.insert(first, toy.needs)
    (root / toy.registry).write_text("\n".join(lines), "utf-8")


class Copy:
    """A copy of the package with plug-ins in it, run as its user would."""

    def __init__(self, root: Path, toys: tuple[Toy, ...]) -> None:
        self.root = root
        # With the compiled modules, which go by a source's time and size: nothing is compiled again.
        shutil.copytree(ROOT / "python" / "pgassay", root / "python" / "pgassay")
        for name in BESIDE:
            (root / name).symlink_to(ROOT / name)
        for toy in toys:
            add(root, toy)

    def run(
        self, *words: str | Path, home: Path | None = None, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run `pgassay words…` of the copy to its end."""
        return self._python("-m", "pgassay.cli.main", *map(str, words), home=home, **variables)

    def run_each(
        self, *runs: tuple[str | Path, ...], home: Path | None = None
    ) -> "list[subprocess.CompletedProcess[str]]":
        """As `run` of each, one after the other in one process: what starts twice takes twice as long."""
        asked = json.dumps([[str(word) for word in words] for words in runs])
        finished = self._python("-c", SEVERAL, asked, home=home)
        assert finished.returncode == 0, finished.stderr
        return [subprocess.CompletedProcess(*each) for each in json.loads(finished.stdout)]

    def _python(self, *words: str, home: Path | None, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
            cwd=self.root,
            env=environment(home, **{"PYTHONPATH": python_path(self.root / "python"), **variables}),
        )


@pytest.fixture
def home() -> Iterator[Path]:
    """A home without any data."""
    with private_home() as folder:
        yield folder


def changed(root: Path) -> dict[str, tuple[list[str], list[str]]]:
    """What a copy has other than this checkout: file → lines that were taken away, lines that were added."""
    found = {}
    sources = {path.relative_to(root) for path in (root / "python").rglob("*.py")}
    sources |= {path.relative_to(ROOT) for path in (ROOT / "python" / "pgassay").rglob("*.py")}
    for name in sorted(sources):
        before, after = (
            (folder / name).read_text("utf-8").split("\n") if (folder / name).exists() else []
            for folder in (ROOT, root)
        )
        if before != after:
            rest = list(after)
            gone = [line for line in before if line not in rest or rest.remove(line)]
            found[str(name)] = (gone, rest)
    return found


def test_a_plug_in_is_one_file_and_one_line_with_its_import(tmp_path: Path) -> None:
    toys = (FACTOR, STORAGE, COMMAND)
    Copy(tmp_path, toys)
    found = changed(tmp_path)
    assert [found.pop(toy.file)[0] for toy in toys] == [[]] * len(toys)
    assert found == {toy.registry: ([], [toy.needs, f"    {toy.line}"]) for toy in toys}


@pytest.mark.server
@pytest.mark.shares_machine
def test_an_experiment_of_toys(home: Path, tmp_path: Path) -> None:
    """Factor, workload, sampler, storage and dataset, in one comparison on a real server."""
    copy = Copy(tmp_path, (FACTOR, WORKLOAD, SAMPLER, STORAGE, DATASET))
    out = tmp_path / "out"
    storage = f"toy:path={home},colour=red"
    words = ("compare", "toy=small,large", "--workload", "toy:limit=150", "--dataset", "toy", "--scale", "2")
    small = ("--set", "shared_buffers=64MB", "--blocks", "1", *build())
    finished = copy.run(*words, "--storage", storage, *small, "--out", out, "--json", home=home)
    assert result_of(finished)["schema"] >= 1

    experiment = json.loads((out / "experiment.json").read_bytes())
    assert experiment["title"] == "toy on toy:limit=150, 200 toys"
    work_mem = {arm["levels"]["toy"]: arm["spec"]["settings"]["work_mem"] for arm in experiment["arms"]}
    assert work_mem == {"small": "1MB", "large": "8MB"}
    levels = {arm["id"]: arm["levels"]["toy"] for arm in experiment["arms"]}
    records = valid_trials(out)
    assert {levels[record["arm_id"]] for record in records} == {"small", "large"}
    for record in records:
        (statement,) = record["statements"]
        # All seven colours, of toys that only the dataset can have put there.
        assert (statement["name"], statement["rows"]) == ("toys_by_colour", 7)
        found = record["facts"]["storage"]
        assert (found["kind"], found["storage"], found["colour"]) == ("toy", storage, "red")
    attempts = list(out.glob("trials/*/attempt-*"))
    assert len(attempts) >= 2
    for attempt in attempts:
        table = pyarrow.parquet.read_table(attempt / "observations" / "toy.parquet").to_pydict()
        assert len(table["clock_ns"]) >= 2
        assert all(count >= 1 for count in table["processes"])
    assert list((home / "toy-box").rglob("PG_VERSION"))


# What is typed, and what is said of it.
COMPLAINTS = (
    (("toy=huge,small",), "factor toy: 'huge' is not known"),
    (("toy=small",), "add a second level"),
    (("work_mem=1MB,2MB", "--storage", "toy:size=4GB"), "a toy box is as large as its disk"),
    (("work_mem=1MB,2MB", "--storage", "toy:read_ahead=64"), "for toy there are path, colour"),
    (("work_mem=1MB,2MB", "--storage", "toy:colour=grey"), "is not a colour: type red, green or blue"),
    (("work_mem=1MB,2MB", "--dataset", "tay"), "did you mean toy?"),
    (("work_mem=1MB,2MB", "--dataset", "nothing"), "folder:DATADIR, script:FILE or toy"),
    (("work_mem=1MB,2MB", "--workload", "tay"), "did you mean toy?"),
)


def test_messages_know_the_toys(home: Path, tmp_path: Path) -> None:
    copy = Copy(tmp_path, (FACTOR, WORKLOAD, STORAGE, DATASET))
    runs = copy.run_each(*(("compare", *words, *build()) for words, _ in COMPLAINTS), home=home)
    assert len(runs) == len(COMPLAINTS)
    for finished, (words, complaint) in zip(runs, COMPLAINTS, strict=True):
        assert finished.returncode == 2, words
        assert complaint in finished.stderr
        # No advice that doesn't hold: a toy is no setting.
        assert "--set toy" not in finished.stderr


def test_an_origin(home: Path, tmp_path: Path) -> None:
    copy = Copy(tmp_path, (ORIGIN,))
    real = resolve("18")
    (home / "builds" / "mine").mkdir(parents=True)
    (home / "builds" / "mine" / "bin").symlink_to(real.bin_directory)
    variables = {"home": home, "TOY_BUILDS": str(home / "builds")}
    listed = json.loads(copy.run("builds", "--json", **variables).stdout)["builds"]
    path = str(home / "builds" / "mine" / "bin")
    assert [(each["version"], each["path"]) for each in listed if each["origin"] == "toy"] == [
        (real.version, path)
    ]
    asked = "from pgassay.environment.builds.registry import resolve; print(resolve('toy:18').bin_directory)"
    resolved = subprocess.run(
        [sys.executable, "-c", asked],
        env=os.environ
        | {"PYTHONPATH": str(tmp_path / "python"), "PGASSAY_HOME": str(home)}
        | {"TOY_BUILDS": str(home / "builds")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert resolved.stdout.strip() == path


def test_a_command(tmp_path: Path) -> None:
    copy = Copy(tmp_path, (COMMAND,))
    assert copy.run("toy", "duck").stdout == "duck duck\n"
    assert "repeats a word" in copy.run("--help").stdout


def test_a_check_of_the_doctor(home: Path, tmp_path: Path) -> None:
    copy = Copy(tmp_path, (CHECK,))
    finished = copy.run("doctor", "--json", "--seconds", "0", home=home)
    findings: list[dict[str, Any]] = json.loads(finished.stdout)["findings"]
    (toy,) = [each for each in findings if each["name"] == "toy-place"]
    assert (toy["group"], toy["status"], toy["figures"]) == ("toys", "ok", {"folder": "/tmp"})
    assert "place for toys: /tmp" in copy.run("doctor", "--seconds", "0", home=home).stdout


def stored(name: str, folder: Path) -> Path:
    """A recorded experiment of the frozen set."""
    (packed,) = EXPERIMENTS.rglob(f"{name}.tar.xz")
    with tarfile.open(packed) as archive:
        unpack_archive(archive, folder / name)
    return folder / name


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a copy with a cause and a section says of a recorded experiment, by the kind of output."""
    folder = tmp_path_factory.mktemp("reported")
    copy = Copy(folder, (CAUSE, SECTION))
    experiment = stored("setting-warm-buffers", folder)
    options = {"terminal": (), "markdown": ("--markdown",), "json": ("--json",)}
    runs = copy.run_each(*(("report", experiment, *option) for option in options.values()))
    said = dict(zip(options, (each.stdout for each in runs), strict=True))
    return said | {"page": (experiment / "report.html").read_text("utf-8")}


def test_a_cause(reported: dict[str, str]) -> None:
    causes = json.loads(reported["json"])["causes"]
    toys = [cause for cause in causes if cause["cause"] == "toys-on-the-floor"]
    assert toys
    for cause in toys:
        assert (cause["kind"], cause["layer"], cause["evidence"]) == ("fault", "operations", {"toys": 3.0})
        assert cause["remedy"] == "Put the toys into their box, and look again."
    assert "toys lay on the floor" in reported["markdown"]
    assert "Put the toys into their box" in reported["markdown"]


def test_a_section_of_the_report_is_in_all_its_outputs(reported: dict[str, str]) -> None:
    for output in (reported["terminal"], reported["markdown"], reported["page"]):
        assert "Toys" in output
        # A row for the second arm, with its figure.
        assert re.search(r"work_mem=64MB\D{1,40}14\b", output)
    assert "Every arm has <toys> of its own." in reported["terminal"]
    assert "Every arm has &lt;toys&gt; of its own." in reported["page"]
    assert 'id="toys"' in reported["page"]
    assert 'href="#toys"' in reported["page"]


@pytest.mark.slow
def test_an_engine_of_the_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Built in a place that stays, with the sources' times: only what the toy changes is compiled again.
    place = ROOT / "target" / "plug-in"
    sources = place / "checkout"
    shutil.rmtree(sources, ignore_errors=True)
    for name in ("crates", "benchmarks/floor"):
        shutil.copytree(ROOT / name, sources / name)
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy2(ROOT / name, sources / name)
    add(sources, ENGINE)
    subprocess.run(
        ["cargo", "build", "--locked", "--package", "pgassay-native", "--target-dir", place],
        cwd=sources,
        check=True,
        capture_output=True,
    )
    monkeypatch.setattr("native_probe.binary", lambda: place / "debug" / "pgassay-native")
    with probing() as probe:
        file = probe.make(tmp_path / "pages", 64)
        sums = {probe.cell(file, engine, bytes_max=64 * PAGE)["page_sum"] for engine in ("toy", "sync")}
        assert len(sums) == 1
        break_page(file, 5)
        assert probe.cell(file, "toy")["broken_blocks"][0] == 5
        refused = probe.error("cell", file=str(file), engine="tay", pattern="random", duration_s=1)
        assert refused["code"] == "usage"
        assert refused["message"].endswith("null, sync, worker, io_uring, hybrid, toy")
