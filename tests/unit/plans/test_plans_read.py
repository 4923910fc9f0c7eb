"""Plans found in any text: EXPLAIN's two forms, psql's decoration, auto_explain's logs, what is no plan."""

import json

import pytest

from pgassay.errors import UsageError
from pgassay.model.plans.explained_plan import ExplainedPlan
from pgassay.plans.explain_plan import read_plans
from plan_samples import TEXT, json_document


def only(text: str) -> ExplainedPlan:
    plans = read_plans(text, "a test")
    assert len(plans) == 1
    return plans[0]


def same(first: ExplainedPlan, second: ExplainedPlan) -> None:
    assert [node.model_dump() for node in first.nodes] == [node.model_dump() for node in second.nodes]
    left = {
        "format",
        "statement",
        "logged",
        "number",
        "nodes",
        "execution_ms",
        "unattributed_ms",
        "planning_ms",
    }
    assert first.model_dump(exclude=left) == second.model_dump(exclude=left)


def test_text_and_json_of_one_execution_give_equal_plans() -> None:
    text, document = only(TEXT), only(json.dumps([json_document()]))
    same(text, document)
    assert (
        (text.planning_ms, text.execution_ms) == (document.planning_ms, document.execution_ms) == (0.25, 21.0)
    )


def test_what_the_text_says_is_in_the_nodes() -> None:
    plan = only(TEXT)
    top, gather, sort, join, index, hashed, heap, bitmap = plan.nodes
    assert [node.depth for node in plan.nodes] == [0, 1, 2, 3, 4, 4, 5, 6]
    assert [node.parent for node in plan.nodes] == [None, 0, 1, 2, 3, 3, 5, 6]
    assert (top.type, top.name) == ("Aggregate", "Finalize Aggregate")
    assert (gather.workers_planned, gather.workers_launched) == (2, 2)
    assert (sort.sort_method, sort.sort_kb, sort.disk) == ("external merge", 2055, True)
    assert sort.conditions["Sort Key"] == 'b."Größe" COLLATE "C", a.x DESC'
    assert [(worker.number, worker.sort_kb, worker.disk) for worker in sort.workers] == [
        (0, 25, False),
        (1, 30, False),
    ]
    assert (join.type, join.name, join.join_type) == ("Hash Join", "Parallel Hash Left Join", "Left")
    assert (index.index, index.relation, index.relation_schema, index.alias) == ("a_x", "a", "public", "a_1")
    assert (index.rows_removed, index.heap_fetches, index.processes) == (4, 12, 3)
    assert (hashed.batches, hashed.batches_planned, hashed.memory_kb, hashed.disk) == (4, 1, 90, True)
    assert (heap.heap_blocks_exact, heap.heap_blocks_lossy, bitmap.index) == (3, 2, "b Id")
    assert (top.temp_read, top.temp_written, top.buffers_hit, top.own_buffers_hit) == (3, 4, 15, 0)
    assert plan.settings == {"work_mem": "64kB", "search_path": '"$user", public'}
    assert (plan.jit_functions, plan.jit_ms, plan.jit_options) == (12, 2.8, ("Expressions", "Deforming"))
    assert plan.planning_blocks is not None and plan.planning_blocks.buffers_hit == 7
    assert (plan.major_min, plan.major_max) == (14, 17)


def as_psql(text: str) -> str:
    lines = text.split("\n")
    width = max(map(len, lines)) + 2
    rows = "".join(f" {line}\n" for line in lines)
    return f"{'QUERY PLAN':^{width}}\n{'-' * width}\n{rows}({len(lines)} rows)\n\nTime: 3 ms\n"


def as_psql_json(document: object) -> str:
    lines = json.dumps([document], indent=2).split("\n")
    width = max(map(len, lines)) + 1
    rows = "".join(f" {line:<{width}}+\n" for line in lines[:-1])
    return f"{'QUERY PLAN':^{width}}\n{'-' * width}\n{rows} {lines[-1]}\n(1 row)\n"


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(as_psql(TEXT), id="psql"),
        pytest.param("shop=# EXPLAIN ANALYZE TABLE a;\n" + as_psql(TEXT), id="psql's session"),
        pytest.param(
            "".join(
                f"-[ RECORD {n} ]{'-' * 30}\nQUERY PLAN | {line}\n"
                for n, line in enumerate(TEXT.split("\n"), 1)
            ),
            id="psql expanded",
        ),
        pytest.param(
            f"+{'-' * 150}+\n|{'QUERY PLAN':^150}|\n+{'-' * 150}+\n"
            + "".join(f"| {line:<149}|\n" for line in TEXT.split("\n"))
            + f"+{'-' * 150}+\n(39 rows)\n",
            id="psql with a border",
        ),
        pytest.param("QUERY PLAN\n" + TEXT + "\n(39 rows)\n", id="psql unaligned"),
        pytest.param(
            "\n".join(f'"{line.replace(chr(34), chr(34) * 2)}"' for line in TEXT.split("\n")), id="export"
        ),
        pytest.param("\ufeff" + TEXT.replace("\n", "\r\n"), id="from Windows"),
        pytest.param("\n".join(f"    {line}" for line in TEXT.split("\n")), id="moved in"),
        pytest.param(TEXT.replace("\n", "\n "), id="pasted without its first space"),
    ],
)
def test_what_is_put_around_a_text_is_taken_away(written: str) -> None:
    same(only(written), only(TEXT))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SET\n", ""),
        ("", "\nROLLBACK\n"),
        ("BEGIN\nSET\n", "\nROLLBACK\n"),
        (
            "psql:plan.sql:1: WARNING:  there is already a transaction\nINSERT 0 5\n",
            "\nTime: 5.1 ms\nDROP TABLE",
        ),
    ],
)
def test_what_a_script_prints_around_its_json_is_no_plan(before: str, after: str) -> None:
    """A SET before the plan made it disappear, and a ROLLBACK behind it made it invalid."""
    written = json.dumps(json_document(), indent=2)
    same(only(f"{before}{written}{after}"), only(TEXT))
    same(only(f"{before}{json.dumps(json_document())}{after}"), only(TEXT))
    assert len(read_plans(f"{before}{written}{after}\nBEGIN\n{written}", "a test")) == 2


def test_psql_s_json_has_a_plus_at_the_end_of_each_line() -> None:
    same(only(as_psql_json(json_document())), only(TEXT))


def drawn(lines: list[str], ends: str = "") -> str:
    """As psql shows lines with \\pset border 2 and linestyle unicode; `ends`: what ends all but the last."""
    width = max(map(len, lines)) + 3
    rows = "".join(f"│ {line:<{width - 2}}{ends or ' '}│\n" for line in lines[:-1])
    return (
        f"┌{'─' * width}┐\n│{'QUERY PLAN':^{width}}│\n├{'─' * width}┤\n{rows}"
        f"│ {lines[-1]:<{width - 1}}│\n└{'─' * width}┘\n(9 rows)\n"
    )


JSON_LINES = json.dumps([json_document()], indent=2).split("\n")
EXPANDED_JSON = [f"{line:<90}+" for line in JSON_LINES[:-1]] + JSON_LINES[-1:]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(drawn(TEXT.split("\n")), id="text in a border"),
        pytest.param(as_psql(TEXT).replace("---", "───").replace("--", "──"), id="text below a line"),
        pytest.param(
            "".join(f"─[ RECORD 1 ]─────\nQUERY PLAN │ {line}\n" for line in TEXT.split("\n")),
            id="text in expanded display",
        ),
        pytest.param(drawn(JSON_LINES, "↵"), id="JSON in a border"),
        pytest.param(as_psql_json(json_document()).replace("+\n", "↵\n"), id="JSON below a line"),
        pytest.param(
            "-[ RECORD 1 ]---\nQUERY PLAN | " + f"\n{' ' * 10} | ".join(EXPANDED_JSON), id="JSON expanded"
        ),
        pytest.param(
            "─[ RECORD 1 ]───\nQUERY PLAN │ " + f"\n{' ' * 10} │ ".join(EXPANDED_JSON).replace("+\n", "↵\n"),
            id="JSON expanded and drawn",
        ),
    ],
)
def test_psql_s_lines_may_be_drawn(written: str) -> None:
    same(only(written), only(TEXT))


def test_a_quoted_string_or_name_may_go_on_in_the_next_line() -> None:
    plan = only(
        'Seq Scan on "two\nlines"  (cost=0.00..1.00 rows=1 width=4)\n'
        "  Filter: (x = 'first\n  ->  Seq Scan on forged  (cost=0.00..1.00 rows=1 width=4)'::text)"
    )
    assert [(node.relation, node.conditions) for node in plan.nodes] == [
        (
            "two\nlines",
            {"Filter": "(x = 'first\n  ->  Seq Scan on forged  (cost=0.00..1.00 rows=1 width=4)'::text)"},
        )
    ]


# --- Logs.


def log_line(message: str) -> str:
    return "2026-11-21 10:00:00.123 UTC [4711] me@shop LOG:  " + message.replace("\n", "\n\t") + "\n"


def a_log() -> str:
    document = {
        "Query Text": "SELECT 'json'",
        **{k: v for k, v in json_document().items() if "Time" not in k},
    }
    body = TEXT.rsplit("\n", 1)[0].replace("Planning Time: 0.250 ms\n", "")
    return (
        log_line("checkpoint starting: time")
        + log_line(f"duration: 21.500 ms  plan:\nQuery Text: SELECT *\nFROM a -- it's\nWHERE x;\n{body}")
        + log_line("duration: 0.100 ms  statement: SELECT 1")
        + log_line(f"duration: 22.500 ms  plan:\n{json.dumps(document, indent=2)}")
    )


def test_a_log_s_plans_in_text_and_json() -> None:
    first, second = read_plans(a_log(), "a log")
    assert (first.format, first.execution_ms) == ("text", 21.5)
    assert (second.format, second.execution_ms) == ("json", 22.5)
    assert first.statement == "SELECT *\nFROM a -- it's\nWHERE x;"
    assert second.statement == "SELECT 'json'"
    assert first.logged == "2026-11-21 10:00:00.123 UTC [4711] me@shop"
    assert [first.number, second.number] == [1, 2]
    assert [node.model_dump() for node in first.nodes] == [node.model_dump() for node in only(TEXT).nodes]
    assert [node.model_dump() for node in second.nodes] == [node.model_dump() for node in first.nodes]


def test_the_values_of_parameters_are_no_part_of_the_statement() -> None:
    message = f"duration: 1.000 ms  plan:\nQuery Text: SELECT $1\nQuery Parameters: $1 = 'a\nb'\n{TEXT}"
    assert only(log_line(message)).statement == "SELECT $1"


@pytest.mark.parametrize(
    "after",
    [
        "2026-11-21 10:00:00.123 UTC [4711] LOCATION:  explain_ExecutorEnd, auto_explain.c:437\n",
        "2026-11-21 10:00:00.123 UTC [4711] QUERY:  SELECT 2\n",
        "2026-11-21 10:00:01.000 UTC [4711] FEHLER:  Spalte existiert nicht\n",
        "another program's line {\n",
    ],
)
def test_what_follows_a_plan_in_a_log_takes_none_from_it(after: str) -> None:
    plan = json.dumps(json_document(), indent=2)
    for said in ("LOG:  ", "PROTOKOLL:  "):
        message = log_line(f"duration: 21.500 ms  plan:\n{plan}").replace("LOG:  ", said)
        assert len(read_plans(message + after + message + after, "a log")) == 2


def test_the_csv_log_and_the_json_log() -> None:
    message = f"duration: 21.500 ms  plan:\nQuery Text: SELECT 1\n{TEXT}"
    quoted = message.replace('"', '""')
    as_csv = f'2026-11-21 10:00:00.123 UTC,"me","shop",1,,x,1,"SELECT",,,,LOG,00000,"{quoted}",,,,,\n'
    as_json = json.dumps(
        {"timestamp": "2026-11-21 10:00:00.123 UTC", "error_severity": "LOG", "message": message}
    )
    for log in (as_csv, as_json + "\n" + as_json.replace("plan:", "other:") + "\n"):
        plan = only(log)
        assert (plan.statement, plan.logged) == ("SELECT 1", "2026-11-21 10:00:00.123 UTC")
        assert len(plan.nodes) == 8


def test_a_log_that_went_through_syslog() -> None:
    lines = log_line(f"duration: 21.500 ms  plan:\nQuery Text: SELECT 1\n{TEXT}").rstrip("\n").split("\n")
    start = "Nov 21 10:00:00 db1 postgres[4711]: [5-"
    log = [f"{start}{number}] {line.replace(chr(9), '#011')}" for number, line in enumerate(lines, start=1)]
    plan = only("\n".join(log))
    assert (plan.statement, len(plan.nodes), plan.execution_ms) == ("SELECT 1", 8, 21.0)


def test_several_plans_below_each_other() -> None:
    assert [len(plan.nodes) for plan in read_plans(f"{TEXT}\n\n{TEXT}", "a test")] == [8, 8]
    assert [len(plan.nodes) for plan in read_plans(as_psql(TEXT) + as_psql(TEXT), "a test")] == [8, 8]
    assert len(read_plans(json.dumps([json_document(), json_document()]), "a test")) == 2


def test_a_trial_s_stored_plans_are_read_by_their_statements() -> None:
    plans = read_plans(json.dumps({"sum": [json_document()], "count": [json_document()]}), "plans.json")
    assert [plan.statement for plan in plans] == ["sum", "count"]


# --- What the versions print.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("I/O Timings: read=1.500 write=0.500", {"io_read_ms": 1.5, "io_write_ms": 0.5}),
        ("I/O Timings: shared/local read=1.500, temp write=2.000",
         {"io_read_ms": 1.5, "temp_io_write_ms": 2.0}),
        ("I/O Timings: shared read=1.500, local read=0.250", {"io_read_ms": 1.75, "io_write_ms": 0.0}),
        ("WAL: records=3 fpi=1 bytes=8200 buffers full=2",
         {"wal_records": 3, "wal_fpi": 1, "wal_bytes": 8200}),
        ("Index Searches: 101", {"index_searches": 101}),
        ("Storage: Memory  Maximum Storage: 17kB", {"memory_kb": 17, "disk": False}),
        ("Storage: Disk  Maximum Storage: 900kB", {"disk_kb": 900, "disk": True, "memory_kb": None}),
        ("Disabled: true", {"disabled": True}),
        (
            "Hits: 5  Misses: 2  Evictions: 1  Overflows: 0  Memory Usage: 1kB",
            {"cache_hits": 5, "cache_misses": 2, "cache_evictions": 1, "cache_overflows": 0, "memory_kb": 1},
        ),
        ("Batches: 5  Memory Usage: 4145kB  Disk Usage: 1000kB",
         {"batches": 5, "disk_kb": 1000, "disk": True}),
        (
            "Full-sort Groups: 2  Sort Methods: quicksort, top-N heapsort  "
            "Average Memory: 26kB  Peak Memory: 28kB",
            {"sort_method": "quicksort, top-N heapsort", "sort_kb": 28, "disk": False},
        ),
        ("Prefetch: avg=2.50 max=8 capacity=16", {"other": {"Average Prefetch Distance": "2.5",
          "Max Prefetch Distance": "8", "Prefetch Capacity": "16"}}),
    ],
)  # fmt: skip
def test_a_line_of_figures(line: str, expected: dict) -> None:
    plan = only(f"Sort  (cost=0.00..1.00 rows=1 width=4) (actual time=0.1..0.2 rows=1.00 loops=1)\n  {line}")
    values = plan.nodes[0].model_dump()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("Nested Loop Left Join", "Nested Loop", "Nested Loop Left Join"),
        ("Merge Right Anti Join", "Merge Join", "Merge Right Anti Join"),
        ("Merge Append", "Merge Append", "Merge Append"),
        ("Merge on t", "ModifyTable", "Merge"),
        ("Update on public.t x", "ModifyTable", "Update"),
        ("HashSetOp Except All", "SetOp", "HashSetOp Except All"),
        ("Partial HashAggregate", "Aggregate", "Partial HashAggregate"),
        ("Custom Scan (ChunkAppend) on metrics", "Custom Scan", "Custom Scan (ChunkAppend)"),
        ("Async Foreign Scan on f", "Foreign Scan", "Async Foreign Scan"),
        ("Foreign Update on f", "Foreign Scan", "Foreign Update"),
        ("Columnar Walk on t", "Columnar Walk", "Columnar Walk"),
    ],
)
def test_the_names_of_nodes(name: str, kind: str, shown: str) -> None:
    node = only(f"{name}  (cost=0.00..1.00 rows=1 width=4)").nodes[0]
    assert (node.type, node.name) == (kind, shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("SELECT 1;\n", "has no plan"),
        ("<explain>", "XML"),
        ('{"a": 1}', "JSON without a plan"),
        ("[]", "JSON without a plan"),
        (json.dumps([json_document()])[:800], "the JSON is cut off after 800 characters"),
        ('[{"Plan": nonsense}]', "not valid at character"),
        (log_line("duration: 1.000 ms  plan:\nQuery Text: SELECT 1"), "log's plans can't be read"),
        # As psql shows them.
        (
            ' QUERY PLAN\n-----\n <explain xmlns="x">+\n   <Query>  +\n </explain>\n(1 row)\n',
            "looks like XML",
        ),
        (
            "          QUERY PLAN\n-----\n - Plan:          +\n     Node Type: x+\n(1 row)\n",
            "looks like YAML",
        ),
        ("BEGIN\n- Plan:\n    Node Type: x\n", "looks like YAML"),
    ],
)
def test_what_is_no_plan_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_plans(text, "file.txt")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_text_that_was_cut_gives_what_it_has() -> None:
    plan = only(TEXT[: TEXT.index("Rows Removed by Filter")])
    assert len(plan.nodes) == 5
    assert (plan.executed, plan.execution_ms, plan.unattributed_ms) == (True, None, None)
