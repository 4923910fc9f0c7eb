"""Rust for the native binary: cargo from PATH when it is new enough, else Debian's, unpacked privately."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from steps.project import ROOT, SetupError, say

# Debian backports newer toolchains to its older releases under these names.
_PACKAGE_SETS = (
    (("rustc-web", "cargo-web"), ("rustfmt-web", "rust-web-clippy")),
    (("rustc", "cargo"), ("rustfmt", "rust-clippy")),
)


def rust_environment() -> dict[str, str]:
    """Return the environment in which `cargo` is new enough; unpack a toolchain when none is.

    Raises SetupError when there is none to be had, or no C compiler to link with.
    """
    if shutil.which("cc") is None:
        raise SetupError(
            "Rust needs a C compiler to link with and there is no 'cc': install one "
            "(Debian: 'apt-get install gcc libc6-dev')."
        )
    needed = _version_needed()
    if cargo_version(os.environ.get("PATH")) >= needed:
        return dict(os.environ)
    from pgassay.environment.debian.relocate import library_folders

    private = _private_toolchain(needed)
    libraries = map(str, library_folders(private))
    return os.environ | {
        "PATH": os.pathsep.join([str(private / "usr" / "bin"), os.environ.get("PATH", os.defpath)]),
        "LD_LIBRARY_PATH": os.pathsep.join([*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]),
    }


def cargo_version(search_path: str | None, environment: dict[str, str] | None = None) -> tuple[int, int]:
    """Return (major, minor) of the cargo found on a search path; (0, 0) when there is none that runs."""
    cargo = shutil.which("cargo", path=search_path)
    if cargo is None or shutil.which("rustc", path=search_path) is None:
        return (0, 0)
    result = subprocess.run(
        [cargo, "--version"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.match(r"cargo (\d+)\.(\d+)", result.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version_needed() -> tuple[int, int]:
    with (ROOT / "Cargo.toml").open("rb") as stream:
        text = tomllib.load(stream)["workspace"]["package"]["rust-version"]
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _private_toolchain(needed: tuple[int, int]) -> Path:
    from pgassay.environment.debian import has_apt, host_archive, read_manifest, unpack
    from pgassay.environment.home import home

    wanted = ".".join(map(str, needed))
    destination = home() / "tools" / "rust"
    if read_manifest(destination) is not None:
        return destination
    refusal = (
        f"The native binary needs Rust {wanted} or newer and there is none on PATH: install it (rustup, or "
        "the machine's package manager), then type 'make setup' again."
    )
    if not has_apt():
        raise SetupError(refusal)
    archive = host_archive("Rust")
    archive.refresh()
    for packages, optional in _PACKAGE_SETS:
        candidates = archive.stanzas(packages)
        if len(candidates) == len(packages) and _is_new_enough(candidates[packages[1]]["version"], needed):
            say(f"rust: unpacking {' and '.join(packages)} privately …")
            unpack(packages, archive, destination, optional=optional)
            return destination
    raise SetupError(refusal)


def _is_new_enough(version: str, needed: tuple[int, int]) -> bool:
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= needed
