"""Debian packages unpacked into a private folder: no root, no change to the host.

Standard library only: the set-up tool uses it before any Python package is installed.
"""

from pgassay.environment.debian.archive import Archive, has_apt, host_archive, suite_archive
from pgassay.environment.debian.toolbox import find_tool, tool
from pgassay.environment.debian.unpack import Unpacked, read_manifest, unpack

__all__ = [
    "Archive",
    "Unpacked",
    "find_tool",
    "has_apt",
    "host_archive",
    "read_manifest",
    "suite_archive",
    "tool",
    "unpack",
]
