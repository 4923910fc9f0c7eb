"""Tablespaces of a copied cluster: folders inside it, but for pg_upgrade, which wants links before 19.

A server opens both alike (allow_in_place_tablespaces, src/backend/commands/tablespace.c). A recovery takes a
folder for a leftover and stops, unless that setting is on (src/backend/access/transam/xlogrecovery.c,
CheckTablespaceDirectory).
"""

from pathlib import Path

from pgassay.environment.server.programs import make_private_folder
from pgassay.model.build import Build

_LINKS = "pg_tblspc"
_MOVED = "tablespaces"
# From these releases on a recovery looks for folders, and knows the setting.
_LOOKS_SINCE = {13: 8, 14: 5}


def recovery_settings(build: Build) -> dict[str, str]:
    """The setting with which a server recovers a copy that has its tablespaces inside."""
    minor = build.version.partition(".")[2]
    knows = build.major > max(_LOOKS_SINCE) or (
        minor.isdigit() and int(minor) >= _LOOKS_SINCE.get(build.major, int(minor) + 1)
    )
    return {"allow_in_place_tablespaces": "on"} if knows else {}


def lead_outside(cluster: Path, place: Path) -> None:
    """Move the tablespaces of a stopped cluster into a folder of `place`, and leave links to them."""
    moved = place / _MOVED
    for folder in sorted((cluster / _LINKS).iterdir()):
        if not moved.exists():
            make_private_folder(moved)
        folder.rename(moved / folder.name)
        folder.symlink_to(moved / folder.name)


def bring_inside(cluster: Path, major: int) -> None:
    """Make folders of the links of a stopped cluster: of each what belongs to its major version."""
    for link in sorted((cluster / _LINKS).iterdir()):
        if not link.is_symlink():
            continue
        target = link.readlink()
        link.unlink()
        make_private_folder(link)
        for own in sorted(target.glob(f"PG_{major}_*")):
            own.rename(link / own.name)
