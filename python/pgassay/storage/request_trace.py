"""The trace of an imitated volume's requests, and the volume without limits on which traces are recorded.

    --storage volume:unlimited,trace=yes                a trial's trace, as fast as this machine goes
    --storage volume:unlimited,latency=1ms,trace=yes    the same where each request takes 1 ms

The native server writes the file (its format: crates/native/README.md) beside the image, never on the volume
itself. It becomes an observation of the trial.
"""

import secrets
import shutil
from pathlib import Path
from typing import Self

from pgassay.environment.cleanup import registry
from pgassay.environment.home import home
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec
from pgassay.model.volumes.offer import Distribution, Latency, Stripes, VolumeModel
from pgassay.native.volume import Traced
from pgassay.storage.base import Delivered
from pgassay.value_syntax.quantities import seconds

UNLIMITED = "unlimited"
TRACE_FILE = "volume.trace"
WAL_TRACE_FILE = f"wal_{TRACE_FILE}"
_LATENCY_S_MIN, _LATENCY_S_MAX = 1e-7, 1.0
# Equal answers would let clients march in step, as they don't on any volume that can be bought.
_SIGMA = 0.2


def latency_text(key: str, value: str, text: str) -> str:
    """The latency as typed; raises UsageError for what is none of up to a second."""
    _latency_s(value, f"'{text}': {key}")
    return value.strip()


def unlimited_model(spec: StorageSpec) -> VolumeModel:
    """A volume without limits: every request takes `latency=`, or no time at all.

    Raises UsageError for an option of volumes that are sold.
    """
    own = dict(spec.own)
    sold = ("iops", "throughput", "credits", "flush_latency", "first_touch", "instance")
    given = [*(key for key in sold if key in own), *(["size"] if spec.size_bytes is not None else [])]
    if given:
        raise UsageError(f"volume:{UNLIMITED} has no limits: leave {given[0]} out.")
    latency_ns = 1e9 * _latency_s(own["latency"], "latency") if "latency" in own else 0.0
    one = Distribution(median_ns=latency_ns, sigma=_SIGMA if latency_ns else 0.0, bytes_per_second=None)
    at_once = Distribution(median_ns=0.0, sigma=0.0, bytes_per_second=None)
    name = UNLIMITED + (f",latency={own['latency']}" if latency_ns else "")
    return VolumeModel(
        name=name,
        stripes=Stripes(count=1, width_bytes=1 << 18),
        limiters=(),
        latency=Latency(read=one, write=one, flush=at_once),
    )


class Trace:
    """A file for the trace of one trial, where one is wanted; a context manager that removes it again.

    `file` is its name, and not there yet; None where none is wanted.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self.file: Path | None = None
        self._token: registry.CleanupToken | None = None
        if is_wanted:
            folder = home() / "data" / "work" / f"trace-{secrets.token_hex(8)}"
            self._token = registry.register("folder", path=str(folder))
            folder.mkdir(mode=0o700, parents=True)
            self.file = folder / TRACE_FILE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None and self._token is not None:
            shutil.rmtree(self.file.parent, ignore_errors=True)
            registry.forget(self._token)

    def hand_over(self, traced: Traced | None, delivered: Delivered) -> None:
        """Give the whole file to the trial, and say what is missing in it."""
        if self.file is None or traced is None:
            return
        delivered.files[TRACE_FILE] = self.file.read_bytes()
        delivered.facts["traced"] = {"requests": traced["requests"], "lost": traced["lost"]}
        if traced["error"] is not None:
            delivered.warnings.append(f"the trace of the volume's requests ends early: {traced['error']}")
        elif traced["lost"] > traced["requests"] / 1000:
            delivered.warnings.append(
                f"the trace of the volume's requests lacks {traced['lost']:,} of "
                f"{traced['requests'] + traced['lost']:,}: predictions from it are doubtful"
            )


def _latency_s(text: str, where: str) -> float:
    return seconds(text, where, least=_LATENCY_S_MIN, most=_LATENCY_S_MAX, example="2ms")
