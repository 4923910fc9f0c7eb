"""Stored experiments as one small file each: packed the same way every time, without what nothing reads."""

import io
import lzma
import socket
import tarfile
from pathlib import Path

from project_files import unpack_archive

FOLDER = Path(__file__).with_name("experiments")
# Pages are made again from the rest; half of a long log is enough for what is read of it.
LEFT_OUT = {"report.html", "result.json"}
LOG_BYTES_MAX = 200_000
# The samplers' files are most of an experiment: these keep them, the others are what a run without them is.
OBSERVED = {
    "io-method-cold-each",
    "setting-warm-buffers",
    "grid-io-method-clients",
    "tpcb-synchronous-commit",
    "maintenance-vacuum",
    "storage-grid",
    "oltp-read-only",
    "versions",
    "fails-at-times",
    "resumed",
    "remote-swap",
    "remote-writes",
    "memory",
    "read-ahead",
    "covariate",
    "diagnosis",
}
HOST = "laboratory"


def place(experiment: str) -> Path:
    """Where an experiment is kept: with those whose names begin with the same word."""
    return FOLDER / experiment.partition("-")[0] / f"{experiment}.tar.xz"


def pack(folder: Path, target: Path) -> None:
    """Write FOLDER's files into one .tar.xz."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if not path.is_file() or path.name in LEFT_OUT or _is_thinned(folder.name, name):
                continue
            content = _neutral(path)
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _is_thinned(experiment: str, name: str) -> bool:
    return "/observations/" in name and experiment not in OBSERVED


def _neutral(path: Path) -> bytes:
    """The content, without the name of the machine that it was recorded on."""
    content = path.read_bytes()
    if path.suffix == ".json":
        content = content.replace(f'"{socket.gethostname()}"'.encode(), f'"{HOST}"'.encode())
    if path.name == "server.log" and len(content) > LOG_BYTES_MAX:
        content = content[: LOG_BYTES_MAX // 2] + content[-LOG_BYTES_MAX // 2 :]
    return content


def unpack(target: Path) -> list[str]:
    """Unpack every archive into a folder of its name below `target`; returns the names."""
    names = []
    for archive in sorted(FOLDER.glob("*/*.tar.xz"), key=lambda path: path.name):
        name = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as tar:
            unpack_archive(tar, target / name)
        names.append(name)
    return names
