"""The real pgbench and `pgassay pgbench` with the same words on one server, and what they must have alike."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from native_servers import NativeTestServer

OURS = (sys.executable, "-m", "pgassay.cli.main", "pgbench")
_NUMBER = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True)
class Answer:
    """What one of them said: exit status, standard output, standard error."""

    status: int
    output: str
    errors: str

    @property
    def report(self) -> list[str]:
        """pgbench's own lines, without the banner."""
        lines = self.output.split("\n\n")[0].splitlines()
        return [line.rstrip() for line in lines if not line.startswith("pgbench (")]

    @property
    def shape(self) -> list[str]:
        """The same, with a word for each measured number; whole numbers are counted, and stay."""
        return [" ".join(_NUMBER.sub("N", line).split()) for line in self.report]

    @property
    def complaints(self) -> list[str]:
        """Standard error without what one of them adds: the place in a script, and ours below the errors."""
        lines = self.errors.replace("\r", "\n").splitlines()
        kept = [line for line in lines if not line.startswith("pgbench: detail: in ")]
        return [_NUMBER.sub("N", line).rstrip() for line in kept]


def libpq_environment(server: NativeTestServer, changes: Mapping[str, str]) -> dict[str, str]:
    """The environment with which libpq finds the server; a variable that is changed to '' is left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "COV"))}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PGASSAY")}
    environment |= {"PGHOST": str(server.folder), "PGPORT": str(server.port), "PGUSER": "postgres"}
    environment |= {"PGDATABASE": "postgres", "LC_ALL": "C"} | dict(changes)
    return {name: value for name, value in environment.items() if value}


def answer(
    program: Sequence[str | Path], server: NativeTestServer, words: Sequence[str], **options: object
) -> Answer:
    """One of them, run to its end."""
    changes = options.get("environment", {})
    assert isinstance(changes, Mapping)
    finished = subprocess.run(
        [*map(str, program), *words],
        env=libpq_environment(server, changes),
        cwd=str(options.get("folder", server.folder)),
        input=str(options.get("typed", "")),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return Answer(finished.returncode, finished.stdout, finished.stderr)


def sampled(items: Sequence[str], every: int) -> list[Any]:
    """One of so many runs in each test run, the others with the slow tests."""
    slow = pytest.mark.slow
    return [
        item if place % every == 0 else pytest.param(item, marks=slow) for place, item in enumerate(items)
    ]


def ours(server: NativeTestServer, *words: str, **options: object) -> Answer:
    """pgassay's."""
    return answer(OURS, server, words, **options)


def real(server: NativeTestServer, *words: str, **options: object) -> Answer:
    """PostgreSQL's."""
    return answer([server.bin / "pgbench"], server, words, **options)


def both(server: NativeTestServer, *words: str, **options: object) -> tuple[Answer, Answer]:
    """The real one first."""
    return real(server, *words, **options), ours(server, *words, **options)
