"""The files that are meant, those that were typed or all examples, and their tables `[[claim]]`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from pgassay.analysis.causes.registry import cause_names
from pgassay.analysis.claims.figures import FIGURES
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import read_document
from pgassay.model.base import Frozen
from pgassay.model.further_results.claims import Claim, Kind, Needs, Says, Source
from pgassay.words import join

ALL = "all"
_EXAMPLES = Path("examples")
# Where pgassay is run from its sources, which have them too.
_OF_THE_SOURCES = Path(__file__).resolve().parents[4] / _EXAMPLES
# Where a file states no band: a quarter more or less, which other hardware of the same kind makes of a ratio.
BAND_DEFAULT = 1.25
_OF: dict[Kind, str] = {
    "speed": "speed",
    "statements": "the speed of two statements",
    "blocks": "blocks",
    "figure": "a figure",
    "setting": "a setting",
    "limit": "a limit",
    "price": "a price",
    "order": "an order",
    "factors": "two factors",
}


@dataclass(frozen=True)
class ClaimedFile:
    """An experiment's file with its claims; `name`: of the folder of its results."""

    path: Path
    name: str
    claims: tuple[Claim, ...]


def claimed_files(typed: Sequence[Path]) -> tuple[ClaimedFile, ...]:
    """The files that were typed, each once; `all` stands for the examples that have claims.

    Raises UsageError for a file that can't be read or has no claim, and for two of the same name.
    """
    paths: dict[Path, None] = {}
    for path in typed:
        paths.update(dict.fromkeys(_examples() if str(path) == ALL else [path]))
    files = tuple(ClaimedFile(path, path.stem, read_claims(path)) for path in paths)
    names = [file.name for file in files]
    for file in files:
        if names.count(file.name) > 1:
            raise UsageError(
                f"two of the files are called {file.name}.toml, and each needs its "
                "own folder: run them separately with --out"
            )
    return files


def _examples() -> list[Path]:
    """Those with claims: of ./examples, else of the sources."""
    folder = _EXAMPLES if _EXAMPLES.is_dir() else _OF_THE_SOURCES
    found = [path for path in sorted(folder.glob("*.toml")) if "claim" in read_document(path)]
    if not found:
        raise UsageError(f"there are no examples with claims in ./{_EXAMPLES}: name files instead of {ALL}")
    return found


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a file, each with its band; raises UsageError naming the file, the claim and the key."""
    document = read_document(path)
    tables = document.get("claim", [])
    if not isinstance(tables, list) or not tables:
        instead = "add a table [[claim]], as docs/claims.md shows"
        if isinstance(tables, dict) or "claims" in document:
            instead = f"write [[claim]] instead of {'[claim]' if 'claim' in document else '[[claims]]'}"
        raise UsageError(f"{path} has no claim: {instead}")
    claims = tuple(_claim(path, number, table) for number, table in enumerate(tables, 1))
    ids = [claim.id for claim in claims]
    for id_ in ids:
        if ids.count(id_) > 1:
            raise UsageError(f"{path}: two claims have the id '{id_}': give each its own")
    return claims


def _claim(path: Path, number: int, table: object) -> Claim:
    try:
        claim = Claim.model_validate(table)
    except ValidationError as error:
        raise UsageError(f"{path}: {_called(number, table)}: {_wrong(error)}") from error
    where = f"{path}: {_called(number, table)}"
    for key, value in (("id", claim.id), ("text", claim.text), ("title", claim.source.title)):
        if not value.strip():
            raise UsageError(f"{where}: {key} is empty: write {_WANTED[key]}")
    if claim.source.date and not _DATE.fullmatch(claim.source.date):
        raise UsageError(f'{where}: source.date = "{claim.source.date}": write {_WANTED["date"]}')
    _refuse_mixed(claim, where)
    return _with_band(claim, where)


def _called(number: int, table: object) -> str:
    """The claim as its reader finds it: by its id where it has one."""
    id_ = table.get("id") if isinstance(table, dict) else None
    return f"claim '{id_}'" if isinstance(id_, str) and id_ else f"claim {number}"


def _wrong(error: ValidationError) -> str:
    """What the first wrong key is, and what to write there."""
    first = error.errors()[0]
    names = [part for part in first["loc"] if isinstance(part, str)]
    key, whole = (names or ["the table"])[-1], ".".join(names) or "the table"
    parts: dict[str, type[Frozen]] = {"source": Source, "needs": Needs}
    model = parts.get(names[0]) if len(names) > 1 else Claim
    if first["type"] == "missing" and names[:1] != ["band"]:
        return f"{whole} is missing: add it ({_WANTED[key]})"
    if first["type"] == "extra_forbidden" and model is not None:
        known = join(list(model.model_fields))
        return f"there is no key '{key}'{f' in {names[0]}' if len(names) > 1 else ''}: the keys are {known}"
    return f"{whole} = {_as_typed(first['input'])}: write {_WANTED.get(key, 'what docs/claims.md shows')}"


def _as_typed(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?")
_WANTED = {
    "id": "a short name in quotes",
    "text": "the claim in words, in quotes",
    "source": '{ title = "where it was published" }',
    "title": "the publication's title in quotes",
    "date": '"YYYY-MM" or "YYYY-MM-DD", in quotes',
    "url": "an address in quotes",
    "says": "one of " + ", ".join(get_args(Says)),
    "published": "a number, as 1.5",
    "band": "two numbers, as [1.2, 1.8]",
    "needs": '{ cores = 4, memory_gb = 16 } or { elsewhere = "…" }',
    "cores": "a whole number of processors",
    "memory_gb": "a number of GB",
    "order": "a list of arms, the fastest first",
    "blocks": "true",
    "price": "true",
}
_SAYS: dict[Kind, tuple[Says, ...]] = {
    "speed": ("faster", "slower", "equal"),
    "statements": ("faster", "slower", "equal"),
    "blocks": ("fewer", "more", "equal"),
    "figure": ("less", "more", "equal"),
    "setting": ("differs", "equal"),
    "limit": ("limited",),
    "price": ("cheaper", "dearer", "equal"),
    "order": ("ordered",),
    "factors": ("larger",),
}
# Words that say a ratio above 1, below 1, and those that need none.
_ABOVE: tuple[Says, ...] = ("faster", "more", "dearer")
_WITHOUT_SIZE: tuple[Says, ...] = ("equal", "differs", "limited", "ordered", "larger")
_MARKS = ("blocks", "figure", "setting", "cause", "price", "order", "factor")


def _refuse_mixed(claim: Claim, where: str) -> None:
    """Raise UsageError for a claim whose keys don't belong to one kind."""
    kind, says = claim.kind, _SAYS[claim.kind]
    named = [key for key in _MARKS if getattr(claim, key)]
    if len(named) > 1:
        raise UsageError(f"{where} has {join(named)}: keep one of them")
    _refuse_keys_of_others(claim, where)
    if kind == "figure":
        says = _says_of_figure(claim, where)
    if claim.says not in says:
        raise UsageError(f'{where} is of {_OF[kind]}, and says = "{claim.says}": write {" or ".join(says)}')
    if claim.against_statement and (claim.against or not claim.statement):
        raise UsageError(f"{where} has against_statement: give it a statement, and leave against out")
    if kind == "limit" and claim.cause not in cause_names():
        raise UsageError(f"{where}: there is no cause '{claim.cause}': docs/causes.md has their names")
    if kind in ("order", "factors"):
        _refuse_arms(claim, where)
    else:
        is_alone = kind == "limit" or bool(claim.against_statement)
        if is_alone is bool(claim.against):
            wrong = "is about one arm: leave against out" if is_alone else "lacks against: name an arm"
            raise UsageError(f"{where} {wrong}")
        if not claim.arm:
            raise UsageError(f"{where} lacks arm: name one")
    if kind not in ("speed", "statements", "blocks", "figure", "price") and (
        claim.statement or claim.published is not None
    ):
        raise UsageError(f"{where} is of {_OF[kind]}: leave statement and published out")


def _refuse_keys_of_others(claim: Claim, where: str) -> None:
    """Raise UsageError for a key that this kind would ignore, and for one thing compared with itself."""
    for key, of in (("table", "figure"), ("against_factor", "factor")):
        if getattr(claim, key) and not getattr(claim, of):
            raise UsageError(f"{where} has {key} and no {of}: add {of}, or leave {key} out")
    if claim.arm and claim.arm == claim.against:
        raise UsageError(f"{where}: arm and against are both {claim.arm}: name two arms")
    if claim.statement and claim.statement == claim.against_statement:
        twice = f"statement and against_statement are both {claim.statement}"
        raise UsageError(f"{where}: {twice}: name two statements")


def _says_of_figure(claim: Claim, where: str) -> tuple[Says, ...]:
    """The words for the figure of a claim; raises UsageError for one that there is not."""
    kind = FIGURES.get(claim.figure)
    if kind is None:
        raise UsageError(f"{where}: there is no figure '{claim.figure}': write one of {', '.join(FIGURES)}")
    if kind.has_table is not bool(claim.table):
        wrong = "is of a table: add table" if kind.has_table else "is not of one table: leave table out"
        raise UsageError(f"{where}: {claim.figure} {wrong}")
    return ("differs", "equal") if kind.in_text else _SAYS["figure"]


def _refuse_arms(claim: Claim, where: str) -> None:
    """Raise UsageError for an order or two factors with the keys of a claim on two arms."""
    if claim.arm or claim.against:
        raise UsageError(f"{where} is of {_OF[claim.kind]}: leave arm and against out")
    if claim.kind == "order" and not all(each.strip() for each in claim.order):
        raise UsageError(f"{where}: order has an empty name: name an arm, or leave it out")
    if claim.kind == "order" and len({*claim.order}) < max(2, len(claim.order)):
        raise UsageError(f"{where}: an order needs two arms or more, each named once: correct it")
    if claim.kind == "factors" and (claim.stratum or claim.against_factor in ("", claim.factor)):
        raise UsageError(f"{where} is of two factors: add against_factor, and leave stratum out")


def _with_band(claim: Claim, where: str) -> Claim:
    published = claim.published
    if claim.says in _WITHOUT_SIZE:
        if published is not None or claim.band is not None:
            raise UsageError(f'{where} has says = "{claim.says}": leave published and band out')
        return claim
    if published is None:
        if claim.band is not None:
            raise UsageError(f"{where} has a band but no published figure: add published")
        return claim
    if not 0 < published < math.inf or (published > 1) is not (claim.says in _ABOVE):
        sign = "above" if claim.says in _ABOVE else "between 0 and"
        raise UsageError(f'{where}: published = {published:g} with says = "{claim.says}": write one {sign} 1')
    low, high = claim.band or (published / BAND_DEFAULT, published * BAND_DEFAULT)
    if not 0 < low <= published <= high < math.inf:
        instead = f"write two numbers above 0 with {published:g} between them"
        raise UsageError(f"{where}: the band [{low:g}, {high:g}] is not around {published:g}: {instead}")
    return claim.model_copy(update={"band": (low, high)})
