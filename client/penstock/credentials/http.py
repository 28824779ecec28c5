"""Protects HTTP with the same access table, tokens and TLS as gRPC.

A browser shows a token as the password of HTTP's Basic scheme; other clients show it as a bearer
token. A token in an address is refused, because addresses are logged. HTTP requires no client
certificate, because browsers and scrapers have none. HTTP requests only read; they change nothing.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from contextlib import suppress
from dataclasses import dataclass

from penstock.credentials.access import Identity, named, needs_nothing
from penstock.credentials.folder import CERTIFICATE, KEY, WatchedFolder
from penstock.credentials.guard import Guard
from penstock.errors import ConfigError, PenstockError, Unauthenticated

LONGEST = 4096
"""Most characters of an ``Authorization`` header that are read."""

_IN_ADDRESS = ("token=", "access_token=", "penstock1.")


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """The answer that refuses a request: its status, text and headers."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


def admit(guard: Guard, method: str, target: str, authorization: str) -> Identity | None:
    """Return the identity of a request's sender; None if the path needs no credential.

    Args:
        guard: the service's guard.
        method: ``GET`` and the like; ``HEAD`` counts as ``GET``.
        target: the path with its query.
        authorization: the header of that name; empty if there is none.

    Raises:
        Unauthenticated: when the request shows no valid token, or a token is in *target*.
        WrongRole: when the sender's role may not request the path.

    >>> from penstock.credentials.guard import OpenGuard
    >>> admit(OpenGuard(), "GET", "/metrics", "").name
    'whoever can connect'
    """
    path, _, query = target.partition("?")
    if any(sign in query or sign in path for sign in _IN_ADDRESS):
        raise Unauthenticated(
            "a token is in the address, which is logged on its way: make another one, and show it "
            "as `Authorization: Bearer TOKEN`"
        )
    row = f"{'GET' if method == 'HEAD' else method} {path}"
    shown = _shown(authorization)
    if not shown and guard.certificates and not needs_nothing(row, loopback=False):
        # The text explains tokens, because it is all that a browser shows to a person.
        raise Unauthenticated(
            f"{named(row)} needs a token, which `penstock keys token` makes: a browser shows it as "
            "a password, with any name (reload to be asked again), all else as `Authorization: "
            "Bearer TOKEN`"
        )
    return guard.admit(row, shown)


def refusal(exc: PenstockError) -> HttpRefusal:
    """Return the HTTP answer for *exc*, which `admit` raised: status 401 or 403.

    >>> from penstock.errors import WrongRole
    >>> refusal(WrongRole("GET /metrics is for the role operator")).status
    403
    """
    if isinstance(exc, Unauthenticated):
        schemes = ('Basic realm="Penstock: a token is the password", charset="UTF-8"', "Bearer")
        return HttpRefusal(401, str(exc), tuple(("WWW-Authenticate", one) for one in schemes))
    return HttpRefusal(403, str(exc))


def server_context(folder: WatchedFolder) -> ssl.SSLContext:
    """Return the TLS context of an HTTP server: TLS 1.3 only, with the certificate in *folder*.

    Each connection gets the certificate that is in the folder when it starts.

    Raises:
        ConfigError: when the certificate cannot be used.
    """
    made, before = _context(folder), folder.current()

    def newest(connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        nonlocal made, before
        if (found := folder.current()) != before:
            # If the files are just being replaced, the next connection gets the new ones.
            with suppress(ConfigError):
                made, before = _context(folder), found
        connection.context = made

    first = made
    first.sni_callback = newest
    return first


def _context(folder: WatchedFolder) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(folder.folder / CERTIFICATE, folder.folder / KEY)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"{folder.folder}: {CERTIFICATE} cannot be used: {exc}") from exc
    return context


def _shown(authorization: str) -> str:
    scheme, _, rest = authorization[:LONGEST].strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return rest.strip()
        case "basic":
            try:
                pair = base64.b64decode(rest.strip(), validate=True).decode()
            except (binascii.Error, ValueError):
                return ""
            return pair.partition(":")[2]
    return ""
