"""Which sources a native binary is made of: two builds of one version may speak different documents."""

import os
import zlib
from pathlib import Path

_WORKSPACE_FILES = ("Cargo.lock", "Cargo.toml")
_CRATES = "crates"
_SUFFIXES = (".rs", ".toml")


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
