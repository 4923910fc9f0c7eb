"""Where the native binary is, and whether it was built from the Rust sources beside it.

Needs nothing but the standard library: the set-up asks for the checksum before anything is installed.
"""

import functools
import os
import subprocess
import zlib
from pathlib import Path

from pgassay import __version__
from pgassay.errors import UsageError

_PROGRAM = "pgassay-native"
_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_VERSION_TIMEOUT_S = 10
_WORKSPACE_FILES = ("Cargo.lock", "Cargo.toml")
_CRATES = "crates"
_SUFFIXES = (".rs", ".toml")
# In a wheel the sources are not there; what they were stands beside the binary.
_SOURCES = _PACKAGE / "bin" / f"{_PROGRAM}.sources"


def remedy() -> str:
    """What to type where the binary is missing or another one: in a checkout, else where it was installed."""
    if (_CHECKOUT / _CRATES).is_dir():
        return "type `make setup` in pgassay's folder"
    return "install pgassay again, from a wheel that `make wheel` built in pgassay's folder for this platform"


def binary() -> Path:
    """The native binary of this very version of pgassay, built from the Rust sources beside it.

    Looked for at $PGASSAY_NATIVE, in the checkout's target/release, and beside the package in pgassay/bin.

    Raises:
        UsageError: there is none, or it is of another version or of other sources.
    """
    given = os.environ.get("PGASSAY_NATIVE")
    if given:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"$PGASSAY_NATIVE names {given}, where there is no file; correct or unset it.")
    else:
        places = [_CHECKOUT / "target" / "release" / _PROGRAM, _PACKAGE / "bin" / _PROGRAM]
        found = [place for place in places if place.is_file()]
        if not found:
            raise UsageError(f"The native binary {_PROGRAM} has not been built; {remedy()}.")
        path = found[0]
    _check_version(path, path.stat().st_mtime_ns)
    return path


def build_id() -> str:
    """The checksum of the sources that the binary of `binary` was built from. Raises UsageError as that."""
    path = binary()
    return _check_version(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _check_version(path: Path, _modified_ns: int) -> str:
    # Once per file: a rebuilt binary has another time of modification.
    try:
        finished = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"The native binary {path} can't be run ({error}); {remedy()}.") from error
    answer = finished.stdout.strip()
    if answer.split()[:2] != [_PROGRAM, __version__]:
        raise UsageError(
            f"The native binary {path} answers {answer!r}, not version {__version__}; {remedy()}."
        )
    # A build of the same version may still speak documents of yesterday.
    sources = source_id(_CHECKOUT) or _recorded_sources()
    if sources is not None and answer.split()[2:] != [sources]:
        raise UsageError(f"The native binary {path} was not built from the Rust sources here; {remedy()}.")
    return " ".join(answer.split()[2:])


def _recorded_sources() -> str | None:
    """The checksum of the sources of the binary that was installed with the package; None without one."""
    try:
        return _SOURCES.read_text(encoding="ascii").strip()
    except OSError:
        return None


def source_id(root: Path) -> str | None:
    """Eight hexadecimal digits that change with the Rust sources below `root`; None where there are none.

    CRC-32 over the files in the order of their names: name, zero, content, zero. `crates/native/build.rs`
    computes the same and compiles it in; a few milliseconds. Raises OSError when a file can't be read.
    """
    names = [name for name in _WORKSPACE_FILES if (root / name).is_file()]
    for folder, _, files in os.walk(root / _CRATES):
        inside = os.path.relpath(folder, root)
        names += [f"{inside}/{name}" for name in files if name.endswith(_SUFFIXES)]
    if len(names) <= len(_WORKSPACE_FILES):
        return None
    value = 0
    for name in sorted(names):
        content = (root / name).read_bytes()
        value = zlib.crc32(b"".join((os.fsencode(name), b"\0", content, b"\0")), value)
    return f"{value:08x}"
