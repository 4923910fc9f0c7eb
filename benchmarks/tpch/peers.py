"""The peers' advice: indexes by postgres-mcp with HypoPG, settings by pgtune's formula.

Both run from what their makers publish: postgres-mcp (PyPI, MIT) in an environment of its own, HypoPG
(PostgreSQL licence) from the suite of Debian that carries the server's major, laid beside the server by
`extension_control_path`, which needs PostgreSQL 18. Nothing is installed on the host.
"""

import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgassay.environment.builds.apt import SUITES
from pgassay.environment.debian import suite_archive
from pgassay.environment.home import home
from pgassay.tune.copy import TrialCopy

MEGABYTE = 1 << 20
EXTENSION_PATH_MAJOR_MIN = 18
GENERATOR = ("tpchgen-cli>=4,<5",)
# Its own list pins a release of pglast that PyPI has no more, and mcp 2 has other modules.
ADVISOR_NEEDS = (
    "pglast>=7,<8", "attrs", "humanize", "instructor", "mcp[cli]<2", "psycopg-pool", "psycopg[binary]",
    "typing_extensions",
)  # fmt: skip
ADVISOR = ("--no-deps", "--ignore-requires-python", "postgres-mcp==0.3.0")


@dataclass(frozen=True)
class Peers:
    """Where the programs are: the generator, the advisor's Python, and the folder of HypoPG's package."""

    generator: Path
    advisor_python: Path
    hypopg: Path

    def settings(self, major: int) -> dict[str, str]:
        """The settings by which a server finds HypoPG."""
        root = self.hypopg / "usr"
        return {
            "extension_control_path": f"$system:{root}/share/postgresql/{major}",
            "dynamic_library_path": f"$libdir:{root}/lib/postgresql/{major}/lib",
        }


def fetch(major: int) -> Peers:
    """Install what is not there yet below pgassay's home; needs the network for that."""
    if major < EXTENSION_PATH_MAJOR_MIN:
        raise SystemExit(f"HypoPG is laid beside servers of {EXTENSION_PATH_MAJOR_MIN} and newer: --pg 18")
    root = home() / "tools"
    generator = _environment(root / "tpchgen", "tpchgen-cli", [GENERATOR])
    advisor = _environment(root / "postgres-mcp", "postgres-mcp", [ADVISOR_NEEDS, ADVISOR])
    return Peers(generator / "tpchgen-cli", advisor / "python", _hypopg(root / f"hypopg-{major}", major))


def _environment(folder: Path, program: str, groups: list[tuple[str, ...]]) -> Path:
    """A virtual environment with these packages, installed group by group; its folder of programs."""
    programs = folder / "bin"
    if not (programs / program).exists():
        venv.create(folder, with_pip=True, clear=True)
        for packages in groups:
            subprocess.run([programs / "python", "-m", "pip", "install", "-q", *packages], check=True)
    return programs


def _hypopg(folder: Path, major: int) -> Path:
    package = f"postgresql-{major}-hypopg"
    if not (folder / "usr").is_dir():
        archive = suite_archive(SUITES[str(major)].name, package)
        archive.refresh()
        folder.mkdir(parents=True, exist_ok=True)
        for file in archive.download(archive.stanzas((package,)), folder):
            subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
            file.unlink()
    return folder


@dataclass(frozen=True)
class Advised:
    """An index that a peer advises. `bytes`: what it takes, once it was really built."""

    sql: str
    gain: float
    bytes: int = 0


def advised_indexes(
    peers: Peers, copy: TrialCopy, statements: list[dict[str, Any]], budget_bytes: int, seconds: float
) -> list[Advised]:
    """What postgres-mcp recommends for these statements on the copy, the best one first.

    statements: {"query", "calls", "avg_exec_time"}; `budget_bytes` −1: as much as it wants.
    """
    session = copy.session
    session.execute("CREATE EXTENSION hypopg")
    session.execute("ANALYZE")  # it refuses tables whose last one is not known
    named = session.info.get_parameters()
    url = f"postgresql://{named['user']}@/{session.info.dbname}?host={session.info.host}&port={session.info.port}"
    asked = {
        "url": url,
        "statements": statements,
        "budget_mb": -1 if budget_bytes < 0 else max(1, budget_bytes // MEGABYTE),
        "seconds": seconds,
    }
    done = subprocess.run(
        [peers.advisor_python, Path(__file__).with_name("mcp_advice.py")],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
    )  # fmt: skip
    session.execute("DROP EXTENSION hypopg")
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise SystemExit("postgres-mcp failed")
    answer = json.loads(done.stdout)
    for query in answer["left_out"]:
        print(f"postgres-mcp can't take: {query[:70]} …", flush=True)
    found = [Advised(each["sql"], each["gain"]) for each in answer["indexes"]]
    return sorted(found, key=lambda each: -each.gain)


def index_bytes(copy: TrialCopy) -> int:
    """The size of all indexes of the user's tables."""
    query = (
        "SELECT coalesce(sum(pg_relation_size(indexrelid)), 0) FROM pg_index JOIN pg_class ON pg_class.oid = "
        "indrelid WHERE relnamespace = 'public'::regnamespace"
    )
    row = copy.session.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def formula(memory_bytes: int, processors: int) -> dict[str, str]:
    """pgtune's settings for a data warehouse on Linux with an SSD (github.com/le0pard/pgtune, MIT).

    40 connections, its own number for warehouses; settings of parallel workers from four processors on.
    """
    kilobytes = memory_bytes // 1024
    buffers = kilobytes // 4
    workers = processors if processors >= 4 else 8
    settings = {
        "shared_buffers": f"{buffers}kB",
        "effective_cache_size": f"{kilobytes * 3 // 4}kB",
        "maintenance_work_mem": f"{min(kilobytes // 8, 8 << 20)}kB",
        "checkpoint_completion_target": "0.9",
        "wal_buffers": f"{max(32, min(16 << 10, buffers * 3 // 100))}kB",
        "default_statistics_target": "500",
        "random_page_cost": "1.1",
        "effective_io_concurrency": "200",
        "work_mem": f"{max(4 << 10, int((kilobytes - buffers) / ((40 + workers) * 3) / 2))}kB",
        "min_wal_size": "4GB",
        "max_wal_size": "16GB",
    }
    if processors >= 4:
        half = (processors + 1) // 2
        settings |= {
            "max_worker_processes": str(processors),
            "max_parallel_workers": str(processors),
            "max_parallel_workers_per_gather": str(half),
            "max_parallel_maintenance_workers": str(min(4, half)),
        }
    return settings


# Its target of statistics has an effect once tables are analysed with it.
FORMULA_SQL = ("SET default_statistics_target = 500", "ANALYZE")
