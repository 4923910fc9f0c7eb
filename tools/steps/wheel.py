"""The wheel: the package with its native binary, for every Python, and for Linux that is not too old.

A binary built here asks for this machine's C library. So it is linked by zig, which knows the symbols of
older ones, and what comes out is read again by auditwheel: the file's name is true, or there is no file.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from steps.man_page import write_man_page
from steps.native_binary import PROGRAM
from steps.project import (
    PYTHON,
    ROOT,
    SetupError,
    fingerprint,
    is_stamped,
    run_quietly,
    say,
    write_stamp,
)
from steps.python_packages import pip_command
from steps.rust_toolchain import rust_environment

LOCK = ROOT / "tools" / "wheel.lock"
OUTPUT = ROOT / "dist"
# The oldest with statx(2), by which the probe asks a file for its alignment; of 2018 (RHEL 8, Debian 10).
GLIBC = "2.28"
# By what the kernel calls the machine: what Rust and wheels call it.
_MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
# Of <elf.h>: EM_X86_64 and EM_AARCH64.
_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_TOOLS = ROOT / ".cache" / "wheel-tools"
_TARGET_FOLDER = ROOT / "target" / "wheel"
_SETUP_SCRIPT = ROOT / "tools" / "wheel" / "setup.py"
_NETWORK_REMEDY = "check the network and pip's configuration, then type 'make wheel' again."


def make_wheel(machine: str | None = None) -> Path:
    """Build the wheel into dist/ and return it; raises SetupError where this machine can't.

    machine: that it is for, as the kernel calls it; None: this one.
    """
    machine, platform_tag, target = _platform(machine)
    is_foreign = machine != _MACHINES.get(platform.machine())
    environment = rust_environment()
    if is_foreign:
        _require_target(target.removesuffix(f".{GLIBC}"), environment)
    provide_linker()
    binary = _link_binary(target, environment)
    _check_machine(binary, machine)
    sources = _sources_within(binary) if is_foreign else _sources_of(binary)
    with tempfile.TemporaryDirectory(prefix="pgassay-wheel-") as folder:
        stage = Path(folder)
        _stage_package(stage, binary, sources)
        built = _pack(stage, platform_tag)
        _check(built, platform_tag)
        OUTPUT.mkdir(exist_ok=True)
        for older in OUTPUT.glob(f"pgassay-*_{machine}.whl"):
            older.unlink()
        wheel = OUTPUT / built.name
        shutil.copyfile(built, wheel)
    say(f"wheel: {wheel.relative_to(ROOT)}, {wheel.stat().st_size / 1e6:.1f} MB, for glibc {GLIBC} and newer")
    return wheel


def _platform(asked: str | None) -> tuple[str, str, str]:
    """The machine, the wheel's platform tag and Rust's name of the target with the C library's version."""
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise SetupError(
            f"A wheel is built for Linux on x86_64 or aarch64, on such a machine; this is {sys.platform} on "
            f"{platform.machine()}: use 'make setup' here."
        )
    if asked is not None and asked not in _MACHINES:
        raise SetupError(f"There is no wheel for '{asked}': type PLATFORM=x86_64 or PLATFORM=aarch64.")
    machine = machine if asked is None else _MACHINES[asked]
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    return machine, tag, f"{machine}-unknown-linux-gnu.{GLIBC}"


def _require_target(target: str, environment: dict[str, str]) -> None:
    """Raise SetupError where Rust has no standard library for another machine."""
    answer = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", target],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0 or not Path(answer.stdout.strip()).is_dir():
        raise SetupError(
            f"Rust has no standard library for {target} here: type 'rustup target add {target}', or build "
            "the wheel on such a machine."
        )


def provide_linker() -> None:
    """Install what tools/wheel.lock names into a folder of its own; SetupError where it can't be had."""
    inputs = fingerprint([LOCK], sys.version)
    stamp = _TOOLS / "pgassay-setup-stamp"
    if is_stamped(stamp, inputs):
        return
    say("wheel: fetching the linker …")
    shutil.rmtree(_TOOLS, ignore_errors=True)
    command = [
        *pip_command(),
        "install",
        "--quiet",
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    run_quietly([*command, "--target", _TOOLS, "-r", LOCK], _NETWORK_REMEDY)
    write_stamp(stamp, inputs)


def _link_binary(target: str, rust: dict[str, str]) -> Path:
    """Build the native binary for this target; cargo knows whether it has to."""
    say("wheel: building the native binary for it …")
    environment = rust | {
        "CARGO_ZIGBUILD_ZIG_PATH": str(_TOOLS / "ziglang" / "zig"),
        "CARGO_ZIGBUILD_CACHE_DIR": str(_TARGET_FOLDER / "zigbuild"),
        "ZIG_GLOBAL_CACHE_DIR": str(_TARGET_FOLDER / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(_TARGET_FOLDER / "zig"),
    }
    options = ["--release", "--locked", "--quiet", "--package", "pgassay-native"]
    places = ["--target", target, "--target-dir", _TARGET_FOLDER]
    run_quietly(
        [_TOOLS / "bin" / "cargo-zigbuild", "zigbuild", *options, *places],
        "see the lines above; where crates could not be fetched, check the network, then try again.",
        environment,
    )
    return _TARGET_FOLDER / target.removesuffix(f".{GLIBC}") / "release" / PROGRAM


def _stage_package(stage: Path, binary: Path, sources: str) -> None:
    """Lay out the package as it is installed, its binary, man page and completions among it."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, stage / name)
    shutil.copyfile(_SETUP_SCRIPT, stage / "setup.py")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
    shutil.copytree(ROOT / "python", stage / "python", ignore=unwanted)
    programs = stage / "python" / "pgassay" / "bin"
    programs.mkdir()
    shutil.copyfile(binary, programs / PROGRAM)
    (programs / PROGRAM).chmod(0o755)
    (programs / f"{PROGRAM}.sources").write_text(f"{sources}\n")
    share = stage / "share"
    write_man_page(share / "man" / "man1" / "pgassay.1")
    for shell, place in COMPLETIONS.items():
        script = share / place
        script.parent.mkdir(parents=True)
        script.write_text(run_quietly([PYTHON, "-m", "pgassay.cli.main", "completion", shell], "see above."))


# Where shells look below a prefix that is on their path.
COMPLETIONS = {
    "bash": "bash-completion/completions/pgassay",
    "zsh": "zsh/site-functions/_pgassay",
    "fish": "fish/vendor_completions.d/pgassay.fish",
}


def _sources_of(binary: Path) -> str:
    """The checksum of the sources that the binary was built from, which must be those here."""
    from pgassay.native.binary import source_id

    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    sources = source_id(ROOT)
    if sources is None or answer.stdout.split()[2:] != [sources]:
        raise SetupError(
            f"{binary} answers {answer.stdout.strip()!r}, which is not of the sources here ({sources}): "
            "remove target/wheel and type 'make wheel' again."
        )
    return sources


def _sources_within(binary: Path) -> str:
    """The same of a binary for another machine, which can't be asked: it holds what it would answer."""
    from pgassay.native.binary import source_id

    sources = source_id(ROOT)
    if sources is None or sources.encode() not in binary.read_bytes():
        raise SetupError(
            f"{binary} is not of the sources here ({sources}): remove target/wheel and try again."
        )
    return sources


def _check_machine(binary: Path, machine: str) -> None:
    """Refuse a binary for another machine than its wheel, by its header (elf(5), e_machine)."""
    header = binary.read_bytes()[:20]
    found = int.from_bytes(header[18:20], "little") if header[:4] == b"\x7fELF" else 0
    if found != _ELF_MACHINES[machine]:
        raise SetupError(f"{binary} is for the machine number {found}, and the wheel for {machine}.")


def _pack(stage: Path, platform_tag: str) -> Path:
    """Let setuptools make the wheel; its files have the time of the last commit, so equal trees make equal
    wheels."""
    made = stage / "made"
    when = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    environment = os.environ | {
        "PGASSAY_WHEEL_PLATFORM": platform_tag,
        "SOURCE_DATE_EPOCH": when or "315532800",
    }
    command = [*pip_command(), "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run_quietly([*command, "--wheel-dir", made, stage], "see the lines above.", environment)
    (wheel,) = made.glob("*.whl")
    return wheel


def _check(wheel: Path, platform_tag: str) -> None:
    """Refuse a wheel that asks for more than its name says."""
    if not wheel.name.endswith(f"-py3-none-{platform_tag}.whl"):
        raise SetupError(f"setuptools called the wheel {wheel.name}, not -py3-none-{platform_tag}.whl.")
    environment = os.environ | {"PYTHONPATH": str(_TOOLS)}
    answer = run_quietly(
        [PYTHON, "-m", "auditwheel", "show", "--json", wheel], "see the lines above.", environment
    )
    found = json.loads(answer[answer.index("{") :])
    versions = found["versioned_symbols"]
    newest = max((_version(each) for each in versions.get("libc.so.6", [])), default=(0,))
    allowed = tuple(map(int, GLIBC.split(".")))
    strange = found["policy_upgrades"].get(platform_tag) or found["overall_tag"].startswith("linux")
    if strange or newest > allowed or _glibc_of(found["overall_tag"]) > allowed:
        raise SetupError(f"The wheel is no {platform_tag}, auditwheel says: {json.dumps(found)}")


def _version(symbols: str) -> tuple[int, ...]:
    return tuple(int(part) for part in symbols.rpartition("_")[2].split(".") if part.isdigit())


def _glibc_of(tag: str) -> tuple[int, ...]:
    """(2, 28) of manylinux_2_28_x86_64."""
    return tuple(int(part) for part in tag.split("_")[1:3])
