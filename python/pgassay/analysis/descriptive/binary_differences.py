"""In what two arms' binaries differ beside their version: who built them, with what options and compiler."""

import re

from pgassay.analysis.verdicts.blocks import BlockTable
from pgassay.model.arm import Arm
from pgassay.model.trial import TrialRecord

# Warnings, debugging symbols and the builder's own paths change no instruction.
_HARMLESS = re.compile(r"-W|-g|-I|-f(file|debug|macro)-prefix-map=|-f(no-)?diagnostics|-pipe$")
_COMPILER = re.compile(r"compiled by (.+?), \d+-bit")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def builder_difference(arm: Arm, control: Arm, table: BlockTable) -> str:
    """'builder (npm against apt), options (-Os against -O2)', the arm's first; '' for binaries made alike.

    Options are those that decide what the compiler emits; the compiler is what the server itself tells by
    version(), and differs when its name or major version does. Both need to be known on both sides.
    """
    mine, other = arm.spec.build, control.spec.build
    if mine == other or arm.spec.server is not None:
        # Of a server that runs already the binaries are not known; the plan says what else differs.
        return ""
    parts = []
    if mine.origin != other.origin:
        parts.append(f"builder ({mine.origin} against {other.origin})")
    parts += _options(mine.cflags, other.cflags)
    compilers = [_compiler(table.valid.get(item.id, ())) for item in (arm, control)]
    if all(compilers) and _family(compilers[0]) != _family(compilers[1]):
        parts.append(f"compiler ({compilers[0]} against {compilers[1]})")
    return ", ".join(parts)


def _options(mine: str, other: str) -> list[str]:
    if not mine or not other:
        # Two paths without pg_config: nothing is known, so nothing is claimed and nothing is trusted.
        return ["options (unknown)"]
    left, right = _deciding(mine), _deciding(other)
    if left == right:
        return []
    only = [" ".join(sorted(a - b)) or "none" for a, b in ((left, right), (right, left))]
    return [f"options ({only[0]} against {only[1]})"]


def _deciding(flags: str) -> set[str]:
    """The options that decide the code; of several levels of optimisation the last holds."""
    words = [word for word in flags.split() if not _HARMLESS.match(word)]
    levels = [word for word in words if word.startswith("-O")]
    return {word for word in words if not word.startswith("-O")} | set(levels[-1:])


def _compiler(records: tuple[TrialRecord, ...]) -> str:
    """'gcc 14.2.0'; '' when no trial told it."""
    match = _COMPILER.search(records[0].facts.settings.get("version", "")) if records else None
    if match is None:
        return ""
    versions = _VERSION.findall(match[1])
    name = next((word for word in ("clang", "gcc") if word in match[1].casefold()), match[1].split()[0])
    return f"{name} {versions[-1]}" if versions else name


def _family(compiler: str) -> str:
    return compiler.partition(".")[0]
