"""Tables near the age at which PostgreSQL freezes them whatever else is going on.

Evidence: the age of relfrozenxid beside autovacuum_freeze_max_age.
Threshold: three quarters of it: from there on a forced run, which takes no notice of locks that it blocks,
can begin on a busy day. Prediction: no statement becomes faster; it is told for its risk, and not tried.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.finders.base import Finder, Offer
from pgassay.tune.finders.evidence.building import place
from pgassay.tune.finders.evidence.evidence import Evidence

AGE_SHARE_MIN = 0.75
_DEFAULT_MAX_AGE = 200_000_000
UNTRIED = "no statement becomes faster by it: it is told for its risk, and not tried"


def _find(evidence: Evidence) -> Iterator[Offer]:
    limit = evidence.setting("autovacuum_freeze_max_age", _DEFAULT_MAX_AGE)
    old = [
        table
        for table in evidence.facts.tables
        if table.kind in ("table", "materialized view")
        and (table.transactions_age or 0) >= AGE_SHARE_MIN * limit
        and table.pages
    ]
    if not old:
        return
    old.sort(key=lambda table: (-(table.transactions_age or 0), table.name))
    yield Offer(
        Candidate(
            id="freeze",
            layer="operations",
            kind="freeze",
            title=f"Freeze {len(old)} table{'s' if len(old) > 1 else ''} at a time of your choice",
            reason=f"{old[0].name} is {old[0].transactions_age or 0:,} transactions old; at "
            f"{limit:,.0f} a forced "
            f"VACUUM begins, of {sum(table.pages for table in old):,} pages in all",
            statements=(),
            sql=tuple(f"VACUUM (FREEZE) {place(table)}" for table in old),
            undoable=False,
            physical=True,
            described=True,
            why_not=UNTRIED,
            bytes=0,
        ),
        without_gain=True,
    )


FREEZE = Finder("freeze", "operations", ("freeze",), _find)
