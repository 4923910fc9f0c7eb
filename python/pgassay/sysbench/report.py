"""What sysbench prints of a run, line by line (src/db_driver.c, src/sysbench.c, src/sb_histogram.c)."""

import math
from collections.abc import Iterator, Sequence

from pgassay.sysbench.run_load import Run

_BAR = 40


def lines(run: Run) -> Iterator[str]:
    """sysbench's own lines."""
    record, chosen = run.record, run.chosen
    if chosen.switch("histogram"):
        yield from _histogram(record["places"])
    queries, events = record["queries"], record["events"]
    seconds = record["elapsed_s"] or 1.0
    total, errors = sum(_counts(run)), sum(found["count"] for found in record["errors"].values())
    yield "SQL statistics:"
    yield "    queries performed:"
    yield f"        read:                            {queries['read']}"
    yield f"        write:                           {queries['write']}"
    yield f"        other:                           {queries['other']}"
    yield f"        total:                           {total}"
    for name, count in (
        ("transactions:", events),
        ("queries:", total),
        ("ignored errors:", errors),
        ("reconnects:", record["reconnects"]),
    ):
        yield f"    {name:<36} {count:<6} ({count / seconds:.2f} per sec.)"
    yield ""
    yield from _general(run)
    latency = record["latency_ms"]
    yield "Latency (ms):"
    for name in ("min", "mean", "max"):
        word = {"mean": "avg"}.get(name, name)
        yield f"         {word}:                              {latency[name]:10.2f}"
    if chosen.whole("percentile"):
        place = chosen.whole("percentile")
        yield f"        {place:3d}th percentile:                  {record['percentile_ms']:10.2f}"
    else:
        yield "         percentile stats:               disabled"
    yield f"         sum:                              {record['latency_sum_ms']:10.2f}"
    yield ""
    yield "Threads fairness:"
    of_events = [float(each["events"]) for each in record["connections"]]
    yield f"    events (avg/stddev):           {_mean_and_deviation(of_events)}"
    of_time = [each["busy_s"] for each in record["connections"]]
    yield f"    execution time (avg/stddev):   {_mean_and_deviation(of_time)}"


def _counts(run: Run) -> tuple[int, int, int]:
    queries = run.record["queries"]
    return queries["read"], queries["write"], queries["other"]


def _general(run: Run) -> Iterator[str]:
    record = run.record
    if run.chosen.text("profile") == "head":
        yield "Throughput:"
        yield f"    events/s (eps):                      {record['events'] / (record['elapsed_s'] or 1):.4f}"
        yield f"    time elapsed:                        {record['elapsed_s']:.4f}s"
    else:
        yield "General statistics:"
        yield f"    total time:                          {record['elapsed_s']:.4f}s"
    yield f"    total number of events:              {record['events']}"
    yield ""


def _mean_and_deviation(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return f"{mean:.4f}/{deviation:.2f}"


def _histogram(places: Sequence[tuple[float, int]]) -> Iterator[str]:
    yield "Latency histogram (values are in milliseconds)"
    most = max((count for _, count in places), default=0)
    if most:
        yield "       value  ------------- distribution ------------- count"
    for value_ms, count in places:
        stars = "*" * math.floor(count * _BAR / most + 0.5)
        yield f"{value_ms:12.3f} |{stars:<40} {count}"
    yield " "
