"""The collation of a copy's database: its source's, where the copy's server and this machine have it.

Written as `--locale` takes it: a name of libc's ("en_US.utf8"), or of another provider behind a colon
("icu:en-US", "builtin:C.UTF-8").
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.datasets.dump_header import read_header
from pgassay.environment.server.initdb import can_have_locale
from pgassay.environment.server.programs import run_program
from pgassay.errors import MeasurementError, UsageError
from pgassay.model.build import Build

_PROVIDERS = {"i": "icu", "b": "builtin"}
_NAMES = {"icu": "ICU's", "builtin": "PostgreSQL's own"}
_RULES = (
    "the source's database has ICU rules of its own ({}), which the copy's has not: text may sort in another "
    "order there, so compare results that depend on it on the source"
)
_CREATED = re.compile(r"^CREATE DATABASE .*;$", re.MULTILINE)
_OPTION = r"\b{} = (?:'((?:[^']|'')*)'|(\w+))"


@dataclass(frozen=True)
class Collation:
    """A database's collation as its catalog has it.

    `provider` is 'c', 'i' or 'b' (pg_database.datlocprovider), `collation` libc's name, `locale` that of the
    provider. `encoding`: '' where it is not known. `rules`: what it adds to ICU's order
    (ICU_RULES, 16 and newer), '' if nothing.
    """

    provider: str
    collation: str
    locale: str
    encoding: str = ""
    rules: str = ""


def locale_of(source: Collation, available: frozenset[str], build: Build) -> tuple[str, str]:
    """(the locale that the copy is made with, a sentence where it is not the source's).

    `available` are the locales of this machine as `locale -a` prints them.
    """
    provider = _PROVIDERS.get(source.provider)
    if provider is not None:
        wanted = f"{provider}:{source.locale or ('und' if provider == 'icu' else 'C')}"
        if can_have_locale(build, wanted):
            return wanted, _RULES.format(source.rules) if source.rules else ""
        return "C", (
            f"the source's collation is {_NAMES[provider]} {source.locale or 'default'}, which PostgreSQL "
            f"{build.version} of {build.origin} comes without, so the copy's is C: plans that compare or "
            "sort text may differ"
        )
    wanted = source.collation
    if wanted in ("C", "POSIX") or plain_locale(wanted) in {plain_locale(name) for name in available}:
        return wanted, ""
    return "C", (
        f"the source's collation {wanted} is not installed on this machine, so the copy's is C: plans that "
        "compare or sort text may differ, and a plain index supports LIKE there but not on the source; "
        "install it, or name another with --locale"
    )


def plain_locale(name: str) -> str:
    """A locale's name as all its spellings are compared: en_US.UTF-8 is en_US.utf8."""
    language, _, encoding = name.partition(".")
    return f"{language}.{encoding.lower().replace('-', '').replace('_', '')}" if encoding else language


def installed_locales() -> frozenset[str]:
    """The locales of this machine; none where the program `locale` is missing."""
    try:
        # A name of glibc's, as that of français, may be written in Latin-1.
        done = subprocess.run(
            ["locale", "-a"], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except OSError:
        return frozenset()
    return frozenset(done.stdout.split())


def collation_of_dump(build: Build, path: Path) -> Collation | None:
    """What a dump says of its database; None for a plain one that was made without --create.

    An archive always has the database's entry (src/bin/pg_dump/pg_dump.c, dumpDatabase).
    """
    try:
        if read_header(path).format == "plain":
            with path.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_HEAD_CHARACTERS)
        else:
            words: list[Path] = [path] if path.is_dir() else []
            text = run_program(
                [
                    Path(build.bin_directory) / "pg_restore",
                    "--create",
                    "--schema-only",
                    "--file",
                    "-",
                    *words,
                ],
                f"reading {path}",
                input_path=None if words else path,
                sees=words,
            )
    except (OSError, UsageError, MeasurementError):
        return None
    return collation_in(text)


# A plain dump made with --create begins with the database.
_HEAD_CHARACTERS = 20_000


def collation_in(text: str) -> Collation | None:
    """The collation that the text's CREATE DATABASE names."""
    found = _CREATED.search(text)
    if found is None:
        return None

    def option(*names: str) -> str:
        for name in names:
            match = re.search(_OPTION.format(name), found[0])
            if match is not None:
                return (match[1] if match[1] is not None else match[2]).replace("''", "'")
        return ""

    provider = {"icu": "i", "builtin": "b"}.get(option("LOCALE_PROVIDER").lower(), "c")
    return Collation(
        provider=provider,
        collation=option("LC_COLLATE", "LOCALE") or "C",
        locale=option("ICU_LOCALE", "BUILTIN_LOCALE", "LOCALE") if provider != "c" else "",
        encoding=option("ENCODING"),
        rules=option("ICU_RULES"),
    )
