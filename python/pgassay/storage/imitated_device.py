"""An imitated block device: the native server, a loop device on its file, and XFS on that.

What it holds lies in locked memory where that suffices, so that the host's own disk is no part of it; else in
a file. It is made new each time, and gone at the end. Until a model is imposed it answers at once: data are
copied onto it as fast as the machine allows, and what is measured has the volume's speed.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pgassay.durable import replace_file
from pgassay.environment.cgroup.caps import usable_processors
from pgassay.environment.cleanup import registry
from pgassay.environment.cleanup.imitated_devices import end_volume, stop_serving
from pgassay.environment.debian import tool
from pgassay.environment.home import SystemAccount, account, home
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.volumes.offer import VolumeModel
from pgassay.native.binary import build_id
from pgassay.native.process import StatementError
from pgassay.native.volume import Overhead, Second, VolumeServer
from pgassay.storage.file_copies import free_bytes, make_folder
from pgassay.storage.image import SECTOR_BYTES, AttachedImage, missing
from pgassay.storage.image_memory import fits_in_memory, has_swap
from pgassay.storage.storage_options import readable_bytes

# Of the reads that pass while nobody else works: who uses the volume takes the rest. Where the server takes
# four fifths of a processor, a tenth of the answers is late.
CEILING_SHARE = 0.6
# No request waits for others, and each is one of the server's; what they took is counted.
_QUEUE = {"scheduler": "none", "max_sectors_kb": "1024", "iostats": "1"}
_CEILING_FILE = "volume-ceiling.json"
_CEILING_FORMAT = 3
SERVED_NO_MORE = (
    "The process that serves the imitated volume has ended, so every request of it fails: "
    "see the kernel's log, and start the experiment again with resume."
)
_HOST_SPARE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Ceiling:
    """The most that this machine can imitate: random reads of 8 kB, and bytes in sequence, a second."""

    random_reads_per_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Taken:
    """Reads and writes that a block device has done, and the sum of what each took, in milliseconds."""

    requests: int
    ms: int


class ServedImage:
    """An image of `size_bytes` with an empty XFS at `root`, of which about `needed_bytes` will be written.

    `is_users`: the folder is the user's and stays; else it is pgassay's, for the account of its servers.
    `on_host`: the image is a file even where memory would do. `beside`: another one, whose process serves
    this one too where it lives, by this `name`, so that both can share the limits of an instance.
    Raises UsageError when the machine lacks what it takes.
    """

    def __init__(
        self,
        root: Path,
        size_bytes: int,
        needed_bytes: int,
        owner: SystemAccount | None,
        *,
        is_users: bool = False,
        on_host: bool = False,
        beside: "ServedImage | None" = None,
        name: str = "",
    ) -> None:
        self.root = root
        self.size_bytes = size_bytes
        self.is_in_memory = not on_host and fits_in_memory(size_bytes, needed_bytes)
        self.overhead: Overhead | None = None
        self._beside = None if beside is None or beside.has_ended else beside.server
        self._name = name
        work = home() / "data" / "work"
        make_folder(work, account())
        self._below = work / f"volume-below-{secrets.token_hex(8)}"
        self._token = registry.register("volume", path=str(self._below))
        self._server: VolumeServer | None = None
        self._attached: AttachedImage | None = None
        try:
            self._below.mkdir(mode=0o700)
            if self.is_in_memory:
                self._server = self._served(None)
            else:
                with _image_file(size_bytes, needed_bytes) as image:
                    self._server = self._served(image)
            self._attached = AttachedImage(self.server.file, root, owner, is_users=is_users)
            self._attached.attach(self._make_file_system)
            for name, value in _QUEUE.items():
                self._set_queue(name, value)
        except BaseException:
            self.remove()
            raise

    @property
    def server(self) -> VolumeServer:
        """Who serves; raises MeasurementError after its end."""
        if self._server is None or self._server.has_ended:
            raise MeasurementError(SERVED_NO_MORE)
        return self._server

    @property
    def has_ended(self) -> bool:
        """Whether nobody serves any more."""
        return self._server is None or self._server.has_ended

    @property
    def unlocked(self) -> str | None:
        """That the image may leave memory, in a sentence; None where it can't."""
        if self._server is None or self._server.is_locked or not self.is_in_memory or not has_swap():
            return None
        return (
            "the image of the imitated volumes can't be locked in memory, so swapped-out "
            "parts answer late: give pgassay the capability CAP_IPC_LOCK, raise the limit of locked memory "
            "(ulimit -l unlimited), or turn swap off"
        )

    @property
    def waits_for_writes(self) -> str | None:
        """That who serves may wait for the very writes that it is to serve, in a sentence; None else."""
        if self._server is None or self._server.is_flusher:
            return None
        return (
            "the process that serves the imitated volumes may wait for writes to them when memory is "
            "short, since the kernel refused PR_SET_IO_FLUSHER: give pgassay the capability "
            "CAP_SYS_RESOURCE, or leave memory free"
        )

    @property
    def attached(self) -> AttachedImage:
        """The loop device and its mount."""
        if self._attached is None:
            raise AssertionError("it is attached when it is made")
        return self._attached

    @property
    def node(self) -> Path:
        """The block device."""
        return Path(f"/dev/{self.attached.device.name}")

    def check(self) -> None:
        """Raises MeasurementError where nobody serves any more."""
        _ = self.server

    def set_write_cache(self, *, is_volatile: bool) -> None:
        """Say whether the device holds back writes until it is flushed; else the kernel sends no flush."""
        self._set_queue("write_cache", "write back" if is_volatile else "write through")

    def _set_queue(self, name: str, value: str) -> None:
        with contextlib.suppress(OSError):
            Path(f"/sys/block/{self.attached.device.name}/queue/{name}").write_text(value)

    def measure_overhead(self) -> Overhead:
        """Find out what the way through the kernel takes here, which is taken from every latency then."""
        self.overhead = self.server.measure_overhead(self.node)
        return self.overhead

    def ceiling(self) -> Ceiling:
        """This machine's ceiling, measured once for each kernel, number of processors and native binary."""
        file = home() / _CEILING_FILE
        machine = {
            "format": _CEILING_FORMAT,
            "kernel": os.uname().release,
            "cpus": usable_processors(),
            "binary": build_id(),
        }
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            stored = json.loads(file.read_text())
            if {key: stored[key] for key in machine} == machine:
                return Ceiling(float(stored["random_reads_per_s"]), float(stored["bytes_per_s"]))
        # A machine that is busy for a moment has no lower ceiling.
        found = [Ceiling(*self.server.measure_ceiling(self.node)) for _ in range(3)]
        best = Ceiling(
            CEILING_SHARE * max(each.random_reads_per_s for each in found),
            max(each.bytes_per_s for each in found),
        )
        with contextlib.suppress(OSError):
            replace_file(file, json.dumps({**machine, **asdict(best)}).encode())
        return best

    def taken(self) -> Taken:
        """What the block device has done since it was attached (Documentation/block/stat.rst of Linux)."""
        numbers = [int(word) for word in (Path("/sys/block") / self.node.name / "stat").read_text().split()]
        return Taken(numbers[0] + numbers[4], numbers[3] + numbers[7])

    def impose(
        self,
        model: Mapping[str, object],
        seed: int,
        trace: Path | None = None,
        instance: Mapping[str, object] | None = None,
    ) -> None:
        """Answer as the model says, its credits at their beginning; `trace`: record in this new file.

        `instance`: limits that are shared with the volume beside it, while it has the same. Raises as
        `release`.
        """
        try:
            self.server.impose(model, seed, trace, instance)
        except MeasurementError:
            self.check()
            raise

    def mount(self) -> None:
        """Show it in the user's folder, where whoever uses it is answered as the model says."""
        self.attached.mount()

    def release(self) -> list[Second]:
        """Answer at once again; returns what was delivered. Raises MeasurementError where nobody serves."""
        try:
            return self.server.release()
        except MeasurementError as error:
            # One that lives and does not answer would keep all who use the volume waiting.
            stop_serving(self._below)
            raise MeasurementError(SERVED_NO_MORE) from error

    def remove(self) -> None:
        """Unmount, detach, end; may be called in any state."""
        if self._attached is not None:
            self._attached.detach()
        if self._server is not None:
            self._server.end()
        end_volume(self._below)
        registry.forget(self._token)

    def _served(self, image: Path | None) -> VolumeServer:
        def give_up() -> None:
            # Whoever waits for the volume, a server first of all, goes on then, and says that it failed.
            stop_serving(self._below)

        size_bytes = self.size_bytes if image is None else None
        try:
            return VolumeServer(
                self._below,
                size_bytes=size_bytes,
                image=image,
                on_hung=give_up,
                beside=self._beside,
                name=self._name,
            )
        except StatementError as error:
            raise UsageError(
                f"An imitated volume can't be served here ({error}): use --storage loop."
            ) from error

    def _make_file_system(self, node: Path) -> None:
        command = [str(tool("mkfs.xfs")), "-q", "-f", "-K", "-m", "reflink=1", "-s", f"size={SECTOR_BYTES}"]
        done = subprocess.run([*command, str(node)], capture_output=True, text=True)
        if done.returncode != 0:
            raise MeasurementError(f"mkfs.xfs failed on {node}: {done.stderr.strip()}")


def why_not() -> str | None:
    """What this machine lacks for an imitated volume, with the remedy; None when nothing."""
    if os.geteuid() != 0:
        return (
            "An imitated volume is a block device, which only root may make: "
            "run as root, or see what pgassay volumes VOLUME --simulate says of it."
        )
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return (
            "An imitated volume needs FUSE and /dev/fuse is missing: type modprobe fuse, give the container "
            "this device, or see what pgassay volumes VOLUME --simulate says of it."
        )
    reason = missing()
    if reason is None:
        return None
    # It lies on a loop device, and where there is none the simulator is what is left.
    words = reason.replace("Loop storage", "An imitated volume")
    return words.replace("use --storage host", "see what pgassay volumes VOLUME --simulate says of it")


def ceiling_refusal(model: VolumeModel, ceiling: Ceiling) -> str | None:
    """Why this machine can't keep up with the volume, in a sentence; None where it can."""
    for unit, most, words in (
        ("operations", ceiling.random_reads_per_s, "{:,.0f} random reads a second"),
        ("bytes", ceiling.bytes_per_s, "{:,.0f} bytes a second"),
    ):
        peaks = [
            limiter.peak * (model.stripes.count if limiter.scope == "volume" else 1)
            for limiter in model.limiters
            if limiter.unit == unit
        ]
        if peaks and min(peaks) > most:
            return (
                f"{model.name} gives up to {words.format(min(peaks))} and this machine can imitate "
                f"{words.format(most)}: choose a smaller "
                "volume, or add closest=yes to imitate it as well as possible."
            )
    return None


@contextlib.contextmanager
def _image_file(size_bytes: int, needed_bytes: int) -> Iterator[Path]:
    """A file with holes, for what memory can't hold; once it is open it needs no name any more."""
    images = home() / "images"
    images.mkdir(exist_ok=True)
    if free_bytes(images) < needed_bytes + _HOST_SPARE_BYTES:
        raise UsageError(
            f"The volume's data take {readable_bytes(needed_bytes)}, more than memory can spare, and "
            f"{readable_bytes(free_bytes(images))} are free at {images}: use a smaller --scale."
        )
    folder = images / f"volume-{secrets.token_hex(8)}"
    token = registry.register("folder", path=str(folder))
    folder.mkdir(mode=0o700)
    try:
        image = folder / "image"
        with image.open("xb") as opened:
            opened.truncate(size_bytes)
        yield image
    finally:
        shutil.rmtree(folder)
        registry.forget(token)
