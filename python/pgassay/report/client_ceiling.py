"""What the load generator can do at most, as text."""

from collections.abc import Sequence

from pgassay.model.client_ceiling import ClientCeiling
from pgassay.report import terminal
from pgassay.report.section import Paragraph, Section, plain_table
from pgassay.report.text import clean, percent_fixed, seconds, size

_HEADS = (
    "clients",
    "threads",
    "transactions/s",
    "client CPU",
    "busy",
    "p50",
    "p99",
    "own delay p99",
    "memory",
)


def render(workload: str, ceilings: Sequence[ClientCeiling], *, unicode: bool) -> str:
    """A table with a line for each number of clients, and what to make of it."""
    rows = [
        [
            str(each.clients),
            str(each.threads),
            f"{each.transactions_per_s:,.0f}",
            seconds(each.cpu_us / 1e6),
            percent_fixed(each.busy),
            seconds(each.latency_p50_ms / 1e3),
            seconds(each.latency_p99_ms / 1e3),
            seconds(each.own_delay_p99_ms / 1e3),
            size(each.memory_bytes) or "-",
        ]
        for each in ceilings
    ]
    most = max(each.transactions_per_s for each in ceilings)
    meaning = (
        f"At most {most:,.0f} transactions a second: what a real server gives near that is the client's "
        "figure. Client CPU is of one transaction, polling for the next answer included; busy is without it. "
        "The server that answers at once takes processors as well."
    )
    title = f"What the load generator can do at most here: {clean(workload)}"
    section = Section(title, "client", (plain_table(_HEADS, rows), Paragraph(meaning)))
    return terminal.render([section], width=100, colour=False, unicode=unicode)
