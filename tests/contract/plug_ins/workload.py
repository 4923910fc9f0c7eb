"""`toy[:limit=N]`: one query on the table of the dataset `toy`."""

from pgassay.model.workload import Metric, Statement, WorkloadSpec
from pgassay.value_syntax import option_lists, quantities


def parse(family: str, text: str) -> WorkloadSpec:
    """The query, of all toys or of the first N; raises UsageError for an option that is not known."""
    given = option_lists.of(text, f"workload {family}", ("limit",))
    limit = quantities.whole(given.get("limit", "1000"), "limit", least=1, most=1000)
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
