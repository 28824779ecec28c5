"""The arguments of `distribute`, checked at once; ``"env"`` stands for those of the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from penstock.credentials.caller import PLAIN, VARIABLE, choose
from penstock.environment.cluster import ClusterEnvironment
from penstock.environment.detect import cluster_environment, trial_of_process
from penstock.errors import DatasetError
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.types import Codec, Mode, ShardingPolicy
from penstock.reader.agreement import CrossTrainerCache
from penstock.runtime.address import is_address
from penstock.transport.registry import names

MODES = {
    "parallel_epochs": ShardingPolicy.OFF,
    "distributed_epoch": ShardingPolicy.DYNAMIC,
}
_CODECS = {"AUTO": Codec.AUTO, "LZ4": Codec.LZ4, "ZSTD": Codec.ZSTD, None: Codec.NONE}
_PROTOCOL, _SECURE = "grpc", "grpcs"


def mode_of(given: Any) -> Mode:
    """Return the mode that *given*, a policy or one of its older names, stands for."""
    policy = MODES.get(given) if isinstance(given, str) else given
    if not isinstance(policy, ShardingPolicy):
        raise DatasetError(
            f"processing_mode must be a ShardingPolicy, {' or '.join(map(repr, MODES))}, "
            f"not {given!r}"
        )
    return Mode[policy.name]


def address_of(given: Any) -> str:
    """Return ``host:port`` of *given*: ``[grpc[s]://]host:port`` or ``(protocol, address)``."""
    return _service_of(given)[1]


def credentials_of(given: Any, service: Any, env: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder of credentials that *service* is called with.

    It is *given*, or what ``PENSTOCK_CREDENTIALS`` says. None is what that says when it is
    called; nothing is no TLS and no token, as ``grpc://`` asks for.
    """
    protocol = _service_of(service)[0]
    if given is not None and not isinstance(given, str | os.PathLike):
        raise DatasetError(f"credentials must be a folder's path, not {given!r}")
    folder = "" if given is None else os.fspath(given)
    if protocol == _PROTOCOL:
        if folder:
            raise DatasetError(
                f"service {service!r} asks for no TLS, and credentials={folder!r} are for it: say "
                "grpcs://, or leave the credentials out"
            )
        return PLAIN
    if protocol == _SECURE and not folder and not env.get(VARIABLE):
        raise DatasetError(
            f"service {service!r} asks for TLS: give credentials=FOLDER, or set {VARIABLE}; "
            "`penstock keys init` makes such folders"
        )
    return folder or (env[VARIABLE] if protocol == _SECURE else None)


def service_of(given: Any, credentials: Any = None) -> str:
    """Return the address that *given* says, having chosen the *credentials* to call it with."""
    address, folder = address_of(given), credentials_of(credentials, given)
    if folder is not None:
        choose(address, folder)
    return address


def _service_of(given: Any) -> tuple[str, str]:
    """Return the protocol that *given* says, or nothing, and the address."""
    if isinstance(given, str):
        protocol, found, address = given.rpartition("://")
        protocol = protocol or (found and "nothing")
    elif isinstance(given, tuple) and len(given) == 2 and all(isinstance(x, str) for x in given):
        protocol, address = given
    else:
        raise DatasetError(f"service must be a string or a (protocol, address), not {given!r}")
    if not address.strip():
        raise DatasetError(f"service must not be empty: {given!r}; {_SERVICE}")
    if "://" in protocol or "://" in address:
        raise DatasetError(
            f"service {given!r} is malformed: it has more than one '://'; {_SERVICE}"
        )
    if "@" in address or "?" in address:
        raise DatasetError(
            "service must not hold a token, which would be shown wherever the address is: put it "
            "into a folder, and give credentials=FOLDER"
        )
    if protocol not in ("", _PROTOCOL, _SECURE):
        raise DatasetError(f"service {given!r} has the unknown protocol {protocol!r}; {_SERVICE}")
    if not is_address(address):
        raise DatasetError(f"service {given!r} is malformed; {_SERVICE}")
    return protocol, address


_SERVICE = (
    "give the dispatcher's address as 'grpc://host:port'; an IPv6 address stands in brackets, as "
    "in 'grpc://[::1]:7000'"
)


def job_name_of(given: Any) -> str | None:
    """Return *given*, the name of a shared job or None for a private one."""
    if given is not None and not isinstance(given, str):
        raise DatasetError(f"job_name must be a string, not {given!r}")
    if given is not None and not given.strip():
        raise DatasetError(f"job_name must not be empty ({given!r}); None makes the job private")
    if given is not None and too_long(given):
        raise DatasetError(
            f"job_name may take {LONGEST_NAME} bytes: {glimpse(given)} has {len(given)} characters"
        )
    return given


def codec_of(given: Any) -> Codec:
    """Return the codec named *given*."""
    if given is None or (isinstance(given, str) and given in _CODECS):
        return _CODECS[given]
    raise DatasetError(f"compression must be 'AUTO', 'LZ4', 'ZSTD' or None, not {given!r}")


def registered_codec_of(given: Any) -> Codec:
    """Return the codec named *given*, of a dataset that TensorFlow's own clients may read, too."""
    if given == Codec.SNAPPY.name:
        return Codec.SNAPPY
    if given is None or (isinstance(given, str) and given in _CODECS):
        return _CODECS[given]
    raise DatasetError(
        f"compression must be 'AUTO', 'LZ4', 'ZSTD', 'SNAPPY' or None, not {given!r}"
    )


def compression_of(codec: Codec) -> str | None:
    """Return the name of *codec*, as readers of our own are to have it."""
    if codec is Codec.SNAPPY:
        return Codec.AUTO.name
    return next(name for name, known in _CODECS.items() if known is codec)


def target_workers_of(given: Any, *, coordinated: bool = False) -> str:
    """Return which workers may be read, in capitals."""
    name = given.upper() or TargetWorkers.AUTO.value if isinstance(given, str) else ""
    if name not in {one.value for one in TargetWorkers}:
        raise DatasetError(f"target_workers must be 'AUTO', 'ANY' or 'LOCAL', not {given!r}")
    if name == TargetWorkers.LOCAL.value and coordinated:
        raise DatasetError(
            "target_workers='LOCAL' and num_consumers do not go together: in a round all consumers "
            "read one task, whose worker is in one process at most"
        )
    return name


def on_finished_of(given: Any) -> str:
    """Return *given*, what is to be done about a job that other readers have read before."""
    if given not in ("error", "warn", "ignore"):
        raise DatasetError(f"on_finished must be 'error', 'warn' or 'ignore', not {given!r}")
    return str(given)


def transport_of(data_transfer_protocol: Any) -> str | None:
    """Return the name of the transport that is wanted, or None for the nearest."""
    if data_transfer_protocol is None or data_transfer_protocol in names():
        return cast("str | None", data_transfer_protocol)
    raise DatasetError(
        f"data_transfer_protocol must be None or one of {', '.join(map(repr, names()))}, not "
        f"{data_transfer_protocol!r}"
    )


ENV = "env"

DISPATCHER_PORT = 7000
"""Where a dispatcher is on the chief's host, unless variables say otherwise."""


log = logging.getLogger("penstock.service")


class WholeName(str):
    """The name of a job that others gave it: the trial of this process is no part of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `distribute` that may be ``"env"``, or depend on one that is."""

    service: Any
    job_name: Any
    consumer_index: Any
    num_consumers: Any
    cache: Any


def filled_in(asked: Asked) -> Asked:
    """Return *asked* with what the environment says in place of ``"env"``.

    A trial of a search gets its own job: the trial becomes a part of the job's name, wherever the
    service's address comes from. A job with a cache is shared by trials on purpose: there the
    trial becomes a part of the trainer's name. `WholeName` is left as it is.

    Raises:
        ConfigError: when variables are malformed or contradict each other.
        DatasetError: when they do not say what is asked for.
    """
    by_trainer = isinstance(asked.cache, CrossTrainerCache) and asked.cache.trainer_id == ENV
    if not by_trainer and ENV not in (asked.service, asked.consumer_index):
        return _of_trial(asked, trial_of_process())
    found = cluster_environment()
    service, name, cache = asked.service, asked.job_name, asked.cache
    index, consumers = asked.consumer_index, asked.num_consumers
    if service == ENV:
        service = dispatcher_of(found)
    if index == ENV:
        index, consumers = _consumer(found, consumers)
    if by_trainer:
        cache = CrossTrainerCache(found.trial or "the only trial")
        return Asked(service, name, index, consumers, cache)
    return _of_trial(Asked(service, name, index, consumers, cache), found.trial)


def _of_trial(asked: Asked, trial: str | None) -> Asked:
    """Return *asked* with its *trial*, if there is one, in the name of the job or the trainer."""
    name, cache = asked.job_name, asked.cache
    if trial is None or not isinstance(name, str) or isinstance(name, WholeName):
        return asked
    if isinstance(cache, CrossTrainerCache):
        return replace(asked, cache=CrossTrainerCache(f"{cache.trainer_id} (trial {trial})"))
    log.info("job %r belongs to trial %r; PENSTOCK_TRIAL= (empty) shares it", name, trial)
    return replace(asked, job_name=f"{name} (trial {trial})")


def dispatcher_of(found: ClusterEnvironment) -> str:
    """Return where the dispatcher of a cluster is: its own entry, or the chief's host.

    Raises:
        DatasetError: when nothing says so.
    """
    for place in found.addresses.get("dispatcher", ()):
        if place:
            return place
    for role in ("chief", "worker"):
        first = next(iter(found.addresses.get(role, ())), None)
        if first:
            return f"{_host(first)}:{DISPATCHER_PORT}"
        if found.addresses.get(role):
            break
    raise DatasetError(
        f"service='env': no variable of {found.source} says where the dispatcher is: set "
        "PENSTOCK_TARGET to its host:port, or give service='grpc://host:port'"
    )


def _host(address: str) -> str:
    """Return the host of *address*, which may have a port: IPv6 is in brackets then."""
    if address.startswith("["):
        return address.partition("]")[0] + "]"
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        return host
    return f"[{address}]" if ":" in address else address


def _consumer(found: ClusterEnvironment, given: Any) -> tuple[int, int]:
    index, number = found.consumer_index, found.num_consumers
    if index is None:
        raise DatasetError(
            f"consumer_index='env': this process is the {found.role.value} of its cluster, by "
            f"{found.said.get('role', found.source)}, and only a chief and workers are consumers"
        )
    if number is None:
        if given is None:
            raise DatasetError(
                f"consumer_index='env': {found.source} does not say how many processes train: set "
                "PENSTOCK_NUM_CONSUMERS, or give num_consumers"
            )
        return index, given
    if given is not None and given != number:
        raise DatasetError(
            f"num_consumers={given!r}, but by {found.said.get('num_consumers', found.source)} "
            f"{number} processes train: leave num_consumers out"
        )
    return index, number
