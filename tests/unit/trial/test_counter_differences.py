"""The statistics views between two snapshots, whatever became of their counters meanwhile."""

from pgassay.trial.snapshots.counters import Snapshot, difference, reset_views


def of(commits: float, read: float) -> Snapshot:
    return {"pg_stat_database": {(): {"xact_commit": commits, "blks_read": read}}}


def test_counters_that_were_reset_are_what_was_counted_since() -> None:
    """There were more commits after the reset than before it, and fewer blocks read."""
    before, after = of(1000.0, 9e6), of(1200.0, 50.0)
    assert difference(before, after) == {"pg_stat_database": [{"xact_commit": 1200.0, "blks_read": 50.0}]}
    assert reset_views(before, after) == ("pg_stat_database",)
    assert difference(before, of(1100.0, 9e6)) == {
        "pg_stat_database": [{"xact_commit": 100.0, "blks_read": 0.0}]
    }
    assert reset_views(before, of(1100.0, 9e6)) == ()


def test_a_table_that_was_made_anew_is_no_reset() -> None:
    def table(scans: float) -> Snapshot:
        return {"pg_stat_user_tables": {("public", "t"): {"seq_scan": scans}}}

    assert reset_views(table(7.0), table(2.0)) == ()
    assert difference(table(7.0), table(2.0))["pg_stat_user_tables"][0]["seq_scan"] == 2.0
