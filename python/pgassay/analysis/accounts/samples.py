"""Accounts by looks alone, of a server whose processes are on another machine.

They say which wait event a session was in. Of those in none nothing is known (a missing wait event is no sign
of CPU), so that they are the residue.
"""

from collections import Counter

from pgassay.analysis.accounts.threads import BACKEND
from pgassay.model.account import Account, AccountItem, ItemKind
from pgassay.record.observations import Columns, integers, texts

# The kind of client connections that have nothing to do.
IDLE_CONNECTION = "idle connection"
_ORDER = (BACKEND, "parallel worker", "io worker")
# By looks alone it is not known what else the server's processes do.
_ASKED = frozenset({*_ORDER, "checkpointer", "background writer", "WAL writer", "autovacuum"})


def sampled_accounts(waits: Columns, samples: int, seconds: float) -> tuple[tuple[Account, ...], float]:
    """The accounts of so many looks over so many seconds, and the seconds of connections without work.

    A look stands for the time between two of them. waits: the columns of waits.parquet, those rows alone that
    count.
    """
    sample_s = seconds / samples
    seen: dict[str, Counter[tuple[str, str]]] = {}
    names = (texts(waits, name) for name in ("kind", "activity", "wait_event_type", "wait_event"))
    for count, kind, activity, event_type, event in zip(integers(waits, "samples"), *names, strict=True):
        is_idle = kind == BACKEND and activity == "idle" and event in ("ClientRead", "")
        seen.setdefault(IDLE_CONNECTION if is_idle else kind, Counter())[event_type, event] += count
    idle = seen.pop(IDLE_CONNECTION, Counter()).total()
    order = [*(name for name in _ORDER if name in seen), *sorted(set(seen) & _ASKED - set(_ORDER))]
    made = tuple(_sampled(name, seen[name], sample_s, seconds) for name in order)
    return made, idle * sample_s


def _sampled(process: str, seen: Counter[tuple[str, str]], sample_s: float, measured_s: float) -> Account:
    wall_s = seen.total() * sample_s
    items = sorted(
        (
            AccountItem(
                kind=kind_of_wait(event_type, event),
                state="asleep",
                wait_event_type=event_type,
                wait_event=event,
                seconds=count * sample_s,
                share=count / seen.total(),
            )
            for (event_type, event), count in seen.items()
            if event_type
        ),
        key=lambda item: -item.seconds,
    )
    asleep_s = sum(item.seconds for item in items)
    return Account(
        process=process,
        threads=wall_s / measured_s,
        wall_s=wall_s,
        items=tuple(items),
        residue_s=wall_s - asleep_s,
        sampling_error_s=0.0,
        samples=seen.total(),
        asleep_s=asleep_s,
        asleep_sampled_s=asleep_s,
    )


def kind_of_wait(event_type: str, event: str) -> ItemKind:
    """Where a wait by this name counts: the client and its network are no waits in the server."""
    if event_type != "Client":
        return "wait"
    return "client" if event == "ClientRead" else "network"
