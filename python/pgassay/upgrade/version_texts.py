"""Statements that ask which version they run on, as drivers do when they connect: answers differ by right."""

import re

TELLS_VERSION = "it tells the server's version, so its values were not compared"
_ASKS = re.compile(
    r"(?<![.\w])(?:pg_catalog\s*\.\s*)?(?:version\s*\(\s*\)|current_setting\s*\(\s*'server_version(?:_num)?')"
    r"|^\s*show\s+server_version(?:_num)?\b",
    re.IGNORECASE,
)


def tells_version(sql: str) -> bool:
    """Whether the text asks for the server's version."""
    return _ASKS.search(sql) is not None
