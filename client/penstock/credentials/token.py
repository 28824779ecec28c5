"""Signed tokens: a process's role, the key that signed it, and its expiry date.

A token is ``penstock1.CLAIMS.SIGNATURE``: JSON and an Ed25519 signature of it, each in URL-safe
base64. Anyone who has a token can use its role, so a token is as secret as a key.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from penstock.credentials.access import AccessRole, Identity
from penstock.errors import ConfigError, Unauthenticated
from penstock.protocol.malformed import MALFORMED

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

SCHEME = "penstock1"

LONGEST = 2048
"""Most characters of a token; longer ones are refused without decoding."""

SKEW = 60.0
"""Seconds by which the clocks of two hosts may differ."""

_END = b"-----END PUBLIC KEY-----"

REMEDY = "make a new one with `penstock keys token`"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Claims(msgspec.Struct, frozen=True):
    """The content of a token; *issued* and *expires* in seconds of Unix time."""

    role: str
    name: str
    issued: float
    expires: float
    key: str
    """The id of the key that signed it: see `key_id`."""


class TrustedKeys:
    """The keys whose tokens are valid: usually one, two during a change of keys.

    Args:
        keys: public Ed25519 keys.
    """

    def __init__(self, keys: Iterable[Ed25519PublicKey]) -> None:
        self._keys = {key_id(key): key for key in keys}

    @classmethod
    def from_pem(cls, pem: bytes) -> TrustedKeys:
        """Return the public keys in *pem*, which holds one after another.

        Raises:
            ConfigError: when *pem* holds no key, or one that is not an Ed25519 key.
        """
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  as below
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            load_pem_public_key,
        )

        keys = []
        for one in pem.split(_END)[:-1]:
            try:
                key = load_pem_public_key(one + _END)
            except ValueError as exc:
                raise ConfigError(f"trusted.keys: {exc}") from exc
            if not isinstance(key, ed25519.Ed25519PublicKey):
                raise ConfigError("trusted.keys: a key is not of Ed25519")
            keys.append(key)
        if not keys:
            raise ConfigError("trusted.keys holds no public key in PEM")
        return cls(keys)

    def identity(self, token: str, now: float) -> Identity:
        """Verify *token* at *now*, in seconds of Unix time; return the identity that it shows.

        Raises:
            Unauthenticated: when the token is malformed, changed, expired, not valid yet, or signed
                by a key that is not trusted. The message says which, and what to do. It never
                shows the token.
        """
        body, signature = _parts(token)
        claims = _claims(body)
        key = self._keys.get(claims.key)
        if key is None:
            raise Unauthenticated(
                f"the token of {claims.name!r:.80} was signed by the key {claims.key!r:.40}, and "
                f"this service trusts {', '.join(self._keys) or 'none'}: it is of another cluster, "
                f"or of a key that was taken out of use; {REMEDY}"
            )
        _check_signature(key, body, signature, claims)
        _check_times(claims, now)
        try:
            role = AccessRole(claims.role)
        except ValueError:
            raise Unauthenticated(
                f"the token of {claims.name!r:.80} is for the role {claims.role!r:.40}, which this "
                "version does not know"
            ) from None
        return Identity(f"{role.value} {claims.name!r}", frozenset({role}), claims.expires)


def issue(key: Ed25519PrivateKey, role: AccessRole, name: str, *, now: float, lasts: float) -> str:
    """Return a token, signed with *key*, that is valid for *lasts* seconds from *now* on.

    Raises:
        ConfigError: when *lasts* is not above 0, or *name* has no or more than 100 characters.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> from penstock.credentials.access import AccessRole
    >>> from penstock.credentials.token import TrustedKeys, issue
    >>> key = Ed25519PrivateKey.generate()
    >>> token = issue(key, AccessRole.READER, "ann", now=1000.0, lasts=60.0)
    >>> TrustedKeys([key.public_key()]).identity(token, now=1030.0).name
    "reader 'ann'"
    """
    if not lasts > 0:
        raise ConfigError(f"a token must last for some time, not for {lasts!r} s")
    if not name or len(name) > 100:
        raise ConfigError(f"a token's name must have from 1 to 100 characters, not {name[:120]!r}")
    claims = Claims(role.value, name, now, now + lasts, key_id(key.public_key()))
    body = msgspec.json.encode(claims)
    return ".".join((SCHEME, _text(body), _text(key.sign(_signed(body)))))


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of *key*: the first 16 hex digits of its SHA-256 digest."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def seconds_of(text: str) -> float:
    """Return the seconds in *text*, such as ``30d``, ``12h``, ``90m`` or ``45s``.

    Raises:
        ConfigError: when *text* is not such a duration.

    >>> from penstock.credentials.token import seconds_of
    >>> seconds_of("12h")
    43200.0
    """
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if found is None or not int(found[1]):
        raise ConfigError(f"{text[:40]!r} is no time: say it as 30d, 12h, 90m or 45s")
    return float(int(found[1]) * _UNITS[found[2]])


def _parts(token: str) -> tuple[bytes, bytes]:
    scheme, _, rest = token.partition(".")
    body, _, signature = rest.partition(".")
    if len(token) > LONGEST or scheme != SCHEME or not signature:
        raise Unauthenticated(
            f"the credential is no token of Penstock, which begins with {SCHEME}; {REMEDY}"
        )
    try:
        return _bytes(body), _bytes(signature)
    except ValueError:
        raise Unauthenticated(f"the token is damaged: was it copied as a whole? {REMEDY}") from None


def _claims(body: bytes) -> Claims:
    try:
        return msgspec.json.decode(body, type=Claims)
    except MALFORMED:
        raise Unauthenticated(f"the token is damaged: was it copied as a whole? {REMEDY}") from None


def _check_signature(key: Ed25519PublicKey, body: bytes, signature: bytes, claims: Claims) -> None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  only services verify

    try:
        key.verify(signature, _signed(body))
    except InvalidSignature:
        raise Unauthenticated(
            f"the token that says {claims.name!r:.80} was changed after it was signed; {REMEDY}"
        ) from None


def _check_times(claims: Claims, now: float) -> None:
    if now > claims.expires + SKEW:
        raise Unauthenticated(
            f"the token of {claims.name!r:.80} expired {_at(claims.expires)}, and the clock of "
            f"this service says {_at(now)}; {REMEDY}, or set the clock"
        )
    if now < claims.issued - SKEW:
        raise Unauthenticated(
            f"the token of {claims.name!r:.80} was made {_at(claims.issued)}, and the clock of "
            f"this service says {_at(now)}: one of the two clocks is off; set it"
        )


def _at(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"at {seconds!r:.40}"


def _signed(body: bytes) -> bytes:
    return SCHEME.encode() + b"." + body


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
