"""The builds of both versions: of one builder, by preference one that has what the source uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgassay.environment.builds.base import Origin, check_version, parse_version
from pgassay.environment.builds.registry import ORIGINS
from pgassay.environment.server.initdb import can_have_locale
from pgassay.errors import UsageError
from pgassay.factors import version
from pgassay.model.build import Build
from pgassay.tune.source.source_server import SourceServer

OLDEST = 16
_NAME = "version"
_ICU = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE l.collprovider = 'i' AND a.attnum > 0 AND NOT a.attisdropped
    AND n.nspname NOT IN ('pg_catalog', 'information_schema'))"""
_ANY_OF_ICU = "icu:und"


@dataclass(frozen=True)
class BuildsOfBoth:
    """Those of the old and the new version, and how a level of a comparison names each."""

    old: Build
    new: Build
    levels: tuple[str, str]


@dataclass(frozen=True)
class NeededOfBuild:
    """What the source uses and a build may come without; `version`: its own, with the minor release."""

    extensions: Sequence[str]
    icu: bool
    version: str = ""

    def missing(self, builds: Mapping[str, Build]) -> tuple[bool, int, bool]:
        """Whether one is without ICU, how many extensions are missing, whether none is the source's release.

        The less the better: another minor release answers some statements otherwise than was captured.
        """
        without = sum(each not in build.extensions for each in self.extensions for build in builds.values())
        lacks_icu = self.icu and not all(can_have_locale(each, _ANY_OF_ICU) for each in builds.values())
        return lacks_icu, without, all(each.version != self.version for each in builds.values())


def builds_of_both(to: str, source: SourceServer) -> BuildsOfBoth:
    """The builds to run the source's own version, or the oldest that is measured, and the new one.

    Raises UsageError with what to install.
    """
    if parse_version(check_version(to))[0] <= source.major:
        raise UsageError(
            f"--to {to}: {source.name} runs PostgreSQL {source.resolved.server.version} already: "
            f"name a newer major version, as --to {source.major + 1}"
        )
    old = str(max(source.major, OLDEST))
    with source.reading() as session:
        row = session.execute(_ICU).fetchone()
    uses_icu = source.provider == "i" or bool(row and row[0])
    # Packagers write their own release behind it: 18.6 (Debian 18.6-1).
    release = source.resolved.server.version.split()[0]
    needed = NeededOfBuild(source.facts.extensions, uses_icu, release)
    chosen = chosen_builds((old, to), needed)
    if needed.missing({to: chosen.new})[0]:
        without = f"PostgreSQL {chosen.new.version} of {chosen.new.origin}"
        raise UsageError(
            f"{source.name} uses collations of ICU, and {without} is built without it: "
            f"pgassay builds install npm:{old} npm:{to}, or apt: for both"
        )
    return chosen


def chosen_builds(
    versions: tuple[str, str], needed: NeededOfBuild, origins: Sequence[Origin] = ORIGINS
) -> BuildsOfBoth:
    """The first origin's where nothing that is needed is missing, else those that miss least."""
    found = list(version.of_one_origin(_NAME, versions, origins))
    if not found:
        # Times on builds of two makers differ by the makers too.
        text, instead = f"PostgreSQL {versions[0]} and {versions[1]}", "choose another --to"
        raise UsageError(version.what_to_do(text, versions, origins, instead))
    usual, best = found[0], min(found, key=needed.missing)
    old, new = (best[each] for each in versions)
    if best == usual:
        return BuildsOfBoth(old, new, versions)
    return BuildsOfBoth(old, new, (f"build={old.origin}:{versions[0]}", f"build={new.origin}:{versions[1]}"))
