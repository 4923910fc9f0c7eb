"""A private view of a Debian archive: its own lists and cache, apt's own checks of signatures.

The host's apt settings that say how to fetch (proxy, certificates, time-outs) are taken over; its
hooks, lists and caches are not, so nothing of the host changes and no root is needed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pgassay.environment.debian.sources import (
    AptSource,
    distribution_mirror,
    host_codename,
    host_sources,
    read_stanzas,
)
from pgassay.environment.home import home
from pgassay.errors import UsageError

LISTS_AGE_S_MAX = 24 * 3600.0
HOST_SUITE = "host"
_NEEDED_PROGRAMS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb")
_NO_APT = (
    "This machine has no apt ({missing} not found), so pgassay cannot unpack {what}: install {what} with the "
    "machine's own package manager."
)
_ACQUIRE = re.compile(r'^Acquire::(?!IndexTargets|Languages)\S+ "')


def has_apt() -> bool:
    """Whether this machine has the programs that private unpacking needs."""
    return all(shutil.which(program) for program in _NEEDED_PROGRAMS)


def require_apt(what: str) -> None:
    """Raise UsageError naming `what` cannot be unpacked where there is no apt."""
    missing = [program for program in _NEEDED_PROGRAMS if shutil.which(program) is None]
    if missing:
        raise UsageError(_NO_APT.format(missing=" and ".join(missing), what=what))


@dataclass(frozen=True)
class Archive:
    """Some apt sources seen through private lists in `folder`.

    `suite` names it in messages. `own_libc`: the packages were built against the C library that
    this host runs, so the private copy of it is not needed. `preferences` is apt_preferences(5)
    text, for a suite that is incomplete by itself.
    """

    suite: str
    sources: tuple[AptSource, ...]
    folder: Path
    own_libc: bool
    preferences: str = ""

    @property
    def has_lists(self) -> bool:
        """Whether lists of these sources were fetched before, however long ago."""
        return any((self.folder / "lists").glob("*_Packages*"))

    def refresh(self, age_s_max: float = LISTS_AGE_S_MAX) -> None:
        """Fetch the archive's lists unless those at hand are younger than `age_s_max` seconds.

        Where one of several sources fails, or the network is down, what is at hand is used.
        Raises UsageError when there is nothing at hand.
        """
        if self.has_lists and self._stamp.is_file() and time.time() - self._stamp.stat().st_mtime < age_s_max:
            return
        self._write_configuration()
        result = self._run("apt-get", "-q", "update")
        # apt-get ends with 0 when a fetch fails and an older list can stand in for it.
        if result.returncode == 0 and "Failed to fetch" not in result.stderr:
            self._stamp.touch()
        elif not self.has_lists:
            raise UsageError(
                f"The package lists of the suite {self.suite} could not be fetched from "
                f"{self._addresses()} ({_last_complaint(result.stderr)}): check the network and the apt "
                "configuration, then type the same again."
            )

    def stanzas(self, packages: tuple[str, ...]) -> dict[str, dict[str, str]]:
        """Return {package: its candidate's fields, names in lower case} for those that exist here."""
        if not packages:
            return {}
        result = self._run("apt-cache", "show", "--no-all-versions", *packages)
        found: dict[str, dict[str, str]] = {}
        for stanza in read_stanzas(result.stdout):
            if stanza.get("package") in packages:
                found.setdefault(stanza["package"], stanza)
        return found

    def download(self, stanzas: dict[str, dict[str, str]], folder: Path) -> list[Path]:
        """Download the given candidates into `folder` and return the `.deb` files.

        apt checks each against the signed lists. Raises UsageError naming packages and suite.
        """
        names = [f"{name}={fields['version']}" for name, fields in stanzas.items()]
        result = self._run("apt-get", "-q", "download", *names, cwd=folder)
        files = sorted(folder.glob("*.deb"))
        if result.returncode != 0 or len(files) != len(names):
            raise UsageError(
                f"Packages of the suite {self.suite} could not be downloaded from {self._addresses()} "
                f"({_last_complaint(result.stderr)}; wanted {', '.join(sorted(stanzas))}): check the "
                "network, then type the same again."
            )
        return files

    @property
    def _stamp(self) -> Path:
        return self.folder / "fetched"

    def _sources_text(self) -> str:
        return "".join(source.stanza() for source in self.sources)

    def _addresses(self) -> str:
        return " and ".join(dict.fromkeys(uri for source in self.sources for uri in source.uris))

    def _write_configuration(self) -> None:
        for name in ("lists/partial", "cache/archives/partial", "empty"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        (self.folder / "private.sources").write_text(self._sources_text())
        (self.folder / "preferences").write_text(self.preferences)
        settings = {
            "Dir::State": self.folder,
            "Dir::State::Lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::sourcelist": self.folder / "private.sources",
            "Dir::Etc::sourceparts": self.folder / "empty",
            # apt reads the host's own settings only where these two point.
            "Dir::Etc::parts": self.folder / "empty",
            "Dir::Etc::main": self.folder / "empty.conf",
            "Dir::Etc::preferences": self.folder / "preferences",
            "Dir::Etc::preferencesparts": self.folder / "empty",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            # Descriptions for graphical software centres are a third of the download.
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        if os.geteuid() == 0:
            # The account _apt cannot write here, and what is fetched is checked by signature.
            settings["APT::Sandbox::User"] = "root"
        lines = [*_host_acquire_settings(), *(f'{name} "{value}";' for name, value in settings.items())]
        (self.folder / "apt.conf").write_text("\n".join(lines) + "\n")

    def _run(self, *command: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        if not (self.folder / "apt.conf").is_file():
            self._write_configuration()
        environment = os.environ | {"APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C"}
        return subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def host_archive(what: str = "a package") -> Archive:
    """Return everything the host's own apt sources offer. Raises UsageError where there is no apt."""
    require_apt(what)
    sources = host_sources()
    if not sources:
        raise UsageError(
            f"apt has no package source on this machine, so pgassay cannot unpack {what}: "
            "add one to /etc/apt/sources.list.d."
        )
    return _archive(HOST_SUITE, tuple(sources), own_libc=True)


def suite_archive(
    suite: str, what: str = "a package", *, completed_by: str = "", taken: tuple[str, ...] = ()
) -> Archive:
    """Return one suite on the mirror of the host's own release.

    A suite that is not complete (Debian's experimental) names the suite that completes it; then
    only the packages matching the patterns `taken` come from `suite` where both have them.
    Raises UsageError where there is no apt, or when no source carries the host's release.
    """
    require_apt(what)
    codename = host_codename()
    mirror = distribution_mirror(host_sources(), codename)
    if mirror is None:
        raise UsageError(
            "The apt sources of this machine do not name a mirror of its own release "
            f"({codename or 'unknown'}), so pgassay cannot unpack {what} from the suite {suite}: "
            "add the mirror to /etc/apt/sources.list.d."
        )
    sources = tuple(mirror.with_suite(name) for name in (suite, completed_by) if name)
    preferences = f"Package: {' '.join(taken)}\nPin: release a={suite}\nPin-Priority: 990\n" if taken else ""
    return _archive(suite, sources, own_libc=suite == codename, preferences=preferences)


def _archive(suite: str, sources: tuple[AptSource, ...], *, own_libc: bool, preferences: str = "") -> Archive:
    text = "".join(source.stanza() for source in sources) + preferences
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Archive(
        suite=suite,
        sources=sources,
        folder=home() / "apt" / f"{suite}-{key}",
        own_libc=own_libc,
        preferences=preferences,
    )


def _host_acquire_settings() -> list[str]:
    result = subprocess.run(
        ["apt-config", "dump"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return [line for line in result.stdout.splitlines() if _ACQUIRE.match(line)]


def _last_complaint(text: str) -> str:
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith(("E:", "W:"))]
    return lines[0] if lines else "apt gave no reason"
