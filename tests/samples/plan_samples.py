"""One execution's plan as EXPLAIN prints it: its text, and the document of its JSON."""

TEXT = """\
Finalize Aggregate  (cost=8.42..8.43 rows=1 width=8) (actual time=20.500..20.600 rows=1 loops=1)
  Buffers: shared hit=15 read=5, temp read=3 written=4
  ->  Gather Merge  (cost=8.30..8.41 rows=2 width=8) (actual time=19.000..20.000 rows=3 loops=1)
        Workers Planned: 2
        Workers Launched: 2
        Buffers: shared hit=15 read=5, temp read=3 written=4
        ->  Sort  (cost=7.30..7.41 rows=2 width=8) (actual time=10.000..11.000 rows=1 loops=3)
              Sort Key: b."Größe" COLLATE "C", a.x DESC
              Sort Method: external merge  Disk: 2000kB
              Buffers: shared hit=15 read=5, temp read=3 written=4
              Worker 0:  Sort Method: quicksort  Memory: 25kB
              Worker 1:  Sort Method: quicksort  Memory: 30kB
              ->  Parallel Hash Left Join  (cost=1.00..2.00 rows=2 width=8) \
(actual time=5.000..9.000 rows=7 loops=3)
                    Hash Cond: (a.id = b.id)
                    Buffers: shared hit=15 read=5
                    ->  Parallel Index Only Scan Backward using a_x on public.a a_1  \
(cost=0.10..1.00 rows=9 width=4) (actual time=0.010..1.000 rows=9 loops=3)
                          Index Cond: (x = ANY ('{1,2}'::integer[]))
                          Filter: (y <> 'it''s; ->  Seq Scan on c  (cost=0.00..1.00 rows=1 width=4)'::text)
                          Rows Removed by Filter: 4
                          Heap Fetches: 12
                          Buffers: shared hit=10 read=5
                    ->  Parallel Hash  (cost=0.50..0.50 rows=3 width=4) \
(actual time=2.000..2.000 rows=3 loops=3)
                          Buckets: 2048 (originally 1024)  Batches: 4 (originally 1)  Memory Usage: 90kB
                          Buffers: shared hit=5
                          ->  Parallel Bitmap Heap Scan on b  (cost=0.10..0.50 rows=3 width=4) \
(actual time=0.500..1.500 rows=3 loops=3)
                                Recheck Cond: (id < 9)
                                Heap Blocks: exact=3 lossy=2
                                Buffers: shared hit=5
                                ->  Bitmap Index Scan on "b Id"  (cost=0.00..0.10 rows=3 width=0) \
(actual time=0.400..0.400 rows=9 loops=1)
                                      Index Cond: (id < 9)
Settings: work_mem = '64kB', search_path = '"$user", public'
Planning:
  Buffers: shared hit=7
Planning Time: 0.250 ms
JIT:
  Functions: 12
  Options: Inlining false, Optimization false, Expressions true, Deforming true
  Timing: Generation 0.500 ms, Inlining 0.000 ms, Optimization 0.300 ms, Emission 2.000 ms, Total 2.800 ms
Execution Time: 21.000 ms"""

_ACTUAL = ("Actual Startup Time", "Actual Total Time", "Actual Rows", "Actual Loops")
_COST = ("Startup Cost", "Total Cost", "Plan Rows", "Plan Width")


def _figures(cost: tuple[float, ...], actual: tuple[float, ...], hit: int, read: int, temp: int = 0) -> dict:
    blocks = {"Shared Hit Blocks": hit, "Shared Read Blocks": read, "Shared Dirtied Blocks": 0}
    blocks |= {"Shared Written Blocks": 0, "Temp Read Blocks": 3 * temp, "Temp Written Blocks": 4 * temp}
    return dict(zip(_COST, cost, strict=True)) | dict(zip(_ACTUAL, actual, strict=True)) | blocks


def _memory(used_kb: int) -> dict:
    return {"Sort Space Used": used_kb, "Sort Space Type": "Memory"}


def json_document() -> dict:
    """What EXPLAIN (FORMAT JSON) would print of the same execution."""
    bitmap = {
        "Node Type": "Bitmap Index Scan", "Parent Relationship": "Outer", "Parallel Aware": False,
        "Async Capable": False, "Index Name": "b Id", "Index Cond": "(id < 9)",
        **_figures((0.0, 0.1, 3, 0), (0.4, 0.4, 9, 1), 0, 0),
    }  # fmt: skip
    heap = {
        "Node Type": "Bitmap Heap Scan", "Parent Relationship": "Outer", "Parallel Aware": True,
        "Relation Name": "b", "Alias": "b", "Recheck Cond": "(id < 9)", "Rows Removed by Index Recheck": 0,
        "Exact Heap Blocks": 3, "Lossy Heap Blocks": 2, "Plans": [bitmap],
        **_figures((0.1, 0.5, 3, 4), (0.5, 1.5, 3, 3), 5, 0),
    }  # fmt: skip
    hashed = {
        "Node Type": "Hash", "Parent Relationship": "Inner", "Parallel Aware": True, "Hash Buckets": 2048,
        "Original Hash Buckets": 1024, "Hash Batches": 4, "Original Hash Batches": 1, "Peak Memory Usage": 90,
        "Plans": [heap], **_figures((0.5, 0.5, 3, 4), (2.0, 2.0, 3, 3), 5, 0),
    }  # fmt: skip
    index = {
        "Node Type": "Index Only Scan", "Parent Relationship": "Outer", "Parallel Aware": True,
        "Scan Direction": "Backward", "Index Name": "a_x", "Relation Name": "a", "Schema": "public",
        "Alias": "a_1", "Index Cond": "(x = ANY ('{1,2}'::integer[]))", "Rows Removed by Index Recheck": 0,
        "Filter": "(y <> 'it''s; ->  Seq Scan on c  (cost=0.00..1.00 rows=1 width=4)'::text)",
        "Rows Removed by Filter": 4, "Heap Fetches": 12,
        **_figures((0.1, 1.0, 9, 4), (0.01, 1.0, 9, 3), 10, 5),
    }  # fmt: skip
    join = {
        "Node Type": "Hash Join", "Parent Relationship": "Outer", "Parallel Aware": True, "Join Type": "Left",
        "Inner Unique": True, "Hash Cond": "(a.id = b.id)", "Plans": [index, hashed],
        **_figures((1.0, 2.0, 2, 8), (5.0, 9.0, 7, 3), 15, 5),
    }  # fmt: skip
    sort = {
        "Node Type": "Sort", "Parent Relationship": "Outer", "Parallel Aware": False,
        "Sort Key": ['b."Größe" COLLATE "C"', "a.x DESC"], "Sort Method": "external merge",
        "Sort Space Used": 2000, "Sort Space Type": "Disk", "Plans": [join],
        "Workers": [
            {"Worker Number": 0, "Sort Method": "quicksort", **_memory(25)},
            {"Worker Number": 1, "Sort Method": "quicksort", **_memory(30)},
        ],
        **_figures((7.3, 7.41, 2, 8), (10.0, 11.0, 1, 3), 15, 5, 1),
    }  # fmt: skip
    gather = {
        "Node Type": "Gather Merge", "Parent Relationship": "Outer", "Parallel Aware": False,
        "Workers Planned": 2, "Workers Launched": 2, "Plans": [sort],
        **_figures((8.3, 8.41, 2, 8), (19.0, 20.0, 3, 1), 15, 5, 1),
    }  # fmt: skip
    top = {
        "Node Type": "Aggregate", "Strategy": "Plain", "Partial Mode": "Finalize", "Parallel Aware": False,
        "Async Capable": False, "Plans": [gather],
        **_figures((8.42, 8.43, 1, 8), (20.5, 20.6, 1, 1), 15, 5, 1),
    }  # fmt: skip
    return {
        "Plan": top,
        "Settings": {"work_mem": "64kB", "search_path": '"$user", public'},
        "Planning": {"Shared Hit Blocks": 7, "Shared Read Blocks": 0, "Temp Read Blocks": 0},
        "Planning Time": 0.25,
        "Triggers": [],
        "JIT": {
            "Functions": 12,
            "Options": {"Inlining": False, "Optimization": False, "Expressions": True, "Deforming": True},
            "Timing": {
                "Generation": 0.5,
                "Inlining": 0.0,
                "Optimization": 0.3,
                "Emission": 2.0,
                "Total": 2.8,
            },
        },
        "Execution Time": 21.0,
    }
