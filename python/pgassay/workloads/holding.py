"""How clients hold their connections, and where they are: `pool=`, `lifetime=`, `reconnect=`, `client=` …"""

import re
from collections.abc import Mapping

from pgassay.errors import UsageError
from pgassay.model.workload import BY_SSH, LoadSpec
from pgassay.value_syntax import quantities

OPTIONS = ("pool", "lifetime", "reconnect", "idle_in_transaction", "client")
POOL_MAX = 5000
# What ssh would not take for an option of its own.
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.:-]*")
NONE = "none"
# Transactions of pgassay's own that have a BEGIN and an end.
_WITH_TRANSACTION = frozenset({"tpcb", "simple-update"})


def with_connections(load: LoadSpec, options: Mapping[str, str], where: str = "workload option") -> LoadSpec:
    """The load with what these options say of its connections; raises UsageError."""
    changes: dict[str, object] = {}
    if "pool" in options:
        changes["pool"] = _pool(options["pool"], load, where)
    if "lifetime" in options:
        changes["lifetime_s"] = _seconds(options["lifetime"], f"{where} lifetime", "30s")
    if "reconnect" in options:
        typed = options["reconnect"]
        if typed not in ("yes", "no"):
            raise UsageError(f"{where} reconnect: '{typed}' is not known: write yes or no")
        changes["reconnects"] = typed == "yes"
    if "idle_in_transaction" in options:
        idle_s = _seconds(options["idle_in_transaction"], f"{where} idle_in_transaction", "20ms") or 0.0
        changes["idle_in_transaction_s"] = idle_s
    if "client" in options:
        changes["host"] = _host(options["client"], f"{where} client")
    return load.model_copy(update=changes)


def _host(text: str, where: str) -> str:
    host = text.removeprefix(BY_SSH)
    if text.isdigit():
        raise UsageError(f"{where}: '{text}' is not a host: write clients={text} for that many clients")
    if host == text or not _HOST.fullmatch(host):
        raise UsageError(
            f"{where}: '{text}' is not a host to reach: write client=ssh:HOST or client=ssh:USER@HOST"
        )
    return host


def check(load: LoadSpec, family: str, *, has_transaction: bool) -> None:
    """Raise UsageError for a pause in a transaction where there is none."""
    if load.idle_in_transaction_s and not has_transaction:
        raise UsageError(
            f"workload {family}: idle_in_transaction pauses before the end of a transaction, and it has no "
            "BEGIN and COMMIT: use tpcb, simple-update, or a script that has them"
        )


def has_transaction(family: str) -> bool:
    """Whether a transaction of pgassay's own has a BEGIN and an end."""
    return family in _WITH_TRANSACTION


def _pool(text: str, load: LoadSpec, where: str) -> int | None:
    if text == NONE:
        return None
    pool = quantities.whole(text, f"{where} pool", least=1, most=POOL_MAX)
    if pool < load.threads:
        raise UsageError(
            f"{where} pool: {load.threads} threads share {pool} connections, and each needs one: "
            f"write threads={pool} or a larger pool"
        )
    return pool


def _seconds(text: str, where: str, example: str) -> float | None:
    if text == NONE:
        return None
    return quantities.seconds(text, where, most=86400 * 30, example=example)
