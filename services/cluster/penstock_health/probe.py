"""One question by the gRPC health protocol, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc


@dataclass(frozen=True, slots=True)
class HealthReply:
    """Whether a service welcomes calls, and what it or the network said."""

    serves: bool
    text: str


def probe(address: str, timeout: float, ca: bytes = b"") -> HealthReply:
    """Ask the service at *address*, ``host:port``, and wait for *timeout* seconds at most.

    With *ca*, certificates in PEM, it is asked by TLS. Nobody needs a token to ask this.
    """
    with _channel(address, ca) as channel:
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


def authorities(folder: str) -> bytes:
    """Return the certificates of the CAs in *folder*, of one role or of all; nothing without one.

    Raises:
        OSError: when they cannot be read.
    """
    if not folder:
        return b""
    found = [Path(folder, "ca.crt"), *sorted(Path(folder).glob("*/ca.crt"))]
    return next((file for file in found if file.exists()), found[0]).read_bytes()


def _channel(address: str, ca: bytes) -> grpc.Channel:
    if not ca:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca))
