"""`server=DSN,DSN`: servers that run already, each named by a connection string of libpq."""

import re
from collections.abc import Mapping

from pgassay.errors import UsageError
from pgassay.factors.base import FactorKind, distinct
from pgassay.model.arm import ArmSpec
from pgassay.model.redaction import without_secrets

NAME = "server"
# A comma also stands in lists of hosts, so a new server begins only where a connection string does: at a
# scheme, at a keyword with its equals sign, or at a quote around the whole.
_BEGINNING = re.compile(r"\s*(?:'|postgres(?:ql)?://|[a-z_]+\s*=)")
_SCHEME = re.compile(r"\s*postgres(?:ql)?://")


def split_connection_strings(text: str) -> tuple[str, ...]:
    """The connection strings of `server=…`, as typed; raises UsageError for an empty one or an open quote.

    A string wholly in single quotes is taken as it is, with '' for a quote. No message repeats what was
    typed: it may hold a password.
    """
    strings, rest, number = [], text, 0
    while True:
        number += 1
        found, rest = _quoted(rest, number) if rest.lstrip().startswith("'") else _plain(rest)
        if not found.strip():
            raise UsageError(
                f"{NAME}=: connection string {number} is empty: write {NAME}=host=A dbname=D,host=B dbname=D"
            )
        strings.append(found.strip())
        if not rest:
            return tuple(strings)
        rest = rest[1:]


def _quoted(text: str, number: int) -> tuple[str, str]:
    match = re.match(r"\s*'((?:[^']|'')*)'\s*(?=,|$)", text)
    if match is None:
        raise UsageError(
            f"{NAME}=: the quote around connection string {number} is not closed: write '…' around "
            "the whole string, with '' for a quote inside"
        )
    return match[1].replace("''", "'"), text[match.end() :]


def _plain(text: str) -> tuple[str, str]:
    """Up to the comma before the next connection string; in KEY='VALUE' commas count for nothing."""
    has_quotes = _SCHEME.match(text) is None
    index, is_inside = 0, False
    while index < len(text):
        sign = text[index]
        if is_inside and sign == "\\":
            index += 1
        elif has_quotes and sign == "'":
            is_inside = not is_inside
        elif sign == "," and not is_inside and (_BEGINNING.match(text, index + 1) or index + 1 == len(text)):
            break
        index += 1
    return text[:index], text[index:]


def split(name: str, text: str) -> tuple[str, ...]:
    """The levels as they may be shown; the plan names them after the servers that answer."""
    return distinct(name, tuple(without_secrets(each) for each in split_connection_strings(text)))


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """Raises UsageError: which server a level is, only the plan knows, after it has asked it."""
    raise UsageError(f"{name}={level} can't be used with {spec.workload.family}: leave it out")


def kind_of(patches: Mapping[str, Mapping[str, object]]) -> FactorKind:
    """The kind whose levels are servers that have answered: name → what the arm's description says of it."""

    def apply_server(_name: str, level: str, spec: ArmSpec) -> ArmSpec:
        return spec.model_copy(update=dict(patches[level]))

    return FactorKind(split=split, apply=apply_server)


KIND = FactorKind(split=split, apply=apply, is_base=True, fixed_by="--server ")
