"""What a running server is made for the turn of one arm: indexes are hidden, settings are read anew.

For arms that share a start of a server. A rehearsal of one of them is run so as well, on the same data.
"""

import time

from psycopg import sql

from pgassay.environment.server.index_visibility import show_all_but
from pgassay.errors import MeasurementError
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from pgassay.trial.target import LocalTrialServer, ServerSession
from pgassay.trial.trial_state import TrialState

SEEN_S_MAX, _POLL_S = 5.0, 0.002
_DIVISION_BY_ZERO = "22012"


def switch_to(trial: TrialState, local: LocalTrialServer, measured: SqlSession | None = None) -> None:
    """Make the server what the trial's arm is; `measured` plans its statements anew then.

    Raises MeasurementError where a session does not see a setting that was read anew.
    """
    protocol = trial.spec.protocol
    if protocol.switched_indexes:
        show_all_but(local.running.control, protocol.switched_indexes, trial.arm.without_indexes)
    if protocol.reloaded_settings:
        wanted = {name: trial.arm.settings[name] for name in protocol.reloaded_settings}
        server = local.running.server
        if any(server.settings.get(name) != value for name, value in wanted.items()):
            server.reload(wanted)
    if measured is not None:
        if protocol.switched_indexes:
            measured.execute("discard plans", "DISCARD PLANS")
        for name in protocol.reloaded_settings:
            _wait_until_seen(measured, name, _shown(local.running, name))


def show_all(trial: TrialState, server: ServerSession) -> None:
    """The copy with all its indexes, as it was loaded, for whoever runs on it next."""
    show_all_but(server.control, trial.spec.protocol.switched_indexes, ())


def _shown(server: ServerSession, name: str) -> str:
    """The value in a session that begins now: it has what the server has read last."""
    with server.connect_another("pgassay control") as session:
        row = session.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return str(row[0]) if row else ""


def _wait_until_seen(measured: SqlSession, name: str, value: str) -> None:
    """Wait until the session has the value, which it reads before its next command; else MeasurementError."""
    check = sql.SQL("SELECT 1 / (current_setting({}) = {})::int").format(
        sql.Literal(name), sql.Literal(value)
    )
    deadline_s = time.monotonic() + SEEN_S_MAX
    while True:
        try:
            measured.execute("reload settings", check.as_string(None))
            return
        except StatementError as error:
            if error.sqlstate != _DIVISION_BY_ZERO:
                raise
        if time.monotonic() > deadline_s:
            raise MeasurementError(
                f"the measured session did not see {name} = {value} within {SEEN_S_MAX:g} s of a reload: use "
                "--restart each"
            )
        time.sleep(_POLL_S)
