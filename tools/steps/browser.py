"""A headless Chromium for the tests of the HTML report: the machine's own, else one unpacked privately.

Only tests need it, so neither `make setup` nor the package pgassay knows of it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from steps.project import say

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
# What every start needs: no window, and no sandbox, which neither root nor most containers can have.
START_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # /dev/shm is 64 MB in a container unless somebody asked for more.
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# chromium-common brings the tables of Unicode (icudtl.dat), without which no text is laid out.
_PACKAGES = ("chromium-headless-shell", "chromium-common", "fonts-dejavu-core")
_PROBE = "data:text/html,<body><p style='font:50px sans-serif;float:left' id=p>pgassay<script>" + (
    "p.textContent = 'width ' + (p.getBoundingClientRect().width > 100)</script>"
)
_PROBE_TIMEOUT_S = 60.0
_FONT_SETTINGS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
# The libraries come from the suite that the host itself runs, so the host's loader may open them.
_START_SCRIPT = """#!/bin/sh
export FONTCONFIG_FILE='{font_settings}'
export LD_LIBRARY_PATH='{libraries}'
exec '{program}' "$@"
"""


def provide_browser() -> None:
    """Unpack a headless Chromium where none runs; say so, and go on, where there is none to be had."""
    from pgassay.environment.debian import has_apt, host_archive, unpack
    from pgassay.errors import UsageError

    if find_browser() is not None:
        say("chromium: in place")
        return
    if not has_apt():
        say("chromium: not found, so tests of the HTML report in a browser are skipped (install chromium)")
        return
    say("chromium: unpacking a headless one for the tests …")
    destination = _private_folder()
    try:
        unpack(_PACKAGES, host_archive("Chromium"), destination, finish=_finish)
    except UsageError as error:
        say(f"chromium: tests of the HTML report in a browser are skipped. {error}")
        return
    complaint = complaint_of(_start_script(destination))
    if complaint:
        # Left in place it would only be tried again: nothing else uses it.
        shutil.rmtree(destination)
        say(f"chromium: unpacked, but it does not run here, so its tests are skipped ({complaint})")
        return
    say("chromium: done")


def find_browser() -> Path | None:
    """Return the first browser that shows a page with text: of those on PATH, then the private one."""
    return next((path for path in _candidates() if not complaint_of(path)), None)


def why_no_browser() -> str:
    """Return '' where a browser runs, else what each candidate said, or which to install."""
    complaints = []
    for path in _candidates():
        complaint = complaint_of(path)
        if not complaint:
            return ""
        complaints.append(f"{path}: {complaint}")
    return "; ".join(complaints) or f"no browser on PATH: install one of {', '.join(NAMES)}"


def complaint_of(browser: Path) -> str:
    """Let a browser measure a word on a page; return '' or why it could not.

    A name on PATH may be no more than a hint at another package manager, and a browser without fonts
    draws nothing: only a page tells.
    """
    with tempfile.TemporaryDirectory(prefix="pgassay-browser-", ignore_cleanup_errors=True) as profile:
        command = [browser, *START_FLAGS, f"--user-data-dir={profile}", "--dump-dom", _PROBE]
        try:
            result = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_PROBE_TIMEOUT_S,
            )
        except OSError as error:
            return error.strerror or str(error)
        except subprocess.TimeoutExpired:
            return f"no page within {_PROBE_TIMEOUT_S:g} s"
    if ">width true<" in result.stdout:
        return ""
    if ">width false<" in result.stdout:
        return "it has no font to write with"
    lines = result.stderr.strip().splitlines()
    return lines[-1] if lines else f"it showed no page (exit code {result.returncode})"


def _candidates() -> Iterator[Path]:
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            yield Path(found)
    script = _start_script(_private_folder())
    if script.is_file():
        yield script


def _private_folder() -> Path:
    from pgassay.environment.home import home

    return home() / "tools" / "chromium"


def _start_script(folder: Path) -> Path:
    return folder / "bin" / "chromium"


def _finish(root: Path, final: Path) -> None:
    """Write the font settings and the script that starts the browser with its own libraries."""
    settings = root / "fonts.conf"
    settings.write_text(_FONT_SETTINGS.format(fonts=final / "usr/share/fonts"))
    script = _start_script(root)
    script.parent.mkdir(exist_ok=True)
    libraries = os.pathsep.join(str(final / folder.relative_to(root)) for folder in library_folders(root))
    script.write_text(
        _START_SCRIPT.format(
            font_settings=final / settings.name,
            libraries=libraries,
            program=final / "usr/lib/chromium/chromium-headless-shell",
        )
    )
    script.chmod(0o755)


def library_folders(root: Path) -> list[Path]:
    """Return every folder with libraries: some libraries look for their own parts below the host's /usr."""
    return sorted({path.parent for top in ("lib", "usr/lib") for path in (root / top).rglob("lib*.so*")})
