"""sysbench for the tests that stand beside it: the machine's own, else one unpacked privately.

Only tests need it: pgassay makes sysbench's tables and runs its OLTP scripts itself.
"""

import shutil
from pathlib import Path

from steps.browser import library_folders
from steps.project import say

# Its own Lua files are where the package would have put them, or below the home folder (sb_lua.c).
_START_SCRIPT = """#!/bin/sh
export HOME='{home}'
export LD_LIBRARY_PATH='{libraries}'
exec '{program}' "$@"
"""
_LUA_BELOW_HOME = Path(".luarocks", "share", "lua", "5.1")


def provide_sysbench() -> None:
    """Unpack sysbench where there is none; say so, and go on, where it can't be had."""
    from pgassay.environment.debian import has_apt, host_archive, unpack
    from pgassay.errors import UsageError

    if shutil.which("sysbench") or (private_bin() / "sysbench").is_file():
        say("sysbench: in place")
        return
    if not has_apt():
        say("sysbench: not found, so the tests beside it are skipped (install sysbench)")
        return
    say("sysbench: unpacking it for the tests …")
    try:
        unpack(("sysbench",), host_archive("sysbench"), private_bin().parent, finish=write_start_script)
    except UsageError as error:
        say(f"sysbench: the tests beside it are skipped. {error}")
        return
    say("sysbench: done")


def private_bin() -> Path:
    """The folder of the program that is unpacked here, for the end of PATH."""
    from pgassay.environment.home import home_path

    return home_path() / "tools" / "sysbench" / "bin"


def write_start_script(root: Path, final: Path) -> None:
    """Write the script that starts sysbench with its own libraries and Lua files, into the tree at `root`.

    The tree is then moved to `final`.
    """
    lua = root / "home" / _LUA_BELOW_HOME
    lua.parent.mkdir(parents=True)
    lua.symlink_to(final / "usr/share/sysbench")
    script = root / "bin" / "sysbench"
    script.parent.mkdir(exist_ok=True)
    libraries = ":".join(str(final / folder.relative_to(root)) for folder in library_folders(root))
    script.write_text(
        _START_SCRIPT.format(home=final / "home", libraries=libraries, program=final / "usr/bin/sysbench")
    )
    script.chmod(0o755)
