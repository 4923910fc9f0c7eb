"""The text of a storage and its meaning: `loop:size=4GB,read_ahead=128,read_mb_s=125`.

    KIND[:key=value,…]      a kind of the registry, with those of its keys that are wanted
    …,wal=KIND[:…]          with pg_wal on a storage of its own

The keys are explained in `options`. With what it costs in a month: `STORAGE=AMOUNT CURRENCY [DATE]`.
"""

import re
from collections.abc import Sequence
from typing import Any

from pgassay.errors import UsageError
from pgassay.model.storage import PriceFacts, StorageSpec
from pgassay.storage import storage_options
from pgassay.storage.registry import KINDS, kind_named
from pgassay.storage.storage_options import FIELDS, WAL, format_bytes, readable_bytes, split_wal
from pgassay.value_syntax.option_lists import pairs, split

__all__ = ["describe", "format_bytes", "parse_storage", "prices_of", "readable_bytes"]

_PRICE = re.compile(
    r"(?P<storage>.+)=\s*(?P<amount>\d+(\.\d+)?)\s+(?P<currency>[A-Za-z€$£¥]+)"
    r"(\s+(?P<date>\d{4}-\d{2}(-\d{2})?))?\s*"
)


def parse_storage(text: str) -> StorageSpec:
    """Return the storage that `text` describes; raises UsageError naming the part that is wrong."""
    kind, colon, rest = text.partition(":")
    # What is named without a kind before it is mostly a volume, whose options follow a comma.
    kind = kind.partition(",")[0].strip() if not colon else kind.strip()
    if kind not in KINDS:
        raise UsageError(
            f"Unknown storage '{kind}' in '{text}': the kinds are {', '.join(sorted(KINDS))}, as "
            "loop:size=4GB,read_ahead=128, or for a cloud volume volume:gp3,size=100GiB."
        )
    if colon and not rest:
        raise UsageError(f"Nothing after the colon in '{text}': type '{kind}' or '{kind}:key=value'.")
    rest, wal = split_wal(rest)
    parts = split(rest) if rest else []
    leading_key = KINDS[kind].leading_key
    if parts and "=" not in parts[0] and leading_key is not None:
        parts[0] = f"{leading_key}={parts[0]}"
    for part in parts:
        _check_key(kind, part.partition("=")[0].strip(), text)
    values: dict[str, Any] = {}
    own: dict[str, str] = {}
    own_keys = KINDS[kind].own_keys
    for key, value in pairs(parts, f"the storage '{text}'", KINDS[kind].keys).items():
        if key in FIELDS:
            field, convert = FIELDS[key]
            values[field] = convert(key, value, text)
        else:
            own[key] = own_keys[key](key, value, text)
    in_order = tuple((key, own[key]) for key in KINDS[kind].keys if key in own)
    spec = StorageSpec(kind=kind, own=in_order, **values)
    if wal is not None:
        spec = spec.model_copy(update={"wal": _storage_of_wal(wal, text)})
    KINDS[kind].check(spec)
    return spec


def describe(spec: StorageSpec) -> str:
    """The text that `parse_storage` turns into `spec` again."""
    kind = kind_named(spec.kind)
    text = storage_options.describe(spec, kind.keys, kind.leading_key)
    if spec.wal is None:
        return text
    return f"{text}{',' if ':' in text else ':'}{WAL}={describe(spec.wal)}"


def _parse_price(text: str) -> tuple[StorageSpec, PriceFacts]:
    """The storage that `--price` names, and its price; raises UsageError naming what is wrong."""
    match = _PRICE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--price '{text}' is not STORAGE=AMOUNT CURRENCY: write it as "
            "'volume:rds-gp2,size=40GiB=4.60 USD', or with a date after it '… USD 2026-01'"
        )
    price = {"per_month": float(match["amount"]), "currency": match["currency"], "is_given": True}
    dated = {"date": match["date"]} if match["date"] else {}
    return parse_storage(match["storage"].strip()), PriceFacts.model_validate(price | dated)


def prices_of(texts: Sequence[str], storages: Sequence[StorageSpec]) -> dict[StorageSpec, PriceFacts]:
    """The month's price of each of these storages of which it is given.

    Raises UsageError for a text that is none, for a storage that is none of them, and for two prices of one.
    """
    found: dict[StorageSpec, PriceFacts] = {}
    for text in texts:
        storage, price = _parse_price(text)
        if storage not in storages:
            known = " and ".join(dict.fromkeys(describe(each) for each in storages))
            raise UsageError(f"--price '{text}': no arm has this storage: the arms have {known}")
        if storage in found:
            raise UsageError(f"--price gives two prices of {describe(storage)}: leave one out")
        found[storage] = price
    return found


def _storage_of_wal(text: str, whole: str) -> StorageSpec:
    if not text:
        raise UsageError(f"Nothing after wal= in '{whole}': type wal=volume:gp3,size=100GiB.")
    spec = parse_storage(text)
    if spec.wal is not None:
        raise UsageError(f"'wal' is given twice in '{whole}': leave one out.")
    if spec.is_limited:
        raise UsageError(
            f"The storage of the WAL in '{whole}' can't have limits of a control group: "
            "name a volume, whose own limits hold, as wal=volume:gp3,size=100GiB."
        )
    if "instance" in dict(spec.own):
        raise UsageError(
            f"'instance' in '{whole}' belongs to the volume of the data, which is before "
            "wal=: write it there."
        )
    return spec


def _check_key(kind: str, key: str, text: str) -> None:
    keys, refusals = KINDS[kind].keys, KINDS[kind].refusals
    if key in refusals:
        raise UsageError(f"'{key}' in '{text}' {refusals[key]}")
    if key not in keys:
        raise UsageError(
            f"Unknown storage option '{key}' in '{text}': for {kind} there are {', '.join(keys)}."
        )
