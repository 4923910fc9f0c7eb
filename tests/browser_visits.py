"""A page opened in a headless browser, for the tests of HTML reports."""

import shutil
import subprocess
import time
from pathlib import Path

from steps.browser import START_FLAGS

FLAGS = (*START_FLAGS, "--enable-logging=stderr", "--v=0")


def visit(browser: Path, page: Path, folder: Path, *flags: str) -> tuple[str, str]:
    """Open a page; returns the document after its scripts ran, and the browser's log."""
    profile = folder / f"profile-{time.monotonic_ns()}"
    ended = subprocess.run(
        [browser, *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    shutil.rmtree(profile, ignore_errors=True)
    return ended.stdout, ended.stderr
