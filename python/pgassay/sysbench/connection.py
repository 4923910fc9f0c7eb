"""Connecting as sysbench does: its own options, else libpq's environment and files."""

import os
from dataclasses import dataclass, field

import psycopg
from psycopg import conninfo

from pgassay.environment.remote.connection_parameters import connection_complaint, resolved_from
from pgassay.environment.server.sessions import ConnectionParameters, ControlSession
from pgassay.errors import UsageError
from pgassay.pgbench.connection import MAJOR_MIN, ChangedSetting, changed_settings
from pgassay.sysbench.options import Options, SysbenchError

APPLICATION = "sysbench"


@dataclass(frozen=True)
class SysbenchServer:
    """A server that has answered, and how the load generator reaches it; `parameters` hold the password."""

    session: ControlSession
    version: str
    settings: list[ChangedSetting]
    parameters: ConnectionParameters = field(repr=False)


def connect(chosen: Options) -> SysbenchServer:
    """Opens a session; raises SysbenchError."""
    given = {
        "host": chosen.text("pgsql-host"),
        "port": chosen.text("pgsql-port"),
        "user": chosen.text("pgsql-user"),
        "password": chosen.text("pgsql-password"),
        "dbname": chosen.text("pgsql-db"),
        "sslmode": chosen.text("pgsql-sslmode"),
        "fallback_application_name": APPLICATION,
        "client_encoding": "UTF8",
    }
    if "PGGSSENCMODE" not in os.environ:
        # The load generator knows no Kerberos: what it would be refused is better found out here.
        given["gssencmode"] = "disable"
    typed = {name: value for name, value in given.items() if value}
    try:
        session = psycopg.connect(conninfo.make_conninfo("", **typed), autocommit=True)
    except psycopg.Error as error:
        raise SysbenchError(f"FATAL: Connection to database failed: {connection_complaint(error)}") from None
    try:
        resolved = resolved_from(session, "the connection", MAJOR_MIN)
    except UsageError as error:
        session.close()
        raise SysbenchError(f"FATAL: {error}") from error
    name = session.info.parameter_status("application_name") or APPLICATION
    version = session.info.parameter_status("server_version") or resolved.server.version
    parameters: ConnectionParameters = {**resolved.parameters, "application_name": name}
    return SysbenchServer(session, version, changed_settings(session), parameters)
