"""How `pgassay fleet` reaches the machines: this one directly, others by the user's own ssh."""

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from pgassay.errors import MeasurementError, UsageError
from pgassay.fleet.agent_requests import Document
from pgassay.fleet.cluster import member
from pgassay.fleet.cluster.certificates import is_name

Ask = Callable[[Document], dict[str, JsonValue]]
_CONNECT_TIMEOUT_S = 15
# A worker that is ended stops its experiment first.
_ANSWER_TIMEOUT_S = 240
_NOT_FOUND, _SSH_FAILED = 127, 255


def here(document: Document) -> dict[str, JsonValue]:
    """Ask this machine."""
    return member.handle(document)


@dataclass(frozen=True)
class SshHost:
    """A machine that the user's ssh reaches without a password: `host`, `user@host`, or a name of ssh_config.

    program: how pgassay is called there. config: a file for ssh in place of the user's own.
    """

    target: str
    program: str = "pgassay"
    config: Path | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for what ssh would take for an option, or is no host."""
        if self.target.startswith("-") or not is_name(self.name):
            raise UsageError(
                f"--ssh: {self.target!r} is not a host: write host1,host2 or user@host1,user@host2"
            )

    @property
    def name(self) -> str:
        """The machine's name: the host without the account."""
        return self.target.rpartition("@")[2]

    def __call__(self, document: Document) -> dict[str, JsonValue]:
        """Ask that machine. Raises UsageError with its sentence, or with why it can't be asked."""
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}", "-T"]
        if self.config is not None:
            options += ["-F", str(self.config)]
        remote = f"{shlex.quote(self.program)} fleet member"
        try:
            finished = subprocess.run(
                ["ssh", *options, "--", self.target, remote],
                input=json.dumps(document),
                capture_output=True,
                text=True,
                timeout=_ANSWER_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as error:
            raise UsageError("--ssh needs the program ssh, which is not installed here.") from error
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"{self.target} did not answer within {_ANSWER_TIMEOUT_S} s.") from error
        said = (finished.stderr.strip().splitlines() or ["no error message"])[-1]
        if finished.returncode == _SSH_FAILED:
            raise UsageError(
                f"ssh {self.target} failed ({said}): it must work without a password; "
                f"try ssh -o BatchMode=yes {self.target} true"
            )
        if finished.returncode == _NOT_FOUND:
            raise UsageError(
                f"{self.target} has no {self.program!r}: install pgassay there, "
                "or say with --program where it is"
            )
        return self._answer(finished.stdout, said)

    def _answer(self, text: str, said: str) -> dict[str, JsonValue]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UsageError(
                f"the pgassay of {self.target} knows no fleet ({said}): install this version there"
            )
        if "error" in answer:
            raise UsageError(f"{self.target}: {answer['error']}")
        return answer


def check_equal(name: str, answer: Document, ours: Document) -> None:
    """Raise UsageError where another pgassay is there, or no Dask."""
    for key, what in (
        ("pgassay", "version"),
        ("sources", "files"),
        ("native", "native binary"),
        ("dask", "version of Dask"),
    ):
        if answer.get(key) is None and key == "dask":
            raise UsageError(f"{name} has no Dask: type pip install 'pgassay[fleet]' there")
        if answer.get(key) != ours.get(key):
            raise UsageError(
                f"{name} has another pgassay ({what} {answer.get(key)}, here {ours.get(key)}): "
                "install the same there, so that the machines measure alike"
            )
