"""One question by the gRPC health protocol, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


@dataclass(frozen=True, slots=True)
class HealthReply:
    """Whether a service accepts calls, and the answer or the network error."""

    serves: bool
    text: str


class ProbeTls(NamedTuple):
    """The credentials of a probe, in PEM: the trusted CA, a key and its certificate."""

    ca: bytes
    key: bytes
    certificate: bytes


def probe(
    address: str, timeout: float, tls: tuple[bytes, bytes, bytes] | None = None
) -> HealthReply:
    """Ask the service at *address*, ``host:port``, and wait for *timeout* seconds at most.

    With *tls* it is asked by TLS. Nobody needs a token to ask this.
    """
    with _channel(address, tls) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout)
        except grpc.RpcError as exc:
            why = f"{exc.code().name}, {exc.details()}"
            return HealthReply(
                False,
                f"{address} does not answer the gRPC health protocol within {timeout:g} s: {why}",
            )
    serves = bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
    return HealthReply(serves, "serving" if serves else "leaving")


def tls_in(folder: str) -> ProbeTls | None:
    """Return the credentials in *folder*, of one role or of all; None without a folder.

    Raises:
        OSError: when they cannot be read.
    """
    if not folder:
        return None
    found = [Path(folder, "tls.key"), *sorted(Path(folder).glob("*/tls.key"))]
    place = next((file for file in found if file.exists()), found[0]).parent
    return ProbeTls(*((place / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")))


def _channel(address: str, tls: tuple[bytes, bytes, bytes] | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*tls))
