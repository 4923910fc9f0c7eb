"""From a connection string to explicit parameters, by libpq itself.

libpq knows service files, password files, PG* variables, lists of hosts and the modes of TLS; what it settled
on for a connection is read from that connection. The password lives in memory alone: in
`Resolved.parameters`, which are handed to the native binary on its standard input.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from psycopg import conninfo, pq

from pgassay.environment.remote.secrets import SECRET_KEYWORDS, redacted, scrub
from pgassay.environment.server.sessions import CONNECT_TIMEOUT_S, ConnectionParameters, ControlSession
from pgassay.errors import UsageError
from pgassay.model.arm import RemoteServer
from pgassay.value_syntax.paths import typed_path

MAJOR_MIN = 16
CONTROL_NAME = "pgassay control"
# What libpq's own connection would honour and the measuring process does not: never silently left out.
_UNSUPPORTED = (
    *("sslcert", "sslkey", "sslcrl", "sslcrldir", "require_auth", "requirepeer", "replication"),
    *("scram_client_key", "scram_server_key", "oauth_issuer", "sslkeylogfile"),
)
_UNSUPPORTED_VALUES = {"gssencmode": "require", "sslcertmode": "require"}
# By fe-connect.c, EnvironmentOptions.
_OF_ENVIRONMENT = {"PGDATESTYLE": "datestyle", "PGTZ": "timezone", "PGGEQO": "geqo"}
_SPECIAL_IN_OPTIONS = re.compile(r"[\\\s]")
_SYSTEM_ROOTS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
# The parts of libpq's complaints that repeat a keyword and nothing of a value.
_SAFE_COMPLAINT = re.compile(r'invalid (?:connection option|URI query parameter):? "[a-z_]{1,40}"')
# What psycopg puts around libpq's words, of one attempt and of several.
_SEVERAL = "Multiple connection attempts failed. All failures were:"
_ATTEMPT = re.compile(
    r"^(?:- host: .*?, hostaddr: (?:None|'[^']*'): )?(?:connection (?:failed|is bad): )?", re.MULTILINE
)


@dataclass(frozen=True)
class Resolved:
    """A server that has answered.

    `parameters` are those of the native binary and of control sessions, with the password; `notes` what the
    user should hear of the way they were found.
    """

    server: RemoteServer
    parameters: ConnectionParameters = field(repr=False)
    has_typed_secret: bool = False


def resolve(
    connection_string: str, what: str, *, major_min: int = MAJOR_MIN, needs_database: bool = True
) -> Resolved:
    """Connect once as libpq does, and read off what it settled on.

    `what` names the option in messages, e.g. "server=, connection string 2". needs_database: whether one must
    be named; libpq takes the one that is called as the user otherwise. Raises UsageError, in one
    sentence without any secret, for a string that is none, a server that can't be reached or refuses, a
    database that isn't named, and parameters that the measuring process can't honour.
    """
    given = _parse(connection_string, what)
    secrets = [value for name, value in given.items() if name in SECRET_KEYWORDS]
    is_named = not needs_database or _told("dbname", given) is not None
    if not is_named and "service" not in given:
        raise _no_database(what)
    usual = {"application_name": CONTROL_NAME, "client_encoding": "UTF8"}
    if _told("connect_timeout", given) is None:
        usual["connect_timeout"] = str(CONNECT_TIMEOUT_S)
    if "gssencmode" not in given and "PGGSSENCMODE" not in os.environ:
        # The measuring process knows no Kerberos: what it would be refused is better found out here.
        usual["gssencmode"] = "disable"
    try:
        with psycopg.connect(
            conninfo.make_conninfo(connection_string, **usual), autocommit=True
        ) as connection:
            if not is_named:
                raise _no_database(what)
            shown = redacted(connection_string, given)
            resolved = _read_off(connection, given, what, shown, major_min)
            if "connect_timeout" in usual:
                # That is the time for this look; the native binary has a limit of its own.
                kept = {
                    name: value for name, value in resolved.parameters.items() if name != "connect_timeout"
                }
                resolved = replace(resolved, parameters=kept)
            return resolved
    except psycopg.Error as error:
        raise UsageError(f"{what}: {_complaint(error, given, secrets)}") from None


def resolved_from(connection: "ControlSession", what: str, major_min: int = MAJOR_MIN) -> Resolved:
    """What libpq settled on for an open connection; `what` names it in messages. Raises as `resolve`."""
    return _read_off(connection, {}, what, what, major_min)


def _parse(connection_string: str, what: str) -> dict[str, str]:
    try:
        found = conninfo.conninfo_to_dict(connection_string)
    except psycopg.Error as error:
        # libpq repeats the part it stumbled over, which may be one of the password.
        safe = _SAFE_COMPLAINT.search(str(error))
        message = f" ({safe.group()})" if safe else ""
        raise _no_connection_string(what, message) from None
    given = {name: str(value) for name, value in found.items() if value is not None}
    if holds_an_ended_password(connection_string, given):
        raise _no_connection_string(what)
    return given


def holds_an_ended_password(connection_string: str, given: Mapping[str, str]) -> bool:
    """Whether a password of a URI is read as ending too early, before a / or an @ of its own.

    What follows is a host, a port or a database to libpq, and is repeated by whoever does not find that.
    """
    if not re.match(r"postgres(ql)?://", connection_string):
        return False
    host, port = given.get("host", ""), given.get("port", "")
    # A host that begins so is a socket in the abstract namespace.
    if "@" in host.removeprefix("@") or re.search(r"[^\d,]", port):
        return True
    before_options = connection_string.partition("?")[0]
    database = before_options.partition("//")[2].partition("/")[2]
    if "password" in given and "@" in database:
        return True
    return "user" not in given and bool(port) and "@" in before_options


def _no_connection_string(what: str, message: str = "") -> UsageError:
    return UsageError(
        f"{what} is not a connection string{message}: write postgresql://USER@HOST:PORT/DATABASE or "
        "host=HOST port=PORT dbname=DATABASE user=USER, of a server here dbname=DATABASE alone (in a URI "
        "a %, @ or / within a value is %25, %40 or %2F)"
    )


def _no_database(what: str) -> UsageError:
    return UsageError(
        f"{what}: the database is missing: add dbname=DATABASE (or /DATABASE after the host of a URI)"
    )


def _told(keyword: str, given: Mapping[str, str]) -> str | None:
    """What the string, the service file or the environment say of a keyword; None where nobody does."""
    if given.get(keyword):
        return given[keyword]
    before = os.environ.get("PGSERVICE")
    service = given.get("service") or before
    if service:
        os.environ["PGSERVICE"] = service
    try:
        defaults = pq.Conninfo.get_defaults()
    finally:
        if before is not None:
            os.environ["PGSERVICE"] = before
        elif service:
            del os.environ["PGSERVICE"]
    found = {option.keyword.decode(): option.val for option in defaults if option.val}
    return found[keyword].decode() if keyword in found else None


def _read_off(
    connection: "ControlSession", given: dict[str, str], what: str, shown: str, major_min: int
) -> Resolved:
    info, native = connection.info, connection.pgconn
    settled = {option.keyword.decode(): option.val.decode() for option in native.info if option.val}
    for name, value in settled.items():
        if name in _UNSUPPORTED or _UNSUPPORTED_VALUES.get(name) == value:
            raise UsageError(
                f"{what}: {name} can't be used: the measuring process authenticates by a password, over TLS "
                f"or without: leave {name} out"
            )
    version = (info.parameter_status("server_version") or "").split(" ")[0]
    major = info.server_version // 10000
    if major < major_min:
        raise UsageError(
            f"{what}: {info.host} runs PostgreSQL {version}, and this needs {major_min} or newer: "
            "name a newer server"
        )
    encryption, roots = _encryption(settled, is_encrypted=bool(native.ssl_in_use), what=what)
    port, host = info.port, info.host or info.hostaddr
    server = RemoteServer(
        name=f"{f'[{host}]' if ':' in host else host}:{port}/{info.dbname}",
        connection=shown,
        host=host,
        port=port,
        dbname=info.dbname,
        user=info.user,
        version=version,
        major=major,
        encryption=encryption,
    )
    parameters: dict[str, str | int | None] = {
        "host": host,
        "port": port,
        "user": info.user,
        "password": native.password.decode() if native.password else None,
        "dbname": info.dbname,
        "options": _with_environment(settled.get("options", "")),
        "application_name": "pgassay",
        "sslmode": encryption,
        "sslrootcert": roots,
    }
    if settled.get("channel_binding", "prefer") != "prefer":
        parameters["channel_binding"] = settled["channel_binding"]
    if settled.get("sslnegotiation") == "direct" and encryption != "disable":
        parameters["sslnegotiation"] = "direct"
    if "hostaddr" in settled:
        parameters["hostaddr"] = info.hostaddr
    parameters |= _limits(settled, is_tcp=not host.startswith("/"))
    return Resolved(server, parameters, has_typed_secret=any(name in SECRET_KEYWORDS for name in given))


def _limits(settled: Mapping[str, str], *, is_tcp: bool) -> dict[str, int]:
    """When a server is given up, in libpq's units; nothing where the system and we decide.

    What can't apply libpq has not even read, so that it may be no number.
    """
    names = ["connect_timeout"]
    if is_tcp:
        names += ["keepalives", "tcp_user_timeout"]
        if settled.get("keepalives", "1").strip() != "0":
            names += ["keepalives_idle", "keepalives_interval", "keepalives_count"]
    # libpq takes a negative one as 0 (fe-connect.c, setKeepalivesIdle).
    return {name: max(0, int(settled[name])) for name in names if name in settled}


def _with_environment(options: str) -> str:
    """A session's options with the settings that libpq takes from the environment, but for "default"."""
    words = []
    for variable, name in _OF_ENVIRONMENT.items():
        value = os.environ.get(variable, "default")
        if value.lower() != "default":
            escaped = _SPECIAL_IN_OPTIONS.sub(r"\\\g<0>", value)
            words.append(f"-c {name}={escaped}")
    return " ".join((options, *words)).strip()


def _encryption(settled: dict[str, str], *, is_encrypted: bool, what: str) -> tuple[str, str | None]:
    """The mode that native code is to hold to, and the file of roots.

    Where there is such a file libpq checks the certificate in the weaker modes as well
    (src/interfaces/libpq/fe-secure-openssl.c, initialize_SSL).
    """
    if not is_encrypted:
        return "disable", None
    named = settled.get("sslrootcert")
    file = typed_path(named or "~/.postgresql/root.crt")
    if named == "system":
        file = _system_roots(what)
    mode = settled.get("sslmode", "prefer")
    if file.is_file():
        return (mode if mode == "verify-full" else "verify-ca"), str(file)
    return "require", None


def _system_roots(what: str) -> Path:
    paths = ssl.get_default_verify_paths()
    for candidate in (paths.cafile, *_SYSTEM_ROOTS):
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    raise UsageError(f"{what}: this system has no file of root certificates: name one with sslrootcert=FILE")


def connection_complaint(error: psycopg.Error) -> str:
    """libpq's lines of all attempts to connect, without what psycopg puts around them."""
    text = str(error).strip()
    return _ATTEMPT.sub("", text.partition(_SEVERAL)[2].strip() or text)


def _complaint(error: psycopg.Error, given: dict[str, str], secrets: list[str]) -> str:
    """libpq's complaint in one sentence, with what to do."""
    lines = [line.strip() for line in connection_complaint(error).splitlines() if line.strip()]
    message = scrub("; ".join(dict.fromkeys(lines)) or "it ended unexpectedly", secrets).rstrip("?.")
    message = message.replace("FATAL:  ", "")
    if "no password supplied" in message:
        return (
            f"{message}: put the password into a password file (~/.pgpass), a service file or "
            "$PGPASSWORD; one that was typed is never stored"
        )
    if "authentication failed" in message:
        # After it comes the refusal of a second attempt without TLS, which says nothing new.
        return f"{message.partition('; ')[0]}: correct the user or the password"
    if "no pg_hba.conf entry" in message:
        message = message.partition("; ")[0]
        return f"{message}: allow the role from this machine in pg_hba.conf, or correct sslmode"
    if "certificate" in message or "SSL" in message:
        return f"{message}: correct sslmode or sslrootcert, or the name of the host"
    if message.endswith("connection timeout expired"):
        # psycopg's own words for its limit, which name no server.
        place = ":".join(filter(None, (given.get("host", ""), given.get("port", ""))))
        server = f"{place} did not answer" if place else "no answer"
        return f"{server} in time ({message}): correct host and port, or give a longer connect_timeout"
    if "does not exist" in message:
        return f"{message}: name one that it has"
    where = "the connection string" if "service" not in given else "the service file or the connection string"
    return f"{message}: correct {where}"
