"""Certificates of a fleet: an authority of its own, and a key for each process, made where it is used.

Elliptic curve P-256, signed with SHA-256. A private key never travels: its owner makes a signing request
(PKCS #10, RFC 2986), and only that and the signed certificate do. Both ends of every connection show a
certificate of this authority, so one that is not its is no way in. Folders are 0700, files 0600.
"""

import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pgassay.durable import replace_file
from pgassay.errors import UsageError

VALID_FOR = timedelta(days=30)
# Clocks of machines differ, and a certificate of the future is refused.
_CLOCKS_DIFFER_BY = timedelta(minutes=10)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Identity:
    """The files that a process shows who it is with, and knows others by."""

    folder: Path

    @property
    def key(self) -> Path:
        """The private key."""
        return self.folder / "key.pem"

    @property
    def certificate(self) -> Path:
        """What the authority signed."""
        return self.folder / "certificate.pem"

    @property
    def authority(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "authority.pem"

    @classmethod
    def make(cls, folder: Path) -> "Identity":
        """A new private key in a closed folder; what stood there before is replaced."""
        _make_closed(folder)
        made = cls(folder)
        _write(made.key, _private_bytes(ec.generate_private_key(ec.SECP256R1())))
        return made

    def request(self, name: str) -> str:
        """The signing request, as PEM. Raises UsageError when the key can't be read."""
        subject = x509.CertificateSigningRequestBuilder().subject_name(_named(name))
        return subject.sign(_read_key(self.key), hashes.SHA256()).public_bytes(_PEM).decode()

    def install(self, certificate: str, authority: str) -> None:
        """Keep what came back, after looking whether it fits the key here. Raises UsageError where not."""
        ours = _read_key(self.key).public_key()
        if _certificate(certificate, "the certificate").public_key() != ours:
            raise UsageError(f"The certificate for {self.folder} is of another key: type the command again.")
        _certificate(authority, "the authority's certificate")
        _write(self.certificate, certificate.encode())
        _write(self.authority, authority.encode())

    def expires(self) -> datetime:
        """When the certificate ends. Raises UsageError when there is none that can be read."""
        return expires(self.certificate)


class Authority:
    """Who signs for one fleet. Its key stays in the folder where the fleet was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path, name: str) -> "Authority":
        """A new authority, for twice as long as what it signs, so that certificates can be renewed once."""
        _make_closed(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(f"pgassay {name}")
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_DIFFER_BY)
            .not_valid_after(now + 2 * VALID_FOR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(folder / "key.pem", _private_bytes(key))
        _write(folder / "authority.pem", signed.public_bytes(_PEM))
        return cls(folder)

    @property
    def certificate(self) -> str:
        """Its own certificate, as PEM."""
        return _read(self.folder / "authority.pem").decode()

    def sign(self, request: str, *, valid_for: timedelta = VALID_FOR) -> str:
        """A certificate for the key and the name of a signing request, as PEM.

        It ends with the authority's at the latest. Raises UsageError for what is no request or was not
        signed by its own key.
        """
        try:
            asked = x509.load_pem_x509_csr(request.encode())
            is_its_own = asked.is_signature_valid
        except (ValueError, InvalidSignature) as error:
            raise UsageError("A machine sent no signing request: is another pgassay there?") from error
        if not is_its_own:
            raise UsageError("A machine sent a signing request that its own key did not sign: not signed.")
        issuer, key = _certificate(self.certificate, str(self.folder)), _read_key(self.folder / "key.pem")
        now = datetime.now(UTC)
        authority_key = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        signed = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(issuer.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCKS_DIFFER_BY)
            .not_valid_after(min(now + valid_for, issuer.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            # A scheduler and a worker of Dask are servers and clients of each other.
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(asked.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_key), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return signed.public_bytes(_PEM).decode()


_PEM = serialization.Encoding.PEM


def expires(file: Path) -> datetime:
    """When a certificate ends, in UTC. Raises UsageError when the file is none."""
    return _certificate(_read(file).decode("utf-8", "replace"), str(file)).not_valid_after_utc


def check_private(file: Path) -> None:
    """Raise UsageError where others than its owner may read a private key."""
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError as error:
        raise UsageError(f"The private key {file} can't be read: {error.strerror}.") from error
    if mode & 0o077:
        raise UsageError(f"Others may read the private key {file}: type chmod 600 {file}.")


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    check_private(file)
    try:
        key = serialization.load_pem_private_key(_read(file), password=None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file} is not a private key: start the fleet again.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError(f"{file} is not a key of an elliptic curve: start the fleet again.")
    return key


def _certificate(text: str, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(text.encode())
    except ValueError as error:
        raise UsageError(f"{what} is not a certificate: start the fleet again.") from error


def _make_closed(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}): start the fleet again.") from error


def _write(file: Path, content: bytes) -> None:
    try:
        replace_file(file, content, mode=0o600)
        file.chmod(0o600)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}.") from error


def is_name(text: str) -> bool:
    """Whether a text can name a machine: letters, digits, dot, underscore and minus, 63 at most."""
    return _NAME.fullmatch(text) is not None
