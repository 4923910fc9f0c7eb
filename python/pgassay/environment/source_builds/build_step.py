"""One step of a build: what it prints is kept, and its first error is told with its place."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pgassay.errors import UsageError

OnFraction = Callable[[float], None]
# What a compiler is given by make for each file.
COMPILES = " -c -o "
_STEP = re.compile(r"^\[(\d+)/(\d+)\]")
_PLACE = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+)(?:[.:][\d.-]+)?: (?:fatal )?error: (?P<text>.+)$", re.IGNORECASE
)
_MESON = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+: ERROR: (?P<text>.+)$")
_LINKER = re.compile(
    r"(?P<file>[^\s:]+\.c):(?P<line>\d+): (?P<text>undefined reference to .+|multiple definition of .+)$"
)
# A file's name may hold these words, as utils/error/elog.o in what make prints.
_OTHER = re.compile(r"\b(?:error|fatal):|\b(?:undefined reference|cannot find)\b", re.IGNORECASE)
_MAKE = re.compile(r"^make(?:\[\d+\])?: \*\*\* (?P<text>.+?)(?:\.  Stop\.)?$")
# What is said where the machine came to its end: the tree is not to blame. A compiler also shows lines of the
# sources, which may hold the same words.
_OF_THE_MACHINE = re.compile(
    r"no space left on device|disk quota exceeded|read-only file system|cannot allocate memory"
    r"|virtual memory exhausted|cc1: out of memory|killed signal terminated program",
    re.IGNORECASE,
)
_SHOWN = re.compile(r"^\s*\d*\s*\|")
_SOURCES = re.compile(r"^(?:.*/source-work|\.\.)/src/")
_FAILED = "FAILED: "
_TEXT_MAX = 200


class TreeDoesNotBuildError(UsageError):
    """The tree itself does not build, whatever this machine has."""


def run_step(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    on_fraction: OnFraction | None = None,
    steps: int = 0,
) -> None:
    """Run a command with its output appended to `log`; raises UsageError with the first error in it.

    That is a TreeDoesNotBuildError unless the machine lacked space or memory. name: the tree, as typed.
    on_fraction: told how far ninja is, 0 to 1; or make, by how many of `steps` files are compiled.
    """
    lines: list[str] = []
    compiled = 0
    with (
        log.open("a", encoding="utf-8") as written,
        subprocess.Popen(
            [*_dying_with_us(), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                written.write(line)
                step = _STEP.match(line)
                if step is None and COMPILES in line and steps:
                    compiled += 1
                    if on_fraction is not None:
                        on_fraction(min(1.0, compiled / steps))
                elif step is None:
                    lines.append(line)
                elif on_fraction is not None:
                    on_fraction(int(step[1]) / int(step[2]))
        except BaseException:
            # ninja removes what it was writing when it is interrupted.
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
            raise
    if process.returncode != 0:
        lacking = next((each for each in lines if says_what_is_lacking(each)), "").strip()
        if lacking:
            raise UsageError(
                f"{name} can't be built for lack of space or memory ({lacking[:_TEXT_MAX]}): free some "
                f"(builds are in {log.parent.parent}) and type the same again, or use fewer --jobs"
            )
        raise TreeDoesNotBuildError(
            f"{name} does not build: {first_error(lines)}: name another revision, or repair this one "
            f"(all output is in {log})"
        )


def says_what_is_lacking(line: str) -> bool:
    """Whether a program says here that the machine lacks space or memory."""
    return _OF_THE_MACHINE.search(line) is not None and _SHOWN.match(line) is None


def _dying_with_us() -> list[str]:
    """Compilers that outlive a killed pgassay would write below the next one."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "INT"] if found else []


def first_error(lines: Iterable[str]) -> str:
    """'src/backend/x.c:12: 'y' undeclared', places as in the tree; the failed target where none is named."""
    other = failed = ""
    for line in (line.rstrip() for line in lines):
        match = _MESON.match(line) or _PLACE.match(line) or _LINKER.search(line)
        if match is not None:
            return f"{_in_tree(match['file'])}:{match['line']}: {match['text'][:_TEXT_MAX]}"
        if line.startswith(_FAILED):
            failed = failed or line.removeprefix(_FAILED).strip()
        elif (made := _MAKE.match(line)) is not None:
            failed = failed or made["text"]
        elif not line.startswith("[") and _OTHER.search(line):
            other = other or line.strip()
    return (other or failed)[:_TEXT_MAX] or "no error was printed"


def _in_tree(path: str) -> str:
    """Sources stand next to the build's folder; ninja names them from there, make in full."""
    return _SOURCES.sub("", path)
