"""Which engines, and which ways to read, work here: each is tried for a moment and what fails is named."""

import errno
import os

from pgassay.environment.builds.io_uring_gates import DISABLED_SETTING
from pgassay.environment.linux import machine
from pgassay.errors import MeasurementError
from pgassay.model.probe import FIRST_MAJOR, CellSpec, Engine
from pgassay.native.probe import NativeProbe, ProbeError
from pgassay.probe.analysis.probe_plan import KB, Facilities
from pgassay.probe.measuring.probe_files import Files
from pgassay.probe.measuring.probe_location import ProbeLocation

_ENGINES: tuple[Engine, ...] = ("null", "sync", "worker", "io_uring", "hybrid")
_TRIAL_BYTES = 4 << 20
_TRIAL_S = 0.05


def try_facilities(
    native: NativeProbe,
    files: Files,
    place: ProbeLocation,
    *,
    execute_ns: int,
    vary_read_ahead: bool,
    major: int = FIRST_MAJOR,
) -> tuple[Facilities, dict[str, str]]:
    """What works, and for what doesn't one sentence with the remedy, by its name.

    Raises MeasurementError when not even plain reads work.
    """
    missing: dict[str, str] = {}
    direct = _works(
        native, files, "direct", CellSpec(engine="sync", cache="direct", pattern="random"), missing
    )
    engines = []
    for engine in _ENGINES:
        spec = CellSpec(engine=engine, cache="cached", pattern="sequential", request_bytes=128 * KB, depth=2)
        if _works(native, files, engine, spec, missing):
            engines.append(engine)
    if "sync" not in engines:
        raise MeasurementError(f"The probe can't read {files.cold}: {missing['sync']}")
    cold = native.evict(files.cold) == 0
    if not cold:
        missing["cold"] = (
            f"The kernel keeps part of {files.cold} in its page cache, so nothing can be read cold: end what "
            "uses the file, or let the probe make one of its own."
        )
    kb = _read_ahead(place)
    facilities = Facilities(
        engines=tuple(engines),
        cores=machine.cores_usable(),
        direct=direct,
        cold=cold,
        read_ahead_kb=kb,
        can_set_read_ahead=vary_read_ahead and kb is not None and os.geteuid() == 0,
        can_write=place.folder is not None,
        execute_ns_per_page=execute_ns,
        major=major,
    )
    return facilities, missing


def _read_ahead(place: ProbeLocation) -> int | None:
    from pgassay.environment.linux.device import read_ahead_kb

    return None if place.device.name is None else read_ahead_kb(place.device)


def _works(native: NativeProbe, files: Files, name: str, spec: CellSpec, missing: dict[str, str]) -> bool:
    request = {
        "file": str(files.cached),
        "first_block": 0,
        "blocks": _TRIAL_BYTES // (8 * KB),
        "duration_s": _TRIAL_S,
        "bytes_max": _TRIAL_BYTES,
    }
    try:
        native.cell(spec, request)
    except ProbeError as error:
        missing[name] = refusal(name, error)
        return False
    return True


def refusal(name: str, error: ProbeError) -> str:
    """Why an engine or direct I/O is left out, and what would let it in."""
    reason = str(error).rstrip(".")
    if name == "direct" or error.code == "direct-refused":
        return (
            f"Direct reads are refused by this file system ({reason}): all reads go through the page cache."
        )
    remedy = _remedy(error)
    return f"{name} is left out ({reason}): {remedy}" if remedy else f"{name} is left out: {reason}."


def _remedy(error: ProbeError) -> str:
    if error.errno == errno.EMFILE or error.code == "too-many-files":
        return "raise the limit of open files (ulimit -n 65536)."
    if error.errno == errno.ENOMEM:
        kilobytes = max(64, machine.memory_bytes() // 1024 // 1024)
        return f"raise the limit of locked memory (ulimit -l {kilobytes})."
    if error.code != "io-uring-refused":
        return ""
    if error.errno == errno.ENOSYS:
        return "this kernel was built without io_uring, another is needed."
    if _disabled() > 0:
        forbidden = f"the kernel forbids it (kernel.io_uring_disabled={_disabled()})"
        return f"{forbidden}: type sysctl kernel.io_uring_disabled=0."
    return (
        "a seccomp filter forbids io_uring_setup, as containers do: allow it in the profile of the container."
    )


def _disabled() -> int:
    try:
        return int(DISABLED_SETTING.read_text())
    except (OSError, ValueError):
        return 0
