"""The documents say what is true.

Command lines parse, defaults and keys are complete, links lead somewhere.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from captures_for_tests import with_capture

from pgassay.analysis.causes.registry import RULES as CAUSE_RULES
from pgassay.cli import main, options
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.datasets import KINDS as DATASET_KINDS
from pgassay.environment.linux.device import BlockDevice
from pgassay.environment.server.settings import baseline_settings
from pgassay.experiment.gating.gate_file import _SYSTEM, _TOP
from pgassay.experiment.planning.experiment_file import TABLES, keys
from pgassay.experiment.planning.provisioned_servers import default_cache
from pgassay.factors.registry import KINDS as FACTOR_KINDS
from pgassay.factors.registry import parse_factors
from pgassay.model.build import Build
from pgassay.model.experiment import (
    CACHE_STATES,
    OBSERVE,
)
from pgassay.model.storage import StorageSpec
from pgassay.model.workload import ClientCeiling
from pgassay.options import option
from pgassay.storage.registry import KINDS as STORAGE_KINDS
from pgassay.trial.observe.device import DeviceSampler
from pgassay.trial.observe.host_cpu import HostCpuSampler
from pgassay.trial.observe.memory import MemorySampler
from pgassay.trial.observe.page_cache import PageCacheSampler
from pgassay.trial.observe.pressure import PressureSampler
from pgassay.trial.observe.registry import samplers
from pgassay.trial.snapshots.counters import VIEWS
from pgassay.trial.snapshots.server_statements import COLUMNS, FILE
from pgassay.tune.finders.registry import FINDERS
from pgassay.workloads import oltp, pgbench_builtin, sysbench
from pgassay.workloads.registry import FAMILIES, parse_workload

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_SHELL_OPERATORS = ("|", ">", "<", "&&", ";")


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def words_of(line: str) -> list[str]:
    """The words of a shell line up to its first operator."""
    words = shlex.split(line)
    ends = [index for index, word in enumerate(words) if word in _SHELL_OPERATORS]
    return words[: ends[0]] if ends else words


def command_lines(text: str) -> Iterator[list[str]]:
    """The arguments of every pgassay command line in blocks of code, and in spans that hold arguments."""
    for _, block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(("$ pgassay ", "pgassay ")):
                yield words_of(line.removeprefix("$ "))[1:]
    for span in _SPAN.findall(_FENCE.sub("", text)):
        if span.startswith("pgassay ") and "COMMAND" not in span:
            yield words_of(span)[1:]


@cache
def parser() -> argparse.ArgumentParser:
    """The command line's, which is made once: it keeps nothing of what it has parsed."""
    return main.parser()


def subparser(name: str) -> argparse.ArgumentParser:
    actions = parser()._actions
    commands = next(action for action in actions if isinstance(action, argparse._SubParsersAction))
    return commands.choices[name]


def fails_to_parse(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """'' when the real parser takes the words, else what it complains of."""
    if len(words) == 1 and words[0] in COMMAND_NAMES:
        return ""  # a mention of the command, like `pgassay resume`
    try:
        parser().parse_args(words)
    except SystemExit as ended:
        return "" if ended.code == 0 else capsys.readouterr().err
    return ""


COMMAND_NAMES = [command.__name__.rpartition(".")[2].replace("_", "-") for command in main.COMMANDS]
ALL_LINES = [(page.name, words) for page in PAGES for words in command_lines(text_of(page))]


@pytest.mark.parametrize(("page", "words"), ALL_LINES, ids=lambda part: str(part)[:60])
def test_every_documented_command_line_is_parsed(
    page: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    complaint = fails_to_parse(words, capsys)
    assert not complaint, f"{page}: pgassay {shlex.join(words)}: {complaint}"


def test_the_lines_were_found_and_a_wrong_one_would_be_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(ALL_LINES) >= 20
    assert {words[0] for _, words in ALL_LINES} >= set(COMMAND_NAMES)
    found = list(command_lines("```console\n$ pgassay compare a=1,2 --scales 3 | less\n```\n"))
    assert found == [["compare", "a=1,2", "--scales", "3"]]
    assert "--scales" in fails_to_parse(found[0], capsys)


@pytest.mark.parametrize(
    "words", [words for _, words in ALL_LINES if words[0] == "compare" and len(words) > 1], ids=shlex.join
)
def test_the_words_of_documented_comparisons_mean_something(words: list[str], tmp_path: Path) -> None:
    """The factors and the workload are understood too; a user's file stands in for report.sql."""
    arguments = parser().parse_args(words)
    assert parse_factors(list(arguments.factors))
    (user_file := tmp_path / "report.sql").write_text("SELECT 1;\n")
    workload = re.sub(r"^sql:[\w.]+", f"sql:{user_file}", arguments.workload)
    (maintenance_file := tmp_path / "vacuum.sql").write_text("VACUUM;\n")
    workload = re.sub(r"^maintenance:[\w.]+", f"maintenance:{maintenance_file}", workload)
    script_file = tmp_path / "script.sql"
    variables = [factor.partition("=")[0] for factor in arguments.factors if factor.startswith("var.")]
    script_file.write_text(
        "".join(f"SELECT :{name.removeprefix('var.')};\n" for name in variables) or "SELECT 1;"
    )
    (tmp_path / "curve.csv").write_text("0,10\n60,20\n")
    files = {"sql": script_file, "csv": tmp_path / "curve.csv"}
    workload = re.sub(r"(?<=[=+])\w+\.(sql|csv)", lambda found: str(files[found[1]]), workload)
    parsed = parse_workload(with_capture(workload, tmp_path))
    assert parsed.statements or (parsed.load is not None and parsed.load.scripts)


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the tables below a heading: each name in code in the first cell → the other cells."""
    section = text_of(DOCS / page).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            rows.update(dict.fromkeys(_SPAN.findall(cells[0]), cells[1:]))
    return rows


@pytest.mark.parametrize("command", ["compare", "run", "resume", "report", "diff"])
def test_every_option_has_a_row_and_no_row_is_invented(command: str) -> None:
    known = {name for action in subparser(command)._actions for name in action.option_strings}
    rows = rows_of("compare.md" if command == "compare" else "commands.md", command)
    documented = {name for name in rows if name.startswith("--")}
    assert documented == known - {"-h", "--help"}


def test_every_option_of_a_fleet_has_its_row() -> None:
    options = {word for action in subparser("fleet")._actions for word in action.option_strings}
    named = {span.split()[0] for span in _SPAN.findall(text_of(DOCS / "fleet.md")) if span.startswith("--")}
    assert not options - named - {"-h", "--help"}


def test_every_option_and_key_of_a_gate_has_its_row() -> None:
    actions = (*subparser("gate")._actions, *subparser("history")._actions)
    known = {name for action in actions for name in action.option_strings}
    rows = {span.split()[0] for span in _SPAN.findall(text_of(DOCS / "gate.md")) if span.startswith("--")}
    assert rows - {"--pg", "--fail-if", "--no-pool"} == known - {"-h", "--help"}
    known_keys = {*_TOP, *_SYSTEM} - {"system", "workloads", "set"}
    assert not known_keys - set(rows_of("gate.md", "The file")) - code_words("gate.md")
    assert not keys(option.GATE_FILE).keys() - keys(option.FILE).keys()


def test_documented_defaults_are_those_of_the_parser() -> None:
    rows = rows_of("compare.md", "compare")
    checked = 0
    for action in subparser("compare")._actions:
        name = action.option_strings[-1] if action.option_strings else ""
        written = rows.get(name, [""])[0]
        if name and written.startswith("`"):
            value = written.strip("`")
            convert = action.type if callable(action.type) else str
            assert convert(value) == action.default, name
            checked += 1
        elif name and name not in ("-h", "--help"):
            assert action.nargs == 0 or action.default in (None, []), (
                f"{name} has the default {action.default}"
            )
    assert checked >= 8
    assert options.duration("15m") == subparser("compare").get_default("max_time_s")


def code_words(page: str) -> set[str]:
    """Every name in code on a page: whole spans, and the names within them."""
    spans = _SPAN.findall(text_of(DOCS / page))
    return {word for span in spans for word in [span, *re.findall(r"[A-Za-z_][\w.-]*", span)]}


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("compare.md", list(FACTOR_KINDS)),
        ("commands.md", [*keys(option.FILE), *TABLES]),
        ("workloads.md", [*FAMILIES, *pgbench_builtin.OPTIONS, *oltp.OPTIONS, "only", "writes"]),
        ("workloads.md", [*sysbench.OPTIONS, *sysbench.SCRIPTS]),
        ("workloads.md", [statement.name for statement in parse_workload("full-scan").statements]),
        ("datasets.md", [*DATASET_KINDS, "database", "none"]),
        ("cache-states.md", list(CACHE_STATES)),
        ("storage.md", [*STORAGE_KINDS, "path", "size", "read_ahead"]),
        ("storage.md", [name for name in StorageSpec.model_fields if name.endswith(("_mb_s", "_iops"))]),
        ("builds.md", [origin.name for origin in ORIGINS]),
        ("builds.md", ["build", "kernel", "limits"]),
        ("tune-finders.md", [name for finder in FINDERS for name in (finder.name, *finder.kinds)]),
        ("causes.md", [*(rule.cause for rule in CAUSE_RULES), "unknown"]),
        ("results-folder.md", [view.name for view in VIEWS]),
        ("results-folder.md", [*DeviceSampler.columns, *HostCpuSampler.columns]),
        ("results-folder.md", [FILE, "queryid", "query", *COLUMNS]),
        ("results-folder.md", [*MemorySampler.columns, *PressureSampler.columns, *PageCacheSampler.columns]),
        ("compare.md", list(OBSERVE)),
    ],
    ids=lambda part: part if isinstance(part, str) else ",".join(part)[:40],
)
def test_every_name_of_a_registry_is_documented(page: str, names: list[str]) -> None:
    text = text_of(DOCS / page)
    known = code_words(page) | set(re.findall(r"^([\w-]+) =", text, re.MULTILINE))
    known |= set(re.findall(r"^\[(\w+)\]$", text, re.MULTILINE))
    assert not [name for name in names if name not in known]


def test_every_sampler_of_a_trial_is_documented() -> None:
    root_device = Path("/").stat().st_dev
    device = BlockDevice("any", os.major(root_device), os.minor(root_device))
    words = code_words("results-folder.md")
    assert not [each.name for each in samplers(device) if f"{each.name}.parquet" not in words]


def test_every_key_of_a_client_s_ceiling_is_documented() -> None:
    """Keys of the other documents are in their schemas, which say what they mean."""
    assert not ClientCeiling.model_fields.keys() - code_words("scripting.md")


def test_the_settings_of_all_arms_are_documented_with_their_values() -> None:
    build = Build(origin="path", version="18.6", major=18, bin_directory="/bin")
    of_18 = baseline_settings(build, writes=False, memory_bytes=8 * 1024**3)
    newer = build.model_copy(update={"major": 19})
    settings = baseline_settings(newer, writes=False, memory_bytes=8 * 1024**3)
    assert settings.keys() - of_18.keys() == {"log_autoanalyze_min_duration"}
    page = text_of(DOCS / "compare-how-it-works.md")
    section = page.split("## Settings that all arms have", 1)[1].split("\n## ")[0]
    documented: dict[str, str] = {}
    for line in section.splitlines():
        names = _SPAN.findall(line.split(" | ")[0]) if line.startswith("| `") else []
        values = line.strip("| ").split(" | ")[1].split(", ") if names else []
        documented.update(
            zip(names, values if len(values) == len(names) else values[:1] * len(names), strict=True)
        )
    assert documented.keys() == settings.keys()
    by_memory = {"shared_buffers", "max_connections", "autovacuum"}
    assert not {
        name: value for name, value in documented.items() if name not in by_memory and value != settings[name]
    }


def test_documented_default_cache_states_are_true(tmp_path: Path) -> None:
    (writing := tmp_path / "writing.sql").write_text("UPDATE pgbench_accounts SET abalance = 1;")
    lines = [line for line in text_of(DOCS / "workloads.md").splitlines() if line.startswith("| `")]
    table = {_SPAN.findall(line)[0]: _SPAN.findall(line)[-1] for line in reversed(lines)}
    for family in ("full-scan", "select-only", "simple-update", "tpcb", "oltp_read_only"):
        assert table[family] == default_cache(parse_workload(family))
    assert table["pgbench:file=FILE"] == default_cache(parse_workload(f"pgbench:file={writing}"))
    assert table["sql:FILE"] == default_cache(parse_workload(f"sql:{writing}"))


def anchor_of(heading: str) -> str:
    """The fragment that a renderer gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in _LINK.findall(_FENCE.sub("", text_of(page))):
        if target.startswith(("http:", "https:")):
            continue
        name, _, fragment = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        headings = (
            re.findall(r"^#+ (.+)$", _FENCE.sub("", text_of(file)), re.MULTILINE)
            if file.suffix == ".md"
            else []
        )
        if not file.exists() or (fragment and fragment not in map(anchor_of, headings)):
            broken.append(target)
    assert not broken


def test_every_page_of_the_guide_is_reachable_from_its_first() -> None:
    linked = set(_LINK.findall(text_of(DOCS / "guide.md")))
    assert not [page.name for page in DOCS.glob("*.md") if page.name not in linked | {"guide.md"}]
    assert "docs/guide.md" in _LINK.findall(text_of(ROOT / "README.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short_enough_to_read(page: Path) -> None:
    prose = _FENCE.sub("", text_of(page)).splitlines()
    assert not [line for line in prose if len(line) > 160 and not line.startswith("|")]


def run_pgassay(*words: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pgassay.cli.main", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )


def test_the_cheap_documented_commands_run(tmp_path: Path) -> None:
    for words in (["--version"], ["--help"], ["builds"], ["builds", "--json"], ["list"]):
        finished = run_pgassay(*words, folder=tmp_path)
        assert finished.returncode == 0, finished.stderr
    for command in COMMAND_NAMES:
        assert "usage: pgassay" in run_pgassay(command, "--help").stdout
    listed = json.loads(run_pgassay("builds", "--json").stdout)
    assert listed["schema"] == 1
    assert all(code_words("scripting.md") >= set(each) for each in listed["builds"])
