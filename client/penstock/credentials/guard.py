"""Admits or refuses calls; each guard is for one way in which a service can be protected."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.credentials.access import (
    EVERY_ROLE,
    Identity,
    certified_roles,
    check,
    named,
    needs_nothing,
)
from penstock.credentials.folder import LOOK, ServiceCredentials, WatchedFolder
from penstock.credentials.local import SCHEME as LOCAL
from penstock.credentials.local import LocalKey
from penstock.credentials.token import TrustedKeys
from penstock.errors import Unauthenticated

KEPT = 1024
"""The most verified tokens to remember, because verifying one takes longer than a call."""


ANYBODY = Identity("whoever can connect", EVERY_ROLE, proven=False)


class _WithoutCertificates:
    """A guard of a port where callers show no certificates."""

    certificates = False
    """Whether callers have certificates, which `confirm` checks."""

    def confirm(self, identity: Identity, names: Iterable[str]) -> None:
        """Raise an error if a certificate with these *names* does not fit *identity*."""


class OpenGuard(_WithoutCertificates):
    """Admits everybody, for ``--insecure``."""

    def admit(self, path: str, _shown: str) -> Identity | None:
        """Return `ANYBODY` for every caller; None if the path needs no credential."""
        return None if needs_nothing(path, loopback=True) else ANYBODY


class LocalGuard(_WithoutCertificates):
    """Admits only processes of this user, to a service on loopback.

    Args:
        key: the key that these processes share.
        port: returns the service's own port.
        clock: returns seconds of Unix time.
    """

    def __init__(
        self, key: LocalKey, port: Callable[[], int], clock: Callable[[], float] = time.time
    ) -> None:
        self._key, self._port, self._clock = key, port, clock
        self._kept = clock()

    def admit(self, path: str, shown: str) -> Identity | None:
        """Return whom a call of *path* is from, who shows *shown*; None where nobody is asked.

        Raises:
            Unauthenticated: when it is no proof of this user's.
            WrongRole: when nobody may call that.
        """
        if needs_nothing(path, loopback=True):
            return None
        if not shown.startswith(f"{LOCAL}."):
            raise Unauthenticated(f"{named(path)} needs a credential: {self._key.refusal()}")
        now = self._clock()
        if not self._kept <= now < self._kept + LOOK:
            self._kept = now
            self._key.keep()
        identity = self._key.identity(shown, self._port(), now)
        check(path, identity)
        return identity


class TokenGuard:
    """Admits callers with a signed token, by the table of roles.

    Args:
        folder: the current credentials, with the trusted keys.
        clock: returns seconds of Unix time.
    """

    def __init__(self, folder: WatchedFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._known: OrderedDict[str, Identity] = OrderedDict()
        self._trusted = b""
        self._keys = TrustedKeys(())
        self._follow()

    def admit(self, path: str, shown: str) -> Identity | None:
        """Return whom a call of *path* is from, who shows *shown*; None where nobody is asked.

        Raises:
            Unauthenticated: when it is no token that counts.
            WrongRole: when its role may not call that.
        """
        if needs_nothing(path, loopback=False):
            return None
        if not shown:
            raise Unauthenticated(
                f"{named(path)} needs a credential: give credentials=FOLDER, or set "
                "PENSTOCK_CREDENTIALS to a folder that `penstock keys init` made"
            )
        identity = self._identity(shown)
        check(path, identity)
        return identity

    certificates = True
    """See `OpenGuard.certificates`."""

    def confirm(self, identity: Identity, names: Iterable[str]) -> None:
        """Check that a certificate with these *names* is of a role that *identity* has.

        Raises:
            Unauthenticated: when it is not; a stolen token is useless without its certificate.
        """
        certified = certified_roles(names)
        if not {role.value for role in identity.roles} & certified:
            roles = " and ".join(sorted(certified)) or "nobody known here"
            raise Unauthenticated(
                f"the token is of {identity.name}, and the certificate of this connection is of "
                f"{roles}: the two have to be of one role; use a folder as `penstock keys` made it"
            )

    def _identity(self, shown: str) -> Identity:
        self._follow()
        now = self._clock()
        known = self._known.get(shown)
        if known is None or (known.expires is not None and known.expires < now):
            known = self._keys.identity(shown, now)
            self._known[shown] = known
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return known

    def _follow(self) -> None:
        """Use the keys that are in the folder now; if they changed, forget verified tokens."""
        found = self._folder.current()
        if isinstance(found, ServiceCredentials) and found.trusted != self._trusted:
            self._keys = TrustedKeys.from_pem(found.trusted)
            self._trusted = found.trusted
            self._known.clear()


TENSORFLOW = Identity("TensorFlow's clients", frozenset(), proven=False)


class TensorFlowGuard(_WithoutCertificates):
    """Admits everybody to TensorFlow's protocol, and to nothing else.

    It is for a port with only that protocol; the service decides which datasets may be read there.
    """

    def admit(self, path: str, _shown: str) -> Identity | None:
        """Return the caller of *path*; None if the path needs no credential.

        Raises:
            Unauthenticated: when *path* is not of TensorFlow's protocol.
        """
        if needs_nothing(path, loopback=False):
            return None
        if path.startswith("/tensorflow.data.") and needs_nothing(path, loopback=True):
            return TENSORFLOW
        raise Unauthenticated(
            f"{named(path)} is not answered here: this port is for TensorFlow's clients alone; "
            "call the service's other port, with credentials"
        )


Guard: TypeAlias = OpenGuard | LocalGuard | TokenGuard | TensorFlowGuard
