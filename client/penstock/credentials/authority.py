"""Makes the files of ``penstock keys``: a CA, certificates of roles, keys that sign tokens.

An authority is a folder. Its own files are in ``DIR/authority``, which no other process needs.
Beside it, ``DIR`` has a folder for each role, to copy to the processes with that role.
"""

from __future__ import annotations

import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.credentials import folder as names
from penstock.credentials.access import AccessRole, certified_name
from penstock.credentials.secret_file import read_public, read_secret, write_file
from penstock.credentials.token import issue
from penstock.errors import ConfigError

OWN = "authority"
"""The folder of the authority's own files. Anyone who has them can make any credential."""

DISPATCHER, WORKER = "dispatcher", "worker"
"""The roles of servers, which verify their callers."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

CA_LASTS, CERTIFICATE_LASTS = timedelta(days=3650), timedelta(days=365)

TOKEN_SECONDS = 365 * 86400.0
"""How many seconds the tokens in roles' folders are valid."""

BACKDATED = timedelta(minutes=5)
"""How long before its creation a certificate becomes valid, for hosts whose clocks are slow."""

_CA_CERT, _CA_KEY, _SIGNING = "ca.crt", "ca.key", "signing.key"
_BEFORE, _NEXT = "before-", "next-"
"""Prefixes of the files of previous and of next keys; services trust both."""

_HOSTS = "hosts"

_LONGEST_SUBJECT = 64
"""Most characters of a name in a certificate; X.509 sets the limit."""


def init(folder: Path, hosts: tuple[str, ...], now: datetime) -> list[Path]:
    """Make an authority and a folder for each role in *folder*; return the roles' folders.

    Args:
        folder: the folder; it may exist, but must have no authority.
        hosts: the dispatcher's names and addresses for callers, besides those of loopback.
        now: the time, with its zone.

    Raises:
        ConfigError: when *folder* has an authority, *hosts* are malformed, or files cannot be
            written.
    """
    own = folder / OWN
    if (own / _CA_KEY).exists():
        raise ConfigError(
            f"{folder} has an authority already: `penstock keys renew {folder}` makes new "
            "certificates and tokens, `penstock keys rotate` new keys"
        )
    for host in hosts:
        _name(host)
    _make_folder(folder)
    _make_folder(own)
    write_file(own / _HOSTS, "\n".join(hosts).encode(), secret=False)
    _new_keys(own, now)
    definitions = secrets.token_bytes(32)
    for role in (DISPATCHER, WORKER):
        _make_folder(folder / role)
        write_file(folder / role / names.DEFINITIONS, definitions, secret=True)
    return renew(folder, (), now)


def renew(folder: Path, hosts: tuple[str, ...], now: datetime) -> list[Path]:
    """Make new certificates and tokens for all roles with the existing keys; return the folders.

    Args:
        folder: the authority's folder.
        hosts: the dispatcher's new names and addresses; if empty, they stay the same.
        now: the time, with its zone.

    Raises:
        ConfigError: when there is no authority, or files cannot be written.
    """
    own = _own(folder)
    if hosts:
        for host in hosts:
            _name(host)
        write_file(own / _HOSTS, "\n".join(hosts).encode(), secret=False)
    known = tuple(read_public(own / _HOSTS).decode().split())
    made = []
    for role in (DISPATCHER, *(role.value for role in AccessRole)):
        place = folder / role
        _make_folder(place)
        write_file(place / names.CA, _bundle(own), secret=False)
        if role in (DISPATCHER, WORKER):
            write_file(place / names.TRUSTED, _trusted(own), secret=False)
        hosts_of = known if role == DISPATCHER else ()
        _write_certificate(place, *_certified(own, role, role, hosts_of, now, CERTIFICATE_LASTS))
        shown = AccessRole.OPERATOR if role == DISPATCHER else AccessRole(role)
        made_token = token(folder, shown, role, now.timestamp(), TOKEN_SECONDS)
        write_file(place / names.TOKEN, made_token.encode() + b"\n", secret=True)
        made.append(place)
    return made


def personal(
    folder: Path, into: Path, role: AccessRole, name: str, now: datetime, lasts: float
) -> None:
    """Make a folder *into* with credentials for one person or job: a certificate and a token.

    Args:
        folder: the authority's folder.
        into: the folder to write; existing files in it are replaced.
        role: the role of the holder.
        name: the holder's name, for logs and messages.
        now: when both become valid, with its zone.
        lasts: how many seconds both are valid.

    Raises:
        ConfigError: when there is no authority, or files cannot be written.
    """
    made_token = token(folder, role, name, now.timestamp(), lasts)
    own = _own(folder)
    _make_folder(into)
    write_file(into / names.CA, _bundle(own), secret=False)
    certified = _certified(own, role.value, name, (), now, timedelta(seconds=lasts))
    _write_certificate(into, *certified)
    write_file(into / names.TOKEN, made_token.encode() + b"\n", secret=True)


def rotate(folder: Path, now: datetime) -> tuple[list[Path], bool]:
    """Do one of the two steps to a new CA and signing key; services always trust two of each.

    The first call makes new keys, which services trust but which sign nothing yet. Call again as
    soon as all processes have the new folders. The second call signs certificates and tokens with
    the new keys. Credentials from the old keys stay valid until the next call.

    Returns:
        The roles' folders, and whether the new ones are in use.

    Raises:
        ConfigError: when there is no authority, or files cannot be written.
    """
    own = _own(folder)
    names_of_keys = (_CA_CERT, _CA_KEY, _SIGNING)
    in_use = (own / f"{_NEXT}{_SIGNING}").exists()
    if in_use:
        for name in names_of_keys:
            write_file(own / f"{_BEFORE}{name}", read_secret(own / name), secret=True)
            (own / f"{_NEXT}{name}").replace(own / name)
    else:
        for name in names_of_keys:
            (own / f"{_BEFORE}{name}").unlink(missing_ok=True)
        _new_keys(own, now, _NEXT)
    return renew(folder, (), now), in_use


def token(folder: Path, role: AccessRole, name: str, now: float, lasts: float) -> str:
    """Return a token for *role*, signed by the authority in *folder*.

    Args:
        folder: the authority's folder.
        role: the role of the holder.
        name: the holder's name, for logs and messages.
        now: when it becomes valid, in seconds of Unix time.
        lasts: how many seconds it is valid.

    Raises:
        ConfigError: when there is no authority, or others can read its key.
    """
    return issue(_signing_key(_own(folder) / _SIGNING), role, name, now=now, lasts=lasts)


def _new_keys(own: Path, now: datetime, prefix: str = "") -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Penstock {secrets.token_hex(4)}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _begun(name, name, now, CA_LASTS)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_file(own / f"{prefix}{_CA_KEY}", _private(key), secret=True)
    write_file(own / f"{prefix}{_CA_CERT}", _pem(certificate), secret=True)
    write_file(
        own / f"{prefix}{_SIGNING}", _private(ed25519.Ed25519PrivateKey.generate()), secret=True
    )


def _write_certificate(place: Path, key: bytes, certificate: bytes) -> None:
    # A reader of the folder notices a key without its certificate, or the reverse, and waits.
    write_file(place / names.KEY, key, secret=True)
    write_file(place / names.CERTIFICATE, certificate, secret=False)


def _certified(
    own: Path, role: str, name: str, hosts: tuple[str, ...], now: datetime, lasts: timedelta
) -> tuple[bytes, bytes]:
    """Return a new key of *role* and its certificate; a server's, if the role is a server's."""
    authority = x509.load_pem_x509_certificate(read_secret(own / _CA_CERT))
    signer = serialization.load_pem_private_key(read_secret(own / _CA_KEY), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{own / _CA_KEY} is no key that `penstock keys init` made")
    key = ec.generate_private_key(ec.SECP256R1())
    # Workers' hosts change, so readers check the role in a worker's certificate, not its host.
    known, usages = [certified_name(role)], [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role in (DISPATCHER, WORKER):
        known += [*LOOPBACK, *hosts]
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if role == DISPATCHER:  # for people who use its folder to call it from its own host
        known.append(certified_name(AccessRole.OPERATOR.value))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_SUBJECT])])
    certificate = (
        _begun(subject, authority.subject, now, lasts)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_name(one) for one in known]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _private(key), _pem(certificate)


def _begun(
    subject: x509.Name, issuer: x509.Name, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    now = now.astimezone(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lasts)
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    plain = host.removeprefix("*.")
    if not plain or len(host) > 253 or not all(map(_is_label, plain.split("."))):
        raise ConfigError(f"host {host[:80]!r} is neither a name nor an IP address")
    return x509.DNSName(host)


def _is_label(text: str) -> bool:
    return (
        0 < len(text) < 64 and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    )


def _bundle(own: Path) -> bytes:
    files = (own / f"{when}{_CA_CERT}" for when in ("", _NEXT, _BEFORE))
    return b"".join(read_secret(file) for file in files if file.exists())


def _trusted(own: Path) -> bytes:
    files = (own / f"{when}{_SIGNING}" for when in ("", _NEXT, _BEFORE))
    return b"".join(
        _signing_key(file)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        for file in files
        if file.exists()
    )


def _signing_key(file: Path) -> ed25519.Ed25519PrivateKey:
    key = serialization.load_pem_private_key(read_secret(file), None)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"{file} is no key that `penstock keys init` made")
    return key


def _private(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _own(folder: Path) -> Path:
    own = folder / OWN
    if not (own / _CA_KEY).exists():
        raise ConfigError(f"{folder} has no authority: `penstock keys init {folder}` makes one")
    return own


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be made: {exc.strerror}") from exc
