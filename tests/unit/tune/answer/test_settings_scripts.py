"""Settings in apply.sql and undo.sql: what ALTER SYSTEM had set before is kept, and put back."""

from pglast import parse_plpgsql, parse_sql

import tune_samples as samples
from pgassay.analysis.redaction.redacted_tuning import redacted
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate


def candidate(**changes: object) -> Candidate:
    known: dict[str, object] = {
        "id": "work_mem", "layer": "infrastructure", "kind": "memory", "title": "more memory for sorts",
        "reason": "", "statements": ("slow",), "settings": {"work_mem": "64MB"},
    }  # fmt: skip
    return Candidate.model_validate(known | changes)


SETTING = candidate()


def test_a_value_that_alter_system_had_set_is_kept_before_it_is_overwritten() -> None:
    applied, undone = apply_script([SETTING], None), undo_script([SETTING], None)
    kept = next(line for line in applied.splitlines() if "postgresql.auto.conf" in line)
    assert "(VALUES ('work_mem', '64MB'))" in kept and applied.index(kept) < applied.index(
        "ALTER SYSTEM SET work_mem"
    )
    assert "every session" in applied
    # Put back by undo.sql, of whichever of several fixes each is; the table goes at the end.
    assert "FROM public.pgassay_settings_kept k" in undone and undone.count("DROP TABLE") == 1
    # Not with what another script has put there.
    assert undone.rstrip().endswith(
        "SELECT 'DROP TABLE public.pgassay_settings_kept' "
        "WHERE NOT EXISTS (SELECT FROM public.pgassay_settings_kept) \\gexec"
    )


def test_what_an_earlier_script_has_set_is_what_was_before_and_what_this_one_has_set_is_not() -> None:
    """As after a second tuning, and when the script is run again."""
    applied = apply_script([SETTING], None)
    kept = next(line for line in applied.splitlines() if line.startswith("INSERT INTO"))
    assert "(s.name, COALESCE(f.setting, '')) NOT IN (('work_mem', '64MB'))" in kept
    parse_sql(kept)
    # Nor is what another of its fixes has set.
    more = candidate(id="more", settings={"work_mem": "128MB", "jit": "off"})
    both = [line for line in apply_script([SETTING, more], None).splitlines() if line.startswith("INSERT")]
    own = "NOT IN (('work_mem', '64MB'), ('work_mem', '128MB'), ('jit', 'off'))"
    assert len(both) == 2 and all(own in line for line in both)


def test_a_second_tuning_leaves_what_the_first_one_needs_and_either_tells_what_it_leaves() -> None:
    """What is kept has a row for each value that was given, so that undo.sql of either finds its own."""
    first, second = (candidate(id="m", settings={"work_mem": each}) for each in ("64MB", "128MB"))
    assert "ON CONFLICT" not in apply_script([second], None)
    undone = undo_script([first], None)
    told, restored, deleted = (
        next(line for line in undone.splitlines() if line.startswith(words))
        for words in ("DO ", "SELECT CASE WHEN", "DELETE FROM")
    )
    for line in (told, restored, deleted):
        assert "WHERE (k.name, k.given) IN (('work_mem', '64MB'))" in line and "128MB" not in line
    # Only what is as this script left it is restored; of anything else it is said that it stays.
    assert restored.endswith("mine WHERE mine.is_own \\gexec") and "RAISE WARNING" in told
    assert undone.index(told) < undone.index(restored) < undone.index(deleted)
    parse_plpgsql(told)
    for line in (restored.removesuffix("\\gexec"), deleted):
        parse_sql(line)


def test_what_is_pgassays_own_in_a_script_is_no_literal_of_the_users() -> None:
    undone = undo_script([SETTING], None)
    hidden = redacted(samples.answer().model_copy(update={"undo_sql": undone})).undo_sql
    assert hidden == undone
