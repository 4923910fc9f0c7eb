"""The tables `[[claim]]` of an experiment's file: what was published of its comparison."""

from pathlib import Path

from pydantic import ValidationError

from pgassay.errors import UsageError
from pgassay.experiment.planning.file import read_document
from pgassay.model.beside.claims import Claim

# Where a file states no band: a quarter more or less, which other hardware of the same kind makes of a ratio.
BAND_DEFAULT = 1.25


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
