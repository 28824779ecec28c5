"""The roles that a process can have, and the identity that a caller has shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class AccessRole(Enum):
    """The permissions of a process; a trainer may do all that a reader may.

    >>> from penstock.credentials.roles import AccessRole
    >>> [role.value for role in AccessRole]
    ['reader', 'trainer', 'worker', 'operator']
    """

    READER = "reader"
    """Reads registered datasets, and saves its jobs."""
    TRAINER = "trainer"
    """Registers code, which workers run, and reads."""
    WORKER = "worker"
    """Gets tasks and their definitions, and runs them."""
    OPERATOR = "operator"
    """Looks at everything, and drains workers."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller's identity: a *name* for logs and messages, its *roles*, and its expiry.

    *expires* is in seconds of Unix time; None means never. If the service does not verify callers,
    the identity is not *proven*, and limits apply to the caller's address instead.
    """

    name: str
    roles: frozenset[AccessRole]
    expires: float | None = None
    proven: bool = True


EVERY_ROLE = frozenset(AccessRole)


def certified_name(role: str) -> str:
    """Return the name that certificates of *role* contain, independent of the host.

    >>> from penstock.credentials.roles import certified_name
    >>> certified_name("worker")
    'worker.penstock.internal'
    """
    return f"{role}.penstock.internal"


def certified_roles(names: Iterable[str]) -> frozenset[str]:
    """Return the roles of a certificate with these *names*.

    >>> from penstock.credentials.roles import certified_roles
    >>> certified_roles(["localhost", "worker.penstock.internal"])
    frozenset({'worker'})
    """
    end = certified_name("")
    return frozenset(name.removesuffix(end) for name in names if name.endswith(end))
