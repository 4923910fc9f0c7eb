"""`config=17,18+io_method=sync,18+io_method=worker`: levels that set several things, in one family.

A level is parts between plus signs: NAME=VALUE as any factor has it; a version alone (`18`) may be the first.
A plus sign ends a part only where NAME= follows, so that values may hold one.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from pgassay.errors import UsageError
from pgassay.factors import build, copy, server, sql, version
from pgassay.factors.base import LAST, FactorKind, split_levels
from pgassay.model.arm import ArmSpec
from pgassay.workloads.pgbench import VARIABLE

NAME = "config"
VERSION, BUILD = "version", "build"
_CHOOSING = (VERSION, BUILD)
# These are more than a patch of one arm: what is compared must be alike in all of them, or is a server.
_REFUSED = (sql.NAME, server.NAME, copy.NAME, "prepare", NAME)
_PART = re.compile(r"\+(?=\s*@?[A-Za-z_][\w.]*\s*=)")
_VERSION = re.compile(r"\d+(?:\.\d+)?")
_EXAMPLE = f"{NAME}=17,18+io_method=sync,18+io_method=worker"
KindOf = Callable[[str], FactorKind]


def parts_of(level: str) -> dict[str, str]:
    """What a level sets, by name; raises UsageError for a part that is none, or one that is set twice."""
    found: dict[str, str] = {}
    for place, text in enumerate(_PART.split(level)):
        part = text.strip()
        if not place and _VERSION.fullmatch(part):
            part = f"{VERSION}={part}"
        name, equals, value = part.partition("=")
        name = name.strip()
        # As with factors: names of variables differ by case, all others don't.
        name = name if name.startswith(VARIABLE) else name.lower()
        if not equals or not name or not value:
            raise UsageError(
                f"{NAME}={level}: '{part}' is not part of a level: write a version first, then NAME=VALUE, "
                f"as {_EXAMPLE}"
            )
        if name in _REFUSED:
            raise UsageError(f"{NAME}={level}: {name} can't be part of a level: make it a separate factor")
        if name in found:
            raise UsageError(
                f"{NAME}={level} sets {name} twice, to {found[name]} and {value}: leave one of them out"
            )
        found[name] = value
    if len(found.keys() & {*_CHOOSING}) > 1:
        raise UsageError(f"{NAME}={level} names both a version and a build: leave one of them out")
    return found


def names_of(levels: dict[str, str]) -> frozenset[str]:
    """What an arm's levels set: its factors, and the parts of its `config` level."""
    return frozenset({*levels, *(parts_of(levels[NAME]) if NAME in levels else ())})


def split(name: str, text: str) -> tuple[str, ...]:
    """The levels; one with a comma of its own stands in quotes, as a storage with options does."""
    return split_levels(name, text)


def kind_of(levels: tuple[str, ...], kind_for: KindOf) -> FactorKind:
    """The kind of these levels; `kind_for`: the kind of each part by its name.

    Raises UsageError where only some levels choose a build: then nobody can tell what the others run on.
    """
    parts = {level: parts_of(level) for level in levels}
    for level, found in parts.items():
        for part, value in found.items():
            values = kind_for(part).split(part, value)
            if len(values) != 1:
                raise UsageError(
                    f"{NAME}={level}: {part}={value} is {len(values)} levels: write one value, and "
                    f"one more level of {NAME} for each of the others"
                )
            # Without the quotes that keep a comma inside it, as a level of a factor of its own.
            found[part] = values[0]
    choosing = [level for level, found in parts.items() if found.keys() & {*_CHOOSING}]
    apply_all = partial(_apply, parts, kind_for)
    if not choosing:
        return FactorKind(split=split, apply=apply_all)
    lacking = [level for level in levels if level not in choosing]
    if lacking:
        raise UsageError(
            f"{NAME}={choosing[0]} names its PostgreSQL but {NAME}={lacking[0]} does not: name "
            f"one in every level, as {_EXAMPLE}, or in none"
        )
    return FactorKind(split=split, apply=apply_all, bind=partial(_bind, parts, kind_for))


def _bind(
    parts: dict[str, dict[str, str]], kind_for: KindOf, _name: str, _levels: tuple[str, ...]
) -> FactorKind:
    """The kind with its builds found: all versions of one builder, as `version=` chooses it."""
    bound = {}
    for name, kind in ((VERSION, version.KIND), (BUILD, build.KIND)):
        values = tuple(dict.fromkeys(each[name] for each in parts.values() if name in each))
        if values and kind.bind is not None:
            bound[name] = kind.bind(name, values)

    def kind_of_part(name: str) -> FactorKind:
        return bound.get(name) or kind_for(name)

    builds = {f"{name}={level}": each for name, kind in bound.items() for level, each in kind.builds.items()}
    return replace(
        FactorKind(split=split, apply=partial(_apply, parts, kind_of_part)),
        builds=builds,
    )


def _apply(
    parts: dict[str, dict[str, str]], kind_for: KindOf, _name: str, level: str, spec: ArmSpec
) -> ArmSpec:
    """The arm with all parts of a level, those first that choose what the others patch."""
    found = parts[level]
    for name in sorted(found, key=lambda each: _turn(each, kind_for(each))):
        spec = kind_for(name).apply(name, found[name], spec)
    return spec


def _turn(name: str, kind: FactorKind) -> int:
    """When a part is applied: first what the others patch, last what rests on another."""
    if kind.is_base or name in _CHOOSING:
        return 0
    return 2 if name in LAST else 1


def check_beside(levels: Collection[str], others: Collection[str]) -> None:
    """Raise UsageError for a part that is a factor of its own as well, or given to all arms."""
    names = {part for level in levels for part in parts_of(level)}
    twice = sorted(names & {*others})
    if twice:
        raise UsageError(f"{twice[0]} is part of {NAME}= and is also set separately: leave one of them out")
    for part, other in (("read_ahead", "storage"), ("storage", "read_ahead")):
        if part in names and other in others:
            raise UsageError(
                f"{NAME}= sets {part}, to which the separate {other} belongs: write both in {NAME}="
            )


def apply(name: str, level: str, spec: ArmSpec) -> ArmSpec:
    """Raises UsageError: what a level sets is known once all of them are read (`kind_of`)."""
    raise UsageError(f"{name}={level} for {spec.workload.family}: write two levels or more, as {_EXAMPLE}")


KIND = FactorKind(split=split, apply=apply)
