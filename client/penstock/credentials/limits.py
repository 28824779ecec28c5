"""The limits of services: how much of a service its callers may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.errors import ConfigError

MOST = (1 << 31) - 1
"""The largest value of a limit: gRPC counts no further."""

MOST_BYTES = 2_000_000_000
"""The most bytes of a message."""

MOST_SUM = 1 << 62
"""The most bytes of all messages or elements together."""

DISPATCHER, WORKER = ("dispatcher",), ("worker",)


class LimitRange(NamedTuple):
    """A limit: its default, its largest value, and the roles of the services that have it."""

    default: int
    largest: int = MOST
    roles: tuple[str, ...] = DISPATCHER + WORKER


LIMITS = {
    "max_connections": LimitRange(10_000),
    "max_connections_per_identity": LimitRange(4_096),
    "max_http_connections": LimitRange(512),
    "max_calls": LimitRange(20_000),
    "max_calls_per_identity": LimitRange(10_000),
    "max_message_bytes": LimitRange(1 << 26, MOST_BYTES),
    "max_definition_bytes": LimitRange(1 << 28, MOST_BYTES, DISPATCHER),
    "max_registered_bytes": LimitRange(1 << 32, MOST_SUM, DISPATCHER),
    "max_registered_bytes_per_identity": LimitRange(1 << 31, MOST_SUM, DISPATCHER),
    "max_datasets": LimitRange(1 << 16, roles=DISPATCHER),
    "max_openings": LimitRange(256, roles=DISPATCHER),
    "max_jobs": LimitRange(1 << 16, roles=DISPATCHER),
    "max_jobs_per_identity": LimitRange(1 << 15, roles=DISPATCHER),
    "max_readers": LimitRange(1 << 16, roles=DISPATCHER),
    "max_readers_per_identity": LimitRange(1 << 15, roles=DISPATCHER),
    "max_element_bytes": LimitRange(1 << 30, MOST_SUM, WORKER),
}
"""All limits by name. The reference page *Limits* says what happens beyond each."""


def limits_of(role: str, given: Mapping[str, object] | None = None) -> dict[str, int]:
    """Return all limits of a service with this *role*: *given* ones, and defaults for the others.

    Raises:
        ConfigError: when *given* has a name that is not a limit of the service, or a value out of
            range.

    >>> limits_of("worker", {"max_calls": 100})["max_calls"]
    100
    """
    found = {name: limit.default for name, limit in LIMITS.items() if role in limit.roles}
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"limits must be a mapping such as {{'max_calls': 1000}}, not {given!r}")
    for name, value in (given or {}).items():
        if name not in found:
            raise ConfigError(
                f"limits names {str(name)[:80]!r}; the limits of a {role} are {', '.join(found)}"
            )
        largest = LIMITS[name].largest
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise ConfigError(
                f"{name} must be a number from 1 to {largest}, not {value!r}: it limits use of the "
                "service, and 0 would allow none; leave it out for the default"
            )
        found[name] = value
    return found


def parsed(texts: Iterable[str]) -> dict[str, int]:
    """Return the limits in *texts*, such as ``max_jobs=100``, of any service.

    Raises:
        ConfigError: when a name is not a limit, or a value is not a number.

    >>> parsed(["max_jobs=100"])
    {'max_jobs': 100}
    """
    found = {}
    for text in texts:
        name, _, value = text.strip().partition("=")
        if name not in LIMITS or not value.isdecimal():
            raise ConfigError(
                f"limit {text[:80]!r} must be NAME=NUMBER, as max_calls=1000, with one of these "
                f"names: {', '.join(LIMITS)}"
            )
        found[name] = int(value)
    return found
