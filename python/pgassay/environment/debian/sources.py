"""The host's own apt sources: which mirror, which components, signed by which keyring.

Reads both forms of `sources.list(5)`: deb822 stanzas (`*.sources`) and one-line entries (`*.list`). By hand,
and not by python-debian, because the set-up needs it before any package is installed.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ETC_APT = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<rest>\S.*)$")
# Only what changes how a package is fetched or trusted is carried over to a private source.
_KEPT_OPTIONS = ("signed-by", "trusted", "architectures", "check-valid-until", "check-date")
_ONE_LINE_NAMES = {"arch": "architectures"}


@dataclass(frozen=True)
class AptSource:
    """One binary source. `options` are deb822 fields in lower case (`signed-by`, `trusted`, …)."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    def stanza(self) -> str:
        """Return the source as a deb822 stanza, with an empty line at its end."""
        lines = ["Types: deb", f"URIs: {' '.join(self.uris)}", f"Suites: {' '.join(self.suites)}"]
        if self.components:
            lines.append(f"Components: {' '.join(self.components)}")
        lines += [f"{name.title()}: {value}" for name, value in self.options]
        return "\n".join(lines) + "\n\n"

    def with_suite(self, suite: str) -> "AptSource":
        """Return the same mirror and keyring with `suite` as its only suite."""
        return replace(self, suites=(suite,))


def host_sources(folder: Path = ETC_APT) -> list[AptSource]:
    """Return the enabled binary sources of the host, in the order apt reads them."""
    lists = [folder / "sources.list"]
    parts = folder / "sources.list.d"
    if parts.is_dir():
        lists += sorted(path for path in parts.iterdir() if path.suffix in (".list", ".sources"))
    sources: list[AptSource] = []
    for path in lists:
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        sources += parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text)
    return sources


def parse_deb822(text: str) -> list[AptSource]:
    """Parse the stanzas of a `.sources` file; disabled and source-only stanzas are left out."""
    return [source for stanza in read_stanzas(text) if (source := _from_stanza(stanza)) is not None]


def read_stanzas(text: str) -> list[dict[str, str]]:
    """Split deb822 text into stanzas: field names in lower case, continuation lines kept as they are."""
    stanzas: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    last = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                stanzas.append(fields)
            fields, last = {}, ""
        elif line[0] in " \t" and last:
            fields[last] += "\n" + line
        elif ":" in line:
            name, value = line.split(":", 1)
            last = name.strip().lower()
            fields[last] = value.strip()
    return stanzas


def _from_stanza(fields: dict[str, str]) -> AptSource | None:
    disabled = fields.get("enabled", "yes").lower() in ("no", "false", "0", "off", "without", "disable")
    if disabled or "deb" not in fields.get("types", "").split():
        return None
    if not fields.get("uris") or not fields.get("suites"):
        return None
    return AptSource(
        uris=tuple(fields["uris"].split()),
        suites=tuple(fields["suites"].split()),
        components=tuple(fields.get("components", "").split()),
        options=tuple((name, fields[name]) for name in _KEPT_OPTIONS if fields.get(name)),
    )


def parse_one_line(text: str) -> list[AptSource]:
    """Parse the `deb [options] uri suite component…` lines of a `.list` file."""
    sources = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match is None:
            continue
        words = match["rest"].split()
        if len(words) < 2:
            continue
        sources.append(
            AptSource(
                uris=(words[0],),
                suites=(words[1],),
                components=tuple(words[2:]),
                options=_one_line_options(match["options"] or ""),
            )
        )
    return sources


def _one_line_options(text: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        name = _ONE_LINE_NAMES.get(name.lower(), name.lower())
        if value:
            # One-line options separate their values by commas, deb822 fields by blanks.
            found[name] = value.replace(",", " ")
    return tuple((name, found[name]) for name in _KEPT_OPTIONS if name in found)


def host_codename(path: Path = OS_RELEASE) -> str:
    """Return VERSION_CODENAME of os-release ('' when the host names none)."""
    if not path.is_file():
        return ""
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip().strip("\"'")
    return ""


def distribution_mirror(sources: list[AptSource], codename: str) -> AptSource | None:
    """Return the source that carries the host's own release, reduced to its component `main`.

    A source whose suite is exactly the codename comes first, then `stable` and its like; updates,
    security and third-party suites (`bookworm-pgdg`) are never the mirror of other suites.
    """
    for accepted in ((codename,), ("stable", "testing", "unstable", "sid", "oldstable")):
        for source in sources:
            if "main" in source.components and set(accepted) & set(source.suites):
                return replace(source, components=("main",))
    return None
