"""A capture's folder as data frames, for notebooks: `pgassay.open(folder)`."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from pgassay.model.traffic.capture_summary import CaptureSummary
from pgassay.traffic import manifest
from pgassay.traffic.blocks import files
from pgassay.traffic.events import BEGIN, END, CaptureEvent, events
from pgassay.traffic.statement_executions import statements
from pgassay.traffic.summary import family, summarise

_SESSION_KEYS = (
    *("session", "begin_s", "end_s", "user", "database", "application_name", "is_encrypted"),
    *("end", "sqlstate"),
)
_STATEMENT_KEYS = (
    *("session", "start_s", "end_s", "busy_ms", "text", "family", "protocol", "tag", "rows", "affected"),
    *("sqlstate", "in_pipeline"),
)


class OpenedCapture:
    """One capture. `manifest` is its manifest.json, `summary` what `pgassay capture show --json` prints."""

    def __init__(self, folder: str | Path) -> None:
        """Look at the folder; raises UsageError when it holds no capture or a newer one."""
        self.folder = Path(folder)
        files(self.folder)
        self.manifest = manifest.read(self.folder)

    @cached_property
    def summary(self) -> CaptureSummary:
        """The capture, summed up."""
        return summarise(self.folder)

    def events(self) -> Iterator[CaptureEvent]:
        """All that clients sent and the server answered, in the order of time."""
        return events(self.folder)

    @property
    def sessions(self) -> pa.Table:
        """One row per session; times in seconds from the capture's beginning, null where it has no end."""
        rows: dict[int, dict[str, object]] = {}
        for event in self.events():
            if event.kind == BEGIN and event.begin is not None:
                sent = event.begin.parameters
                rows[event.session] = dict.fromkeys(_SESSION_KEYS) | {
                    "session": event.session,
                    "begin_s": event.at_ns / 1e9,
                    "user": sent.get("user"),
                    "database": sent.get("database", sent.get("user")),
                    "application_name": sent.get("application_name"),
                    "is_encrypted": event.begin.is_encrypted,
                }
            elif event.kind == END and event.session in rows:
                rows[event.session] |= {
                    "end_s": event.at_ns / 1e9,
                    "end": event.reason,
                    "sqlstate": event.sqlstate or None,
                }
        return _table(list(rows.values()), _SESSION_KEYS)

    @property
    def statements(self) -> pa.Table:
        """One row per execution, in the order of their ends; `end_s` is null where no answer came."""
        rows: list[dict[str, object]] = []
        names: dict[str, str] = {}
        for each in statements(self.events()):
            if each.protocol == "sync":
                continue
            if each.text not in names:
                names[each.text] = family(each.text)
            rows.append(
                {
                    "session": each.session,
                    "start_s": each.start_ns / 1e9,
                    "end_s": None if each.end_ns is None else each.end_ns / 1e9,
                    "busy_ms": each.busy_ns / 1e6,
                    "text": each.text,
                    "family": names[each.text],
                    "protocol": each.protocol,
                    "tag": each.tag or None,
                    "rows": each.rows,
                    "affected": each.affected,
                    "sqlstate": each.sqlstate or None,
                    "in_pipeline": each.in_pipeline,
                }
            )
        return _table(rows, _STATEMENT_KEYS)


def _table(rows: list[dict[str, object]], columns: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_pylist(rows) if rows else pa.table({name: [] for name in columns})
