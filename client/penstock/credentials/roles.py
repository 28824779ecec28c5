"""The roles that a process can have, and who has which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class AccessRole(Enum):
    """What a process is there for; a trainer may do all that a reader may.

    >>> from penstock.credentials.roles import AccessRole
    >>> [role.value for role in AccessRole]
    ['reader', 'trainer', 'worker', 'operator']
    """

    READER = "reader"
    """Reads datasets that are registered, and saves its jobs."""
    TRAINER = "trainer"
    """Registers code, which workers run; and reads."""
    WORKER = "worker"
    """Takes tasks, and the definitions for them."""
    OPERATOR = "operator"
    """Looks at everything, and drains workers."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a call is from: a *name* for logs and messages, its *roles*, and until when.

    *expires* is in seconds of Unix time; None is never. Where nobody is asked who calls, it is not
    *proven*: bounds then go by the address that a call comes from.
    """

    name: str
    roles: frozenset[AccessRole]
    expires: float | None = None
    proven: bool = True


EVERY_ROLE = frozenset(AccessRole)


def certified_name(role: str) -> str:
    """Return the name in certificates of *role*, whatever host they are on.

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
