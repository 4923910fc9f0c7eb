"""Sessions that only read must be read-only: seen after connecting, through a real PgBouncer and a server."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import whole_tool
from native_servers import NativeTestServer, started_server
from pgassay.environment.debian.toolbox import tool
from pgassay.environment.remote.read_only import READING, open_read_only
from pgassay.environment.server.pooler import PROGRAM
from pgassay.environment.server.programs import identity
from pgassay.errors import UsageError

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
# What libpq's startup options can't prevail over: it runs when a session begins, since 17.
OVERRIDING = (
    "CREATE FUNCTION override() RETURNS event_trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM set_config('default_transaction_read_only', 'off', false); END $$",
    "CREATE EVENT TRIGGER override ON login EXECUTE FUNCTION override()",
)


@pytest.fixture(scope="module")
def server(require) -> Iterator[NativeTestServer]:
    require("apt")
    with started_server(NativeTestServer) as server:
        yield server


@pytest.fixture(scope="module")
def dropping(server: NativeTestServer) -> Iterator[str]:
    with dropping_pooler(server) as dsn:
        yield dsn


@contextmanager
def dropping_pooler(server: NativeTestServer) -> Iterator[str]:
    """A DSN of PgBouncer that drops the startup parameter `options`, as many are set up for drivers."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    file = server.folder / "pgbouncer.ini"
    file.write_text(
        f"[databases]\n* = host={server.folder} port={server.port} user=postgres\n\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        "pool_mode = transaction\nignore_startup_parameters = options,extra_float_digits\n"
    )
    arguments = identity()
    if "user" in arguments:
        os.chown(file, arguments["user"], arguments["group"])
    dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    with subprocess.Popen(
        [str(tool(PROGRAM)), str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **arguments,
    ) as process:
        try:
            whole_tool.wait_for(lambda: _answers(dsn), "PgBouncer answers", 60)
            yield dsn
        finally:
            process.terminate()


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_pooler_that_drops_startup_options_is_refused(dropping: str) -> None:
    with psycopg.connect(dropping, options="-c default_transaction_read_only=on") as session:
        assert session.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
    with pytest.raises(UsageError, match=r"ignores that a session should be read-only: .* not a pooler"):
        open_read_only(dropping, "DSN", "pgassay test")


@pytest.mark.parametrize(
    "command",
    [
        ("diagnose", "--seconds", "5"),
        ("watch", "--json"),
        ("tune",),
        ("upgrade", "--to", "18"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_only_reads_refuses_it(command: tuple[str, ...], dropping: str) -> None:
    name, *options = command
    sentence = whole_tool.assert_one_sentence(whole_tool.run(name, dropping, *options), 2)
    assert "ignores that a session should be read-only" in sentence


def test_a_server_that_overrides_the_option_is_refused(server: NativeTestServer) -> None:
    place = f"host={server.folder} port={server.port} user=postgres"
    with psycopg.connect(f"{place} dbname=postgres", autocommit=True) as session:
        session.execute("DROP DATABASE IF EXISTS overriding WITH (FORCE)")
        session.execute("CREATE DATABASE overriding")
    with psycopg.connect(f"{place} dbname=overriding", autocommit=True) as session:
        opened = open_read_only(f"{place} dbname=overriding", "DSN", "pgassay test")
        opened.session("pgassay test", READING).close()
        for statement in OVERRIDING:
            session.execute(statement)
    with pytest.raises(UsageError, match="ignores that a session should be read-only"):
        opened.session("pgassay test", READING)
