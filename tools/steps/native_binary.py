"""The native binary, target/release/pgassay-native, built by cargo from the locked crates."""

import subprocess

from steps.project import ROOT, fingerprint, is_stamped, run_quietly, say, write_stamp
from steps.rust_toolchain import rust_environment

PROGRAM = "pgassay-native"
BINARY = ROOT / "target" / "release" / PROGRAM
STAMP = ROOT / "target" / "pgassay-setup-stamp"
_SOURCE_FOLDERS = ("crates", "benchmarks/floor")
# A disk for some of the planted causes, with crates that pgassay itself does not need.
LATE_DISK = ROOT / "benchmarks" / "late" / "Cargo.toml"


def provide_native_binary() -> None:
    """Build the workspace unless its sources are those of the last build."""
    sources = [
        path
        for folder in _SOURCE_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in (".rs", ".toml")
    ]
    inputs = fingerprint([ROOT / "Cargo.toml", ROOT / "Cargo.lock", *sources])
    if is_stamped(STAMP, inputs) and _is_of_these_sources():
        say("native binary: in place")
        return
    say("native binary: building …")
    run_quietly(
        ["cargo", "build", "--release", "--locked", "--quiet"],
        "see the lines above; where crates could not be fetched, check the network, then type 'make setup' "
        "again.",
        rust_environment(),
    )
    write_stamp(STAMP, inputs)
    say("native binary: done")


def provide_late_disk() -> None:
    """Build the disk that answers late, beside the native binary; cargo knows whether it has to."""
    say("late disk: building …")
    places = ["--manifest-path", LATE_DISK, "--target-dir", BINARY.parents[1]]
    run_quietly(
        ["cargo", "build", "--release", "--locked", "--quiet", *places],
        "see the lines above; where crates could not be fetched, check the network, then try again.",
        rust_environment(),
    )
    say("late disk: done")


def _is_of_these_sources() -> bool:
    """Whether the binary names the checksum of the sources; cargo may have been called by hand since."""
    from pgassay.native.binary import source_id

    try:
        finished = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return finished.stdout.split()[2:] == [source_id(ROOT)]
