"""Tables beyond the age at which PostgreSQL freezes them whatever else is going on.

Evidence: the ages of relfrozenxid and relminmxid beside autovacuum_freeze_max_age and
autovacuum_multixact_freeze_max_age (src/backend/commands/vacuum.c, vacuum_get_cutoffs).
Threshold: a quarter beyond either. Below it is ordinary life: a table reaches the age, is frozen by
autovacuum, and begins again. Beyond it autovacuum is switched off, too slow, or held up, and PostgreSQL
refuses commands in the end. Prediction: no statement becomes faster; it is told for its risk, and not tried.
"""

from collections.abc import Iterator

from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import TableFacts
from pgassay.tune.finders.base import Finder, FinderOffer
from pgassay.tune.finders.evidence.building import place, shown
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence

AGE_TIMES_MIN = 1.25
_DEFAULT_MAX_AGE, _DEFAULT_MULTIXACT_MAX_AGE = 200_000_000, 400_000_000
UNTRIED = "it makes no statement faster: it is reported for its risk, not tested"


def _find(evidence: FinderEvidence) -> Iterator[FinderOffer]:
    limits = {
        "transactions": evidence.setting("autovacuum_freeze_max_age", _DEFAULT_MAX_AGE),
        "multixacts": evidence.setting("autovacuum_multixact_freeze_max_age", _DEFAULT_MULTIXACT_MAX_AGE),
    }
    old: list[tuple[float, TableFacts, str, int]] = []
    for table in evidence.facts.tables:
        if table.kind not in ("table", "materialized view") or not table.pages:
            continue
        ages = {"transactions": table.transactions_age or 0, "multixacts": table.multixacts_age or 0}
        kind = max(ages, key=lambda name: ages[name] / limits[name])
        if ages[kind] >= AGE_TIMES_MIN * limits[kind]:
            old.append((ages[kind] / limits[kind], table, kind, ages[kind]))
    if not old:
        return
    old.sort(key=lambda each: (-each[0], each[1].name))
    _, worst, kind, age = old[0]
    yield FinderOffer(
        Candidate(
            id="freeze",
            layer="operations",
            kind="freeze",
            title=f"Freeze {len(old)} table{'s' if len(old) > 1 else ''} that autovacuum does not reach",
            reason=f"{shown(worst)} is {age:,} {kind} old, and autovacuum should have frozen it at "
            f"{limits[kind]:,.0f}: it is switched off, too slow, or held up by an old transaction, a "
            f"prepared one or a replication slot; {sum(each[1].pages for each in old):,} pages in all",
            statements=(),
            sql=tuple(f"VACUUM (FREEZE) {place(each[1])}" for each in old),
            undoable=False,
            physical=True,
            described=True,
            why_not=UNTRIED,
            bytes=0,
        ),
        without_gain=True,
    )


FREEZE = Finder("freeze", "operations", ("freeze",), _find)
