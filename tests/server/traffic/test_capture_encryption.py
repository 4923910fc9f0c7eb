"""TLS on either side of the proxy, and SCRAM through it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from native_servers import started_server
from pgassay.native.process import StatementError
from pgassay.traffic.blocks import files
from pgassay.traffic.events import BEGIN
from remote_servers import DATABASE, HOST, PASSWORD, USER, RemoteTestServer, make_certificate
from server.traffic.captures import messages, of, proxied

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
DIRECT_SINCE = 170000


@pytest.fixture(scope="module")
def server() -> Iterator[RemoteTestServer]:
    with started_server(RemoteTestServer) as found:
        yield found


@pytest.fixture
def certificate(server: RemoteTestServer, tmp_path: Path) -> dict[str, str]:
    """What the proxy shows to its clients."""
    certificate, key = make_certificate(tmp_path, server.authority)
    return {"certificate": str(certificate), "key": str(key)}


def encrypted(server: RemoteTestServer) -> dict[str, Any]:
    """The way to the server by TLS, where it asks for SCRAM."""
    roots = {"sslmode": "verify-full", "sslrootcert": str(server.root)}
    return {"host": HOST, "port": server.port, "user": USER, "dbname": DATABASE, **roots}


def scram(**changes: Any) -> dict[str, Any]:
    return {"user": USER, "dbname": DATABASE, "password": PASSWORD, **changes}


def raw_bytes(folder: Path) -> bytes:
    return b"".join(block.raw for file in files(folder) for block in file.blocks())


def test_a_client_without_tls_authenticates_to_a_server_with_it(
    server: RemoteTestServer, tmp_path: Path
) -> None:
    with proxied(encrypted(server), tmp_path / "c") as proxy:
        with proxy.connect(**scram(sslmode="disable")) as client:
            shown = client.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            assert shown.fetchone() == (True,)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            proxy.connect(**scram(password="wrong", sslmode="disable"))
        totals = proxy.end()
    assert totals["without_channel_binding"] == 2
    found = raw_bytes(proxy.folder)
    assert b"pg_backend_pid" in found
    for secret in (b"SCRAM", b"n=,r=", b"c=biws", PASSWORD.encode(), b"wrong"):
        assert secret not in found


def test_a_client_with_tls_is_served_with_the_certificate_that_was_given(
    server: RemoteTestServer, tmp_path: Path, certificate: dict[str, str]
) -> None:
    usual = {"host": HOST, "hostaddr": "127.0.0.1", "sslrootcert": str(server.root)}
    with proxied(server.parameters(), tmp_path / "c", tls=certificate) as proxy:
        with proxy.connect(**usual, sslmode="verify-full") as client:
            assert client.pgconn.ssl_in_use
            row = client.execute("SELECT repeat('x', 3000000)").fetchone()
            assert row is not None and len(row[0]) == 3_000_000
            client.execute("SELECT length(%s)", ("y" * 3_000_000,))
        if psycopg.pq.version() >= DIRECT_SINCE:
            with proxy.connect(**usual, sslmode="verify-full", sslnegotiation="direct") as client:
                assert client.execute("SELECT 1").fetchone() == (1,)
        proxy.end()
    begin = of(proxy.folder, 1, BEGIN)[0].begin
    assert begin is not None and begin.is_encrypted
    assert messages(proxy.folder)[-1].tag == "X"


def test_channel_binding_that_can_t_be_is_told_and_can_be_left_out(
    server: RemoteTestServer, tmp_path: Path, certificate: dict[str, str]
) -> None:
    with proxied(encrypted(server), tmp_path / "c", tls=certificate) as proxy:
        with pytest.raises(psycopg.OperationalError, match="channel_binding=disable"):
            proxy.connect(**scram(sslmode="require"))
        with proxy.connect(**scram(sslmode="require", channel_binding="disable")) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)


def test_other_hosts_are_listened_to_with_tls_alone(
    server: RemoteTestServer, tmp_path: Path, certificate: dict[str, str]
) -> None:
    with (
        pytest.raises(StatementError, match="can be reached from other hosts"),
        proxied(server.parameters(), tmp_path / "refused", listen="0.0.0.0:0"),
    ):
        pass
    changes = {"listen": "0.0.0.0:0", "tls": certificate}
    with proxied(server.parameters(), tmp_path / "c", **changes) as proxy:
        with pytest.raises(psycopg.OperationalError, match="must use TLS"):
            proxy.connect(sslmode="disable")
        with proxy.connect(sslmode="require") as client:
            assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_server_without_tls_or_with_another_certificate_is_told(
    server: RemoteTestServer, tmp_path: Path
) -> None:
    other = encrypted(server) | {"host": "127.0.0.1"}
    with (
        proxied(other, tmp_path / "c") as proxy,
        pytest.raises(psycopg.OperationalError, match="server closed the connection"),
    ):
        proxy.connect(**scram(sslmode="disable"))
