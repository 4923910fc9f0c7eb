"""One recipe for all builds from source, as far as the machine's libraries and the tree's options go."""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.source_builds.build_tools import STATIC, BuildTools, OnStep, private_library

# Raised when the same words come to mean another build.
RECIPE_VERSION = 1
# Short and alike in all builds, since paths are compiled in; a server finds its files from where it stands.
PREFIX = "/pgsql"
# Programs that write sources, and what they are made from: what depends on them is not always said.
GENERATORS = (".pl", ".pm", ".py", ".sh", ".in")
# Each function in a section of its own, so that a linker can put them in another order.
C_ARGS = "-fno-omit-frame-pointer -ffunction-sections"
LINK_ARGS = "-Wl,-rpath,$ORIGIN/../lib"
# Option of the sources, its value with the library, pkg-config's name, Debian's package.
FEATURES = (
    ("icu", "enabled", "icu-i18n", "libicu-dev"),
    ("zlib", "enabled", "zlib", "zlib1g-dev"),
    ("lz4", "enabled", "liblz4", "liblz4-dev"),
    ("zstd", "enabled", "libzstd", "libzstd-dev"),
    ("ssl", "openssl", "openssl", "libssl-dev"),
    ("readline", "enabled", "readline", "libreadline-dev"),
    ("liburing", "enabled", "liburing", "liburing-dev"),
    ("libnuma", "enabled", "numa", "libnuma-dev"),
)
_FIXED = (
    f"--prefix={PREFIX}",
    "--libdir=lib",
    "--buildtype=debugoptimized",
    "--wrap-mode=nodownload",
    "-Dauto_features=disabled",
    f"-Dc_args={C_ARGS}",
    f"-Dc_link_args={LINK_ARGS}",
)
_ASSERTIONS, _ASSERTIONS_OF_MAKE = "cassert", "--enable-cassert"
_PER_TREE = (
    ("tap_tests", "disabled"),
    ("docs", "disabled"),
    ("docs_pdf", "disabled"),
    ("nls", "disabled"),
    ("rpath", "false"),
    ("injection_points", "false"),
)
_OPTION = re.compile(r"^option\('(\w+)'", re.MULTILINE)
# make and a shell read it before a linker does.
_LINK_ARGS_OF_MAKE = LINK_ARGS.replace("$ORIGIN/../lib", "'$$ORIGIN/../lib'")
_FIXED_OF_MAKE = (
    f"--prefix={PREFIX}",
    "--enable-depend",
    "--disable-rpath",
    f"CFLAGS=-O2 -g {C_ARGS}",
    f"LDFLAGS={_LINK_ARGS_OF_MAKE}",
)
_VALUES_OF_MAKE = {"ssl": "=openssl"}
_OPTION_OF_MAKE = re.compile(r"^  --with(?:out)?-(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """How a tree is built: options of `meson setup` or of `configure`, the compiler, what is not here.

    `lacking`: Debian packages of what the tree could use; `static`: those that are linked from private
    archives. `environment` is that of all programs.
    """

    options: tuple[str, ...]
    compiler: str
    lacking: tuple[str, ...]
    static: tuple[str, ...]
    environment: Mapping[str, str]
    by_make: bool = False

    @property
    def key(self) -> str:
        """A hash of all that decides what the compiler is given, the tree aside."""
        parts = [RECIPE_VERSION, self.compiler, self.environment["CC"], self.options, self.static]
        text = json.dumps(parts)
        return hashlib.sha256(text.encode()).hexdigest()


def has_assertions(options: Collection[str]) -> bool:
    """Whether a build with these options checks its assertions."""
    return f"-D{_ASSERTIONS}=true" in options or _ASSERTIONS_OF_MAKE in options


def recipe_of(tools: BuildTools, meson_options: str, on_step: OnStep, *, assertions: bool = False) -> Recipe:
    """The recipe for a tree whose meson_options.txt says which options it has."""
    known = set(_OPTION.findall(meson_options))
    per_tree = ((_ASSERTIONS, "true" if assertions else "false"), *_PER_TREE)
    given = [f"-D{name}={value}" for name, value in per_tree if name in known]
    used = _libraries(tools, known, on_step)
    given += [f"-D{name}={value}" for name, value, *_ in FEATURES if name in used.names]
    return _recipe(tools, (*_FIXED, *given), used)


def make_recipe_of(tools: BuildTools, configure: str, on_step: OnStep, *, assertions: bool = False) -> Recipe:
    """The same for a tree by what its script `configure` says of itself."""
    known = set(_OPTION_OF_MAKE.findall(configure))
    used = _libraries(tools, known | ({"ssl"} if "openssl" in known else set()), on_step)
    given = [_ASSERTIONS_OF_MAKE] if assertions else []
    for name, *_ in FEATURES:
        if name in used.names:
            # Until 13 there was one library alone.
            is_old = name not in known
            given.append("--with-openssl" if is_old else f"--with-{name}{_VALUES_OF_MAKE.get(name, '')}")
        elif name in known:
            given.append(f"--without-{name}")
    return _recipe(tools, (*_FIXED_OF_MAKE, *given), used, by_make=True)


@dataclass(frozen=True)
class _Libraries:
    """The features whose libraries are here, and what is not; the environment finds the private ones."""

    names: frozenset[str]
    lacking: tuple[str, ...]
    static: tuple[str, ...]
    environment: dict[str, str]


def _libraries(tools: BuildTools, known: set[str], on_step: OnStep) -> _Libraries:
    environment = dict(tools.environment)
    names: list[str] = []
    lacking: list[str] = []
    static: list[str] = []
    for name, _, library, package in FEATURES:
        if name not in known:
            continue
        if not _has(library, environment):
            folder = private_library(package, on_step) if package in STATIC else None
            if folder is None:
                lacking.append(package)
                continue
            static.append(package)
            _add_folders(environment, folder)
        names.append(name)
    return _Libraries(frozenset(names), tuple(lacking), tuple(static), environment)


def _recipe(
    tools: BuildTools, options: tuple[str, ...], used: _Libraries, *, by_make: bool = False
) -> Recipe:
    return Recipe(options, tools.compiler, used.lacking, used.static, used.environment, by_make)


def _add_folders(environment: dict[str, str], folder: Path) -> None:
    """Let pkg-config, the compiler and the linker find a private library: the sources pass on a part only."""
    found = {
        "PKG_CONFIG_PATH": folder,
        "LIBRARY_PATH": folder.parent,
        "C_INCLUDE_PATH": folder.parents[2] / "include",
    }
    for name, path in found.items():
        before = environment.get(name)
        environment[name] = f"{before}{os.pathsep}{path}" if before else str(path)


def _has(library: str, environment: Mapping[str, str]) -> bool:
    command = ["pkg-config", "--exists", library]
    return subprocess.run(command, env=dict(environment), capture_output=True, check=False).returncode == 0
