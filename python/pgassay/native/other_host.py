"""The native binary on another host, reached by the user's own ssh: it measures there, the record comes home.

ssh passes standard input and output on, so the conversation is the same, and passwords travel in it alone. A
copy of this very binary is put into the account's cache folder there, once.
"""

import functools
import shlex
import subprocess
from pathlib import Path

from pgassay.errors import UsageError
from pgassay.native.binary import binary, build_id

_CONNECT_TIMEOUT_S = 15
_COPY_TIMEOUT_S = 120
_FOLDER = "${XDG_CACHE_HOME:-$HOME/.cache}/pgassay"
_SECOND_NS = 10**9


def command_on(host: str, command: str) -> list[str]:
    """What runs a command of the binary on a host, which has this binary from then on; raises UsageError."""
    _install(host, binary(), build_id())
    return _ssh(host, f'exec "{_place(build_id())}" {shlex.quote(command)}')


def _ssh(host: str, remote: str) -> list[str]:
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}", "-T"]
    return ["ssh", *options, "--", host, remote]


def _place(sources: str) -> str:
    return f"{_FOLDER}/pgassay-native-{sources}"


@functools.lru_cache(maxsize=8)
def _install(host: str, path: Path, sources: str) -> None:
    place = _place(sources)
    answer = _asked(host, f'"{place}" --version')
    if answer.returncode == 0 and answer.stdout.decode(errors="replace").split()[2:] == [sources]:
        return
    copy = (
        f'mkdir -p "{_FOLDER}" && cat > "{place}.$$" && chmod 755 "{place}.$$" && mv "{place}.$$" "{place}"'
    )
    copied = _asked(host, copy, path.read_bytes())
    if copied.returncode != 0:
        raise UsageError(f"client=ssh:{host}: the load generator could not be copied there: {_said(copied)}")
    answer = _asked(host, f'"{place}" --version')
    if answer.returncode != 0:
        raise UsageError(
            f"client=ssh:{host}: the load generator does not run there ({_said(answer)}): it needs the "
            "processor architecture of this machine, a C library as new as here, and programs allowed below "
            f"{_FOLDER} (no noexec)"
        )


def _asked(host: str, remote: str, content: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a command there; raises UsageError where ssh itself fails."""
    try:
        finished = subprocess.run(
            _ssh(host, remote), input=content, capture_output=True, timeout=_COPY_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise UsageError(f"client=ssh:{host} needs the program ssh, which is not installed here") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"client=ssh:{host}: it did not answer within {_COPY_TIMEOUT_S} s") from error
    if finished.returncode == 255:
        raise UsageError(
            f"client=ssh:{host}: ssh failed ({_said(finished)}): it must work without a password; "
            f"try ssh -o BatchMode=yes {host} true"
        )
    return finished


def _said(finished: "subprocess.CompletedProcess[bytes]") -> str:
    lines = finished.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no error message"


class ClockOfHost:
    """Another host's clock against ours, from when its seconds were told.

    Each is told a moment after it ended there: the least difference has the shortest way in it.
    """

    def __init__(self, warmup_s: float) -> None:
        self._warmup_ns = round(warmup_s * _SECOND_NS)
        self._told: list[tuple[int, int]] = []

    def told(self, second: int, at_ns: int) -> None:
        """The end of a second of the load was told at an instant of our clock."""
        self._told.append((second, at_ns))

    def offset_ns(self, start_ns: int) -> int:
        """What is added to its instants; `start_ns` began the measured interval. 0 if no second was told."""
        began_ns = start_ns - self._warmup_ns
        return min((at_ns - began_ns - second * _SECOND_NS for second, at_ns in self._told), default=0)
