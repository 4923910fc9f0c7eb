"""The catalogue: the project's file, with what a user's files add and correct."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from pgassay.errors import UsageError
from pgassay.model.volumes.catalogue import Catalogue

OWN_FILE = "volumes.toml"
_TABLES = ("sources", "volumes", "instances", "prices")
_NEEDS_SOURCES = ("volumes", "instances", "prices")

Table = dict[str, object]


@dataclass(frozen=True)
class LoadedCatalogue:
    """A catalogue, and the user's files in it."""

    catalogue: Catalogue
    files: tuple[str, ...]


def load_catalogue(own: Sequence[Path] = ()) -> LoadedCatalogue:
    """The project's catalogue with each of the user's files laid over it, in this order.

    A table of a user's file is laid over that of the same name, key by key; a list replaces a list.

    Raises:
        UsageError: a file can't be read, is no TOML, or says what a catalogue can't hold.
    """
    text = files("pgassay.cloud_volumes").joinpath("catalogue.toml").read_text("utf-8")
    document: Table = tomllib.loads(text)
    for path in own:
        document = _laid_over(document, _own_document(path))
        _validated(document, path)
    return LoadedCatalogue(_validated(document, None), tuple(str(path) for path in own))


def _own_document(path: Path) -> Table:
    try:
        document: Table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            raise UsageError(
                f"can't read {path} ({error.strerror}): name a TOML file with volumes"
            ) from error
        raise UsageError(f"{path} is not valid TOML ({error}): correct it") from error
    unknown = [key for key in document if key not in (*_TABLES, "date")]
    if unknown:
        raise UsageError(f"{path}: there is no table '{unknown[0]}': the tables are {', '.join(_TABLES)}")
    # The catalogue keeps its own date: that of the comparison with the providers.
    read = str(document.pop("date", "")) or date.fromtimestamp(path.stat().st_mtime).isoformat()
    # Its own name, so that of several files each is the source of its own entries.
    source = str(path)
    for kind in _TABLES:
        table = document.get(kind, {})
        if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
            raise UsageError(f"{path}: '{kind}' must be tables, as [{kind}.NAME]")
        for entry in table.values():
            if kind in _NEEDS_SOURCES and "sources" not in entry:
                entry["sources"] = [source]
    sources = cast(Table, document.setdefault("sources", {}))
    sources.setdefault(source, {"title": source, "read": read})
    return document


def _laid_over(below: Mapping[str, object], above: Mapping[str, object]) -> Table:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        both = isinstance(under, dict) and isinstance(value, dict)
        merged[key] = _laid_over(cast(Table, under), cast(Table, value)) if both else value
    return merged


def _validated(document: Table, path: Path | None) -> Catalogue:
    try:
        return Catalogue.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        place = f"{where}: " if where else ""
        raise UsageError(f"{path or 'the catalogue'}: {place}{message}: correct that") from error
