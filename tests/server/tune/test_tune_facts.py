"""What real servers of three versions tell of a database with hostile names, and scripts made by that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgassay.environment.builds.registry import resolve
from pgassay.environment.server.private_server import Server
from pgassay.environment.server.sessions import ControlSession, control
from pgassay.sql_text import constant, split_statements, strip_comments
from pgassay.tune.answer.scripts import apply_script, undo_script
from pgassay.tune.candidate import Candidate
from pgassay.tune.facts.read import read_facts
from pgassay.tune.facts.schema import SchemaFacts
from server_helpers import TINY_SETTINGS, empty_cluster, own_home

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
SCHEMA = (
    # Objects that would be called if a query did not name the system's schema.
    'CREATE SCHEMA "Odd \'schema"',
    "CREATE FUNCTION public.age(xid) RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE 'called'; END$$",
    'CREATE TABLE public."Ta""ble; --" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, '
    '"a\'b" varchar(20) COLLATE "C" NOT NULL, tags text[], twice int GENERATED ALWAYS AS (1 + 2) STORED, '
    "CHECK (tags IS NOT NULL OR id > 0)) WITH (fillfactor = 90)",
    'INSERT INTO public."Ta""ble; --" ("a\'b", tags) '
    "SELECT CASE WHEN i % 4 = 0 THEN 'it''s, \"so\"' ELSE 'v' || i END, ARRAY['{x,y}'] "
    "FROM generate_series(1, 400) i",
    'CREATE TABLE "Odd \'schema".child (id int, parent bigint)',
    'ALTER TABLE "Odd \'schema".child ADD FOREIGN KEY (parent) REFERENCES public."Ta""ble; --" '
    "DEFERRABLE INITIALLY DEFERRED NOT VALID",
    'ALTER TABLE public."Ta""ble; --" ALTER COLUMN tags SET STATISTICS 17',
    'CREATE UNIQUE INDEX "in dex" ON public."Ta""ble; --" USING btree '
    '(lower("a\'b") text_pattern_ops DESC, id) INCLUDE (tags) WHERE id > 5',
    'CREATE STATISTICS "st at" (dependencies, mcv) ON id, tags FROM public."Ta""ble; --"',
    "CREATE TABLE public.parted (at date, k int) PARTITION BY RANGE (at)",
    "CREATE TABLE public.parted_1 PARTITION OF public.parted FOR VALUES FROM ('2024-01-01') TO "
    "('2025-01-01')",
    'CREATE VIEW public.looked AS SELECT 1 AS "one;"',
    'CREATE VIEW "Odd \'schema".reads AS SELECT k FROM public.parted',
    'CREATE INDEX by_id ON "Odd \'schema".child (id)',
    'ALTER TABLE "Odd \'schema".child CLUSTER ON by_id',
    # Counts of a session arrive later than those of ANALYZE unless told so.
    "SELECT pg_stat_force_next_flush()",
    'ANALYZE public."Ta""ble; --"',
)


@pytest.fixture(scope="module", params=("16", "17", "18"))
def session(request: pytest.FixtureRequest) -> Iterator[ControlSession]:
    build = resolve(request.param)
    with own_home() as home:
        data = empty_cluster(build, Path(home, "data", "facts"))
        with Server(build, data, TINY_SETTINGS | {"fsync": "off"}) as server, control(server) as made:
            for sql in SCHEMA:
                made.execute(sql)
            yield made


def test_facts_are_those_of_the_catalogs(session: ControlSession) -> None:
    with session.transaction():
        session.execute("SET TRANSACTION READ ONLY")
        facts = read_facts(session)
    assert facts == SchemaFacts.model_validate_json(facts.model_dump_json())
    table = facts.table('Ta"ble; --')
    assert table is not None and table.kind == "table" and table.rows == 400 and table.live_rows == 400
    assert table.options == {"fillfactor": "90"} and table.inserted == 400 and table.last_analyze
    name = table.column("a'b")
    assert name is not None and name.type == "character varying(20)" and name.not_null
    assert name.collation == "C" and name.deterministic
    assert name.common == ('it\'s, "so"',) and name.common_share == (0.25,)
    tags, twice, identity = (table.column(each) for each in ("tags", "twice", "id"))
    assert tags is not None and tags.statistics_target == 17 and tags.common == ('{"{x,y}"}',)
    assert twice is not None and twice.generated and identity is not None and identity.identity

    index = next(each for each in table.indexes if each.name == "in dex")
    assert index.unique and not index.primary and index.predicate == "id > 5" and index.included == ("tags",)
    first, second = index.keys
    assert first.column is None and first.opclass == "text_pattern_ops" and not first.default_opclass
    assert first.descending and first.nulls_first and first.expression == 'lower("a\'b"::text)'
    assert second.column == "id" and second.opclass == "int8_ops" and not second.descending
    key = next(each for each in table.indexes if each.primary)
    assert key.constraint == key.name and key.bytes >= 8192

    child = facts.table("child", "Odd 'schema")
    assert child is not None
    foreign = next(each for each in child.constraints if each.kind == "foreign")
    assert foreign.columns == ("parent",) and foreign.referenced_columns == ("id",)
    assert foreign.referenced_table == 'Ta"ble; --' and foreign.referenced_schema == "public"
    assert foreign.deferrable and not foreign.valid and foreign.enforced
    parted, part = facts.table("parted"), facts.table("parted_1")
    assert parted is not None and parted.partition_key == "RANGE (at)"
    assert parted.views == ("reads",) and [each.clustered for each in child.indexes] == [True]
    assert part is not None and (part.parent, part.parent_schema) == ("parted", "public") and not part.views
    assert part.is_partition_of(parted) and "2024-01-01" in (part.partition_bound or "")
    assert [(each.columns, each.kinds) for each in facts.statistics] == [
        (("id", "tags"), ("dependencies", "mcv"))
    ]
    assert [(each.name, each.volatility) for each in facts.functions] == [("age", "v")]
    assert facts.settings["shared_buffers"] == "2048" and facts.search_path == ("public",)
    assert "plpgsql" in facts.extensions and facts.checkpoints_requested is not None
    assert facts.encoding == "UTF8" and facts.collation == "C"
    assert all(each.schema_ not in ("pg_catalog", "information_schema") for each in facts.tables)


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_constant_has_its_value_however_strings_are_read(session: ControlSession, conforming: str) -> None:
    values = (None, "", "it's", "a\\", "\\' OR true --", "two\nlines\r", "$pgassay$", "\\\\''")
    session.execute(f"SET standard_conforming_strings = {conforming}")
    try:
        row = session.execute(f"SELECT {', '.join(map(constant, values))}").fetchone()
    finally:
        session.execute("RESET standard_conforming_strings")
    assert row == values and "\n" not in "".join(map(constant, values))


PARTS_OF_PARTS = (
    "CREATE TABLE public.kept (at date, k int) PARTITION BY RANGE (at)",
    "CREATE TABLE public.kept_24 PARTITION OF public.kept FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
    "CREATE TABLE public.kept_25 PARTITION OF public.kept FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') "
    "PARTITION BY HASH (k)",
    'CREATE TABLE public."kept 25, 0" PARTITION OF public.kept_25 FOR VALUES WITH (MODULUS 2, REMAINDER 0)',
    'CREATE TABLE public."kept 25, 1" PARTITION OF public.kept_25 FOR VALUES WITH (MODULUS 2, REMAINDER 1)',
    "INSERT INTO public.kept SELECT date '2024-01-01' + i % 700, i FROM generate_series(1, 2000) i",
)


def test_an_index_of_partitions_of_partitions_is_made_without_a_lock_and_taken_back(
    session: ControlSession,
) -> None:
    for sql in PARTS_OF_PARTS:
        session.execute(sql)
    fix = Candidate(
        id="index:kept(k)", layer="design", kind="btree", title="Index on kept(k)", reason="", statements=(),
        sql=("CREATE INDEX kept_k ON public.kept (k)",), undo=("DROP INDEX public.kept_k",),
    )  # fmt: skip
    facts = read_facts(session)

    def run(script: str) -> list[tuple[object, ...]]:
        # Builds of other versions may come without psql: what psql alone understands is tested by itself.
        lines = [line for line in script.splitlines() if not line.startswith("\\set") and "gexec" not in line]
        for part in split_statements("\n".join(lines), "script"):
            if strip_comments(part):
                session.execute(part)
        return session.execute(
            "SELECT i.indrelid::regclass::text, i.indisvalid FROM pg_index i "
            "WHERE i.indrelid::regclass::text ~ 'kept' ORDER BY 1"
        ).fetchall()

    applied = apply_script([fix], facts)
    assert "locks it against writes" not in applied
    names = ('"kept 25, 0"', '"kept 25, 1"', "kept", "kept_24", "kept_25")
    assert sorted(run(applied)) == [(name, True) for name in sorted(names)]
    assert run(undo_script([fix], facts)) == []
    # What went no further than half is taken back too.
    half = applied[: applied.rindex("ALTER INDEX")]
    assert ("kept", False) in run(half)
    assert run(undo_script([fix], facts)) == []


TENANTS = (
    "CREATE SCHEMA tenant_1",
    "CREATE SCHEMA tenant_2",
    "CREATE DOMAIN tenant_1.email AS varchar(50) CHECK (value LIKE '%@%')",
    "CREATE TABLE tenant_1.people (id int PRIMARY KEY, a int, mail tenant_1.email) PARTITION BY HASH (id)",
    "CREATE TABLE tenant_1.people_0 PARTITION OF tenant_1.people FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE tenant_1.people_1 PARTITION OF tenant_1.people FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "CREATE TABLE tenant_2.people (id int, a int)",
    "CREATE TABLE tenant_2.notes (person int REFERENCES tenant_1.people, of_person int)",
    "CREATE STATISTICS tenant_1.s (mcv) ON id, a FROM tenant_2.people",
)


def test_keys_domains_and_statistics_of_several_schemas_are_told_apart(session: ControlSession) -> None:
    with session.transaction(force_rollback=True):
        for sql in TENANTS:
            session.execute(sql)
        facts = read_facts(session)
    people, notes = facts.table("people", "tenant_1"), facts.table("notes", "tenant_2")
    assert people is not None and notes is not None
    mail = people.column("mail")
    assert mail is not None and mail.own_type == "character varying(50)" and mail.type.endswith("email")
    keys = [each for each in notes.constraints if each.kind == "foreign"]
    assert [each.referenced_table for each in keys if not each.of_partition] == ["people"]
    assert {each.referenced_table for each in keys if each.of_partition} <= {"people_0", "people_1"}
    (found,) = [each for each in facts.statistics if each.name == "s"]
    assert (found.table_schema, found.table) == ("tenant_2", "people")
