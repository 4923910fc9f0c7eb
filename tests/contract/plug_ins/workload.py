"""`toy[:limit=N]`: one query on the table of the dataset `toy`."""

from pgassay.model.workload import Metric, Statement, WorkloadSpec
from pgassay.workloads.options import parse_options, parse_whole


def parse(family: str, text: str) -> WorkloadSpec:
    """The query, of all toys or of the first N; raises UsageError for an option that is not known."""
    options = parse_options(text, family, ("limit",))
    limit = parse_whole(options.get("limit", "1000"), "limit", 1, 1000)
    chosen = f"SELECT colour FROM toy ORDER BY id LIMIT {limit}"
    sql = f"SELECT colour, count(*) FROM ({chosen}) AS chosen GROUP BY colour"
    return WorkloadSpec(
        text=f"{family}:{text}" if text else family,
        family=family,
        kind="statements",
        metric=Metric(name="total elapsed time", unit="s", better="lower"),
        writes=False,
        statements=(Statement(name="toys_by_colour", sql=sql),),
    )
