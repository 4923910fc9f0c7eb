"""What the benchmarks of the probe share: a conversation with it about one file, and their command line."""

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _paired_loads import paired_arguments
from pgassay.native.binary import binary

PAGE = 8192


class Probe:
    """A conversation with the native binary."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request; return what the answer holds."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while True:
            answer = json.loads(self._process.stdout.readline())
            if "error" in answer:
                raise SystemExit(answer["error"]["message"])
            if "progress" not in answer:
                document: dict[str, Any] = next(iter(answer.values()))
                return document


@contextmanager
def probe_of_a_file(folder: Path | None, megabytes: int) -> Iterator[tuple[Probe, Path]]:
    """The conversation, and a file of its making; both gone afterwards."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="pgassay-bench-") as own,
        subprocess.Popen(
            [binary(), "probe"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        probe = Probe(process)
        file = Path(own) / "pages"
        probe.ask(make={"file": str(file), "bytes": megabytes << 20})
        yield probe, file


def arguments_of(
    description: str | None,
    cell: str,
    add: Callable[[argparse.ArgumentParser], object] = lambda _: None,
) -> argparse.Namespace:
    """The command line; `cell`: an example of a word in the names of cells; `add` adds one's own."""

    def add_all(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--mb", type=int, default=1024, help="size of the file (default 1024)")
        parser.add_argument("--cells", default="", help=f"only cells whose name holds this, e.g. '{cell}'")
        parser.add_argument("--folder", type=Path, default=None, help="where the file is made")
        add(parser)

    return paired_arguments(description, 12, 1.0, add_all)
