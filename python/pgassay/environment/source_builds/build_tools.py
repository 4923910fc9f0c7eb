"""The programs that a build needs: the machine's own, else Debian's, unpacked privately."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgassay.durable import replace_file
from pgassay.environment.debian import has_apt, host_archive, unpack
from pgassay.environment.debian.toolbox import finish as relocated
from pgassay.environment.home import home
from pgassay.errors import UsageError

OnStep = Callable[[str, float | None], None]
MESON_MIN = (0, 57)
# program: its Debian package. Those that can be unpacked run from anywhere; a compiler does not.
UNPACKED = {"meson": "meson", "ninja": "ninja-build", "bison": "bison", "flex": "flex"}
INSTALLED = {"cc": "gcc", "perl": "perl", "pkg-config": "pkg-config"}
# Of these a tree is built by the first two, or by the last.
MESON, MAKE = ("meson", "ninja"), "make"
# Small libraries that can be linked statically: Debian's package, how the names of its files begin.
STATIC = {
    "liburing-dev": ("liburing",),
    "liblz4-dev": ("liblz4", "lz4"),
    "libzstd-dev": ("libzstd", "zstd", "zdict"),
}
# What a shell happens to have must not decide how one revision is compiled and another is not.
_DROPPED = re.compile(
    r"(C|CPP|CXX|LD|BISON|FLEX)FLAGS$|PYTHON|PG|MAKE|NINJA|DESTDIR$|LIBRARY_PATH$|CPATH$|C_INCLUDE_PATH$"
    r"|COPT$|PROFILE$|CUSTOM_COPT$|LIBS$|(CC|CXX)_LD$|CONFIG_SITE$|COMPILER_PATH$|GCC_EXEC_PREFIX$"
    r"|LD_RUN_PATH$"
)
# What CC may have before the compiler's own name.
_CALLING = frozenset({"ccache", "distcc", "icecc", "sccache"})
_absent: set[str] = set()
_WRAPPER = '#!/bin/sh\nM4={m4} BISON_PKGDATADIR={share} exec {program} "$@"\n'


@dataclass(frozen=True)
class BuildTools:
    """What a build runs. `environment` is that of all its programs; `compiler` the first line of --version.

    `has_ccache`: compilers are called through ccache. `private`: names of programs that were unpacked.
    """

    meson: tuple[str, ...]
    ninja: str
    make: str
    environment: dict[str, str]
    compiler: str
    has_ccache: bool
    private: tuple[str, ...]


def find_tools(on_step: OnStep, *, by_make: bool = False) -> BuildTools:
    """Find what a build needs, unpacking what the machine lacks; raises UsageError naming packages.

    by_make: not by meson and ninja.
    """
    needed = INSTALLED | ({MAKE: MAKE} if by_make else {})
    _refuse_without(needed, [name for name in needed if shutil.which(_program(name)) is None])
    missing = [name for name in UNPACKED if not (by_make and name in MESON) and not _is_here(name)]
    environment = _clean_environment()
    meson: tuple[str, ...] = ("meson",)
    if missing:
        root = _unpacked(missing, on_step)
        environment["PATH"] = f"{root / 'usr/bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
        if "meson" in missing:
            # Debian's meson is Python alone: any interpreter runs it.
            environment["PYTHONPATH"] = str(root / "usr/lib/python3/dist-packages")
            meson = (sys.executable, str(root / "usr/bin/meson"))
    compiler = _program("cc")
    has_ccache = shutil.which("ccache") is not None
    environment["CC"] = f"ccache {compiler}" if has_ccache else compiler
    ninja = shutil.which("ninja", path=environment["PATH"]) or "ninja"
    return BuildTools(
        meson, ninja, MAKE, environment, _first_line([compiler, "--version"]), has_ccache, tuple(missing)
    )


def private_library(package: str, on_step: OnStep) -> Path | None:
    """Where pkg-config finds a package of STATIC, unpacked privately; None where it can't be had.

    Servers must find it wherever they stand, so only the archive and its headers are kept.
    """
    root = home() / "tools" / package
    if not root.is_dir():
        # Asked once in a process: two trees of one experiment must not differ by a moment without network.
        if not has_apt() or package in _absent:
            return None
        on_step(f"unpacking {package}", None)
        try:
            unpack((package,), host_archive(package), root, finish=partial(_keep_archive, STATIC[package]))
        except UsageError:
            _absent.add(package)
            return None
    return next((path.parent for path in root.glob("usr/lib/*/pkgconfig/*.pc")), None)


def _keep_archive(names: tuple[str, ...], root: Path, final: Path) -> None:
    """Leave what is compiled and linked with, and tell pkg-config where it will stand."""
    for path in root.rglob("*"):
        is_of_it = any(part.startswith(names) for part in path.relative_to(root).parts[2:])
        if (path.is_symlink() or path.is_file()) and not (is_of_it and path.suffix in (".a", ".pc", ".h")):
            path.unlink()
    for path in root.glob("usr/lib/*/pkgconfig/*.pc"):
        path.write_text(path.read_text().replace("=/usr", f"={final}/usr"))


def _unpacked(missing: Sequence[str], on_step: OnStep) -> Path:
    packages = [UNPACKED[name] for name in missing]
    if not has_apt():
        _refuse_without(UNPACKED, missing)
    root = home() / "tools" / f"source-{'-'.join(sorted(missing))}"
    if not all((root / "usr/bin" / name).is_file() for name in missing):
        on_step(f"unpacking {', '.join(packages)}", None)
        unpack((*packages, "m4"), host_archive("the tools to build PostgreSQL"), root, finish=_finish)
    # The whole home may have been moved since, and several may share these tools.
    _write_wrappers(root.resolve(), root.resolve())
    return root


def _finish(root: Path, final: Path) -> None:
    """flex and bison look for m4 and their own files where Debian has them; the sources' scripts clear M4."""
    relocated(root, final)
    for program in (root / "usr/bin" / name for name in ("flex", "bison")):
        if program.is_file():
            program.rename(program.with_suffix(".real"))
    _write_wrappers(root, final)


def _write_wrappers(root: Path, final: Path) -> None:
    """Let flex and bison below `root` find their files below `final`, where they don't already."""
    for program in root.glob("usr/bin/*.real"):
        wrapper = program.with_suffix("")
        words = {"m4": final / "usr/bin/m4", "share": final / "usr/share/bison"}
        text = _WRAPPER.format(program=final / "usr/bin" / program.name, **words)
        if not wrapper.is_file() or wrapper.read_text() != text:
            replace_file(wrapper, text.encode(), 0o755)


def _refuse_without(packages: dict[str, str], missing: Sequence[str]) -> None:
    if missing:
        names = " ".join(packages[name] for name in missing)
        raise UsageError(
            f"Building PostgreSQL needs {' and '.join(missing)}, which this machine lacks: install the "
            f"Debian packages {names}, or what your system calls them"
        )


def _program(name: str) -> str:
    """The compiler by a name that says which one it is, where there is one."""
    if name != "cc":
        return name
    words = os.environ.get("CC", "").split()
    # What calls it is left aside, and so are options, as CFLAGS are.
    named = next((word for word in words if Path(word).name not in _CALLING), "")
    return named or next(filter(shutil.which, ("gcc", "clang")), name)


def _is_here(name: str) -> bool:
    if shutil.which(name) is None:
        return False
    if name != "meson":
        return True
    version = re.match(r"(\d+)\.(\d+)", _first_line(["meson", "--version"]))
    return version is not None and (int(version[1]), int(version[2])) >= MESON_MIN


def _first_line(command: Sequence[str]) -> str:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return result.stdout.partition("\n")[0].strip()


def _clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _DROPPED.match(name)}
    return kept | {"LC_ALL": "C"}
