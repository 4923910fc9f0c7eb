"""Conditions as EXPLAIN prints them: which index could serve each, and which none can."""

import json

import pytest

from pgassay.plans import scan_conditions
from pgassay.plans.explain_plan import read_plans


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("(status = 'open'::text)", ("status",)),
        ("((a > 5) AND (b = ANY ('{1,2}'::integer[])))", ("b", "a")),
        ("((email)::text = 'x'::text)", ("email",)),
        ("((data ->> 'sku'::text) = 'A1'::text)", ("(data ->> 'sku'::text)",)),
        ("(x = 'it''s) AND (y = 1'::text)", ("x",)),
        ("(l.order_id = o.id)", ("order_id",)),
        ("(5 < a)", ("a",)),
        ("(a IS NULL)", ("a",)),
        ("((a = 1) OR (b = 2))", None),
        ("(a <> 1)", None),
        ("(random() < 0.5::double precision)", None),
        ("(a = b)", None),
        ("(name ~~ 'ab%'::text)", ("name text_pattern_ops",)),
        ("(name ~~ '%abc%'::text)", ("name gin_trgm_ops",)),
        # Trigrams find no part of two letters, and no index a list of patterns.
        ("(name ~~ '%ab%'::text)", None),
        ("(name ~~ ANY ('{a%,b%}'::text[]))", None),
        # Of a parameter the beginning is not known: trigrams serve any pattern.
        ("(name ~~ $1)", ("name gin_trgm_ops",)),
        ("(lower((name)::text) = 'x'::text)", ("(lower((name)::text))",)),
        ("(\"left\"(name, 3) = 'abc'::text)", ('("left"(name, 3))',)),
        # These depend on settings, or may do anything: no index can hold them.
        ("(lower(unaccent(name)) = 'x'::text)", None),
        ("(\"left\"(to_char(at, 'YYYY-MM'::text), 4) = '2024'::text)", None),
        ("((data ->> app.key(kind)) = 'x'::text)", None),
        ("(abs((n)::numeric(10,2)) > '5'::numeric)", ("(abs((n)::numeric(10,2)))",)),
        ("(tags @> ANY ('{a}'::text[]))", None),
        ("(ip && '10.0.0.0/8'::inet)", ("ip inet_ops",)),
    ],
)
def test_the_columns_that_an_index_could_use(condition: str, columns: tuple[str, ...] | None) -> None:
    keys = scan_conditions.keys_of(condition, "l")
    assert (keys.columns if keys else None) == columns


def test_what_to_do_is_the_same_with_the_literals_left_out() -> None:
    node = {
        "Node Type": "Seq Scan", "Relation Name": "t", "Alias": "t", "Plan Rows": 10, "Plan Width": 12,
        "Startup Cost": 0, "Total Cost": 100, "Actual Rows": 10, "Actual Loops": 1,
        "Actual Startup Time": 0.1, "Actual Total Time": 100, "Rows Removed by Filter": 100_000,
        "Filter": "((status = 'open'::text) AND (placed > '2024-01-01'::date) AND (total = 7))",
    }  # fmt: skip
    text = json.dumps([{"Plan": node, "Planning Time": 0.1, "Execution Time": 100.1}])
    whole, redacted = (read_plans(text, "made", redact=redact)[0].advice for redact in (False, True))
    assert redacted == whole and redacted[0].sql == (
        "CREATE INDEX CONCURRENTLY ON t (status, total, placed);"
    )
    # A key that holds a literal can't be told.
    assert scan_conditions.keys_of("((data ->> ?::text) = ?::text)", "t") is None
    assert scan_conditions.keys_of("((data ->> 'why?'::text) = 'x'::text)", "t") is not None


@pytest.mark.parametrize(
    ("condition", "types", "method"),
    [
        ("(tags @> '{a}'::text[])", {}, "gin"),
        ("(data @> '{\"a\": 1}'::jsonb)", {}, "gin"),
        ("(words @@ '''cat'''::tsquery)", {}, "gin"),
        # GIN has no operator class for ranges, nor for the types of PostGIS.
        ("(during && '[2024-01-01,2024-02-01)'::daterange)", {}, "gist"),
        ("(during @> '2024-01-01'::date)", {}, "gist"),
        ("(during @> now())", {}, "gist"),
        ("(during @> 5)", {}, "gist"),
        ("(during && '{[1,3)}'::int4multirange)", {}, "gist"),
        ("(shape && '0103000020E610'::public.geometry)", {}, "gist"),
        # Of a parameter the type of the column tells.
        ("(during @> $1)", {"during": "tstzrange"}, "gist"),
        ("(tags && $1)", {"tags": "integer[]"}, "gin"),
        ("(tags && $1)", {}, "gin"),
    ],
)
def test_what_is_in_ranges_arrays_and_documents_has_an_index_that_can(
    condition: str, types: dict[str, str], method: str
) -> None:
    keys = scan_conditions.keys_of(condition, None, types)
    assert keys is not None and keys.method == method


def test_the_text_of_another_type_is_not_its_column() -> None:
    """An enum's or a date's text is not immutable, and no index on the column serves it."""
    condition = "((status)::text = 'open'::text)"
    for kind, columns in (
        ("character varying(9)", ("status",)),
        ("order_status", None),
        ("date", None),
        ("citext", None),
    ):
        keys = scan_conditions.keys_of(condition, None, {"status": kind})
        assert (keys.columns if keys else None) == columns
    padded = scan_conditions.keys_of("(code ~~ 'A%'::text)", None, {"code": "character(4)"})
    assert padded is not None and padded.columns == ("code bpchar_pattern_ops",)


def test_a_table_whose_name_has_capitals_is_known_in_its_quotes() -> None:
    """EXPLAIN (VERBOSE) puts the table before each column, and names with capitals into quotes."""
    condition = '(("Order"."userId" = 7) AND (lower("Order".note) = \'x\'::text) AND ("Order".at > now()))'
    keys = scan_conditions.keys_of(condition, "Order")
    assert keys is not None and keys.columns == ('"userId"', "(lower(note))", "at")
    assert scan_conditions.keys_of('("Order".id = u.id)', "Order") == scan_conditions.Keys(("id",))
    assert scan_conditions.keys_of('("Order".id = "Order".other)', "Order") is None
    assert scan_conditions.joined_column('("Order"."Id" = l.x)', "Order") == '"Id"'
    assert scan_conditions.keys_of('("user".id = 7)', "user") == scan_conditions.Keys(("id",))
    assert scan_conditions.keys_of('("a""b".id = 7)', 'a"b') == scan_conditions.Keys(("id",))
    assert scan_conditions.keys_of('("Order".id = 7)', "other") is None
    assert scan_conditions.is_same_key('(lower(("userId")::text))', '(lower("userId"::text))')


def test_a_text_that_is_cast_to_a_date_hides_no_timestamp() -> None:
    condition = "(((l.made)::date = '2026-01-01'::date) AND (to_char(l.price, '9'::text) = '7'::text))"
    assert len(list(scan_conditions.hidden_timestamps(condition))) == 2
    assert not list(scan_conditions.hidden_timestamps(condition, {"made": "text", "price": "numeric"}))
    for kind in ("date", "timestamp(3) with time zone"):
        assert list(scan_conditions.hidden_timestamps(condition, {"made": kind, "price": "numeric"}))


def test_the_value_of_an_init_plan_is_not_a_parameter_of_the_statement() -> None:
    lines = (
        "Seq Scan on l  (cost=11.00..28450.00 rows=30 width=8)",
        "  Filter: ((made)::date = $1)",
        "  InitPlan 1 (returns $1)",
        "    ->  Seq Scan on days  (cost=0.00..11.00 rows=1 width=4)",
    )
    for of_plan in (lines, lines[:2]):
        (plan,) = read_plans("\n".join(of_plan), "a test")
        has_range = any("made >= $1::date" in (each.sql or "") for each in plan.advice)
        assert has_range == (len(of_plan) == 2)


@pytest.mark.parametrize(
    ("condition", "kind", "columns"),
    [
        ("(x ~~ 'ab%'::text)", "character varying(9)", ("x text_pattern_ops",)),
        ("(x ~~* '%abc%'::text)", "text", ("x gin_trgm_ops",)),
        ("(x ~~ 'ab%'::text)", "character(9)", ("x bpchar_pattern_ops",)),
        ("(x ~~* '%abc%'::text)", "character(9)", None),
        ("(x ~~ 'ab%'::citext)", "citext", None),
        ("(x ~~* '%abc%'::public.citext)", None, None),
        ("(x ~~ 'ab%'::text)", "name", None),
    ],
)
def test_a_pattern_s_index_is_of_a_type_that_has_one(
    condition: str, kind: str | None, columns: tuple[str, ...] | None
) -> None:
    keys = scan_conditions.keys_of(condition, None, {} if kind is None else {"x": kind})
    assert (keys.columns if keys else None) == columns


@pytest.mark.parametrize(
    ("kind", "is_steady"),
    [
        ("text", True),
        ("character varying(20)", True),
        ("character(3)", True),
        ("integer", True),
        ("numeric(10,2)", True),
        ("jsonb", True),
        ("timestamp with time zone", False),
        ("date", False),
        ("order_status", False),
        ("text[]", False),
        ("character varying(9)[]", False),
        ("bytea", False),
    ],
)
def test_no_index_holds_a_text_that_a_setting_changes(kind: str, is_steady: bool) -> None:
    for condition in ("(lower((l.x)::text) = 'a'::text)", "(\"left\"((x)::text, 10) = '2026-01-01'::text)"):
        assert (scan_conditions.keys_of(condition, "l", {"x": kind}) is not None) == is_steady


def test_a_plan_that_has_no_types_says_which_the_column_must_have() -> None:
    def sentence(condition: str) -> str:
        lines = ("Seq Scan on l  (cost=0.00..28450.00 rows=30 width=8)", f"  Filter: {condition}")
        return read_plans("\n".join(lines), "a test")[0].advice[0].sentence

    assert "if the column is a text" in sentence("(lower((x)::text) = 'a'::text)")
    for plain in ("(lower(x) = 'a'::text)", "((x)::text = 'a'::text)"):
        assert "create an index on its condition." in sentence(plain)


@pytest.mark.parametrize(
    ("condition", "types", "columns"),
    [
        # What is sought in a column can't be sought the other way round.
        ("('http://x'::text ~~ pattern)", {}, None),
        ("($1 ~~* pattern)", {"pattern": "text"}, None),
        ("($1 @@ query)", {"query": "tsquery"}, None),
        ("('[2024-01-01,2024-02-01)'::daterange @> made)", {"made": "date"}, None),
        ("('[2024-01-01,2024-02-01)'::daterange @> made)", {}, None),
        ("('{\"a\": 1}'::jsonb @> data)", {"data": "jsonb"}, None),
        ("('{a,b}'::text[] @> tags)", {}, ("tags",)),
        ("($1 @> tags)", {"tags": "text[]"}, ("tags",)),
        ("('[1,9)'::int4range @> span)", {"span": "int4range"}, ("span",)),
        # Another column of the table is not a value.
        ("(price < current_price)", {}, None),
        ("(total > (2 * paid))", {}, None),
        ("(total > (2 * l.paid))", {}, None),
        ('(total > (2 * "Paid"))', {}, None),
        ("(id = ANY (parents))", {}, None),
        ("(id = ANY (ARRAY[1, other]))", {}, None),
        # Of these nothing is the table's.
        ("(total > (2 * o.paid))", {}, ("total",)),
        ("(id = ANY (ARRAY[$1, ($2)::integer]))", {}, ("id",)),
        ("(id = (InitPlan expr_1).col1)", {}, ("id",)),
        ("(id = ANY ((hashed SubPlan 1).col1))", {}, ("id",)),
        ("(owner = CURRENT_USER)", {}, ("owner",)),
        ("(made > (now() - '7 days'::interval))", {}, ("made",)),
        ("(made > ((now())::timestamp(3) without time zone - $1))", {}, ("made",)),
        ("(amount > (5.0)::double precision)", {}, ("amount",)),
        ("(name = ('x'::character varying(9))::text COLLATE \"C\")", {}, ("name",)),
        ("(is_open = true)", {}, ("is_open",)),
    ],
)
def test_a_value_is_sought_in_a_column_and_not_a_column_in_it(
    condition: str, types: dict[str, str], columns: tuple[str, ...] | None
) -> None:
    keys = scan_conditions.keys_of(condition, "l", types)
    assert (keys.columns if keys else None) == columns
