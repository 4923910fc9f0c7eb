"""Everything that is said of the frozen set, as documents by name: strict ones, and texts."""

import contextlib
import hashlib
import html.parser
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from frozen import entry_points
from frozen.digits import rounded

SEEDS = range(20)
BLOCKS = 30
PLANS = {"two": 2, "three": 3, "four": 4, "seven": 7}
STEPPED = ("versions", "grid-settings", "io-method-cold-each")
PROBES = ("probe", "probe-again")
DIAGNOSES = ("diagnosis",)
NO_EXPERIMENT = {*PROBES, *DIAGNOSES}
CALIBRATED = (
    "calibrated",
    "remote-calibrated",
    "equal-copies",
    "replayed-equivalent",
    "setting-warm-buffers",
)
DIFFED = (
    ("setting-warm-buffers", "covariate"),
    ("interrupted", "resumed"),
    ("io-method-cold-each", "io-method-cold"),
    ("grid-io-method-clients", "clients"),
    ("replayed-faster", "replayed-slower"),
    ("replayed-equivalent", "replayed-twin-differs"),
    ("remote-setting", "remote-swap"),
    ("own-script", "own-dump"),
)
# Through the command line and not through the renderers: the two must agree.
BY_COMMAND = ("io-method-cold-each", "grid-settings", "replayed-faster", "remote-swap", "fails-at-times")
# Keys that results got after they had been frozen: additions, which take nothing from what was there.
LATER_KEYS = ("checkpoints", "iostat", "latency_stddev_ratio", "latency_stddev_interval", "server_times")
Documents = dict[str, str]


class _Drawings(ModuleType):
    """Stands where vl_convert is imported: a picture is the hash of what it was to be drawn from.

    The drawing itself is the library's and depends on the machine's fonts, and takes most of a page's time.
    """

    def vegalite_to_svg(self, chart: Any) -> str:
        specification = chart if isinstance(chart, str) else json.dumps(chart, sort_keys=True)
        digest = hashlib.sha256(rounded(specification).encode()).hexdigest()
        return f"<svg>drawing {digest[:16]}</svg>"

    def javascript_bundle(self, *_: object) -> str:
        return "window.vegaEmbed = vegaEmbed;"


@contextlib.contextmanager
def neutral(home: Path, folder: Path) -> Iterator[None]:
    """An empty home, no zone, a fixed width, in `folder`: nothing of this machine or its user is seen."""
    before, where = dict(os.environ), Path.cwd()
    library = sys.modules.get("vl_convert")
    for name in [name for name in os.environ if name.startswith(("PG", "LC_"))]:
        del os.environ[name]
    own = {"PGASSAY_HOME": str(home), "COLUMNS": str(entry_points.WIDTH), "TZ": "UTC", "LANG": "C.UTF-8"}
    os.environ.update(own | {"HOME": str(home), "NO_COLOR": "1"})
    time.tzset()
    sys.modules["vl_convert"] = _Drawings("vl_convert")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(where)
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
        del sys.modules["vl_convert"]
        if library is not None:
            sys.modules["vl_convert"] = library


def as_recorded(page: str) -> str:
    """A result without the keys that came after the strict documents, which are described by the schema."""

    def kept(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: kept(value) for key, value in part.items() if key not in LATER_KEYS}
        return [kept(each) for each in part] if isinstance(part, list) else part

    end = "\n" if page.endswith("\n") else ""
    return json.dumps(kept(json.loads(page)), indent=2) + end


def masked(text: str) -> str:
    """Without the versions of pgassay that measured and that report, and of the library that draws."""
    text = text.replace(f"vl-convert-{version('vl-convert-python')}", "vl-convert-VERSION")
    return re.sub(r"\bpgassay \d+\.\d+\.\d+\b", "pgassay VERSION", text)


class _Words(html.parser.HTMLParser):
    """The words of a page, a line for each piece; a script and a style sheet as the hash of it.

    Colours and lengths of a style sheet are no sentences, so they are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag if tag in ("script", "style") else ""
        said = [value for name, value in attrs if name in ("href", "title", "aria-label", "alt") and value]
        self.lines += [f"{tag}: {value}" for value in said if not value.startswith("data:")]

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._within = ""

    def handle_data(self, data: str) -> None:
        words = " ".join(data.split())
        if words and self._within == "script":
            self.lines.append(f"script {hashlib.sha256(words.encode()).hexdigest()[:16]}")
        elif words and not self._within:
            self.lines.append(words)


def words_of(page: str) -> str:
    """The text of an HTML page."""
    parser = _Words()
    # Where a name may be parted is no matter of words.
    parser.feed(page.replace("<wbr>", ""))
    return "\n".join(parser.lines) + "\n"


def _keep(strict: Documents, texts: Documents, name: str, pages: Documents) -> None:
    for kind, page in pages.items():
        if kind == "json":
            strict[f"{name}.json"] = masked(as_recorded(page))
        elif kind == "html":
            texts[f"{name}.html.txt"] = masked(words_of(page))
        else:
            texts[f"{name}.{kind}"] = masked(page)


def experiments(name: str) -> tuple[Documents, Documents]:
    """Of one stored experiment, by the renderers: its result, its pages, its tables."""
    strict: Documents = {}
    texts: Documents = {}
    pages = entry_points.pages(Path(name))
    # Where `index` would make it, as it does for a folder without one.
    (Path(name) / "report.html").write_text(pages["html"], "utf-8")
    _keep(strict, texts, name, pages)
    strict[f"{name}.tables.json"] = document(
        {name: table(found) for name, found in entry_points.tables(Path(name)).items()}
    )
    return strict, texts


def document(content: Any) -> str:
    """The content as a JSON document of many lines."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def table(found: Any) -> dict[str, Any]:
    """Rows, columns with their types, and a hash of all values, floats to the last digit."""
    digest = hashlib.sha256()
    for column in found.columns:
        digest.update(repr(column.to_pylist()).encode())
    types = {field.name: str(field.type) for field in found.schema}
    return {"rows": found.num_rows, "columns": types, "sha256": digest.hexdigest()}


def by_command(name: str) -> tuple[Documents, Documents]:
    """What the command `report` prints of an experiment; the names are those of `experiments`."""
    page = "page.html"
    strict = {f"{name}.json": as_recorded(_said("report", name, "--json", "--html", page))}
    texts = {f"{name}.md": _said("report", name, "--markdown", "--html", page)}
    table = _said("report", name, "--html", page)
    texts[f"{name}.txt"] = table.removesuffix(f"report: {page}\n")
    assert table != texts[f"{name}.txt"], table[-200:]
    return strict, texts


def _said(*words: str) -> str:
    status, said = entry_points.command(*words)
    assert status == 0, said
    return masked(said)


def others(corpus: Path) -> tuple[Documents, Documents]:
    """Differences, calibrations, probes, diagnoses, the list and the index of all."""
    strict: Documents = {}
    texts: Documents = {}
    for first, second in DIFFED:
        name = f"diff-{first}-{second}"
        strict[f"{name}.json"] = _said("diff", first, second, "--json")
        texts[f"{name}.md"] = _said("diff", first, second, "--markdown")
        said = _said("diff", first, second, "--html", "diff.html")
        texts[f"{name}.txt"] = said.removesuffix("report: diff.html\n")
        texts[f"{name}.html.txt"] = masked(words_of(Path("diff.html").read_text("utf-8")))
    for folder in CALIBRATED:
        name = f"calibrate-{folder}"
        strict[f"{name}.json"] = _said("calibrate", "--from", folder, "--json")
        texts[f"{name}.md"] = _said("calibrate", "--from", folder, "--markdown")
        texts[f"{name}.txt"] = _said("calibrate", "--from", folder)
    records = {name: (corpus / name / "probe.json").read_bytes() for name in PROBES}
    for name, record in records.items():
        _keep(strict, texts, name, entry_points.probe_pages(record))
    first, second = records.values()
    _keep(strict, texts, "probe-compared", entry_points.probe_pages(second, first))
    for name in DIAGNOSES:
        interval = json.loads((corpus / name / "interval.json").read_bytes())
        _keep(strict, texts, name, entry_points.diagnosis_pages(interval, corpus / name))
    return strict, texts


def listings() -> Documents:
    """What `list` and `index` say of all."""
    listed = _said("list", ".")
    _said("index", ".")
    return {"list.txt": listed, "index.html.txt": masked(words_of(Path("index.html").read_text("utf-8")))}


def schedules() -> Documents:
    """Orders of the arms by seed and block, and the trials that a plan asks for when some fail."""
    orders = {}
    for name, count in PLANS.items():
        arms = [f"arm-{number:03d}" for number in range(count)]
        for seed in SEEDS:
            drawn = [entry_points.order(seed, block, arms) for block in range(BLOCKS)]
            orders[f"{name} arms, seed {seed}"] = " ".join(
                "".join(str(arms.index(arm)) for arm in order) for order in drawn
            )
    steps = {
        f"{name}, seed {seed}": [
            " ".join(map(str, step)) for step in entry_points.steps(Path(name), seed, 40, 0.2)
        ]
        for name in STEPPED
        for seed in (*SEEDS[:4], 2**31 - 1)
    }
    return {"orders.json": document(orders), "steps.json": document(steps)}


def helps() -> Documents:
    """What --help says, of the tool and of every command."""
    os.environ["COLUMNS"] = "80"
    found = {"help-pgassay.txt": _said("--help")}
    for words in (*((name,) for name in _commands(found["help-pgassay.txt"])), ("builds", "install")):
        found[f"help-{'-'.join(words)}.txt"] = _said(*words, "--help")
    os.environ["COLUMNS"] = str(entry_points.WIDTH)
    return found


def _commands(text: str) -> list[str]:
    """The names in a list of commands."""
    _, heading, rest = text.partition("\ncommands:\n")
    return re.findall(r"^    ([a-z]+)(?:\s|$)", rest.split("\n\n")[0], re.MULTILINE) if heading else []
