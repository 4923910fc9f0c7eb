"""Two diagnoses of a server beside each other, statement by statement."""

from pgassay import __version__
from pgassay.model.running_server.diagnosis import CalledStatement, Diagnosis
from pgassay.model.running_server.diagnosis_change import ChangedStatement, DiagnosisChange

_ONLY = (
    "Two observations of a server are not an experiment: its load may have changed. pgassay compare decides."
)


def change_of(before: Diagnosis, after: Diagnosis) -> DiagnosisChange:
    """What is otherwise in the second; statements are known by their number, else by their text."""
    return DiagnosisChange(
        pgassay_version=__version__,
        server=after.server.name,
        started_at_before=before.started_at,
        started_at_after=after.started_at,
        seconds_before=before.seconds,
        seconds_after=after.seconds,
        headline_before=before.headline,
        headline_after=after.headline,
        activity_before=before.activity,
        activity_after=after.activity,
        statements=_statements(before, after),
        notes=(*_unlike(before, after), _ONLY),
    )


def _unlike(before: Diagnosis, after: Diagnosis) -> list[str]:
    said = []
    if before.server.name != after.server.name:
        said.append(f"They are from two servers: {before.server.name} and {after.server.name}.")
    if before.server.version != after.server.version:
        said.append(f"The server was {before.server.version}, and is {after.server.version}.")
    if before.started_at > after.started_at:
        said.append("The first file is the later one: name the earlier file first.")
    return said


def _statements(before: Diagnosis, after: Diagnosis) -> tuple[ChangedStatement, ...]:
    was, now = _seen(before), _seen(after)
    made = [_changed(was.get(key), now.get(key)) for key in {**was, **now}]
    return tuple(sorted(made, key=lambda each: -max(each.share_before or 0.0, each.share_after or 0.0)))


class _Seen:
    """A statement of one diagnosis: what was counted of it, and its share of the time."""

    def __init__(self, query_id: str | None, query: str) -> None:
        self.query_id, self.query = query_id, query
        self.share: float | None = None
        self.calls_s: float | None = None
        self.mean_ms: float | None = None

    def count(self, counted: CalledStatement, seconds: float) -> None:
        """Take what pg_stat_statements counted."""
        self.calls_s, self.mean_ms = counted.calls / seconds, counted.mean_ms


def _seen(diagnosis: Diagnosis) -> dict[str, _Seen]:
    found: dict[str, _Seen] = {}
    for counted in diagnosis.statements or ():
        seen = found.setdefault(counted.query_id, _Seen(counted.query_id, counted.query))
        seen.count(counted, diagnosis.seconds)
    for each in diagnosis.by_statement:
        key = each.query_id or each.query
        found.setdefault(key, _Seen(each.query_id, each.query)).share = each.share
    return found


def _changed(was: _Seen | None, now: _Seen | None) -> ChangedStatement:
    one = now or was
    assert one is not None, "a statement is in only one of them"
    mean_before = was.mean_ms if was is not None else None
    mean_after = now.mean_ms if now is not None else None
    return ChangedStatement(
        query_id=one.query_id,
        query=one.query,
        share_before=was.share if was is not None else None,
        share_after=now.share if now is not None else None,
        calls_s_before=was.calls_s if was is not None else None,
        calls_s_after=now.calls_s if now is not None else None,
        mean_ms_before=mean_before,
        mean_ms_after=mean_after,
        times_as_fast=mean_before / mean_after if mean_before and mean_after else None,
    )
