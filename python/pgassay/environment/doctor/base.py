"""What the checks share: how a finding is made, and how a small file of the kernel is read."""

from collections.abc import Callable
from pathlib import Path

from pgassay.model.machines.doctor import Finding

# A check answers with one or more findings; it leaves the machine as it was.
Check = Callable[[], list[Finding]]


def ok(group: str, name: str, text: str, **figures: object) -> Finding:
    """A finding that needs nothing."""
    return Finding(name=name, group=group, status="ok", text=text, figures=figures)


def missing(group: str, name: str, text: str, remedy: str, **figures: object) -> Finding:
    """Something that can't be had here."""
    return Finding(name=name, group=group, status="missing", text=text, remedy=remedy, figures=figures)


def warning(group: str, name: str, text: str, remedy: str, **figures: object) -> Finding:
    """Something that works and may disturb what is measured."""
    return Finding(name=name, group=group, status="warning", text=text, remedy=remedy, figures=figures)


def read(path: str | Path) -> str:
    """A small file's content without blanks around it; '' where it is not there or not to be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
