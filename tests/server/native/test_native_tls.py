"""`pgassay-native` over TLS: what of the server's certificate is checked, loads, ends that come too early."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from native_servers import started_server
from pgassay.native.load import run_load
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from remote_servers import (
    DATABASE,
    HOST,
    PASSWORD,
    SCALE,
    USER,
    RemoteTestServer,
    make_authority,
    make_certificate,
    openssl,
)

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]


@pytest.fixture(scope="module")
def server() -> Iterator[RemoteTestServer]:
    with started_server(RemoteTestServer) as server:
        yield server


def parameters(server: RemoteTestServer, **changes: Any) -> dict[str, Any]:
    usual = {"host": HOST, "port": server.port, "user": USER, "password": PASSWORD, "dbname": DATABASE}
    return usual | {"sslmode": "verify-full", "sslrootcert": str(server.root)} | changes


def refusal(server: RemoteTestServer, **changes: Any) -> str:
    with SqlSession() as session, pytest.raises(StatementError) as refused:
        session.connect(parameters(server, **changes))
    return str(refused.value)


@pytest.fixture
def other_certificate(server: RemoteTestServer) -> Iterator[Any]:
    """Give the server another certificate for one test."""

    def use(certificate: Path, key: Path) -> None:
        server.use_certificate(certificate, key)
        server.reload()

    yield use
    use(server.pki / "server.crt", server.pki / "server.key")


def has_tls(server: RemoteTestServer, **changes: Any) -> bool:
    """Whether a session that is opened so is encrypted, as the server sees it."""
    with SqlSession() as session:
        pid = session.connect(parameters(server, **changes)).pid
        (encrypted,) = server.query(f"select ssl from pg_stat_ssl where pid = {pid}")
    return bool(encrypted)


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_a_session_is_encrypted(server: RemoteTestServer, sslmode: str) -> None:
    assert has_tls(server, sslmode=sslmode)


def test_tls_that_begins_at_once(server: RemoteTestServer) -> None:
    assert has_tls(server, sslnegotiation="direct")


def test_without_tls_the_server_hears_no_tls(server: RemoteTestServer) -> None:
    assert "no encryption" in refusal(server, sslmode="disable")


def test_an_address_stands_in_for_looking_up_the_name(server: RemoteTestServer) -> None:
    assert has_tls(server, host=HOST, hostaddr="127.0.0.1")
    assert "no server can be reached" in refusal(server, host="not.to.be.looked.up.invalid")
    assert has_tls(server, host="not.to.be.looked.up.invalid", hostaddr="127.0.0.1", sslmode="verify-ca")


def test_a_certificate_for_another_host_fails_verify_full_alone(server: RemoteTestServer) -> None:
    assert "certificate is not for the host" in refusal(server, host="127.0.0.1")
    assert has_tls(server, host="127.0.0.1", sslmode="verify-ca")


def test_a_certificate_by_another_authority_fails_both(server: RemoteTestServer, tmp_path: Path) -> None:
    other, _ = make_authority(tmp_path)
    for sslmode in ("verify-ca", "verify-full"):
        said = refusal(server, sslmode=sslmode, sslrootcert=str(other))
        assert str(other) in said and "signed by none of" in said
    assert has_tls(server, sslmode="require", sslrootcert=str(other))


def test_a_file_that_holds_no_certificate_is_named(server: RemoteTestServer, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.crt"
    assert str(missing) in refusal(server, sslrootcert=str(missing))
    assert "holds no certificate" in refusal(server, sslrootcert=str(server.authority[1]))
    assert "names no file" in refusal(server, sslrootcert=None)


def test_the_common_name_counts_where_there_are_no_other_names(
    server: RemoteTestServer, tmp_path: Path, other_certificate: Any
) -> None:
    other_certificate(*make_certificate(tmp_path, server.authority, names="", subject=f"/CN={HOST}"))
    assert has_tls(server)
    other_certificate(
        *make_certificate(tmp_path, server.authority, names="DNS:elsewhere", subject=f"/CN={HOST}")
    )
    assert "not for the host" in refusal(server), "other names decide alone, as in libpq"


def test_a_certificate_that_signed_itself_may_be_trusted(
    server: RemoteTestServer, tmp_path: Path, other_certificate: Any
) -> None:
    certificate, key = tmp_path / "own.crt", tmp_path / "own.key"
    subject = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}")
    openssl(
        *("req", "-new", "-x509", "-nodes", "-days", "2", *subject),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    other_certificate(certificate, key)
    assert has_tls(server, sslrootcert=str(certificate))
    assert str(server.root) in refusal(server, sslrootcert=str(server.root))


def test_a_server_without_tls_is_told_from_one_that_is_none(server: RemoteTestServer) -> None:
    with server.query_connection() as connection:
        connection.execute("alter system set ssl = off")
    server.reload()
    try:
        assert "has no TLS" in refusal(server)
    finally:
        with server.query_connection() as connection:
            connection.execute("alter system set ssl = on")
        server.reload()


def test_long_statements_and_results_pass(server: RemoteTestServer) -> None:
    with SqlSession() as session:
        session.connect(parameters(server))
        long = session.execute("long", f"select length('{'x' * 5_000_000}')")
        wide = session.execute("wide", "select repeat('x', 1000) from generate_series(1, 50000)")
    assert long.rows == 1
    assert wide.rows == 50_000 and wide.bytes > 50_000_000


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_a_load_over_many_encrypted_connections(server: RemoteTestServer, protocol: str) -> None:
    counts = "select count(*), sum(abalance)::int8 from pgbench_accounts"
    history = "select count(*)::int8, coalesce(sum(delta), 0)::int8 from pgbench_history"
    with SqlSession() as session:
        session.connect(parameters(server))
        session.execute("empty", "truncate pgbench_history; update pgbench_accounts set abalance = 0")
    record = run_load(
        {
            "connect": parameters(server),
            "script": "tpcb",
            "scale": SCALE,
            "clients": 9,
            "threads": 2,
            "protocol": protocol,
            "duration_s": 0.3,
            "warmup_s": 0.1,
            "seed": 3,
        }
    )
    everything = record["warmup_transactions"] + record["transactions"] + record["late_transactions"]
    assert record["errors"] == 0 and record["transactions"] > 0
    assert query(server, history)[0] == everything
    assert query(server, counts)[1] == query(server, history)[1]


def query(server: RemoteTestServer, sql: str) -> tuple[Any, ...]:
    with psycopg.connect(host=str(server.folder), port=server.port, user=USER, dbname=DATABASE) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return row


def test_a_connection_that_is_cut_ends_a_load_with_a_sentence(server: RemoteTestServer) -> None:
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'to be cut'"
    begun = threading.Event()

    def cut_later() -> None:
        assert begun.wait(120)
        server.query(cut)

    thread = threading.Thread(target=cut_later)
    thread.start()
    with pytest.raises(StatementError) as failed:
        run_load(
            {
                "connect": parameters(server, application_name="to be cut"),
                "script": "select-only",
                "scale": SCALE,
                "clients": 4,
                "threads": 2,
                "protocol": "prepared",
                "duration_s": 300.0,
                "warmup_s": 0.0,
                "seed": 1,
            },
            on_progress=lambda _: begun.set(),
        )
    thread.join()
    assert "client" in str(failed.value)
