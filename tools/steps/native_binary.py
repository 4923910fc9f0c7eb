"""The native binary, target/release/pgassay-native, built by cargo from the locked crates."""

import subprocess

from steps.project import ROOT, fingerprint, is_stamped, run_quietly, say, write_stamp
from steps.rust_toolchain import rust_environment

PROGRAM = "pgassay-native"
BINARY = ROOT / "target" / "release" / PROGRAM
STAMP = ROOT / "target" / "pgassay-setup-stamp"
# What `make bench` measures the program beside; nothing else needs it.
BARE_LOOP = "pgassay-floor"


def provide_native_binary() -> None:
    """Build the program, and no other, unless its sources are those of the last build."""
    sources = [
        path for path in (ROOT / "crates").rglob("*") if path.is_file() and path.suffix in (".rs", ".toml")
    ]
    inputs = fingerprint([ROOT / "Cargo.toml", ROOT / "Cargo.lock", *sources])
    if is_stamped(STAMP, inputs) and _is_of_these_sources():
        say("native binary: in place")
        return
    say("native binary: building …")
    build(PROGRAM)
    write_stamp(STAMP, inputs)
    say("native binary: done")


def build(package: str) -> None:
    """Build the program of one package; to optimise it as a whole takes longer than to compile its parts."""
    run_quietly(
        ["cargo", "build", "--release", "--locked", "--quiet", "--package", package],
        "see the lines above; where crates could not be fetched, check the network, then type 'make setup' "
        "again.",
        rust_environment(),
    )


def _is_of_these_sources() -> bool:
    """Whether the binary names the checksum of the sources; cargo may have been called by hand since."""
    from pgassay.native.binary import source_id

    try:
        finished = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return finished.stdout.split()[2:] == [source_id(ROOT)]
