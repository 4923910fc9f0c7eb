"""A conversation with `pgassay-native probe`, as raw as it is."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgassay.native.binary import binary

PAGE = 8192
ENGINES = ("sync", "worker", "io_uring", "hybrid")
CHECKSUM_AT = slice(8, 10)


class RawProbe:
    """One process; `ask` sends a request and returns its answer, `cell` a record."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.progress: list[dict[str, Any]] = []

    def ask(self, kind: str, /, **request: Any) -> dict[str, Any]:
        """The whole answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({kind: request}) + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            assert line, f"the probe ended: {self.process.wait()}"
            answer: dict[str, Any] = json.loads(line)
            if "progress" not in answer:
                return answer
            self.progress.append(answer["progress"])

    def cell(self, file: Path, engine: str, **more: Any) -> dict[str, Any]:
        """A short measurement that succeeds."""
        usual = {"pattern": "sequential", "request_bytes": 16 * PAGE, "depth": 16, "duration_s": 0.2}
        answer = self.ask("cell", file=str(file), engine=engine, **usual | more)
        assert "cell" in answer, answer
        record: dict[str, Any] = answer["cell"]
        return record

    def error(self, kind: str, /, **request: Any) -> dict[str, Any]:
        """The error that the request must end in."""
        answer = self.ask(kind, **request)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def make(self, file: Path, pages: int) -> Path:
        """A file of valid pages."""
        answer = self.ask("make", file=str(file), bytes=pages * PAGE, seed=3)
        assert answer["made"]["bytes"] == pages * PAGE == file.stat().st_size
        return file


@contextmanager
def probing(before: Callable[[], None] | None = None) -> Iterator[RawProbe]:
    """A process of its own; `before` runs in it before the program does."""
    with subprocess.Popen(
        [binary(), "probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    ) as process:
        try:
            yield RawProbe(process)
        finally:
            process.kill()


def break_page(file: Path, block: int) -> None:
    """Flip one bit in the middle of a page."""
    with file.open("r+b") as stream:
        stream.seek(block * PAGE + 4321)
        (byte,) = stream.read(1)
        stream.seek(block * PAGE + 4321)
        stream.write(bytes([byte ^ 4]))
