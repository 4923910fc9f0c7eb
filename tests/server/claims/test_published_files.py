"""Files of published claims, each run by the one command at a fraction of its size: every claim is answered.

What is counted or read in a plan is decided in three blocks; of speeds nothing is expected but how many
blocks their verdicts take. The other files are run by `test_published_experiments.py` and
`test_published_storage.py`, which look at what their plans and volumes show.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import whole_tool
from pgassay.report import schema

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.shares_machine]

EXAMPLES = whole_tool.ROOT / "examples"
VOLUMES = ("server", "loop", "fuse", "cgroup-memory", "cold-cache")
VERSIONS = ("versions-16-17-18", "cold-cache")


@dataclass(frozen=True)
class Small:
    """How a file is made small; counted: its claims that are decided all the same."""

    require: tuple[str, ...]
    scale: int = 1
    blocks: int = 3
    changes: dict[str, str] = field(default_factory=dict)
    counted: tuple[str, ...] = ()


LOAD = {"duration=6s,warmup=2s": "duration=1s,warmup=0s", '"128MB"': '"32MB"', '"384MB"': '"128MB"'}
HITS = tuple(f"hit-ratio-{table}" for table in ("accounts", "branches", "tellers", "history"))
OF_18 = ("server", "cold-cache")
LIMITED = (*OF_18, "loop", "cgroup-limits", "root")
FILES = {
    "max-wal-size": Small(
        OF_18,
        changes={"duration=12s,warmup=1s": "duration=1s,warmup=0s"},
        counted=("max-wal-size-checkpoints",),
    ),
    "three-tables": Small(OF_18),
    "useless-index": Small(OF_18, counted=("index-on-tellers-rows",)),
    "versions-index": Small(VERSIONS, blocks=1),
    "with-index-versions": Small(VERSIONS, counted=("index-blocks-16", "index-blocks-17", "index-blocks-18")),
    "eager-freezing": Small(OF_18, counted=("eager-freezing", "eager-freezing-wal")),
    "maintenance-versions": Small(
        VERSIONS, counted=("frozen-17", "frozen-18", "vacuum-wal-17", "vacuum-wal-18")
    ),
    "volume-full-scan": Small(VOLUMES, blocks=1),
    "volume-tpcb": Small(
        VOLUMES, scale=4, blocks=1, changes={"duration=6s,warmup=2s": "duration=1s,warmup=0s"}
    ),
    "volume-io-method": Small(VOLUMES, scale=4, changes=LOAD, counted=HITS),
    "volume-oltp-versions": Small(
        (*VOLUMES, "versions-17-18"),
        blocks=1,
        changes={"table_size=300000,duration=3s,warmup=1s": "table_size=5000,duration=1s,warmup=0s"},
    ),
    "volume-matrix": Small(
        (*VOLUMES, "versions-17-18"),
        blocks=1,
        changes={"table_size=300000,duration=3s,warmup=1s": "table_size=5000,duration=1s,warmup=0s"},
    ),
    "oltp-read-only-matrix": Small(
        (*OF_18, "io_uring"),
        blocks=1,
        changes={"table_size=1000000,duration=3s,warmup=1s": "table_size=5000,duration=1s,warmup=0s"},
    ),
    "io-uring-against-worker": Small((*OF_18, "io_uring")),
    "io-workers": Small((*OF_18, "loop", "root"), blocks=1),
    "saturated-disk-look-ahead": Small((*LIMITED, "io_uring"), blocks=1),
    "three-layers": Small(LIMITED, blocks=1),
}


def shrunk(name: str, small: Small, folder: Path) -> Path:
    """The example's file so small, beside copies of its SQL files."""
    for sql in EXAMPLES.glob("*.sql"):
        (folder / sql.name).write_text(sql.read_text("utf-8"), "utf-8")
    text = (EXAMPLES / f"{name}.toml").read_text("utf-8")
    text = re.sub(r"^scale = \d+$", f"scale = {small.scale}", text, flags=re.M)
    # Every start of a server touches all of its shared memory.
    text = re.sub(r'shared_buffers = "(1GB|512MB|384MB|256MB)"', 'shared_buffers = "64MB"', text)
    for old, new in small.changes.items():
        assert old in text, old
        text = text.replace(old, new)
    file = folder / f"{name}.toml"
    file.write_text(f"blocks = {small.blocks}\nseed = 7\n{text}", "utf-8")
    return file


@pytest.mark.parametrize("name", FILES)
def test_every_claim_of_the_file_is_answered(name: str, require: Callable[..., None], tmp_path: Path) -> None:
    small = FILES[name]
    require(*small.require)
    file = shrunk(name, small, tmp_path)
    # So long that an experiment begins whose verdicts take many blocks; it ends after those of the file.
    finished = whole_tool.run(
        *("claims", "run", file, "--out", tmp_path / "out", "--max-time", "40m", "--json", "--quiet")
    )
    document: dict[str, Any] = whole_tool.result_of(finished)
    jsonschema.validate(document, schema.CLAIMS.schema(), cls=jsonschema.Draft202012Validator)
    (experiment,) = document["experiments"]
    assert 1 <= experiment["blocks"] <= small.blocks and not experiment["note"]
    claims = {each["id"]: each for each in document["claims"]}
    assert {*small.counted} <= {*claims}
    for id_, claim in claims.items():
        assert claim["verdict"] is not None and claim["why"], id_
        assert f"{name}.toml" in claim["command"]
        if claim["verdict"] == "undecided":
            assert id_ not in small.counted, claim["why"]
            assert re.search(r"\bblocks?\b|\btrial|not known|at most|not bounded", claim["why"]), claim["why"]
        elif claim["verdict"] == "can't be tried here":
            assert claim["why"].startswith("needs") or "was skipped" in claim["why"], claim["why"]
        else:
            assert_has_figures(claim)


def assert_has_figures(claim: dict[str, Any]) -> None:
    """A ratio within its interval; or both counts where an arm has none of what is counted, or a limit."""
    if claim["here"] is None:
        assert re.search(r"\d+ and [\d,.]+ |none in both|^its limit: ", claim["why"]), claim["why"]
    else:
        low, high = claim["interval"]
        assert low is None or low <= claim["here"] * (1 + 1e-9), claim
        assert high is None or claim["here"] <= high * (1 + 1e-9), claim
