"""The arguments of `distribute`: what is malformed is a `DatasetError`, at once."""

from __future__ import annotations

import math
from typing import Any, cast

from penstock.errors import DatasetError
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.types import Codec, Mode, ShardingPolicy
from penstock.runtime.address import is_address
from penstock.transport.registry import names

MODES = {
    "parallel_epochs": ShardingPolicy.OFF,
    "distributed_epoch": ShardingPolicy.DYNAMIC,
}
_CODECS = {"AUTO": Codec.AUTO, "LZ4": Codec.LZ4, "ZSTD": Codec.ZSTD, None: Codec.NONE}
_PROTOCOL = "grpc"


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
    """Return ``host:port`` of *given*: ``[grpc://]host:port`` or ``(protocol, address)``."""
    if isinstance(given, str):
        protocol, found, address = given.rpartition("://")
        protocol = protocol if found else _PROTOCOL
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
    if protocol != _PROTOCOL:
        raise DatasetError(f"service {given!r} has the unknown protocol {protocol!r}; {_SERVICE}")
    if not is_address(address):
        raise DatasetError(f"service {given!r} is malformed; {_SERVICE}")
    return address


_SERVICE = "give the dispatcher's address as 'grpc://host:port'"


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
    if given not in ("warn", "error", "ignore"):
        raise DatasetError(f"on_finished must be 'warn', 'error' or 'ignore', not {given!r}")
    return str(given)


def timeout_of(given: Any) -> float:
    """Return *given* seconds."""
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not number or not given > 0 or math.isinf(given):
        raise DatasetError(f"timeout must be a positive number of seconds, not {given!r}")
    return float(given)


def transport_of(data_transfer_protocol: Any) -> str | None:
    """Return the name of the transport that is wanted, or None for the nearest."""
    if data_transfer_protocol is None or data_transfer_protocol in names():
        return cast("str | None", data_transfer_protocol)
    raise DatasetError(
        f"data_transfer_protocol must be None or one of {', '.join(map(repr, names()))}, not "
        f"{data_transfer_protocol!r}"
    )
