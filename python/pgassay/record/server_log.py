"""The server's log of one trial, read back."""

from pathlib import Path

from pgassay.record import layout


def server_log(trial: Path) -> str:
    """The log's text; '' when there is none, or it can't be read: nothing but marks in time rests on it."""
    try:
        return (trial / layout.SERVER_LOG_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
