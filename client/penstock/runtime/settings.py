"""Converts settings between frozen dataclasses and ``PENSTOCK_*`` variables, in both directions.

A field is a `str`, `int`, `float`, `bool`, or a tuple of text; each may also be None. A
variable holds the value as text: tuples with commas, None as the empty text.
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from penstock.credentials.entrance import Entrance, Security, entrance_of, security_of
from penstock.credentials.local import is_loopback
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    C = TypeVar("C", bound=DataclassInstance)
else:
    C = TypeVar("C")

PREFIX = "PENSTOCK_"

OF_ENTRANCE = (
    "max_calls",
    "max_calls_per_identity",
    "max_connections",
    "max_connections_per_identity",
    "max_http_connections",
)
"""Settings of each service that limit calls and connections."""

MOST = (1 << 31) - 1
"""The largest value of a limit: gRPC counts no further."""

MOST_BYTES = 2_000_000_000
"""The most bytes of a message."""


class ServiceSettings:
    """The settings that all services share: where a service listens, and whom it admits."""

    __slots__ = ()

    role: ClassVar[str]
    """The role whose credentials the service uses."""

    host: str
    port: int
    protocol: str | None
    credentials: str | None
    insecure: bool
    http_port: int | None
    http_host: str
    health_file: str | None
    max_calls: int
    max_calls_per_identity: int
    max_connections: int
    max_connections_per_identity: int
    max_http_connections: int
    max_message_bytes: int
    tensorflow_port: int | None
    tensorflow_host: str | None

    @property
    def scheme(self) -> str:
        """The scheme of this service's address: ``grpcs`` with TLS, otherwise ``grpc``."""
        return "grpcs" if self.credentials else "grpc"

    @property
    def security(self) -> Security:
        """The protection of this service."""
        return security_of(self.credentials, insecure=self.insecure)

    def entrance(self) -> Entrance:
        """Return the entrance of this service: which callers it admits, and its limits.

        Raises:
            ConfigError: when other machines can connect and no setting says who may call, or
                when the credentials cannot be used.
        """
        made = entrance_of(self.host, self.credentials, insecure=self.insecure, role=self.role)
        for name in OF_ENTRANCE:
            setattr(made, name, getattr(self, name))
        made.ports = 1 if self.tensorflow_port is None else 2
        return made

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, **given: Any) -> Self:
        """Return the settings in ``PENSTOCK_*`` variables, such as ``PENSTOCK_PORT``.

        Args:
            env: the variables; by default those of this process.
            given: fields by name, which override variables unless they are None.

        Raises:
            ConfigError: when a variable cannot be read, or settings contradict themselves.

        >>> from penstock_dispatcher import DispatcherConfig
        >>> config = DispatcherConfig.from_env({"PENSTOCK_PORT": "5050"}, work_dir="state")
        >>> config.port, config.work_dir
        (5050, 'state')
        """
        named = {name: value for name, value in given.items() if value is not None}
        return replace(from_env(cls, env), **named)  # type: ignore[type-var]  # a dataclass

    def _check_listening(self) -> None:
        if not isinstance(self.port, int) or not is_number(self.port, 0) or self.port > 65535:
            raise ConfigError(f"port must be from 0 (any free one) to 65535, not {self.port!r}")
        if not isinstance(self.host, str) or not self.host:
            raise ConfigError(f"host must name an interface, as 127.0.0.1 does, not {self.host!r}")
        if self.protocol not in (None, "grpc"):
            raise ConfigError(f"protocol must be 'grpc', not {self.protocol!r}")
        self._check_security()
        self._check_http()

    def _check_http(self) -> None:
        port, host, file = self.http_port, self.http_host, self.health_file
        if file is not None and not (isinstance(file, str) and file):
            raise ConfigError(f"health_file must be the path of a file, not {file!r}")
        if port is not None and (
            not isinstance(port, int) or not is_number(port, 0) or port > 65535
        ):
            raise ConfigError(
                f"http_port must be None (no HTTP) or from 0 (any free one) to 65535, not {port!r}"
            )
        if not isinstance(host, str) or not host:
            raise ConfigError(f"http_host must name an interface, as 127.0.0.1 does, not {host!r}")
        if port is None or is_loopback(host) or self.credentials or self.insecure:
            return
        raise ConfigError(
            f"http_host={host!r} lets other machines look: give credentials=FOLDER "
            "(--credentials, PENSTOCK_CREDENTIALS), which `penstock keys init` makes; or, where "
            "every member of the network is trusted, insecure=True (--insecure)"
        )

    def _check_security(self) -> None:
        for name in OF_ENTRANCE:
            check_bound(name, getattr(self, name))
        check_bound("max_message_bytes", self.max_message_bytes, MOST_BYTES)
        if not isinstance(self.insecure, bool):
            raise ConfigError(f"insecure must be True or False, not {self.insecure!r}")
        if self.credentials is not None and not isinstance(self.credentials, str | os.PathLike):
            raise ConfigError(f"credentials must be a folder's path, not {self.credentials!r}")
        if self.credentials and self.insecure:
            raise ConfigError(
                f"credentials={os.fspath(self.credentials)!r} and insecure=True contradict each "
                "other: leave one of them out"
            )
        if self.credentials is not None:
            object.__setattr__(self, "credentials", os.fspath(self.credentials) or None)
        self._check_tensorflow()

    def _check_tensorflow(self) -> None:
        port, host = self.tensorflow_port, self.tensorflow_host
        if port is not None and (
            not isinstance(port, int) or not is_number(port, 0) or port > 65535
        ):
            raise ConfigError(
                f"tensorflow_port must be from 0 (any free one) to 65535, not {port!r}"
            )
        if host is not None and not (isinstance(host, str) and host):
            raise ConfigError(f"tensorflow_host must name an interface, not {host!r}")
        if port is None and host is not None:
            raise ConfigError(f"tensorflow_host={host!r} needs a tensorflow_port")
        if port is not None and not self.credentials:
            raise ConfigError(
                f"tensorflow_port={port} goes with credentials: without them TensorFlow's clients "
                "are answered on the service's own port; leave it out"
            )


def from_env(kind: type[C], env: Mapping[str, str]) -> C:
    """Make a *kind* from the ``PENSTOCK_*`` variables in *env*; other fields keep their defaults.

    Raises:
        ConfigError: when a variable cannot be read; the message names it and its value.
    """
    hints = typing.get_type_hints(kind)
    given = {}
    for field in fields(kind):
        name = variable(field.name)
        if name in env:
            given[field.name] = _read(name, env[name], hints[field.name])
    return kind(**given)


def to_env(config: DataclassInstance) -> dict[str, str]:
    """Return the variables from which `from_env` makes an equal *config*."""
    return {variable(f.name): _write(getattr(config, f.name)) for f in fields(config)}


def variable(field: str) -> str:
    """Return the name of the variable for *field*."""
    return PREFIX + field.upper()


def is_number(value: object, least: float) -> bool:
    """Return whether *value* is a number, and not below *least*."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least


def is_limit(field: str) -> bool:
    """Return whether the setting *field* is a limit, by its name."""
    return field.startswith("max_")


def limits(kind: type[DataclassInstance], given: Sequence[str]) -> dict[str, int]:
    """Return the limits of *kind* in *given*, a list of texts such as ``max_jobs=100``.

    Raises:
        ConfigError: when a name is not one of its limits, or a value is not a number.

    >>> from penstock_dispatcher import DispatcherConfig
    >>> limits(DispatcherConfig, ["max_jobs=100"])
    {'max_jobs': 100}
    """
    known = [field.name for field in fields(kind) if is_limit(field.name)]
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known or not value.isdecimal():
            raise ConfigError(
                f"--limit {text[:80]!r} must be NAME=NUMBER, as max_calls=1000, with one of these "
                f"names: {', '.join(known)}"
            )
        found[name] = int(value)
    return found


def check_bound(name: str, most: object, largest: int = MOST) -> None:
    """Check that the limit *most* is a whole number from 1 to *largest*.

    Raises:
        ConfigError: when it is not; the message names the limit and its range.
    """
    if not isinstance(most, int) or not is_number(most, 1) or most > largest:
        raise ConfigError(
            f"{name} must be a number from 1 to {largest}, not {most!r}: it bounds what is served, "
            "and 0 would be nothing; leave it out for the default"
        )


def _read(name: str, text: str, hint: Any) -> Any:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if text == "" and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    try:
        if kind is bool:
            return _BOOLS[text.lower()]
        if typing.get_origin(kind) is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return kind(text)
    except (ValueError, KeyError) as exc:
        wanted = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{name}={text!r} cannot be read as {wanted}") from exc


def _write(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


_BOOLS = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(
    ["0", "false", "no", "off", ""], False
)
