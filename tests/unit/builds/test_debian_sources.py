"""The host's apt sources, in both forms, and the mirror that other suites are taken from."""

from pathlib import Path

import pytest

from pgassay.environment.builds.apt import upstream_version
from pgassay.environment.debian.sources import (
    distribution_mirror,
    host_codename,
    host_sources,
    parse_deb822,
    parse_one_line,
)
from pgassay.environment.debian.unpack import library_closure, library_dependencies

DEB822 = """\
# The release.
Types: deb deb-src
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://apt.test/pub
Suites: bookworm-pgdg
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBE
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://off.test/
Suites: off
Components: main

Types: deb-src
URIs: http://sources.test/
Suites: bookworm
Components: main
"""

ONE_LINE = """\
deb-src http://mirror.test/ubuntu noble main
# deb http://commented.test/ noble main
deb [arch=amd64,arm64 signed-by=/k.gpg] http://mirror.test/ubuntu noble main universe # a remark
deb http://flat.test/repository ./
deb nonsense
"""


def test_deb822_keeps_binary_enabled_stanzas() -> None:
    sources = parse_deb822(DEB822)
    assert [source.suites for source in sources] == [("bookworm", "bookworm-updates"), ("bookworm-pgdg",)]
    assert dict(sources[0].options) == {"signed-by": "/usr/share/keyrings/debian-archive-keyring.gpg"}


def test_embedded_key_survives_being_written_again() -> None:
    source = parse_deb822(DEB822)[1]
    assert "mQINBE" in source.stanza()
    assert parse_deb822(source.stanza()) == [source]


def test_one_line_entries() -> None:
    sources = parse_one_line(ONE_LINE)
    assert [(source.uris[0], source.suites, source.components) for source in sources] == [
        ("http://mirror.test/ubuntu", ("noble",), ("main", "universe")),
        ("http://flat.test/repository", ("./",), ()),
    ]
    assert dict(sources[0].options) == {"signed-by": "/k.gpg", "architectures": "amd64 arm64"}


def test_host_sources_reads_the_folder(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(ONE_LINE)
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "off.sources.disabled").write_text(DEB822)
    assert len(host_sources(tmp_path)) == 4
    assert host_sources(tmp_path / "nowhere") == []


def test_mirror_is_the_one_of_the_own_release() -> None:
    sources = parse_deb822(DEB822)
    mirror = distribution_mirror(list(reversed(sources)), "bookworm")
    assert mirror is not None
    assert mirror.uris == ("http://mirror.test/debian",)
    forky = mirror.with_suite("forky")
    assert "Suites: forky\nComponents: main\n" in forky.stanza()
    assert distribution_mirror(sources, "trixie") is None


def test_codename(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    path.write_text('NAME="Some Linux"\nVERSION_CODENAME="noble"\n')
    assert host_codename(path) == "noble"
    assert host_codename(tmp_path / "missing") == ""


@pytest.mark.parametrize(
    ("revision", "version"),
    [
        ("18.6-3", "18.6"),
        ("17.11-0+deb13u1", "17.11"),
        ("19~rc1-1", "19rc1"),
        ("19~beta2-1.pgdg120+1", "19beta2"),
        ("1:16.9-0ubuntu0.24.04.1", "16.9"),
    ],
)
def test_upstream_version(revision: str, version: str) -> None:
    assert upstream_version(revision) == version


def test_only_libraries_are_dependencies() -> None:
    fields = {
        "depends": "locales | locales-all, postgresql-client-18 (= 18.6), ssl-cert, libc6 (>= 2.43), "
        "debconf (>= 0.5) | debconf-2.0, libssl3t64 (>= 3.4.0) | libssl4, zlib1g (>= 1:1.1.4), "
        "libpam-runtime",
        "pre-depends": "liburing2:any (>= 2.5)",
    }
    assert library_dependencies(fields) == ["liburing2", "libc6", "libssl3t64", "zlib1g"]


def test_closure_follows_libraries_and_names_what_is_missing() -> None:
    archive = {
        "server": {"depends": "liba, libc6, perl"},
        "liba": {"depends": "libb, libgone"},
        "libb": {"depends": "liba"},
        "libc6": {"depends": "libgcc-s1"},
        "libgcc-s1": {},
    }
    asked = []

    def look_up(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
        asked.append(names)
        return {name: archive[name] for name in names if name in archive}

    found, missing = library_closure(("server",), look_up, with_libc=True)
    assert set(found) == {"server", "liba", "libb", "libc6", "libgcc-s1"}
    assert missing == ["libgone"]
    assert sum(map(len, asked)) == len({name for names in asked for name in names}), "asked twice"
    found, _ = library_closure(("server",), look_up, with_libc=False)
    assert set(found) == {"server", "liba", "libb"}
