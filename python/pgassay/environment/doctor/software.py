"""Builds, io_uring, the native binary, the servers' account, and where further builds come from."""

import shutil
import sys

from pgassay.environment.builds.inspect import IO_METHOD_MAJOR_MIN
from pgassay.environment.builds.io_uring_gates import io_uring_gate
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.debian import has_apt
from pgassay.environment.doctor.base import missing, ok, warning
from pgassay.environment.home import account
from pgassay.environment.server.programs import user_name
from pgassay.errors import UsageError
from pgassay.model.build import Build
from pgassay.model.machines.doctor import Finding
from pgassay.native.binary import binary, remedy

GROUP = "software"
MAJOR_MIN = 16
TO_INSTALL = "18"


def builds_found() -> list[Finding]:
    """The builds at hand, and whether one of them can use io_uring."""
    builds = [build for origin in ORIGINS for build in origin.builds()]
    usable = [build for build in builds if build.major >= MAJOR_MIN]
    if not usable:
        old = f"only {_names(builds)}, older than {MAJOR_MIN}" if builds else "none"
        remedy = f"pgassay builds install {TO_INSTALL}"
        return [
            missing(GROUP, "builds", f"PostgreSQL builds: {old}", remedy, builds=[]),
            missing(GROUP, "io_uring", "io_uring: no build to use it", remedy),
        ]
    names = [f"{build.origin}:{build.version}" for build in usable]
    return [
        ok(GROUP, "builds", f"PostgreSQL builds: {_names(usable)}", builds=names),
        _io_uring(usable),
    ]


def _names(builds: list[Build]) -> str:
    return ", ".join(f"{build.version} ({build.origin})" for build in builds)


def _io_uring(builds: list[Build]) -> Finding:
    able = [build for build in builds if build.major >= IO_METHOD_MAJOR_MIN]
    gates = [(build, io_uring_gate(build)) for build in able or builds]
    passing = [build for build, gate in gates if gate is None]
    if passing:
        return ok(GROUP, "io_uring", f"io_uring: usable by {_names(passing)}")
    # The build's own gate is judged first, so the latest gate is the one that the best build reaches.
    order = {"build": 0, "kernel": 1, "limits": 2}
    _, gate = max(gates, key=lambda item: order.get(item[1].name, 0) if item[1] else 0)
    if gate is None:
        raise AssertionError("every build has a gate here")
    return missing(
        GROUP,
        "io_uring",
        f"io_uring: prevented by the {gate.name} ({gate.reason})",
        gate.remedy,
        gate=gate.name,
    )


def native_binary() -> list[Finding]:
    """The measuring process, of this very version."""
    try:
        path = binary()
    except UsageError as error:
        return [missing(GROUP, "native", f"native binary: {error}", remedy())]
    return [ok(GROUP, "native", f"native binary: {path}", path=str(path))]


def servers_account() -> list[Finding]:
    """Who runs the servers."""
    try:
        owner = account()
        name = owner.name if owner else user_name()
    except UsageError as error:
        remedy = "useradd --system postgres, or run pgassay as an ordinary user with a name"
        return [missing(GROUP, "account", f"account for servers: {error}", remedy)]
    how = "root hands them to it" if owner else "the account that runs pgassay"
    return [ok(GROUP, "account", f"account for servers: {name} ({how})", account=name)]


def origins() -> list[Finding]:
    """The clients that further builds can be had by; whether a mirror answers is not tried."""
    found = [
        ("apt", has_apt(), "Debian and Ubuntu packages are unpacked with it; not needed for other builds"),
        ("npm", shutil.which("npm") is not None, "install Node.js, or use another origin of builds"),
        ("pip", _has_pip(), f"{sys.executable} -m ensurepip, or use another origin of builds"),
    ]
    return [
        ok(GROUP, name, f"{name}: installed, so it can provide builds")
        if there
        else warning(GROUP, name, f"{name}: not installed, so it can't provide builds", remedy)
        for name, there, remedy in found
    ]


def _has_pip() -> bool:
    import importlib.util

    return importlib.util.find_spec("pip") is not None or shutil.which("pip", path=sys.prefix) is not None
