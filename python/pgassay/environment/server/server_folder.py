"""A server's private folder: its socket, who may connect, and its settings.

The settings live here and not in the data directory, so that a snapshot stays as it was frozen.
They are in a file and not on the postmaster's command line because a reload cannot change what the
command line says (src/backend/utils/misc/guc.c: PGC_S_ARGV outranks PGC_S_FILE). Those that keep it private
are on both.
"""

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from pgassay.environment.cleanup import registry
from pgassay.environment.home import account
from pgassay.environment.server.programs import make_private_folder, user_name, write_private_file
from pgassay.errors import UsageError

PORT = 5432
SUPERUSER = "postgres"
# A socket's path has at most 107 bytes, so it can't lie below home().
PARENT = Path("/tmp")
_SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")

# What a private server needs to stay private and readable; no factor may touch these.
PINNED_SETTINGS = frozenset(
    {
        "config_file", "data_directory", "event_source", "external_pid_file", "hba_file", "ident_file",
        "lc_messages", "listen_addresses", "log_destination", "logging_collector", "port",
        "unix_socket_directories", "unix_socket_group", "unix_socket_permissions",
    }
)  # fmt: skip


class ServerFolder:
    """A folder /tmp/pgassay-…, 0700, owned by the servers' account, and registered while it exists."""

    def __init__(self) -> None:
        self.path = PARENT / f"pgassay-{secrets.token_hex(6)}"
        self._token: registry.CleanupToken | None = None

    @property
    def configuration_file(self) -> Path:
        """The file that the server reads its settings from."""
        return self.path / "postgresql.conf"

    @property
    def options(self) -> list[str]:
        """The settings that keep the server private, for its command line.

        There they outrank what `ALTER SYSTEM` left in the data (src/backend/utils/misc/guc.c: PGC_S_ARGV is
        above PGC_S_FILE, and postgresql.auto.conf above the file that is named).
        """
        values = {"config_file": str(self.configuration_file), **self._own_settings()}
        return [word for name, value in values.items() for word in ("-c", f"{name}={value}")]

    def make(self, settings: Mapping[str, str]) -> None:
        """Make the folder with its three files; raises UsageError for settings that cannot be."""
        check_settings(settings)
        self._token = registry.register("folder", path=str(self.path))
        make_private_folder(self.path)
        owner = account()
        users = sorted({user_name(), owner.name if owner else user_name()})
        write_private_file(self.path / "pg_hba.conf", "local all all peer map=pgassay\n")
        write_private_file(
            self.path / "pg_ident.conf", "".join(f'pgassay "{user}" {SUPERUSER}\n' for user in users)
        )
        self.write_settings(settings)

    def write_settings(self, settings: Mapping[str, str]) -> None:
        """Write the settings; a running server reads them at its next SIGHUP."""
        write_private_file(self.configuration_file, format_settings({**settings, **self._own_settings()}))

    def remove(self) -> None:
        """Remove the folder and all in it; does nothing when it was never made."""
        if self._token is None:
            return
        if self.path.is_dir():
            # SQL can make folders in it as well: CREATE TABLESPACE … LOCATION. Links are not followed.
            shutil.rmtree(self.path)
        registry.forget(self._token)
        self._token = None

    def _own_settings(self) -> dict[str, str]:
        return {
            "external_pid_file": "",
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self.path),
            "unix_socket_permissions": "0700",
            "hba_file": str(self.path / "pg_hba.conf"),
            "ident_file": str(self.path / "pg_ident.conf"),
            "log_destination": "stderr",
            "logging_collector": "off",
            "lc_messages": "C",
        }


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UsageError for a setting that can't be written, or that pgassay keeps for itself."""
    for name in settings:
        if name.lower() in PINNED_SETTINGS:
            raise UsageError(
                f"The setting {name} is set by pgassay, which keeps its servers private: leave it out."
            )
    format_settings(settings)


def format_settings(settings: Mapping[str, str]) -> str:
    """Return the lines of a configuration file (src/backend/utils/misc/guc-file.l) for `settings`.

    Raises UsageError for a name that cannot be one, or a value of more than one line.
    """
    lines = []
    for name, value in settings.items():
        if not _SETTING_NAME.fullmatch(name):
            raise UsageError(f"'{name}' cannot be the name of a setting: write it as PostgreSQL does.")
        if any(character in value for character in "\n\r\0"):
            raise UsageError(f"The value of {name} has more than one line: write it in one.")
        escaped = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{escaped}'\n")
    return "".join(lines)
