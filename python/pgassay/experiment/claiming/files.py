"""The files that are meant, those that were typed or all examples, and their tables `[[claim]]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pgassay.errors import UsageError
from pgassay.experiment.planning.file import read_document
from pgassay.model.beside.claims import Claim

ALL = "all"
_EXAMPLES = Path("examples")
# Where pgassay is run from its sources, which have them too.
_OF_THE_SOURCES = Path(__file__).resolve().parents[4] / _EXAMPLES
# Where a file states no band: a quarter more or less, which other hardware of the same kind makes of a ratio.
BAND_DEFAULT = 1.25


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
                f"two of the files are called {file.name}.toml, and each has a folder of its name: run them "
                "into folders of their own with --out"
            )
    return files


def _examples() -> list[Path]:
    """Those with claims: of ./examples, else of the sources."""
    folder = _EXAMPLES if _EXAMPLES.is_dir() else _OF_THE_SOURCES
    found = [path for path in sorted(folder.glob("*.toml")) if "claim" in read_document(path)]
    if not found:
        raise UsageError(f"there are no examples with claims in ./{_EXAMPLES}: name files in place of {ALL}")
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
    published = claim.published
    if claim.says == "equal":
        if published is not None or claim.band is not None:
            raise UsageError(f'{where} has says = "equal": leave published and band out')
        return claim
    if published is None:
        if claim.band is not None:
            raise UsageError(f"{where} has a band and no published figure: add published")
        return claim
    if published <= 0 or (published > 1) is not (claim.says == "faster"):
        sign = "above" if claim.says == "faster" else "between 0 and"
        raise UsageError(f'{where}: published = {published:g} with says = "{claim.says}": write one {sign} 1')
    low, high = claim.band or (published / BAND_DEFAULT, published * BAND_DEFAULT)
    if not low <= published <= high:
        raise UsageError(f"{where}: the band [{low:g}, {high:g}] is not around {published:g}: correct it")
    return claim.model_copy(update={"band": (low, high)})
