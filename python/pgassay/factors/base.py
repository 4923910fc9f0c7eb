"""The contract of a kind of factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgassay.model.arm import ArmSpec
from pgassay.model.build import Build


@dataclass(frozen=True)
class FactorKind:
    """A kind of factor.

    split(text): the levels as typed after `=`, in order; raises UsageError.
    apply(name, level, spec): the arm's description with this level; raises UsageError when the
    level makes no sense for the rest of the description. Pure: no machine is touched.
    bind(name, levels): called once before any apply, by kinds whose levels name builds; returns the
    kind whose apply knows them, and whose `builds` are those of the levels. Looks at this machine,
    never at the network; raises UsageError for a build that isn't at hand.
    is_base: it chooses what the others patch, so it is applied before them.
    fixed_by: what is typed before a level to give it to all arms, like `--pg `; '' where nothing does.
    """

    split: Callable[[str, str], tuple[str, ...]]
    apply: Callable[[str, str, ArmSpec], ArmSpec]
    bind: Callable[[str, tuple[str, ...]], FactorKind] | None = None
    builds: Mapping[str, Build] = field(default_factory=dict)
    is_base: bool = False
    fixed_by: str = ""


@dataclass(frozen=True)
class Factor:
    """A factor as the user named it, with its levels in the order typed."""

    name: str
    levels: tuple[str, ...]
    kind: FactorKind
