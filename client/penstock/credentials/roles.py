"""The roles that a process can have, and who has which."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.errors import ConfigError


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

    *expires* is in seconds of Unix time; None is never.
    """

    name: str
    roles: frozenset[AccessRole]
    expires: float | None = None


EVERY_ROLE = frozenset(AccessRole)


def server_name(role: str) -> str:
    """Return the name that certificates of *role* have, whatever host they are on.

    >>> from penstock.credentials.roles import server_name
    >>> server_name("worker")
    'worker.penstock.internal'
    """
    return f"{role}.penstock.internal"


def role_named(text: str) -> AccessRole:
    """Return the role of that name.

    Raises:
        ConfigError: when there is none.
    """
    try:
        return AccessRole(text)
    except ValueError:
        known = ", ".join(role.value for role in AccessRole)
        raise ConfigError(f"role {text[:80]!r} is unknown: choose one of {known}") from None
