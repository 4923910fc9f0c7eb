"""Partitioning: in one transaction, with all that the table had, back with the rows as they are then."""

import re
from collections.abc import Sequence

import pytest

import tune_samples as samples
from finder_samples import COLUMNS, ROWS, facts, index, plan, symptom
from pgassay.sql_text import strip_comments
from pgassay.tune.answer.concurrently import whole_or_warned
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.answer.verdicts import ranked
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.schema import ColumnFacts, ConstraintFacts
from pgassay.tune.finders.registry import find

SEEN = plan("((b >= 100) AND (b < 300))", rows=ROWS // 10)
KEY = ConstraintFacts(name="t_pkey", kind="primary", columns=("id", "b"), definition="PRIMARY KEY (id, b)")
FOREIGN = ConstraintFacts(
    name="of it", kind="foreign", columns=("a",), referenced_schema="Other", referenced_table="u",
    referenced_columns=("id",), definition="FOREIGN KEY (a) REFERENCES u(id) ON DELETE CASCADE",
)  # fmt: skip


def columns(kind: str, *ends: str) -> Sequence[ColumnFacts]:
    changes = {"type": kind, "histogram": ends, "correlation": 0.1}
    return [each.model_copy(update=changes) if each.name == "b" else each for each in COLUMNS]


AN_IDENTITY = COLUMNS[0].model_copy(update={"identity": True})


def partitioned(*indexes: object, **fields: object) -> Candidate:
    given = {"pages": 2000, "columns": columns("integer", "1", "2000")} | fields
    known = facts(*indexes, **given)  # type: ignore[arg-type]  # indexes, as the samples make them
    read = SEEN.nodes[0].model_copy(update={"relation": known.tables[0].name})
    seen = symptom(SEEN.model_copy(update={"nodes": (read,)}), known=known)
    (found,) = [each for each in find(seen) if each.kind == "partitioning"]
    return found


def test_it_is_one_transaction_beside_which_nothing_is_written() -> None:
    found = partitioned()
    lines = [line for line in apply_script([found], None).splitlines() if line and line[:2] != "--"]
    begin, commit = lines.index("BEGIN;"), lines.index("COMMIT;")
    assert lines[begin + 1] == "ALTER TABLE public.t RENAME TO t_whole;"
    assert lines[commit - 1] == "END $pgassay$;"
    assert lines[commit + 1 :] == ["VACUUM (ANALYZE) public.t;", "\\endif"]
    # A script that broke off behind it is run again.
    assert lines[begin - 3 : begin - 1] == ["\\if :pgassay_done", "\\echo applied already"]
    assert found.in_order(found.sql)[0] == "BEGIN" and found.in_order(()) == ()


def test_taken_back_the_old_table_has_what_was_written_since() -> None:
    found = partitioned()
    undone = undo_script([found], None)
    assert undone.index("BEGIN;") < undone.index("TRUNCATE public.t_whole;")
    back = "INSERT INTO public.t_whole (id, a, b) SELECT id, a, b FROM public.t_parts;"
    assert (
        undone.index("TRUNCATE") < undone.index(back) < undone.index("DROP TABLE") < undone.index("COMMIT;")
    )
    # On the copy its rows would lie elsewhere: the data are put back.
    assert not found.is_restored_by_undo


def test_what_is_shown_of_it_is_the_transaction_too() -> None:
    at_once = samples.candidate(
        "parts", at_once=True, sql=("CREATE TABLE x ()", "VACUUM x"), undo=("DROP TABLE x",)
    )
    (shown,) = ranked(samples.of_one(candidates=(at_once,)))
    assert shown.sql == "BEGIN;\nCREATE TABLE x ();\nCOMMIT;\nVACUUM x;"
    assert shown.undo == "BEGIN;\nDROP TABLE x;\nCOMMIT;"


def test_keys_and_references_are_made_again() -> None:
    own = index("t_pkey", "id", "b", unique=True, primary=True, constraint="t_pkey")
    other = index(
        "x", "a", definition='CREATE INDEX "x ON public.u (a); DROP TABLE u; --" ON public.t USING btree (a)'
    )
    found = partitioned(own, other, constraints=(KEY, FOREIGN))
    assert "ALTER TABLE public.t_whole RENAME CONSTRAINT t_pkey TO t_pkey_whole" in found.sql
    assert found.sql[-6:-3] == (
        "CREATE INDEX ON public.t (a)",
        "ALTER TABLE public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id, b)",
        'ALTER TABLE public.t ADD CONSTRAINT "of it" FOREIGN KEY (a) '
        'REFERENCES "Other".u (id) ON DELETE CASCADE',
    )
    # Rows that stay behind would keep the rows that they refer to from being deleted.
    assert found.sql[-2:] == (
        'ALTER TABLE public.t_whole DROP CONSTRAINT "of it"',
        "VACUUM (ANALYZE) public.t",
    )


def test_a_foreign_key_to_a_partitioned_table_is_one_key() -> None:
    """The catalog has it once more for each partition: made again, those refuse rows of other partitions."""
    of_one = FOREIGN.model_copy(
        update={"name": "of it1", "of_partition": True, "definition": "FOREIGN KEY (a) REFERENCES u_1(id)"}
    )
    found = partitioned(constraints=(KEY, FOREIGN, of_one))
    (refuses,) = [each for each in found.sql if "since this script was made" in each]
    assert "w.conrelid = k.conrelid)) <> 1" in refuses
    assert not any("of it1" in each or "u_1" in each for each in (*found.sql, *found.undo))
    assert sum("FOREIGN KEY" in each for each in found.sql) == 1


def test_a_generated_column_is_no_partition_key() -> None:
    given = [each.model_copy(update={"generated": True}) for each in columns("integer", "1", "2000")]
    known = facts(pages=2000, columns=given)
    read = SEEN.nodes[0].model_copy(update={"relation": known.tables[0].name})
    seen = symptom(SEEN.model_copy(update={"nodes": (read,)}), known=known)
    assert not [each for each in find(seen) if each.kind == "partitioning"]


def test_the_tables_that_its_foreign_keys_refer_to_are_locked_and_that_is_said() -> None:
    """ADD FOREIGN KEY makes triggers on them, and dropping one takes ACCESS EXCLUSIVE there."""
    found = partitioned(constraints=(KEY, FOREIGN))
    for script in (apply_script([found], None), undo_script([found], None)):
        said = '-- Towards its end so are the tables that its foreign keys refer to: "Other".u.'
        lines = script.splitlines()
        assert lines.index(said) == lines.index("BEGIN;") - 1
    assert "foreign keys" not in apply_script([partitioned(constraints=(KEY,))], None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"views": ("looked",)}, "looked would keep using the old table"),
        ({"inherited": True}, "inherit"),
        ({"triggers": ("seen",)}, "triggers, rules, policies or an identity"),
        ({"has_rules": True}, "triggers, rules, policies or an identity"),
        ({"row_security": True}, "triggers, rules, policies or an identity"),
        ({"columns": [AN_IDENTITY, *columns("integer", "1", "2000")[1:]]}, "rules, policies or an identity"),
        ({"constraints": (FOREIGN.model_copy(update={"valid": False}),)}, "does not hold for all rows"),
        ({"constraints": (KEY.model_copy(update={"kind": "exclusion"}),)}, "exclusion"),
        ({"constraints": (KEY.model_copy(update={"definition": "PRIMARY NONSENSE ("}),)}, "made again"),
    ],
)
def test_what_would_be_lost_is_told_and_not_tried(fields: dict[str, object], words: str) -> None:
    found = partitioned(**fields)
    assert found.described and not found.sql and words in found.reason


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("date", "2020-01-01", "9999-12-31"),
        ("timestamp with time zone", "9999-12-28 00:00:00+00", "9999-12-31 00:00:00+00"),
        ("bigint", "1", str(2**63 - 1)),
        ("smallint", "32000", "32767"),
    ],
)
def test_a_last_value_that_stands_for_ever_ends_the_partitions(kind: str, first: str, last: str) -> None:
    found = partitioned(columns=columns(kind, first, last))
    bounds = [each.split("TO ('")[1].rstrip("')") for each in found.sql if "TO ('" in each]
    assert bounds[-1] == last.split()[0] and len(set(bounds)) == len(bounds) > 1


def test_partitions_of_an_unlogged_table_are_unlogged() -> None:
    made = [each for each in partitioned(unlogged=True).sql if " PARTITION OF " in each]
    assert made and all(each.startswith("CREATE UNLOGGED TABLE public.t_p") for each in made)
    assert not any("UNLOGGED" in each for each in partitioned().sql)


def test_names_of_partitions_differ_though_the_tables_name_is_long() -> None:
    found = partitioned(name="ä" * 31)
    names = [each.split()[2] for each in found.sql if " PARTITION OF " in each]
    assert len(set(names)) == 17 and all(len(each.encode()) <= 63 + len('public.""') for each in names)


def test_an_index_beside_it_is_made_on_the_new_tables_partitions() -> None:
    """Made before, it would be the old table's; and CONCURRENTLY is refused for a partitioned one."""
    first = samples.candidate("i", sql=("CREATE INDEX i ON public.t (a)",), undo=("DROP INDEX public.i",))
    applied = apply_script([first, partitioned()], facts())
    assert applied.index("COMMIT;") < applied.index("CREATE INDEX IF NOT EXISTS i ON ONLY public.t (a);")
    assert "CREATE INDEX CONCURRENTLY IF NOT EXISTS t_p17_i ON public.t_p17 (a);" in applied
    undone = undo_script([first, partitioned()], facts())
    assert undone.index("DROP INDEX IF EXISTS public.i;") < undone.index("BEGIN;")


@pytest.mark.parametrize(
    ("sql", "undo", "words"),
    [
        ("DROP INDEX public.x", "CREATE INDEX x ON public.t USING btree (a)", "has another name there"),
        (
            "ALTER TABLE public.t SET (fillfactor = 80)",
            "ALTER TABLE public.t RESET (fillfactor)",
            "Each of its partitions takes",
        ),
    ],
)
def test_what_a_partitioned_table_can_not_be_given_beside_it_is_told_and_not_run(
    sql: str, undo: str, words: str
) -> None:
    """The old index would go from the table that is put aside, and ALTER TABLE would end the script."""
    other = index("x", "a", definition="CREATE INDEX x ON public.t USING btree (a)")
    found = partitioned(other)
    known = facts(other, pages=2000, columns=columns("integer", "1", "2000"))
    fix = samples.candidate("beside", sql=(sql,), undo=(undo,))
    applied, undone = apply_script([found, fix], known), undo_script([found, fix], known)
    assert words in applied and f"\n-- {sql};\n" in applied
    assert "Nothing to take back" in undone and "INDEX CONCURRENTLY" not in applied + undone
    assert "\nALTER TABLE public.t SET" not in applied and "\nALTER TABLE public.t RESET" not in undone
    # Without partitioning it is run.
    assert "Nothing to take back" not in undo_script([fix], known)


def test_a_name_ends_neither_a_comment_nor_a_quoted_block() -> None:
    """Whoever made the data may have put SQL into the names that stand in a script."""
    name = "t$pgassay$;\nDROP TABLE lost; --"
    other = index("x", "a", definition="CREATE INDEX x ON public.t USING btree (a)")
    found = partitioned(other, name=name)
    known = facts(other, pages=2000, columns=columns("integer", "1", "2000"), name=name)
    fix = samples.candidate("beside", sql=("DROP INDEX public.x",), undo=("CREATE INDEX x ON public.t (a)",))
    for script in (apply_script([found, fix], known), undo_script([found, fix], known)):
        quoted = strip_comments(re.sub(r"^\\.*", "", script, flags=re.MULTILINE))
        assert "lost" not in quoted
    made = whole_or_warned('"public"."x$pgassay$; DROP TABLE lost; --"', '"public"."t"')
    assert "lost" not in strip_comments(made)


def test_the_script_reads_no_column_of_a_publication_that_a_source_of_14_lacks() -> None:
    """The whole block is one command to its server: it fails at a name even where nothing is published."""
    script = apply_script([partitioned()], facts(pages=2000, columns=columns("integer", "1", "2000")))
    assert "ALTER PUBLICATION" in script
    assert not re.findall(r"\b\w+\.(?:prattrs|prqual|attnames|rowfilter)\b", script)
