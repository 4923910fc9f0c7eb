"""A page opened in a headless browser, for the tests of HTML reports."""

import html
import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def look_at_widths(
    browser: Path, page: str, folder: Path, script: str, widths_px: Sequence[int], *flags: str
) -> dict[int, dict[str, Any]]:
    """What a script sees of a page in frames of each width, by width.

    It runs in the page around the frames, whose own policy may let nothing run in them, and leaves REPORT
    with a list of what it saw in each frame.
    """
    source = html.escape(page, quote=True)
    frames = "".join(
        f'<iframe style="width:{width_px}px;height:2000px;border:0" srcdoc="{source}"></iframe>'
        for width_px in widths_px
    )
    around = folder / "around.html"
    head = f'<!doctype html><meta charset="utf-8"><script>{script}</script>'
    around.write_text(f"{head}<body>{frames}", "utf-8")
    document, log = visit(browser, around, folder, *flags)
    assert "CONSOLE" not in log, log
    found = re.search(r"REPORT (\[.*\])", document, re.DOTALL)
    assert found, document[:500]
    return dict(zip(widths_px, json.loads(html.unescape(found.group(1))), strict=True))
