"""Paths as typed, with `~` as the shell has it. Standard library only."""

import re
from pathlib import Path

_IN_A_TEXT = re.compile(r"(?<=[:=+,])~[\w.-]*(?=/)")


def typed_path(text: str) -> Path:
    """A path as typed: the `~` of a user who is not there stays what it is."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def typed_paths(text: str) -> str:
    """A text as typed with paths behind `:`, `=`, `+` or `,`, where the shell leaves `~` alone."""
    return _IN_A_TEXT.sub(lambda match: str(typed_path(match[0])), text)
