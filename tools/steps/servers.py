"""A PostgreSQL 18 with io_uring where the machine can have one, and what a loop storage needs."""

import os
import sys

from steps.project import PYTHON, ROOT, run_openly, say

MAJOR = "18"


def provide_postgresql() -> None:
    """Take an installed 18 with io_uring, else unpack one; runs in the project's own environment."""
    run_openly([PYTHON, "-m", __name__], os.environ | {"PYTHONPATH": str(ROOT / "tools")})


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

    try:
        build = resolve(MAJOR)
    except UsageError:
        if not has_apt():
            raise UsageError(
                f"This machine has no PostgreSQL {MAJOR} and no apt to unpack one with: install PostgreSQL "
                f"{MAJOR} with the machine's package manager, then type 'make setup' again."
            ) from None
        build = None
    if build is None or (not build.has_io_uring and has_apt()):
        say(f"postgresql: unpacking {MAJOR} privately …")
        build = install(f"apt:{MAJOR}")
    note = "" if build.has_io_uring else ", without io_uring"
    say(f"postgresql: {build.version} of origin {build.origin}{note}, {build.bin_directory}")


if __name__ == "__main__":
    from pgassay.errors import PgassayError as _PgassayError

    try:
        _provide()
    except _PgassayError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
