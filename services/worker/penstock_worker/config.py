"""Settings of a worker, with their defaults and their reasons."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from penstock.errors import ConfigError, NotAvailableYet
from penstock.runtime import settings

PORT = "%port%"
"""Stands in `WorkerConfig.worker_address` for the port that is bound."""

DISPATCHER_TIMEOUT = 60.0

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Everything that can be set, from code or from ``PENSTOCK_*`` variables. Times in seconds.

    Raises:
        ConfigError: naming the setting and its value, when it is malformed.
        NotAvailableYet: when `data_transfer_protocol` is another than gRPC.

    >>> WorkerConfig(dispatcher_address="dispatcher")
    Traceback (most recent call last):
    penstock.errors.ConfigError: dispatcher_address must look like host:port or ...
    """

    dispatcher_address: str | None = None
    """Where the dispatcher is: ``host:port`` or ``grpc://host:port``. A worker needs one."""

    worker_address: str | None = None
    """The address that readers are told, with ``%port%`` for the port that is bound.

    By default it is `host`, or this machine's name where `host` means all interfaces.
    """

    port: int = 0
    """The port to listen on; 0 takes any free one."""

    protocol: str | None = None
    """How to talk: ``"grpc"``, the only one there is."""

    heartbeat_interval: float | None = None
    """Time between beats to the dispatcher; by default what the dispatcher asks for."""

    dispatcher_timeout: float | None = None
    """How long the dispatcher may be absent when the worker starts; 60 s by default. A worker
    that has been registered waits for ever."""

    data_transfer_protocol: str | None = None
    """A further way for frames to reach readers, beside gRPC."""

    data_transfer_address: str | None = None
    """The address that readers are told for `data_transfer_protocol`."""

    host: str = "127.0.0.1"
    """The interface to listen on. There is no authentication, and definitions hold code: other
    interfaces than loopback are for networks whose every member is trusted."""

    worker_tags: tuple[str, ...] = ()
    """Words about this worker, shown in its status."""

    buffer_bytes: int = 64 << 20
    """How many bytes of a task may be made before they are acked."""

    max_element_bytes: int = 1 << 30
    """The largest element that is delivered; a larger one is an error of its task."""

    drain: float = 10.0
    """How long the worker may take to leave when it is told to: readers get what is made, and the
    tasks go on elsewhere from just there. After that, or with 0, it just leaves, and what readers
    had not acked is made again. Give containers longer than this before they are killed."""

    def __post_init__(self) -> None:
        self._check_addresses()
        for name, least in {"heartbeat_interval": 0.001, "dispatcher_timeout": 0.001}.items():
            value = getattr(self, name)
            if value is not None and not _is_number(value, least):
                raise ConfigError(f"{name} must be a positive number of seconds, not {value!r}")
        if not _is_number(self.drain, 0):
            raise ConfigError(f"drain must be a number of seconds from 0 on, not {self.drain!r}")
        for name in ("buffer_bytes", "max_element_bytes"):
            value = getattr(self, name)
            if not isinstance(value, int) or not _is_number(value, 1):
                raise ConfigError(f"{name} must be a positive number of bytes, not {value!r}")
        tags = self.worker_tags
        if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
            raise ConfigError(f"worker_tags must be a tuple of non-empty words, not {tags!r}")
        object.__setattr__(self, "worker_tags", tuple(tags))

    def _check_addresses(self) -> None:
        if not isinstance(self.port, int) or not _is_number(self.port, 0) or self.port > 65535:
            raise ConfigError(f"port must be from 0 (any free one) to 65535, not {self.port!r}")
        if not isinstance(self.host, str) or not self.host:
            raise ConfigError(f"host must name an interface, as 127.0.0.1 does, not {self.host!r}")
        if self.protocol not in (None, "grpc"):
            raise ConfigError(f"protocol must be 'grpc', not {self.protocol!r}")
        if self.data_transfer_protocol not in (None, "", "grpc"):
            raise NotAvailableYet(
                f"data_transfer_protocol={self.data_transfer_protocol!r} is not available yet; "
                "frames travel by gRPC"
            )
        if self.dispatcher_address is not None:
            address = parse_address("dispatcher_address", self.dispatcher_address)
            object.__setattr__(self, "dispatcher_address", address)
        template = self.worker_address
        fits = isinstance(template, str) and _fits(template.replace(PORT, "1", 1))
        if template is not None and not fits:
            raise ConfigError(
                f"worker_address must look like host:port or host:{PORT}, not {template!r}"
            )

    @property
    def patience(self) -> float:
        """Seconds that the dispatcher may be absent at the start."""
        return DISPATCHER_TIMEOUT if self.dispatcher_timeout is None else self.dispatcher_timeout

    @property
    def is_open(self) -> bool:
        """Whether others than this machine can connect."""
        return self.host not in LOOPBACK

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, **given: Any) -> Self:
        """Return the settings that ``PENSTOCK_*`` variables give, as ``PENSTOCK_PORT``.

        Args:
            env: the variables; by default those of this process.
            given: fields by name, which go before variables; those that are None do not.

        Raises:
            ConfigError: when a variable cannot be read, or settings contradict themselves.

        >>> config = WorkerConfig.from_env({"PENSTOCK_DRAIN": "0.5"}, port=5051)
        >>> config.drain, config.port
        (0.5, 5051)
        """
        named = {name: value for name, value in given.items() if value is not None}
        return replace(settings.from_env(cls, env), **named)


def parse_address(name: str, address: object) -> str:
    """Return ``host:port`` from *address*, which may begin with ``grpc://``.

    Raises:
        ConfigError: naming the setting *name* and the value.
    """
    plain = address.removeprefix("grpc://") if isinstance(address, str) else ""
    if not _fits(plain):
        raise ConfigError(
            f"{name} must look like host:port or grpc://host:port, with a port from 1 to 65535, "
            f"not {address!r}"
        )
    return plain


def _fits(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return bool(host) and "/" not in host and port.isdecimal() and 0 < int(port) <= 65535


def _is_number(value: object, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least
