"""Traps of comparing the settings of asynchronous I/O, found in the plan: levels that can't differ, or that
shared buffers don't let differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgassay.environment.server.setting_values import parse_number
from pgassay.environment.server.settings import SHARED_BUFFERS_SHIPPED
from pgassay.model import aio
from pgassay.model.arm import Arm, ArmSpec
from pgassay.model.base import PAGE_BYTES

IO_SETTINGS = (
    *("io_method", "io_workers", "io_min_workers", "io_max_workers", "effective_io_concurrency"),
    *("maintenance_io_concurrency", "io_combine_limit", "io_max_combine_limit", "io_max_concurrency"),
)
_OF_LOOK_AHEAD = ("io_method", "io_workers", "effective_io_concurrency", "io_combine_limit")
_CONCURRENCIES = ("effective_io_concurrency", "maintenance_io_concurrency")
_OF_WORKERS = ("io_workers", "io_min_workers", "io_max_workers")
_OF_METHOD = {
    **dict.fromkeys(_OF_WORKERS, frozenset({"worker"})),
    "io_max_concurrency": frozenset({"worker", "io_uring"}),
}
_DEFAULT_METHOD = "worker"
_DEFAULT_CONCURRENCY = 16
_COMBINE_BYTES = 128 * 1024
_SHARED_BUFFERS_STEP = 64 << 20
# A range that is most of its table is read by a sequential scan; the stored plans tell.
_ROWS_OF_SYSBENCH = "single rows and (unless a plan says otherwise) ranges by index"


@dataclass(frozen=True)
class _Room:
    """The shared buffers of an arm, and those with which every process may pin all of its look-ahead."""

    has_bytes: int
    needs_bytes: int


def io_warnings(
    arms: Sequence[Arm], base: ArmSpec, compared: str, block_bytes: int = PAGE_BYTES
) -> Iterator[str]:
    """A sentence for each trap; arms of versions before 18, which lack the settings, fall into none.

    block_bytes: the builds' size of a page.
    """
    modern = [arm for arm in arms if arm.spec.build.major >= aio.COMMANDS_SINCE]
    if compared in _OF_LOOK_AHEAD and modern:
        yield from _pinned(modern, block_bytes)
    if compared in IO_SETTINGS:
        yield from _without_effect(modern, compared)
        yield from _beyond_handles(modern, compared, block_bytes)
        yield from _of_index_reads(base)


def _pinned(arms: Sequence[Arm], block_bytes: int) -> Iterator[str]:
    rooms = [_look_ahead_room(arm, block_bytes) for arm in arms]
    room = min(rooms, key=lambda each: each.has_bytes / each.needs_bytes)
    if room.has_bytes < room.needs_bytes:
        enough = -(-room.needs_bytes // _SHARED_BUFFERS_STEP) * _SHARED_BUFFERS_STEP >> 20
        caps = [arm.spec.memory_bytes >> 20 for arm in arms if arm.spec.memory_bytes is not None]
        remedy = f"set shared_buffers={'1GB' if enough <= 1024 else f'{enough}MB'}"
        if caps and min(caps) < 4096:
            # A quarter of the memory that the servers get, as far as that is enough.
            most = min(caps) // 4
            remedy = (
                f"set shared_buffers={enough}MB"
                if enough <= most
                else f"name at least --memory {4 * enough}MB with shared_buffers={enough}MB"
            )
        yield (
            f"shared_buffers is {room.has_bytes >> 20} MB: below about {room.needs_bytes >> 20} MB a backend "
            "may not pin its whole look-ahead, which can hide a difference between I/O methods "
            f"({remedy})"
        )


def _look_ahead_room(arm: Arm, block_bytes: int) -> _Room:
    settings = arm.spec.settings
    reads = min(_concurrency(settings, "effective_io_concurrency"), _handles(settings, block_bytes))
    combined = parse_number(settings.get("io_combine_limit", ""), "B") or _COMBINE_BYTES
    has_bytes = _shared_blocks(settings, block_bytes) * block_bytes
    return _Room(has_bytes, round((reads + 1) * combined) * _processes(settings))


def _without_effect(arms: Sequence[Arm], compared: str) -> Iterator[str]:
    """A setting that an arm's I/O method does not read."""
    used_by = _OF_METHOD.get(compared)
    methods = {_method(arm) for arm in arms}
    idle = sorted(methods - used_by) if used_by else []
    if used_by and idle:
        yield (
            f"{compared} is only used by io_method={' and '.join(sorted(used_by))}: "
            f"with io_method={' or '.join(idle)} its levels are the same"
        )


def _beyond_handles(arms: Sequence[Arm], compared: str, block_bytes: int) -> Iterator[str]:
    """More reads wanted in flight than a process has handles for (src/backend/storage/aio/aio.c,
    pgaio_io_acquire: it waits for one of its own). With io_method=sync nothing is in flight."""
    if compared not in (*_CONCURRENCIES, "io_max_concurrency"):
        return
    names = _CONCURRENCIES if compared == "io_max_concurrency" else (compared,)
    for name in names:
        beyond: dict[int, list[int]] = {}
        for arm in arms:
            settings = arm.spec.settings
            wanted, handles = _concurrency(settings, name), _handles(settings, block_bytes)
            if _method(arm) != "sync" and wanted > handles:
                beyond.setdefault(handles, []).append(wanted)
        for handles, wanted_by in beyond.items():
            levels = sorted(set(wanted_by))
            yield (
                f"{name}={','.join(map(str, levels))} is more than io_max_concurrency, "
                f"which is {handles} here: no process has more than {handles} reads in flight, only its "
                f"look-ahead and its ring of buffers grow (set io_max_concurrency={levels[-1]} in all arms)"
            )


def _of_index_reads(base: ArmSpec) -> Iterator[str]:
    if base.workload.kind != "load":
        return
    load = base.workload.load
    rows = "single rows by index" if load is None or load.of_sysbench is None else _ROWS_OF_SYSBENCH
    yield (
        f"the transactions of this load read {rows}, which no version up to 19 does "
        "asynchronously: a difference between I/O methods has another cause"
    )


def _method(arm: Arm) -> str:
    return arm.spec.settings.get("io_method", _DEFAULT_METHOD).casefold()


def _number(settings: Mapping[str, str], name: str, unit: str | None, default: int) -> int:
    value = parse_number(settings.get(name, ""), unit)
    return default if value is None else round(value)


def _concurrency(settings: Mapping[str, str], name: str) -> int:
    return _number(settings, name, None, _DEFAULT_CONCURRENCY)


def _processes(settings: Mapping[str, str]) -> int:
    known = {name: parse_number(text, None) for name, text in settings.items()}
    return aio.processes({name: round(value) for name, value in known.items() if value is not None})


def _shared_blocks(settings: Mapping[str, str], block_bytes: int) -> int:
    shown = settings.get("shared_buffers", SHARED_BUFFERS_SHIPPED)
    return round(parse_number(shown, f"{block_bytes // 1024}kB") or 0)


def _handles(settings: Mapping[str, str], block_bytes: int) -> int:
    """io_max_concurrency; -1, the default, follows shared buffers."""
    given = _number(settings, "io_max_concurrency", None, -1)
    if given > 0:
        return given
    return aio.default_io_max_concurrency(_shared_blocks(settings, block_bytes), _processes(settings))
