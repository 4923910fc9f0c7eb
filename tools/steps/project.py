"""What every step needs: the project's places, a way to run programs, stamps, one line of report."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PGASSAY = VENV / "bin" / "pgassay"
# Where tests are that want the machine for themselves.
ALONE_FOLDERS = ("tests/server", "tests/cli", "tests/contract")
_OUTPUT_LINES = 15

# The project's own standard-library modules (home folder, Debian packages) serve the set-up too.
sys.path.insert(0, str(ROOT / "python"))


class SetupError(Exception):
    """A step cannot be done here; the message is one sentence with the remedy. Exit code 2."""


class StepError(Exception):
    """A program that a command runs ended with an error. Carries its exit code, and output not yet shown."""

    def __init__(self, exit_code: int, output: str = "") -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code
        self.output = output


def say(line: str) -> None:
    """Print one line now."""
    print(line, flush=True)


def run_quietly(command: list[str | Path], remedy: str, environment: dict[str, str] | None = None) -> str:
    """Run a program and return its output; when it fails show its end and raise SetupError with `remedy`."""
    try:
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise SetupError(f"{command[0]} cannot be run ({error.strerror}): {remedy}") from error
    if result.returncode != 0:
        tail = "\n".join(result.stdout.strip().splitlines()[-_OUTPUT_LINES:])
        print(tail, file=sys.stderr)
        raise SetupError(
            f"'{' '.join(map(str, command[:4]))} …' failed with exit code {result.returncode}: {remedy}"
        )
    return result.stdout


def compiling() -> dict[str, str]:
    """An environment in which Python keeps what it compiles.

    Hundreds of short processes import the same modules: compiling them each time is longer than most tests.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_openly(command: list[str | Path], environment: dict[str, str] | None = None) -> None:
    """Run a program whose output the user wants to see; raise StepError when it fails."""
    sys.stdout.flush()
    result = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if result.returncode != 0:
        raise StepError(_as_shells_write(result.returncode))


def run_all(steps: Sequence[Callable[[], None]]) -> None:
    """Run all steps, one after the other, whichever fails; raise the first StepError at the end."""
    failed: StepError | None = None
    for step in steps:
        try:
            step()
        except StepError as error:
            failed = failed or error
    if failed:
        raise failed


def _as_shells_write(status: int) -> int:
    """A program ended by a signal gives its negative number; shells write 128 + number."""
    return status if status > 0 else 128 - status


def run_collected(command: list[str | Path], environment: dict[str, str] | None = None) -> str:
    """Run a program and return its output; when it fails raise StepError with that output."""
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise StepError(_as_shells_write(result.returncode), result.stdout)
    return result.stdout


def run_side_by_side(steps: Sequence[Callable[[], str | None]]) -> None:
    """Run steps at the same time and print their outputs in order; raise the first StepError after all.

    What it raises has no output left to show, so that a step may itself run others side by side.
    """
    failed: StepError | None = None
    with ThreadPoolExecutor(len(steps)) as pool:
        for step in [pool.submit(step) for step in steps]:
            try:
                output = step.result()
            except StepError as error:
                output, failed = error.output, failed or error
            if output:
                say(output.rstrip("\n"))
    if failed:
        raise StepError(failed.exit_code)


def fingerprint(paths: Iterable[Path], *words: str) -> str:
    """Return a hash of files (their names and contents) and words."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_stamped(stamp: Path, inputs: str) -> bool:
    """Whether a step was finished with these very inputs."""
    return stamp.is_file() and stamp.read_text() == inputs


def write_stamp(stamp: Path, inputs: str) -> None:
    """Note that a step is finished."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    temporary = stamp.with_name(f"{stamp.name}.{os.getpid()}")
    temporary.write_text(inputs)
    temporary.replace(stamp)
