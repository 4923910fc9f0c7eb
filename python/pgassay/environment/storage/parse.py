"""The text of a storage and its meaning: `loop:size=4GB,read_ahead=128,read_mb_s=125`.

    KIND[:key=value,…]      a kind of the registry, with those of its keys that are wanted
    …,wal=KIND[:…]          with pg_wal on a storage of its own

The keys are explained in `options`.
"""

from typing import Any

from pgassay.environment.storage import options
from pgassay.environment.storage.options import (
    FIELDS,
    WAL,
    format_bytes,
    readable_bytes,
    split_options,
    split_wal,
)
from pgassay.environment.storage.registry import KINDS, kind_named
from pgassay.errors import UsageError
from pgassay.model.storage import StorageSpec

__all__ = ["describe", "format_bytes", "parse_storage", "readable_bytes"]


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
        raise UsageError(f"Nothing follows the colon in '{text}': type '{kind}' or '{kind}:key=value'.")
    rest, wal = split_wal(rest)
    values: dict[str, Any] = {}
    own: dict[str, str] = {}
    own_keys = KINDS[kind].own_keys
    for index, part in enumerate(split_options(rest) if rest else []):
        key, equals, value = part.partition("=")
        leading_key = KINDS[kind].leading_key
        if index == 0 and not equals and leading_key is not None:
            key, equals, value = leading_key, "=", part
        key = key.strip()
        _check_key(kind, key, text)
        if not equals or not value:
            raise UsageError(f"The storage option '{key}' in '{text}' has no value: type {key}=….")
        given, (field, convert) = (values, FIELDS[key]) if key in FIELDS else (own, (key, own_keys[key]))
        if field in given:
            raise UsageError(f"The storage option '{key}' stands twice in '{text}': leave one out.")
        given[field] = convert(key, value, text)
    in_order = tuple((key, own[key]) for key in KINDS[kind].keys if key in own)
    spec = StorageSpec(kind=kind, own=in_order, **values)
    if wal is not None:
        spec = spec.model_copy(update={"wal": _storage_of_wal(wal, text)})
    KINDS[kind].check(spec)
    return spec


def describe(spec: StorageSpec) -> str:
    """The text that `parse_storage` turns into `spec` again."""
    kind = kind_named(spec.kind)
    text = options.describe(spec, kind.keys, kind.leading_key)
    if spec.wal is None:
        return text
    return f"{text}{',' if ':' in text else ':'}{WAL}={describe(spec.wal)}"


def _storage_of_wal(text: str, whole: str) -> StorageSpec:
    if not text:
        raise UsageError(f"Nothing follows wal= in '{whole}': type wal=volume:gp3,size=100GiB.")
    spec = parse_storage(text)
    if spec.wal is not None:
        raise UsageError(f"'wal' stands twice in '{whole}': leave one out.")
    if spec.is_limited:
        raise UsageError(
            f"The storage of the WAL in '{whole}' can't have limits of a control group: "
            "name a volume, whose own limits hold, as wal=volume:gp3,size=100GiB."
        )
    if "instance" in dict(spec.own):
        raise UsageError(
            f"'instance' in '{whole}' belongs to the volume of the data, which stands before wal=: "
            "write it there."
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
