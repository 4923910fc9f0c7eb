"""Arms whose preparation makes indexes alone, on data that all of them share.

The data get the indexes of all arms, built once, and each arm is without those that it does not make: they
are hidden while it has its turn (`environment/server/index_visibility.py`). What else is done to the data of
one arm can't be hidden, and keeps data of its own.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgassay.model.arm import Arm

if TYPE_CHECKING:
    from pgassay.design.index_scripts import IndexScript

_IF_NOT_EXISTS = "if not exists"


@dataclass(frozen=True)
class SharedData:
    """Arms on data that all share; switched: the indexes that some arm is without, by qualified name.

    reason: why they can't, in a clause, '' where they can, or have the same data anyway.
    """

    arms: tuple[Arm, ...]
    switched: tuple[str, ...] = ()
    reason: str = ""


def on_shared_data(arms: tuple[Arm, ...]) -> SharedData:
    """The arms on data with the indexes of all, each without those of the others, where no more differs."""
    by_stratum: dict[str, set[tuple[str, ...]]] = {}
    for arm in arms:
        by_stratum.setdefault(arm.stratum, set()).add(arm.spec.prepare)
    if all(len(found) == 1 for found in by_stratum.values()):
        return SharedData(arms)
    from pgassay.design.index_scripts import (
        OtherSqlError,
        closed_beginning,
        moves_names,
        read_index_script,
    )

    common = _beginning([arm.spec.prepare for arm in arms])
    # An arm's own COMMIT would be missing after a BEGIN that all have: indexes need no transaction.
    common = common[: closed_beginning(common)]
    if moved := moves_names(common):
        return SharedData(
            arms, reason=f"all arms begin with {moved}, so an index name may mean another index"
        )
    scripts: dict[str, IndexScript] = {}
    for arm in arms:
        try:
            scripts[arm.name] = read_index_script(arm.spec.prepare[len(common) :])
        except OtherSqlError as error:
            return SharedData(
                arms, reason=f"{arm.name} runs {error}, and a running server can switch only indexes"
            )
    reason = _of_settings(arms) or _of_scripts(scripts)
    if reason:
        return SharedData(arms, reason=reason)
    indexes = _merged(script.indexes for script in scripts.values())
    before = dict.fromkeys(sql for script in scripts.values() for sql in script.before)
    analysed = next(iter(scripts.values())).analysed
    # Of an extension that two arms create, in different words, the second may find it there.
    ordered = sorted(before, key=lambda sql: _IF_NOT_EXISTS in sql.lower())
    prepare = (*common, *ordered, *indexes.values(), *analysed)

    def shared(arm: Arm) -> Arm:
        hidden = tuple(name for name in indexes if name not in scripts[arm.name].indexes)
        spec = arm.spec.model_copy(update={"prepare": prepare, "without_indexes": hidden})
        return arm.model_copy(update={"spec": spec})

    made = tuple(shared(arm) for arm in arms)
    hidden = {name for arm in made for name in arm.spec.without_indexes}
    return SharedData(made, tuple(name for name in indexes if name in hidden))


def _beginning(found: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The statements that all begin with."""
    alike = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*found, strict=False))
    return tuple(each[0] for each in alike)


def _of_settings(arms: Sequence[Arm]) -> str:
    if any("search_path" in arm.spec.settings for arm in arms):
        return "search_path is set, so an index name may mean another index"
    return ""


def _of_scripts(scripts: Mapping[str, "IndexScript"]) -> str:
    """Why indexes of these arms can't be on one copy of the data; by the arms' names."""
    made: dict[str, tuple[str, str, str]] = {}
    (first, one), *others = scripts.items()
    for arm, script in scripts.items():
        if script.unsure:
            return (
                f"{arm} makes {script.unsure[0]} IF NOT EXISTS, so it may be a different index: leave IF "
                "NOT EXISTS out"
            )
        for key, sql in script.indexes.items():
            text, name = " ".join(sql.split()), key.rpartition('."')[2].strip('"')
            known = made.setdefault(name, (arm, key, text))
            if known[1:] != (key, text):
                return f"{known[0]} and {arm} make different indexes called {name}: give each its own name"
    for arm, script in others:
        if sorted(script.analysed) != sorted(one.analysed):
            which = arm if script.analysed else first
            return (
                f"{which} runs ANALYZE and another arm does not, so their statistics differ: "
                "leave it out, or give it to all"
            )
    return ""


def _merged(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for each in found:
        merged |= each
    return merged
