"""Who gets in: handshakes in memory between the contexts that a fleet's processes use."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pgassay.errors import UsageError
from pgassay.fleet.cluster import nodes
from pgassay.fleet.cluster.certificates import VALID_FOR, Authority, Identity, is_name
from pgassay.fleet.cluster.fleet_file import certificates_of


def identity(folder: Path, authority: Authority, **valid: timedelta) -> Identity:
    made = Identity.make(folder)
    made.install(authority.sign(made.request(folder.name), **valid), authority.certificate)
    return made


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "authority", "fleet of a test")


@pytest.fixture
def scheduler(tmp_path: Path, authority: Authority) -> ssl.SSLContext:
    made = identity(tmp_path / "scheduler", authority)
    context = nodes.security(certificates_of(made)).get_listen_args("scheduler")["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def context_of(made: Identity) -> ssl.SSLContext:
    context = nodes.security(certificates_of(made)).get_connection_args("client")["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def greet(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """What the client reads of the server after their handshake; raises SSLError where one refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server, server_hostname="any.name")
    waiting = [there.do_handshake, here.do_handshake]
    while waiting:
        for shake in list(waiting):
            try:
                shake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(shake)
    there.write(b"welcome")
    return here.read(64)


def test_holders_of_a_certificate_meet(
    tmp_path: Path, authority: Authority, scheduler: ssl.SSLContext
) -> None:
    assert greet(scheduler, context_of(identity(tmp_path / "worker", authority))) == b"welcome"


def test_nobody_else_gets_in(tmp_path: Path, authority: Authority, scheduler: ssl.SSLContext) -> None:
    without = ssl.create_default_context(cafile=str(authority.folder / "authority.pem"))
    without.check_hostname = False
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        greet(scheduler, without)

    stranger = identity(tmp_path / "stranger", Authority.make(tmp_path / "other", "another fleet"))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        greet(scheduler, context_of(stranger))
    # Also where only the server minds: the stranger would trust this authority.
    (stranger.folder / "authority.pem").write_text(authority.certificate)
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate|unknown ca"):
        greet(scheduler, context_of(stranger))

    late = identity(tmp_path / "late", authority, valid_for=-timedelta(seconds=1))
    with pytest.raises(ssl.SSLError, match=r"(?i)expired"):
        greet(scheduler, context_of(late))

    old = context_of(identity(tmp_path / "old", authority))
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol|version"):
        greet(scheduler, old)


def test_a_certificate_signs_no_other(
    tmp_path: Path, authority: Authority, scheduler: ssl.SSLContext
) -> None:
    """Who holds one can't make more: a chain through it is refused."""
    holder = identity(tmp_path / "holder", authority)
    key = serialization.load_pem_private_key(holder.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(holder.certificate.read_bytes())
    forged = Identity.make(tmp_path / "forged")
    asked = x509.load_pem_x509_csr(forged.request("forged").encode())
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(issuer.subject)
        .public_key(asked.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    chain = signed.public_bytes(serialization.Encoding.PEM) + holder.certificate.read_bytes()
    forged.certificate.write_bytes(chain)
    forged.authority.write_text(authority.certificate)
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate|invalid ca|unknown ca"):
        greet(scheduler, context_of(forged))


def test_files_are_closed_and_certificates_short(tmp_path: Path, authority: Authority) -> None:
    made = identity(tmp_path / "worker", authority)
    for folder in (made.folder, authority.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert timedelta(0) < made.expires() - datetime.now(UTC) <= VALID_FOR
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_private_key_does_not_travel(tmp_path: Path, authority: Authority) -> None:
    made = Identity.make(tmp_path / "worker")
    request = made.request("worker")
    assert "PRIVATE" in made.key.read_text()
    assert "PRIVATE" not in request and "PRIVATE" not in authority.sign(request)


def test_what_does_not_fit_is_refused(tmp_path: Path, authority: Authority) -> None:
    one, other = Identity.make(tmp_path / "one"), Identity.make(tmp_path / "other")
    with pytest.raises(UsageError, match="of another key"):
        one.install(authority.sign(other.request("other")), authority.certificate)
    with pytest.raises(UsageError, match="is not a certificate"):
        one.install("nothing", authority.certificate)
    with pytest.raises(UsageError, match="no signing request"):
        authority.sign(
            "-----BEGIN CERTIFICATE REQUEST-----\nbm90aGluZw==\n-----END CERTIFICATE REQUEST-----\n"
        )
    tampered = bytearray(
        x509.load_pem_x509_csr(one.request("one").encode()).public_bytes(serialization.Encoding.DER)
    )
    tampered[-1] ^= 1
    pem = ssl.DER_cert_to_PEM_cert(bytes(tampered)).replace(" CERTIFICATE", " CERTIFICATE REQUEST")
    with pytest.raises(UsageError, match="signing request"):
        authority.sign(pem)
    one.key.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        one.request("one")


@pytest.mark.parametrize("name", ["host1", "10.0.0.7", "a_b-c.example.org"])
def test_names_of_machines(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "-host", "../up", "a b", "host;rm", "x" * 64, "a/b", ".hidden"])
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)
