"""fleet.toml: what `pgassay fleet start` wrote, and what every command that uses the fleet reads.

It names the scheduler, the machines and the files of certificates; it holds no key.
"""

import json
import secrets
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from pgassay.durable import replace_file
from pgassay.environment.home import home_path
from pgassay.errors import UsageError
from pgassay.fleet.cluster.certificates import Identity, is_name
from pgassay.model.base import Frozen

DEFAULT = "fleet.toml"
# Below the home: a folder for each fleet that was started or has a worker on this machine.
NODES = "fleet/nodes"
_HEAD = """\
# Written by `pgassay fleet start`; read by `pgassay compare --fleet`, `pgassay fleet status` and `stop`.
# Whoever can read the files under [certificates] can run programs as the workers' accounts.
"""
Kind = Literal["local", "ssh", "existing"]


class Certificates(Frozen):
    """The files that commands connect with."""

    authority: Path
    certificate: Path
    key: Path


class MachineEntry(Frozen):
    """One machine. `host` is its identity when the fleet was started: workers of one host have the same.

    ssh: what was typed, None where the worker is on the machine that started the fleet. cores: the
    processors' numbers, where it has a part of them; memory_bytes: what it may use, None where nothing
    limits it.
    """

    name: str
    host: str = ""
    ssh: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    is_part_of_host: bool = False
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None
    home: Path | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if not is_name(self.name):
            raise ValueError(
                f"{self.name!r} is not a name of a machine: use letters, digits, '.', '_' and '-'"
            )
        return self


class FleetFile(Frozen):
    """The whole file."""

    format: Literal[1] = 1
    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    kind: Kind
    scheduler: str = Field(pattern=r"^tls://.+:\d{1,5}$")
    # Where the scheduler and the authority are, on the machine that started the fleet.
    folder: Path
    program: str = "pgassay"
    ssh_config: Path | None = None
    give_up_s: float = Field(default=1800.0, gt=0)
    # By a machine's name, in which * stands for any letters, the machine that its user says it is.
    counts_as: dict[str, str] = Field(default_factory=dict)
    certificates: Certificates
    machine: tuple[MachineEntry, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [machine.name for machine in self.machine]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two machines are called {twice!r}: rename one")
        return self

    def declared(self, name: str) -> str:
        """The machine that a worker of this name counts as by `counts_as`; '' where that does not say."""
        return next((each for pattern, each in self.counts_as.items() if fnmatchcase(name, pattern)), "")

    def to_toml(self) -> str:
        """The file's text."""
        document = self.model_dump(mode="json", exclude_none=True)
        machines, certificates = document.pop("machine"), document.pop("certificates")
        counts_as = {_value(name): each for name, each in document.pop("counts_as").items()}
        parts = [_HEAD + _table(document), "[certificates]\n" + _table(certificates)]
        if counts_as:
            parts.append("[counts_as]\n" + _table(counts_as))
        return "\n".join([*parts, *("[[machine]]\n" + _table(machine) for machine in machines)])


def new_id() -> str:
    """What a fleet is called among others on the same machines."""
    return secrets.token_hex(6)


def certificates_of(identity: Identity) -> Certificates:
    """The files of an identity that was made here."""
    return Certificates(authority=identity.authority, certificate=identity.certificate, key=identity.key)


def write(fleet: FleetFile, path: Path) -> None:
    """Write it whole. Raises UsageError where that is not possible."""
    try:
        replace_file(path, fleet.to_toml().encode(), mode=0o600)
    except OSError as error:
        raise UsageError(f"can't write {path} ({error.strerror}): name another file with --file") from error


def read(path: Path) -> FleetFile:
    """Raises UsageError, with the key that is wrong, for what is missing or no fleet.toml."""
    try:
        return FleetFile.model_validate(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        started = sorted((home_path() / NODES).glob(f"*/{DEFAULT}"))
        known = f", such as {started[-1]}" if started else ""
        raise UsageError(
            f"there is no {path}: type pgassay fleet start --local 2 (or --ssh HOST,HOST), or name the "
            f"fleet's file with --file{known}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read ({error}): name the fleet's file with --file") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML ({error}): type pgassay fleet start again") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(f"{path}: {place}: {first['msg'].removeprefix('Value error, ')}") from error


def _table(values: dict[str, object]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items())


def _value(value: object) -> str:
    """A value of JSON as TOML, which writes texts, numbers and lists alike, but has no surrogate pairs."""
    if isinstance(value, str):
        # Control characters are escaped; all else stands for itself.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
