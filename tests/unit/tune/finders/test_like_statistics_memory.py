"""Operator classes for LIKE, names of statistics, autovacuum's options as they were, and memory that fits."""

from dataclasses import replace

import pytest
from pglast import parse_sql

from finder_samples import COLUMNS, ROWS, facts, plan, symptom
from pgassay.tune.candidate import AdvisedMachine
from pgassay.tune.facts.catalog_queries import DATABASE, query
from pgassay.tune.facts.schema import ExtendedStatisticsFacts, SchemaFacts
from pgassay.tune.finders.evidence.plan_evidence import FinderEvidence
from pgassay.tune.finders.operations.analyze import _Saved, _statistics, _Wrong
from pgassay.tune.finders.registry import find


def of_type(kind: str) -> SchemaFacts:
    changes = {"type": kind, "collation": "default"}
    columns = [each.model_copy(update=changes) if each.name == "a" else each for each in COLUMNS]
    return facts(columns=columns).model_copy(update={"collation": "de_DE.UTF-8"})


@pytest.mark.parametrize(
    ("kind", "opclass"),
    [
        ("text", "text_pattern_ops"),
        ("character varying", "varchar_pattern_ops"),
        ("character varying(20)", "varchar_pattern_ops"),
        ("character(20)", "bpchar_pattern_ops"),
    ],
)
def test_like_has_the_operator_class_of_the_columns_type(kind: str, opclass: str) -> None:
    found = find(symptom(plan("(a ~~ 'abc%'::text)"), known=of_type(kind)))
    (like,) = [each for each in found if each.kind == "like-prefix"]
    assert like.id == f"index:t(a {opclass})"


@pytest.mark.parametrize("collation", ["C", "pg_c_utf8", "pg_unicode_fast"])
def test_like_needs_no_operator_class_where_texts_are_compared_by_their_bytes(collation: str) -> None:
    known = of_type("text")
    columns = [each.model_copy(update={"collation": collation}) for each in known.tables[0].columns]
    known = known.model_copy(update={"tables": facts(columns=columns).tables})
    found = find(symptom(plan("(a ~~ 'abc%'::text)"), known=known))
    (like,) = [each for each in found if each.kind == "like-prefix"]
    assert like.id == "index:t(a)" and "which LIKE needs" not in like.reason
    # So is a database of PostgreSQL's own provider, whatever its locale is called.
    assert "WHEN 'b' THEN 'C'" in query(DATABASE, 170000) and "'b'" not in query(DATABASE, 140000)


def test_statistics_of_other_kinds_on_the_same_columns_have_another_name() -> None:
    long = "a_column_with_a_name_that_is_long_" * 2
    evidence = FinderEvidence(symptom(plan(), known=facts()))
    (scan,) = evidence.scans
    wrong = _Wrong(scan, 10.0, scan.node, _Saved(1.0, 1.0))
    names = {
        offer.candidate.undo[0].removeprefix("DROP STATISTICS public.")
        for columns in (["a", "b"], [long, "a"], [long, "b"])
        for kinds in (("mcv",), ("ndistinct",))
        for offer in _statistics(evidence, wrong, columns, kinds)
    }
    assert len(names) == 6 and all(len(name) <= 63 for name in names)


def test_statistics_of_another_schema_s_table_of_that_name_are_not_its_own() -> None:
    """As where each tenant has a schema of its own."""
    theirs = ExtendedStatisticsFacts(
        name="s", table="t", table_schema="tenant_1", columns=("a", "b"), kinds=("mcv",)
    )
    wrong = {}
    for schema in ("tenant_1", "tenant_2"):
        known = facts(schema_=schema).model_copy(update={"statistics": (theirs,), "search_path": (schema,)})
        read = plan().nodes[0].model_copy(update={"relation_schema": schema})
        evidence = FinderEvidence(symptom(plan().model_copy(update={"nodes": (read,)}), known=known))
        (scan,) = evidence.scans
        offers = _statistics(evidence, _Wrong(scan, 10.0, scan.node, _Saved(1.0, 1.0)), ["a", "b"], ("mcv",))
        wrong[schema] = [offer.candidate.sql[1] for offer in offers]
    assert wrong == {"tenant_1": [], "tenant_2": ["ANALYZE tenant_2.t"]}


@pytest.mark.parametrize(
    ("condition", "id_"),
    [("((a)::text = 'x'::text)", "index:t(a)"), ("((a)::text ~~ 'x%'::text)", "index:t(a)")],
)
def test_a_domain_is_searched_as_the_type_that_it_is_of(condition: str, id_: str) -> None:
    known = of_type("email")
    columns = [each.model_copy(update={"collation": "C"}) for each in known.tables[0].columns]
    of_text = [each.model_copy(update={"domain_over": "text"}) for each in columns]
    found = find(symptom(plan(condition), known=facts(columns=of_text)))
    assert id_ in {each.id for each in found}
    # An enum's text is none that an index has.
    assert id_ not in {each.id for each in find(symptom(plan(condition), known=facts(columns=columns)))}


@pytest.mark.parametrize(
    ("options", "undo"),
    [
        ({}, ("RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor)",)),
        (
            {"autovacuum_vacuum_scale_factor": "0.3"},
            (
                "SET (autovacuum_vacuum_scale_factor = 0.3)",
                "RESET (autovacuum_vacuum_insert_scale_factor)",
            ),
        ),
        ({"autovacuum_enabled": "0"}, ("SET (autovacuum_enabled = 0)",)),
        ({"autovacuum_enabled": "off"}, ("SET (autovacuum_enabled = off)",)),
    ],
)
def test_options_of_autovacuum_are_given_back_as_they_were(
    options: dict[str, str], undo: tuple[str, ...]
) -> None:
    read = plan(rows=ROWS // 2)
    node = read.nodes[0].model_copy(update={"type": "Bitmap Heap Scan"})
    known = facts(dead_rows=int(0.25 * ROWS), updated=2 * ROWS, options=options)
    known = known.model_copy(update={"settings": {"autovacuum_vacuum_scale_factor": "0.4"}})
    if "autovacuum_vacuum_scale_factor" in options:
        known = known.model_copy(
            update={"tables": (known.tables[0].model_copy(update={"dead_rows": int(0.28 * ROWS)}),)}
        )
    seen = symptom(read.model_copy(update={"nodes": (node,)}), known=known)
    (found,) = [each for each in find(seen) if each.kind == "autovacuum"]
    assert found.undo == tuple(f"ALTER TABLE public.t {each}" for each in undo)


@pytest.mark.parametrize(
    ("pages", "memory_gb", "offered"),
    [
        (3_000_000, 8, "512MB"),  # 293 MB of a bitmap
        (3_500_000, 1.5, "384MB"),  # 342 MB, and a quarter of memory is no power of two
        (3_500_000, 1, None),  # more than a quarter
    ],
)
def test_memory_for_a_bitmap_is_a_quarter_of_the_machines_at_most(
    pages: int, memory_gb: float, offered: str | None
) -> None:
    read = plan()
    changes = {"type": "Bitmap Heap Scan", "heap_blocks_lossy": pages, "heap_blocks_exact": 0}
    node = read.nodes[0].model_copy(update=changes)
    seen = symptom(read.model_copy(update={"nodes": (node,)}), known=facts())
    machine = AdvisedMachine(memory_bytes=int(memory_gb * (1 << 30)))
    found = [
        each.settings["work_mem"]
        for each in find(replace(seen, machine=machine))
        if "work_mem" in each.settings
    ]
    assert found == ([offered] if offered else [])


@pytest.mark.parametrize(
    ("schemas", "path", "opclass"),
    [
        ({}, ("public",), "gin_trgm_ops"),
        ({"pg_trgm": "public"}, ("public",), "gin_trgm_ops"),
        ({"pg_trgm": "extensions"}, ("public", "extensions"), "gin_trgm_ops"),
        ({"pg_trgm": "My ext"}, ("public",), '"My ext".gin_trgm_ops'),
    ],
)
def test_trigrams_have_the_schema_that_their_extension_was_put_into(
    schemas: dict[str, str], path: tuple[str, ...], opclass: str
) -> None:
    known = of_type("text").model_copy(
        update={
            "extensions": ("pg_trgm",) if schemas else (),
            "extensions_available": ("pg_trgm",),
            "extension_schemas": schemas,
            "search_path": path,
        }
    )
    found = find(symptom(plan("(a ~~ '%abc%'::text)"), known=known))
    (gin,) = [each for each in found if each.kind == "gin"]
    assert f"USING gin (a {opclass})" in gin.sql[-1] and len(gin.sql) == (1 if schemas else 2)
    assert parse_sql(gin.sql[-1])
