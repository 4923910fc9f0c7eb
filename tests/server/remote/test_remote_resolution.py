"""How a connection string becomes explicit parameters: by libpq's files, variables and modes of TLS."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from pgassay.environment.remote.connection_parameters import Resolved, resolve
from pgassay.errors import UsageError
from pgassay.native.process import StatementError
from pgassay.native.sql import SqlSession
from remote_servers import DATABASE, HOST, PASSWORD, USER, RemoteTestServer, make_authority

pytestmark = [pytest.mark.server, pytest.mark.shares_machine]
LIBPQ = ("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE")


@pytest.fixture(autouse=True)
def no_files_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """libpq looks for its files in $HOME, or in the home of the account where that is unset."""
    for name in LIBPQ:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))


def password_file(folder: Path, server: RemoteTestServer) -> Path:
    file = folder / "passwords"
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    file.write_text(f"elsewhere:*:*:*:wrong\n{HOST}:{server.port}:{DATABASE}:{USER}:{escaped}\n")
    file.chmod(0o600)
    return file


def service_file(folder: Path, server: RemoteTestServer, **more: str) -> Path:
    file = folder / "services"
    lines = {"host": HOST, "port": str(server.port), "dbname": DATABASE, "user": USER, **more}
    file.write_text("[here]\n" + "".join(f"{name}={value}\n" for name, value in lines.items()))
    return file


def encryption_of(resolved: Resolved) -> bool:
    """Connect as the measuring process does; whether the server sees TLS."""
    with SqlSession() as session:
        session.connect(resolved.parameters)
        return (
            session.execute("ssl", "select 1 from pg_stat_ssl where pid = pg_backend_pid() and ssl").rows == 1
        )


def assert_resolved(resolved: Resolved, server: RemoteTestServer) -> None:
    found = resolved.server
    assert (found.host, found.port, found.dbname, found.user) == (HOST, server.port, DATABASE, USER)
    assert resolved.parameters["password"] == PASSWORD
    assert encryption_of(resolved)
    for shown in (repr(resolved), found.model_dump_json(), json.dumps(found.connection)):
        assert PASSWORD not in shown and PASSWORD[:8] not in shown


def test_a_uri_with_the_password(server: RemoteTestServer) -> None:
    resolved = resolve(server.uri(), "--server")
    assert_resolved(resolved, server)
    assert resolved.has_typed_secret


def test_pairs_with_a_password_file(server: RemoteTestServer, tmp_path: Path) -> None:
    file = password_file(tmp_path, server)
    resolved = resolve(server.pairs(passfile=str(file)), "--server")
    assert_resolved(resolved, server)
    assert not resolved.has_typed_secret
    assert resolved.server.connection == server.pairs(passfile=str(file))


def test_a_password_file_of_the_environment(
    server: RemoteTestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(password_file(tmp_path, server)))
    assert_resolved(resolve(server.uri(password=False), "--server"), server)


def test_a_service_that_names_the_password_file(
    server: RemoteTestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = password_file(tmp_path, server)
    file = service_file(tmp_path, server, passfile=str(passwords), options="-c work_mem=5MB")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    resolved = resolve("service=here", "--server")
    assert_resolved(resolved, server)
    assert resolved.parameters["options"] == "-c work_mem=5MB"


def test_a_service_that_holds_the_password(
    server: RemoteTestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(service_file(tmp_path, server, password=PASSWORD)))
    assert_resolved(resolve("service=here", "--server"), server)


@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
def test_a_password_is_bound_to_its_tls_connection(server: RemoteTestServer, mode: str) -> None:
    resolved = resolve(server.uri(channel_binding=mode), "--server")
    assert resolved.parameters.get("channel_binding", "prefer") == mode
    assert_resolved(resolved, server)


def test_what_limits_a_connection_is_passed_on(server: RemoteTestServer) -> None:
    limits = {"connect_timeout": 9, "keepalives_idle": 40, "keepalives_interval": 4, "keepalives_count": 3}
    limits |= {"tcp_user_timeout": 30_000}
    typed = {name: str(value) for name, value in limits.items()}
    resolved = resolve(server.uri(sslmode="require", sslnegotiation="direct", **typed), "--server")
    assert_resolved(resolved, server)
    assert resolved.parameters.items() >= {**limits, "sslnegotiation": "direct"}.items()
    off = resolve(server.uri(keepalives="0", keepalives_idle="no number, never read"), "--server")
    assert off.parameters["keepalives"] == 0 and "keepalives_idle" not in off.parameters
    assert "connect_timeout" not in off.parameters, "the look's own limit is not the load's"


def test_a_limit_of_a_service_is_kept(
    server: RemoteTestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = service_file(tmp_path, server, password=PASSWORD, connect_timeout="31")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    assert resolve("service=here", "--server").parameters["connect_timeout"] == 31


def test_a_host_that_does_not_answer_in_time_is_named() -> None:
    with socket.socket() as silent:
        silent.bind((HOST, 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(
            UsageError, match=f"{HOST}:{port} did not answer in time .* longer connect_timeout"
        ):
            resolve(f"host={HOST} port={port} dbname=any user=any connect_timeout=2", "--server")


def test_without_tls_nothing_is_bound(server: RemoteTestServer) -> None:
    parameters = resolve(server.uri(channel_binding="require"), "--server").parameters
    said = "channel_binding=require can't be kept"
    with SqlSession() as session, pytest.raises(StatementError, match=said):
        session.connect({**parameters, "host": str(server.folder), "hostaddr": None, "sslmode": "disable"})


def test_variables_of_the_environment(server: RemoteTestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "HOST": HOST,
        "PORT": str(server.port),
        "USER": USER,
        "DATABASE": DATABASE,
        "PASSWORD": PASSWORD,
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"PG{name}", value)
    assert_resolved(resolve("application_name=x", "--server"), server)


def test_the_second_host_of_a_list(server: RemoteTestServer) -> None:
    uri = server.uri().replace(f"{HOST}:{server.port}", f"{HOST}:1,{HOST}:{server.port}")
    assert_resolved(resolve(uri, "--server"), server)


@pytest.mark.parametrize(
    ("sslmode", "roots", "settled"),
    [
        (None, False, "require"),
        ("allow", False, "require"),
        ("prefer", False, "require"),
        ("require", False, "require"),
        ("require", True, "verify-ca"),
        ("verify-ca", True, "verify-ca"),
        ("verify-full", True, "verify-full"),
    ],
)
def test_the_modes_of_tls(server: RemoteTestServer, sslmode: str | None, roots: bool, settled: str) -> None:
    options = {"sslmode": sslmode, "sslrootcert": str(server.root) if roots else None}
    resolved = resolve(server.uri(**{name: value for name, value in options.items() if value}), "--server")
    assert resolved.server.encryption == settled
    assert encryption_of(resolved)


def test_a_unix_socket_has_no_tls(server: RemoteTestServer) -> None:
    pairs = f"host={server.folder} port={server.port} dbname={DATABASE} user={USER}"
    resolved = resolve(pairs, "--server")
    assert resolved.server.encryption == "disable"
    assert not encryption_of(resolved)


def complaint_about(string: str) -> str:
    with pytest.raises(UsageError) as refused:
        resolve(string, "--server")
    said = str(refused.value)
    assert "\n" not in said and PASSWORD not in said and PASSWORD[:8] not in said
    assert "Multiple connection attempts" not in said
    assert refused.value.exit_code == 2
    return said


def test_complaints_are_one_sentence_that_says_what_to_do(server: RemoteTestServer, tmp_path: Path) -> None:
    other, _ = make_authority(tmp_path)
    usual: dict[str, Any] = {"sslmode": "verify-full", "sslrootcert": str(server.root)}
    by_address = server.uri(**usual).replace(f"@{HOST}:", "@127.0.0.1:")
    for string, told in {
        server.uri().replace("s3cret", "another"): "correct the user or the password",
        server.uri().replace(f"@{HOST}:", "@nobody.invalid:"): "nobody.invalid",
        server.uri(port=1): "Connection refused",
        "host=127.0.0.1,localhost port=1,1 dbname=bench user=bench": "Connection refused",
        server.uri(database="nowhere"): 'database "nowhere" does not exist',
        server.uri(database=""): "the database is missing",
        server.pairs(): "password file",
        by_address: "does not match host name",
        server.uri(sslmode="verify-ca", sslrootcert=str(other)): "certificate verify failed",
        server.uri(sslmode="verify-ca", sslrootcert=str(tmp_path / "none")): "does not exist",
        server.uri(sslmode="disable"): "no encryption",
        server.uri(sslmode="sometimes"): "sslmode",
        server.uri(gssencmode="require"): "GSSAPI encryption",
        "service=nowhere": "correct the service file",
        "hots=a dbname=x": '"hots"',
        "postgresql://u:s3%crt@h/x": "%25",
    }.items():
        assert told in complaint_about(string), string


def test_an_older_server_is_refused_by_its_version() -> None:
    """Asked of a peer that says it is PostgreSQL 13, which no longer can be installed here."""
    import socket
    import threading

    welcome = b"R\0\0\0\x08\0\0\0\0" + b"".join(
        b"S" + (len(pair) + 4).to_bytes(4, "big") + pair
        for pair in (b"server_version\x0013.4\0", b"client_encoding\0UTF8\0", b"server_encoding\0UTF8\0")
    )
    ready = b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x09Z\0\0\0\x05I"

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(welcome + ready)
                peer.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        said = complaint_about(f"host=127.0.0.1 port={port} dbname=d user=u sslmode=disable")
        thread.join()
    assert "13.4" in said and "16 or newer" in said
