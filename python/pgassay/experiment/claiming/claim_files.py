"""The files that are meant, those that were typed or all examples, and their tables `[[claim]]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pgassay.analysis.causes.registry import cause_names
from pgassay.analysis.claims.figures import FIGURES
from pgassay.errors import UsageError
from pgassay.experiment.planning.experiment_file import read_document
from pgassay.model.further_results.claims import Claim, Kind, Says
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
    tables = read_document(path).get("claim", [])
    if not isinstance(tables, list) or not tables:
        raise UsageError(f"{path} has no claim: add a table [[claim]], as docs/claims.md shows")
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
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the table"
        raise UsageError(f"{path}: claim {number}: {key}: {first['msg'].lower()}: correct it") from error
    where = f"{path}: claim '{claim.id}'"
    _refuse_mixed(claim, where)
    return _with_band(claim, where)


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
    if claim.kind == "order" and len({*claim.order}) < max(2, len(claim.order)):
        raise UsageError(f"{where}: an order is of two arms or more, each named once: correct it")
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
    if published <= 0 or (published > 1) is not (claim.says in _ABOVE):
        sign = "above" if claim.says in _ABOVE else "between 0 and"
        raise UsageError(f'{where}: published = {published:g} with says = "{claim.says}": write one {sign} 1')
    low, high = claim.band or (published / BAND_DEFAULT, published * BAND_DEFAULT)
    if not low <= published <= high:
        raise UsageError(f"{where}: the band [{low:g}, {high:g}] is not around {published:g}: correct it")
    return claim.model_copy(update={"band": (low, high)})
