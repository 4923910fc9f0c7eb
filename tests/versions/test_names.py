"""What pgassay and its documents name of PostgreSQL exists, in the versions of which they say so."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import finder_samples
from pgassay.analysis.causes.base import Rule
from pgassay.analysis.causes.registry import RULES
from pgassay.plans.explain_plan import read_plans
from pgassay.plans.explain_versions import DEFAULTS, SIGNS
from pgassay.trial.snapshots.counters import VIEWS
from pgassay.trial.snapshots.server_statements import COLUMNS, LIBRARY
from pgassay.tune.candidate import AdvisedMachine
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.registry import FINDERS as KNOWN_FINDERS
from project_files import ROOT
from versions import facts, page

RECORDED = facts.recorded()
# Programs and directories of PostgreSQL, and settings of its connection strings, which no view lists,
# and pg_repack, which is an extension by others.
OF_POSTGRESQL = frozenset(
    {
        "pg_basebackup", "pg_dump", "pg_dumpall", "pg_repack", "pg_restore", "pg_upgrade", "pg_visibility",
        "pg_wal", "require_auth",
    }
)  # fmt: skip
# Columns of iostat and keys of the kernel's files, put together in the code; a method of pyarrow's tables;
# the beginning of a name, to be completed by the shell.
OF_OTHERS = frozenset(
    {
        "r_await", "w_await", "d_await", "f_await", "nr_periods", "nr_throttled", "cpu_full", "memory_full",
        "to_pandas", "io_m", "so_reuseport",
    }
)  # fmt: skip
# Where a person is told what to do.
ADVISING = (
    "analysis/causes",
    "analysis/diagnosis",
    "tune/finders",
    "tune/answer",
    "environment/doctor",
    "probe",
)
# Causes that older versions can't have, or have other advice for: that of storage-iops is tested by
# tests/unit/causes/test_causes_aio_reads.py, test_advice_on_the_device_is_that_of_the_version.
ARISES_SINCE = {"too-few-io-workers": 18, "too-many-io-workers": 18, "storage-iops": 17}
# What pgassay limits itself: remedies that no setting of the server is.
LIMITED = ("cpus", "memory", "storage")
FINDERS = ROOT / "python" / "pgassay" / "tune" / "finders"
ADVISED_SINCE = {"io_method": 18}
# A word that servers also use elsewhere, so that its string tells nothing.
COMMON_KEYS = frozenset({"Storage"})
# Spelt otherwise before there was a view of them.
EVENTS_OF_16 = frozenset({"ProcArrayGroupUpdate"})
# Written in the same way, and no wait events.
# Functions of the server that a profile shows are no events.
FUNCTIONS = frozenset({"LWLockAcquire", "WaitLatch", "XLogFlush"})
OTHER_NAMES = FUNCTIONS | {"GiB", "MemoryMax", "MiB", "PostgreSQL", "TimeZone"}
EVENT = re.compile(r"(?<![\w/.$%-])[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*(?![\w-])")
# What a reader types: `--set NAME=`, ALTER SYSTEM SET NAME, SET NAME =.
SET = re.compile(
    r"--set[ =]([a-z_.]+)=|ALTER SYSTEM (?:RE)?SET ([a-z_.]+)|^\s*SET ([a-z_.]+) ?(?:=|TO)", re.MULTILINE
)
WORD = facts.WORD


def test_the_page_has_the_tables_of_the_facts() -> None:
    text = page.PAGE.read_text()
    assert page.with_tables(text, RECORDED) == text, "run tests/versions/record.py"
    assert list(RECORDED) == list(facts.MAJORS)


@pytest.mark.parametrize("major", facts.MAJORS)
def test_views_that_a_trial_reads_have_these_columns_in_these_versions(major: int) -> None:
    relations = RECORDED[major].relations
    for view in VIEWS:
        is_there = view.majors[0] <= major <= view.majors[1]
        assert is_there == (view.name in relations), view.name
        if is_there:
            assert set(view.keys) <= relations[view.name], view.name
            asked = {name for name, (first, last) in view.columns.items() if first <= major <= last}
            assert asked == view.columns.keys() & relations[view.name], view.name
    for names in COLUMNS.values():
        assert len(relations[LIBRARY].intersection(names)) == 1, names


@pytest.mark.parametrize("major", facts.MAJORS)
def test_signs_of_a_plan_s_version_are_those_of_the_server(major: int) -> None:
    keys = RECORDED[major].explain_keys
    every = {key for sign in SIGNS for key in sign.keys}
    for sign in SIGNS:
        for key in (each for each in sign.keys if not each.startswith("<")):
            if sign.since <= major <= sign.until:
                assert key in keys, key
            # A string that is the end of a longer one can't be told from it.
            elif not any(other.endswith(key) and other != key for other in every):
                assert key not in keys - COMMON_KEYS, key


@pytest.mark.parametrize("major", facts.MAJORS)
def test_defaults_are_those_of_the_server(major: int) -> None:
    for name, changes in DEFAULTS.items():
        expected = [value for since, value in changes if since <= major][-1]
        assert RECORDED[major].settings[name] == expected, name


def test_every_name_in_code_quotes_of_the_documents_is_known() -> None:
    """A setting, view, column, function, wait event or program of PostgreSQL, or a word of pgassay's own."""
    known = _of_postgresql() | _own_words() | OF_POSTGRESQL | OF_OTHERS
    unknown = {
        f"{document.name}: {word}"
        for document in _documents()
        for code in _code_quotes(document)
        for word in WORD.findall(code)
        if word not in known
    }
    assert not unknown


def test_wait_events_of_the_documents_are_the_servers() -> None:
    events = {name.partition(":")[2] for found in RECORDED.values() for name in found.events}
    types = {name.partition(":")[0] for found in RECORDED.values() for name in found.events}
    named = {
        (document.name, word)
        for document in _documents()
        for code in _code_quotes(document)
        for word in EVENT.findall(code)
    }
    assert len(named) > 10
    known = events | types | EVENTS_OF_16 | OTHER_NAMES
    assert not [each for each in named if each[1] not in known]


def test_settings_that_the_documents_set_are_the_servers() -> None:
    """In blocks of code too, which a reader copies."""
    settings = frozenset().union(*(found.settings for found in RECORDED.values()))
    named = {
        (document.name, next(filter(None, groups)))
        for document in _documents()
        for groups in SET.findall(document.read_text())
    }
    assert len(named) > 5
    assert not [each for each in named if each[1] not in settings]


def _documents() -> list[Path]:
    return [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]


def _code_quotes(document: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("major", facts.MAJORS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.cause)
def test_advice_names_what_its_version_has(rule: Rule, major: int) -> None:
    """Or says from which version on; where a rule has other advice for older ones, its own test has those."""
    if major < ARISES_SINCE.get(rule.cause, facts.OLDEST):
        return
    everywhere = _of_postgresql()
    for sentence in (rule.remedy, rule.next_step):
        for word in everywhere.intersection(WORD.findall(sentence)):
            of_others = re.search(rf"{word} from \d\d on|\d\d and newer; {word}", sentence)
            newer = re.search(rf"\((\w+) from {major} on\)", sentence)
            is_there = word in RECORDED[major].names or of_others or newer
            assert is_there, f"{word} is not in {major}: {sentence}"


def test_settings_of_remedies_exist() -> None:
    """In some version, or they are what pgassay limits."""
    named = {remedy.name for rule in RULES for remedy in rule.settings}
    assert len(named) > 10
    assert named <= frozenset(LIMITED).union(*(found.settings for found in RECORDED.values()))


def test_settings_that_tune_advises_are_those_of_every_version() -> None:
    """Or since which one is known, and older ones are not advised to set them."""
    advised = {name for path in FINDERS.rglob("*.py") for name in _advised(path)}
    assert {"work_mem", "jit", "io_method", "autovacuum_vacuum_cost_limit", "random_page_cost"} <= advised
    for name in advised:
        first = ADVISED_SINCE.get(name, facts.OLDEST)
        has = [major for major in facts.MAJORS if name in RECORDED[major].settings]
        assert has == list(range(first, facts.NEWEST + 1)), name
    assert ADVISED_SINCE.keys() <= advised


@pytest.mark.parametrize("major", facts.MAJORS)
def test_tune_advises_a_setting_from_its_version_on(major: int) -> None:
    node = {
        "Node Type": "Bitmap Heap Scan", "Relation Name": "t", "Alias": "t", "Schema": "public",
        "Plan Rows": 9, "Plan Width": 12, "Startup Cost": 0, "Total Cost": 100, "Actual Rows": 9,
        "Actual Loops": 1, "Actual Startup Time": 0.1, "Actual Total Time": 100.0,
        "Shared Read Blocks": 500, "Shared I/O Read Time": 90.0,
    }  # fmt: skip
    (read,) = read_plans(json.dumps([{"Plan": node, "Execution Time": 100.1}]), "made")
    # As if somebody had a setting of that name in every version.
    settings = {"io_method": "sync", "effective_io_concurrency": "1"}
    known = finder_samples.facts().model_copy(update={"version": major * 10_000, "settings": settings})
    asked = replace(
        finder_samples.symptom(read, known=known),
        machine=AdvisedMachine(random_read_us=100.0, memory_bytes=1 << 33),
    )
    found = {
        name
        for finder in KNOWN_FINDERS
        for offer in finder.find(FinderEvidence(asked))
        for name in offer.candidate.settings
    }
    assert "effective_io_concurrency" in found
    assert found <= RECORDED[major].settings.keys()
    assert ("io_method" in found) is (major >= ADVISED_SINCE["io_method"])


def _advised(path: Path) -> Iterator[str]:
    """The settings of a finder's candidates: keys of what is called so, or names of settings."""
    known = frozenset().union(*(found.settings for found in RECORDED.values()))
    for node in ast.walk(ast.parse(path.read_text())):
        named = False
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Dict):
            named, keys = node.arg == "settings", node.value.keys
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            named, keys = ast.unparse(node.value) == "settings", [node.slice]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            named, keys = ast.unparse(node.targets[0]) == "settings", node.value.keys
        elif isinstance(node, ast.Dict):
            keys = node.keys
        names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        yield from (name for name in names if named or name in known)


def test_sentences_of_advice_name_only_what_exists() -> None:
    known = _of_postgresql() | _own_words() | OF_POSTGRESQL | OF_OTHERS
    unknown = {
        f"{path.relative_to(ROOT)}: {word}"
        for room in ADVISING
        for path in (ROOT / "python" / "pgassay" / room).rglob("*.py")
        for sentence in _sentences(path)
        for word in WORD.findall(sentence)
        if word not in known
    }
    assert not unknown


def _sentences(path: Path) -> Iterator[str]:
    """Strings of several words; not the docstrings, which name functions of PostgreSQL's sources."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_string and id(node) not in alone and node.value.count(" ") > 2:
            yield node.value


@cache
def _of_postgresql() -> frozenset[str]:
    return frozenset().union(*(found.names for found in RECORDED.values()))


@cache
def _own_words() -> frozenset[str]:
    """Identifiers and one-word strings of the code, tables of its SQL, keys of the schemas, files."""
    found: set[str] = set()
    for path in (each for room in ("python", "benchmarks", "tests") for each in (ROOT / room).rglob("*.py")):
        found |= {path.stem, path.parent.name}
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if token.type == tokenize.NAME:
                found.add(token.string)
            elif token.type == tokenize.STRING:
                found.update(_words_of_a_string(token.string, path))
    for path in (*(ROOT / "schemas").glob("*.json"), *(ROOT / "crates").rglob("*.rs")):
        found |= set(re.findall(r"\b[a-z][a-z0-9_]+\b", path.read_text()))
    return frozenset(found)


def _words_of_a_string(text: str, path: Path) -> Iterator[str]:
    # A word alone is a key or an option. A sentence is no source: it could have the same mistake.
    yield from re.findall(r"^[a-z]?[\"']([a-z][a-z0-9_]+)[\"']$", text)
    if "datasets" in path.parts or "trial" in path.parts:
        yield from WORD.findall(text)
