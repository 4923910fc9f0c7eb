"""Which packages a program needs beyond itself: the closure of its shared libraries, nothing else.

Asking apt to resolve a whole package drags in perl, init scripts and configuration tools, and
fails across suites; a program unpacked privately only needs what its loader looks for.
"""

import re
from collections.abc import Callable

Stanzas = dict[str, dict[str, str]]
_NAME = re.compile(r"^\s*([a-z0-9][a-z0-9+.-]+)")
# The host's own C library serves packages of the host's own release. Its loader and its libraries
# must stay one pair, so these come together or not at all.
_C_LIBRARY = ("libc6", "libc-bin", "libc6-i386")
# Data and helpers whose names begin with `lib` but which hold nothing that a loader opens.
_NOT_LIBRARIES = re.compile(r"^(lib.*-(data|bin|common|runtime|modules.*|doc|perl)|libpam-.*)$")


def library_closure(
    packages: tuple[str, ...], look_up: Callable[[tuple[str, ...]], Stanzas], *, with_libc: bool
) -> tuple[Stanzas, list[str]]:
    """Return ({package: fields} of `packages` and all libraries they need, those not found).

    `look_up` maps names to the stanzas of those that exist. Of alternatives (`a | b`) the first
    library counts. `with_libc` says whether the C library belongs to the closure.
    """
    found: Stanzas = {}
    missing: list[str] = []
    wanted = packages
    while wanted:
        stanzas = look_up(wanted)
        missing += [name for name in wanted if name not in stanzas]
        found |= stanzas
        needed = {
            name
            for fields in stanzas.values()
            for name in library_dependencies(fields)
            if with_libc or name not in _C_LIBRARY
        }
        wanted = tuple(sorted(needed - found.keys() - set(missing)))
    return found, missing


def library_dependencies(fields: dict[str, str]) -> list[str]:
    """Return the library packages that a stanza depends on."""
    names = []
    for field in ("pre-depends", "depends"):
        for group in fields.get(field, "").split(","):
            alternatives = [match[1] for part in group.split("|") if (match := _NAME.match(part))]
            library = next((name for name in alternatives if is_library(name)), None)
            if library is not None:
                names.append(library)
    return names


def is_library(name: str) -> bool:
    """Whether a package holds shared libraries, going by its name."""
    return (name.startswith("lib") or name == "zlib1g") and not _NOT_LIBRARIES.match(name)
