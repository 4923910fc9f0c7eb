"""`pgassay volumes mount VOLUME FOLDER`: a volume imitated for any program, until Ctrl-C."""

import argparse
import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pgassay.cloud_volumes.catalogue import LoadedCatalogue
    from pgassay.native.volume import Overhead, Second
    from pgassay.storage.imitated_device import ServedImage

MOUNT = "mount"
_USED_BYTES_DEFAULT = 4 << 30
_SECOND_TIMEOUT_S = 1.5


def run(arguments: argparse.Namespace, loaded: "LoadedCatalogue") -> int:
    """Mount, tell each second what is delivered, and remove everything at the end."""
    from pathlib import Path

    from pgassay.cloud_volumes.explain import text_of
    from pgassay.cloud_volumes.parse import parse_volume
    from pgassay.cloud_volumes.volume_limits import model_of
    from pgassay.environment.cleanup import registry
    from pgassay.errors import UsageError
    from pgassay.storage.delivered_rates import unsteady_way
    from pgassay.storage.image import size_for
    from pgassay.storage.imitated_device import ServedImage, ceiling_refusal, why_not
    from pgassay.value_syntax.quantities import size_bytes

    words = arguments.volumes[1:]
    if len(words) != 2:
        raise UsageError(
            "'pgassay volumes mount' needs a volume and a folder: type mount gp3,size=100GiB FOLDER"
        )
    ordered = parse_volume(words[0], loaded.catalogue)
    model = model_of(ordered, loaded.catalogue, text_of(ordered))
    held_bytes = ordered.size_gib << 30
    used_bytes = min(_USED_BYTES_DEFAULT, held_bytes)
    if arguments.used is not None:
        used_bytes = size_bytes(arguments.used, "--used")
    if used_bytes > held_bytes:
        raise UsageError(
            f"--used {arguments.used} is more than {model.name} holds: leave it out, or choose a larger size"
        )
    folder = _empty_folder(Path(words[1]))
    if (reason := why_not()) is not None:
        raise UsageError(reason)
    for sentence in registry.sweep():
        print(sentence, file=sys.stderr)
    served = ServedImage(folder, size_for(used_bytes), used_bytes, None, is_users=True)
    try:
        beyond = ceiling_refusal(model, served.ceiling())
        if beyond is not None and not arguments.closest:
            raise UsageError(beyond.replace("add closest=yes", "type --closest"))
        overhead = served.measure_overhead()
        served.set_write_cache(is_volatile=model.latency.flush.median_ns > 0)
        served.impose(model.model_dump(mode="json"), seed=1)
        served.mount()
        mounted = {
            "volume": model.name,
            "catalogue_date": str(loaded.catalogue.date),
            **_facts(served, folder, overhead),
            "unsteady_way": unsteady_way(overhead, model),
            "unlocked": served.unlocked,
            "waits_for_writes": served.waits_for_writes,
            "beyond_ceiling": beyond,
        }
        _tell_begin(mounted, as_json=arguments.json)
        _tell_seconds(served, as_json=arguments.json)
    except KeyboardInterrupt:
        pass
    finally:
        served.remove()
    return 0


def _facts(served: "ServedImage", folder: "Path", overhead: "Overhead") -> dict[str, object]:
    """Where it is, and what the way through the kernel takes."""
    return {
        "folder": str(folder),
        "device": str(served.node),
        "size_bytes": served.size_bytes,
        "in_memory": served.is_in_memory,
        "overhead_us": overhead["p50_ns"] / 1e3,
        "overhead_range_us": [overhead["low_ns"] / 1e3, overhead["high_ns"] / 1e3],
    }


def _empty_folder(folder: "Path") -> "Path":
    from pgassay.environment.linux.mounts import mounted_at
    from pgassay.errors import UsageError

    if not folder.is_dir() or any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not an empty folder: create one for the volume, as mkdir {folder}.volume"
        )
    # What is unmounted at the end is all that is mounted there.
    if mounted := mounted_at(folder.resolve()):
        raise UsageError(
            f"{mounted[-1].source} is mounted at {folder}: create a folder in it, as mkdir {folder}/volume"
        )
    return folder.resolve()


def _tell_begin(mounted: "Mapping[str, object]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"mounted": mounted}), flush=True)
        return
    print(f"{mounted['volume']} is mounted at {mounted['folder']} ({mounted['device']}) until Ctrl-C.")
    print(f"Catalogue of {mounted['catalogue_date']}. The path through the kernel takes ", end="")
    print(f"{mounted['overhead_us']:.0f} µs, which is part of the volume's latency.")
    for doubt in ("unsteady_way", "unlocked", "waits_for_writes", "beyond_ceiling"):
        if mounted[doubt] is not None:
            print(mounted[doubt])
    print(
        f"{'reads/s':>10} {'writes/s':>10} {'MB/s':>9} {'queue ms':>9} {'own µs':>8}  credits left",
        flush=True,
    )


def _tell_seconds(served: "ServedImage", *, as_json: bool) -> None:
    """Until the process that serves has ended, which raises MeasurementError."""
    while True:
        second = served.server.next_second(_SECOND_TIMEOUT_S)
        if second is None:
            continue
        print(json.dumps({"second": second}) if as_json else _line(second), flush=True)


def _line(second: "Second") -> str:
    elapsed_s = second["elapsed_s"]
    requests = second["reads"] + second["writes"]
    megabytes = (second["bytes_read"] + second["bytes_written"]) / 1e6
    credits = ", ".join(
        f"{level['limiter']}{'' if level['volume'] is None else ' ' + str(level['volume'] + 1)} "
        f"{level['credits']:,}"
        for level in second["credits"]
    )
    return (
        f"{second['reads'] / elapsed_s:10,.0f} {second['writes'] / elapsed_s:10,.0f} "
        f"{megabytes / elapsed_s:9,.1f} {second['queued_ms'] / max(requests, 1):9.2f} "
        f"{second['own_delay_us']['p50']:8.1f}  {credits or '–'}"
    )
