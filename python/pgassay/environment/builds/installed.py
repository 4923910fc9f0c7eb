"""Servers that the machine's own package manager installed, and the one `pg_config` on PATH names."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from pgassay.environment.builds.base import Origin
from pgassay.environment.builds.inspect import NEEDED_PROGRAMS, those_that_run
from pgassay.model.build import Build

# Debian, Ubuntu and their PGDG packages; PGDG RPM; Homebrew on Apple silicon, Intel and Linux.
PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
)


class InstalledOrigin(Origin):
    """PostgreSQL that this machine has already; it is found, never installed."""

    name: ClassVar[str] = "installed"

    def __init__(self, root: Path = Path("/"), patterns: Sequence[str] = PATTERNS) -> None:
        """`root` is where the patterns start; a test may look elsewhere."""
        self._root = root
        self._patterns = patterns

    def builds(self) -> Sequence[Build]:
        """Return the installed servers that run; a folder whose server does not is left out."""
        return those_that_run(dict.fromkeys(self._bin_directories()), self.name)

    def _bin_directories(self) -> Iterator[Path]:
        for pattern in self._patterns:
            for folder in sorted(self._root.glob(pattern.lstrip("/"))):
                if all(os.access(folder / name, os.X_OK) for name in NEEDED_PROGRAMS):
                    yield folder
        program = shutil.which("pg_config")
        if program is None:
            return
        result = subprocess.run(
            [program, "--bindir"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        folder = Path(result.stdout.strip())
        if result.returncode == 0 and all(os.access(folder / name, os.X_OK) for name in NEEDED_PROGRAMS):
            yield folder
