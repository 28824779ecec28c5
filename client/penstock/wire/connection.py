"""Both ends of a connection: `connect` to a service, or be `listening` as one.

This module alone sets the options of all connections, TLS, and the caller's credentials.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.credentials.caller import LOCAL, Caller, caller_of
from penstock.credentials.entrance import Entrance
from penstock.credentials.folder import ServiceCredentials, Tls, WatchedFolder
from penstock.credentials.limits import MOST
from penstock.errors import ConfigError, InternalError
from penstock.runtime.address import is_address, join, split
from penstock.runtime.descriptors import check_room, most_files
from penstock.wire.admission import TOKEN, Admission
from penstock.wire.connections import Connections, watching
from penstock.wire.tracing import tracing

_FIRST = 16
"""File descriptors that gRPC opens for the first connection or server, and a few spare ones."""


class _Poller:
    """Counts users of gRPC's poller, which starts with the first user and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use the poller; check first that it can open its files, or it would end the process.

        Raises:
            Unavailable: when this process may not open as many files as it needs.
        """
        with self._lock:
            if not self._users:
                check_room(_FIRST)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1


_POLLER = _Poller()


class HealthServicer:
    """Answers health checks: the server serves until it is told to leave."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Answer health checks with "serving"."""
        await self._servicer.set("", health_pb2.HealthCheckResponse.SERVING)

    async def leaving(self) -> None:
        """Answer from now on that the server takes no new calls."""
        await self._servicer.enter_graceful_shutdown()


_MIB = 1 << 20

HEADERS = 1 << 16
"""Most bytes of a call's headers: the token and the trace context."""

GREET_WITHIN = 10.0
"""Seconds that a new connection has for the handshakes of TLS and HTTP/2."""

IDLE_FOR = 300.0
"""Seconds after which the server closes a connection without calls."""

_BOTH: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_frame_size", 16 * _MIB - 1),
)
_CLIENT: tuple[tuple[str, int], ...] = (
    *_BOTH,
    ("grpc.max_receive_message_length", -1),
    # An error carries the traceback of a user's function in its trailing metadata.
    ("grpc.max_metadata_size", _MIB),
    ("grpc.absolute_max_metadata_size", _MIB),
    # Closing this connection must not keep open or break another one in this process.
    ("grpc.use_local_subchannel_pool", 1),
    # The caller decides whether to retry; gRPC would also buffer messages for its own retries.
    ("grpc.enable_retries", 0),
    # HTTP proxies do not carry long streams.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Detects a peer whose host vanished silently; leases detect it sooner.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
_SERVER: tuple[tuple[str, int], ...] = (
    *_BOTH,
    ("grpc.max_metadata_size", HEADERS),
    ("grpc.absolute_max_metadata_size", HEADERS),
    # Two services on one port would each get some of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
    # The server closes connections that do not finish the handshake or make no call, and
    # connections of peers whose host vanished silently.
    ("grpc.server_handshake_timeout_ms", int(GREET_WITHIN * 1000)),
    # gRPC does not enforce the limit on headers until the peer acknowledges the settings.
    ("grpc.http2.settings_timeout", int(GREET_WITHIN * 1000)),
    ("grpc.max_connection_idle_ms", int(IDLE_FOR * 1000)),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

TOLD = 16
"""Calls beyond an identity's limit that one connection may make to receive the refusal."""


class Channel:
    """A connection to *address*, opened by the first call.

    *caller* holds the credentials to show there. *server* is the name that the server's certificate
    must have; by default the host in *address*.
    """

    def __init__(
        self,
        address: str,
        caller: Caller = LOCAL,
        options: tuple[tuple[str, int | str], ...] = (),
        server: str = "",
    ) -> None:
        self.address = address
        self.calls: set[grpc.aio.StreamStreamCall] = set()
        """The streams that are open on it."""
        self.caller, self._options = caller, options
        if server:
            self._options = (*options, ("grpc.ssl_target_name_override", server))
        self._place = split(address) if is_address(address) else ("", 0)
        self._tls = caller.tls
        self._open = [_open_channel(address, self._tls, self._options)]

    @property
    def inner(self) -> grpc.aio.Channel:
        """The gRPC channel for new calls.

        If the certificates have changed, this opens a new channel, because gRPC reads certificates
        only when it connects. Streams on the previous channel continue.
        """
        if (tls := self.caller.tls) != self._tls:
            self._tls = tls
            self._open.append(_open_channel(self.address, tls, self._options))
        return self._open[-1]

    @property
    def unused(self) -> bool:
        """Whether it is connected now, with the current certificates, and carries no call."""
        found = self._open[-1].get_state()
        made_now = len(self._open) == 1 and self.caller.tls == self._tls
        return made_now and not self.calls and found is grpc.ChannelConnectivity.READY

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of each call: the caller's token."""
        shown = self.caller.shown(*self._place)
        return ((TOKEN, shown),) if shown else ()

    def stream(self, path: str) -> grpc.aio.StreamStreamCall:
        """Call the bidirectional streaming method at *path*; its replies come in lists of one.

        gRPC keeps each reply until the next one arrives. It keeps an empty list if the caller has
        popped a large message from it.
        """
        boxed = self.inner.stream_stream(path, response_deserializer=lambda data: [data])
        call = boxed(metadata=self.metadata)
        self.calls.add(call)
        return call

    async def aclose(self) -> None:
        """Close the channel and cancel its open calls."""
        # gRPC itself cancels only the calls that someone awaits at this moment.
        for call in tuple(self.calls):
            call.cancel()
        for one in self._open:
            await one.close()


@asynccontextmanager
async def connect(
    address: str, *, patience: float = 5.0, caller: Caller | None = None, server: str = ""
) -> AsyncIterator[Channel]:
    """Open a channel to *address*; on exit, close it and cancel its open calls.

    The first call opens the connection. An attempt to connect fails after *patience* seconds.
    *caller* holds the credentials to show; by default those that this process shows to the
    dispatcher at *address*. *server* is the name that the server's certificate must have instead
    of the host's.

    Raises:
        ConfigError: when the credentials for *address* cannot be used.
        Unavailable: when this process may not open as many files as the first connection needs.
    """
    tracing()  # imports its modules now, so that the first call does not wait for them
    options = (*_CLIENT, ("grpc.min_reconnect_backoff_ms", int(patience * 1000)))
    shown = caller_of(address) if caller is None else caller
    with _POLLER.used():
        channel = Channel(address, shown, options, server)
        try:
            yield channel
        finally:
            await channel.aclose()


@asynccontextmanager
async def listening(
    *handlers: grpc.GenericRpcHandler,
    host: str,
    port: int,
    drain: float,
    largest: int = -1,
    entrance: Entrance | None = None,
) -> AsyncIterator[int]:
    """Answer calls with *handlers*; yield the port that the server got (useful with *port* 0).

    The server also answers the gRPC health protocol. On exit it takes no new call, and open
    calls, streams included, have *drain* seconds to end. A received message may have *largest*
    bytes (-1: any number); the server refuses a larger one before it reads it. *entrance* says who
    may call what; without one, everybody may call everything.

    Raises:
        ConfigError: when the port cannot be had.
        Unavailable: when this process may not open as many files as the first server needs.
    """
    with _POLLER.used():
        async with _serving(handlers, host, port, drain, largest, entrance) as bound:
            yield bound


@asynccontextmanager
async def _serving(
    handlers: Sequence[grpc.GenericRpcHandler],
    host: str,
    port: int,
    drain: float,
    largest: int,
    entrance: Entrance | None,
) -> AsyncIterator[int]:
    connections = None
    if entrance is not None:
        connections = Connections(entrance.limits["max_connections_per_identity"], _files(entrance))
    server = _server(entrance, largest, connections)
    server.add_generic_rpc_handlers(handlers)
    health = HealthServicer(server)
    try:
        bound = _open_port(server, host, port, None if entrance is None else entrance.folder)
    except ConfigError:
        await server.start()  # a server that never ran keeps files open forever
        await server.stop(None)
        raise
    if entrance is not None:
        entrance.port.number = bound
    await server.start()
    await health.serving()
    watched = nullcontext() if connections is None else watching(connections, bound)
    try:
        async with watched:
            yield bound
    finally:
        await health.leaving()
        await server.stop(grace=drain)


def _server(
    entrance: Entrance | None, largest: int, connections: Connections | None
) -> grpc.aio.Server:
    tracing()  # as in `connect`
    options = (*_SERVER, ("grpc.max_receive_message_length", largest))
    if entrance is None or connections is None:
        return grpc.aio.server(options=options)
    most = entrance.limits["max_calls_per_identity"]
    return grpc.aio.server(
        interceptors=(Admission(entrance.guard, most, entrance.calls, connections),),
        maximum_concurrent_rpcs=entrance.limits["max_calls"],
        options=(*options, *_of_connections(entrance)),
    )


def _of_connections(entrance: Entrance) -> tuple[tuple[str, int], ...]:
    """Return gRPC's limits on the number of connections and on the calls of each.

    gRPC refuses more of either before it reads anything. The first few calls beyond an identity's
    limit still reach the service, so that it can answer with a clear error.
    """
    # Leave some files for other uses: without any, gRPC accepts no connection and gets stuck.
    most = min(entrance.limits["max_connections"], max(_files(entrance) * 3 // 4, 1))
    return (
        ("grpc.max_allowed_incoming_connections", most),
        (
            "grpc.max_concurrent_streams",
            min(entrance.limits["max_calls_per_identity"], MOST - TOLD) + TOLD,
        ),
    )


def _files(entrance: Entrance) -> int:
    """Return how many open files each port of this process may use: an equal part for each."""
    return most_files() // entrance.ports


def _open_channel(
    address: str, tls: Tls | None, options: tuple[tuple[str, int | str], ...]
) -> grpc.aio.Channel:
    """Make a channel; with *tls*, only to a server that one of its CAs certified."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*tls), options=options)


def _open_port(server: grpc.aio.Server, host: str, port: int, folder: WatchedFolder | None) -> int:
    authority = join(host, port)
    try:
        if folder is None:
            return int(server.add_insecure_port(authority))
        return int(server.add_secure_port(authority, _tls(folder)))
    except RuntimeError as exc:
        raise ConfigError(
            f"cannot listen on {authority}: the port is in use, or the host is not one of this "
            "machine; choose another, or port 0 for any free one"
        ) from exc


def _tls(folder: WatchedFolder) -> grpc.ServerCredentials:
    """Return credentials that show the certificate in *folder* at the time of each connection.

    A client must have a certificate from a CA that *folder* trusts.
    """
    shown = ShownCertificate(folder)
    return grpc.dynamic_ssl_server_credentials(
        shown.first, shown.newer, require_client_authentication=True
    )


class ShownCertificate:
    """The certificate that a server shows and the CAs that it trusts, as *folder* has them now.

    Raises:
        InternalError: when *folder* does not load as a service's credentials.
    """

    def __init__(self, folder: WatchedFolder) -> None:
        self._folder = folder
        self._found = self._current()
        self._lock = threading.Lock()
        self.first = _configuration(self._found)
        """The configuration that the server uses until there is a newer one."""

    def newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the configuration in the folder now; None if the server already uses it.

        gRPC asks at each connection, on any thread. A new configuration replaces the one that
        another connection may be using in its handshake, which crashes the process
        (grpc/grpc#36693). So this returns one only if the files have changed.
        """
        with self._lock:
            found = self._current()
            if found == self._found:
                return None
            self._found = found
        return _configuration(found)

    def _current(self) -> ServiceCredentials:
        found = self._folder.current()
        if not isinstance(found, ServiceCredentials):
            raise InternalError(f"{self._folder.folder} is not read as a service's credentials")
        return found


def _configuration(found: ServiceCredentials) -> grpc.ServerCertificateConfiguration:
    ca, key, certificate = found.client.tls
    return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)
