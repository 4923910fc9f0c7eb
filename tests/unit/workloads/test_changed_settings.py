"""The settings below pgbench's and sysbench's reports: none of them shows a password."""

from typing import Any

from pgassay.pgbench.connection import changed_settings
from pgassay.pgbench.extra_report import settings_lines


class _Session:
    """A superuser's session on a standby that pg_basebackup -R has made."""

    def execute(self, _query: bytes, _values: object) -> "_Session":
        return self

    def fetchall(self) -> list[tuple[str, str]]:
        return [
            ("primary_conninfo", "user=replicator password=hunter2 host=db1"),
            ("restore_command", "fetch --token s3cr3t %f %p"),
            ("work_mem", "8MB"),
        ]


def test_a_setting_that_holds_a_password_is_not_shown() -> None:
    session: Any = _Session()
    found = changed_settings(session)
    assert {each["name"]: each["value"] for each in found} == {
        "primary_conninfo": "not shown",
        "restore_command": "not shown",
        "work_mem": "8MB",
    }
    shown = "\n".join(settings_lines(found))
    assert "hunter2" not in shown and "s3cr3t" not in shown and "work_mem=8MB" in shown
