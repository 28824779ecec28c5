"""Converts settings between frozen dataclasses and ``PENSTOCK_*`` variables, in both directions.

A field is a `str`, `int`, `float`, `bool`, a tuple of text or a mapping of limits; each may also be
None. A variable holds the value as text: tuples and mappings with commas, None as the empty text.

`misspelt` finds variables that nothing reads. The library knows no service, so the names of all
settings are repeated here. A test compares them.
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from penstock.credentials.entrance import Entrance, Security, entrance_of, security_of
from penstock.credentials.limits import LIMITS, limits_of, parsed
from penstock.credentials.local import is_loopback
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    C = TypeVar("C", bound=DataclassInstance)
else:
    C = TypeVar("C")


import difflib
import re
from collections.abc import Iterator

PREFIX = "PENSTOCK_"

RENAMED = dict.fromkeys(LIMITS, ("limits={{'{0}': {1}}}", "LIMITS={0}={1}")) | {
    "refresh_interval": ("heartbeat_interval={1}", "HEARTBEAT_INTERVAL={1}")
}
"""Settings that no longer exist, with their form in code and as a variable today."""


class Check(NamedTuple):
    """A check of one setting: its values in words, and a function that recognises them."""

    wanted: str
    fits: Callable[[Any], bool]


def is_number(value: object, least: float) -> bool:
    """Return whether *value* is a number, and not below *least*."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least


def whole(wanted: str, least: int, most: float = float("inf")) -> Check:
    """Return the check of an integer from *least* to *most*."""
    return Check(wanted, lambda v: isinstance(v, int) and is_number(v, least) and v <= most)


def words(wanted: str) -> Check:
    """Return the check of a tuple of non-empty text."""
    return Check(
        wanted, lambda v: isinstance(v, list | tuple) and all(isinstance(w, str) and w for w in v)
    )


def text(wanted: str) -> Check:
    """Return the check of non-empty text."""
    return Check(wanted, lambda v: isinstance(v, str) and bool(v))


FLAG = Check("True or False", lambda v: isinstance(v, bool))
PORT = whole("from 0 (any free one) to 65535", 0, 65535)
INTERFACE = text("the name of an interface, as 127.0.0.1")
FOLDER = Check("a folder's path", lambda v: isinstance(v, str | os.PathLike) and v != "")
SECONDS = Check("a positive number of seconds", lambda v: is_number(v, 0) and v > 0)
FINITE = Check(
    "a positive, finite number of seconds",
    lambda v: is_number(v, 0) and 0 < v < float("inf"),
)
BYTES = whole("a positive number of bytes", 1)

LISTENING = {
    "port": PORT,
    "host": INTERFACE,
    "protocol": Check("'grpc'", lambda v: v == "grpc"),
    "http_port": PORT,
    "http_host": INTERFACE,
    "health_file": text("the path of a file"),
    "insecure": FLAG,
    "credentials": FOLDER,
    "tensorflow_port": PORT,
    "tensorflow_host": INTERFACE,
}
"""The checks of settings that all services share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings that all services share: where a service listens, and whom it admits."""

    role: ClassVar[str]
    """The role whose credentials the service uses."""

    checks: ClassVar[Mapping[str, Check]]
    """The checks of single settings; a setting whose default is None may be None."""

    host: str = "127.0.0.1"
    """The interface to listen on. On loopback, the service accepts only processes of this user.
    Other interfaces need `credentials` or `insecure`."""

    credentials: str | None = None
    """The folder of this role's credentials, made by ``penstock keys init``. With it, the
    service uses TLS and signed tokens on every interface. You can replace its files while the
    service runs."""

    insecure: bool = False
    """Accept every client that can connect, without TLS. Clients can read all elements, and run
    code on the workers, so use it only in a network whose members you trust. Each start logs it,
    and ``penstock status`` shows it."""

    http_port: int | None = None
    """The port for HTTP: ``/metrics``, ``/healthz``, ``/readyz`` and, at a dispatcher, the page. 0
    takes any free port. By default there is no HTTP."""

    http_host: str = "127.0.0.1"
    """The interface for HTTP. On loopback, every user of this machine may read. Other
    interfaces need `credentials` or `insecure`."""

    health_file: str | None = None
    """A file that the service touches every second while it works, and removes at its end. A
    health check reads its age, which costs less than starting a client."""

    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits by name, such as ``{"max_calls": 1000}``; other limits have their defaults. The page
    Limits lists them. A request beyond a limit fails, with an error that names the limit."""

    tensorflow_port: int | None = None
    """An extra port for TensorFlow's own clients, which have no credentials and speak no TLS.
    Everyone who reaches it can read the dispatcher's `tensorflow_datasets`, and do nothing else.
    None opens no such port. Each start with one logs it."""

    tensorflow_host: str | None = None
    """The interface of `tensorflow_port`. By default it is `host`."""

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse settings that no longer exist, and name the ones that replace them."""
        for name in RENAMED.keys() & given.keys():
            now = RENAMED[name][0].format(name, given[name])
            raise ConfigError(f"{name} is not a setting of its own: set {now}")
        return object.__new__(cls)

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
        made.limits = self.limits
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
        for name in RENAMED:
            if variable(name) in env:
                now = PREFIX + RENAMED[name][1].format(name, env[variable(name)])
                raise ConfigError(f"{variable(name)} is not a variable of its own: set {now}")
        read = _given_in(cls, env)
        named = {name: value for name, value in given.items() if value is not None}
        # The services of a cluster may share their variables: skip limits of other services.
        limits = {k: n for k, n in read.get("limits", {}).items() if cls.role in LIMITS[k].roles}
        more = named.get("limits", {})
        limits |= more if isinstance(more, Mapping) else parsed(more)
        return cls(**{**read, **named, "limits": limits})

    def check_values(self) -> None:
        """Check each setting alone, then the settings of security together.

        Raises:
            ConfigError: naming a setting and its value, if it is malformed or contradicts another.
        """
        defaults = {field.name: field.default for field in fields(self)}
        for name, check in {**LISTENING, **self.checks}.items():
            value = getattr(self, name)
            if value is None and defaults[name] is None:
                continue
            if name == "credentials" and value == "":
                value = None
            elif not check.fits(value):
                raise ConfigError(f"{name} must be {check.wanted}, not {value!r}")
            if isinstance(value, list):
                value = tuple(value)
            elif isinstance(value, os.PathLike):
                value = os.fspath(value)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "limits", limits_of(self.role, self.limits))
        self._check_security()

    def _check_security(self) -> None:
        if self.credentials and self.insecure:
            raise ConfigError(
                f"credentials={self.credentials!r} and insecure=True contradict each other: leave "
                "one of them out"
            )
        outside = self.http_port is not None and not is_loopback(self.http_host)
        if outside and not self.credentials and not self.insecure:
            raise ConfigError(
                f"http_host={self.http_host!r} lets other machines look: give credentials=FOLDER "
                "(--credentials, PENSTOCK_CREDENTIALS), which `penstock keys init` makes; or, if "
                "every member of the network is trusted, insecure=True (--insecure)"
            )
        if self.tensorflow_port is None and self.tensorflow_host is not None:
            raise ConfigError(f"tensorflow_host={self.tensorflow_host!r} needs a tensorflow_port")
        if self.tensorflow_port is not None and not self.credentials:
            raise ConfigError(
                f"tensorflow_port={self.tensorflow_port} goes with credentials: without them the "
                "service answers TensorFlow's clients on its own port; leave it out"
            )


def from_env(kind: type[C], env: Mapping[str, str]) -> C:
    """Make a *kind* from the ``PENSTOCK_*`` variables in *env*; other fields keep their defaults.

    Raises:
        ConfigError: when a variable cannot be read; the message names it and its value.
    """
    return kind(**_given_in(kind, env))


def to_env(config: DataclassInstance) -> dict[str, str]:
    """Return the variables from which `from_env` makes an equal *config*."""
    return {variable(f.name): _write(getattr(config, f.name)) for f in fields(config)}


def variable(field: str) -> str:
    """Return the name of the variable for *field*."""
    return PREFIX + field.upper()


def is_mapping(hint: Any) -> bool:
    """Return whether a field with this type holds limits by name."""
    return typing.get_origin(hint) is Mapping


def _given_in(kind: type[C], env: Mapping[str, str]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {
        field.name: _read(variable(field.name), env[variable(field.name)], hints[field.name])
        for field in fields(kind)
        if variable(field.name) in env
    }


def _read(name: str, text: str, hint: Any) -> Any:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if text == "" and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    try:
        if kind is bool:
            return _BOOLS[text.lower()]
        if typing.get_origin(kind) is tuple or is_mapping(kind):
            parts = tuple(part.strip() for part in text.split(",") if part.strip())
            return parsed(parts) if is_mapping(kind) else parts
        return kind(text)
    except ConfigError as exc:
        raise ConfigError(f"{name}: {exc}") from None
    except (ValueError, KeyError) as exc:
        wanted = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{name}={text!r} cannot be read as {wanted}") from exc


def _write(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        value = [f"{name}={number}" for name, number in value.items()]
    return (
        ",".join(value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )


_BOOLS = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(
    ["0", "false", "no", "off", ""], False
)


_NAMES = """
    buffer_bytes client_timeout consumer_timeout credentials cross_trainer_cache_size_bytes
    data_port data_transfer_address data_transfer_protocol dataset_gc_timeout dispatcher_address
    dispatcher_timeout drain durability fault_tolerant_mode file_cache_bytes file_cache_dir
    gc_dynamic_sharding_jobs health_file heartbeat_interval host http_host http_port insecure
    job_gc_check_interval job_gc_timeout limits port process_idle process_memory processes_idle
    protocol reassign_static_tasks runner_environment runner_memory_bytes runner_niceness
    runner_read_only runner_user runner_writable slots socket_dir tensorflow_datasets
    tensorflow_host tensorflow_port total_buffer_bytes work_dir worker_address worker_addresses
    worker_tags worker_timeout

    consumer_index docs index lifeline_fd linger log log_format malloc no_platform num_consumers
    prefer ready_fd role runners_fd saves_key tag target trial
"""

KNOWN = frozenset(_NAMES.split())
"""All of them, without the prefix, in small letters: settings first, then the others."""

_LINK = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP)(_\w+)?$")
"""Kubernetes tells containers of services in such variables."""


def misspelt(env: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a sentence on each ``PENSTOCK_*`` variable of *env* that nothing reads.

    >>> [said] = misspelt({PREFIX + "TARGT": "big:7000"})
    >>> said.endswith("did you mean PENSTOCK_TARGET?")
    True
    """
    for name in sorted(env):
        field = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or field in KNOWN or _is_link(name, env[name]):
            continue
        like = difflib.get_close_matches(field, KNOWN, n=1)
        hint = f"did you mean {PREFIX}{like[0].upper()}?" if like else "it has no effect"
        yield f"{name} is set, but Penstock does not read it: {hint}"


def _is_link(name: str, value: str) -> bool:
    return bool(_LINK.search(name)) or (
        name.endswith("_PORT") and value.startswith(("tcp://", "udp://"))
    )
