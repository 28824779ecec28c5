"""Both ends of a connection: `connect` to a service, or be `listening` as one.

What is set for every connection is set here, once: TLS, and what is shown of who calls, too.
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
from penstock.errors import ConfigError, InternalError
from penstock.runtime.accepted import most_files
from penstock.runtime.address import is_address, join, split
from penstock.runtime.descriptors import check_room
from penstock.runtime.settings import MOST
from penstock.wire.admission import TOKEN, Admission
from penstock.wire.connection_watch import watching
from penstock.wire.connections import Connections
from penstock.wire.tracing import tracing

_FIRST = 16
"""File descriptors that gRPC opens with the first connection or server, with some to spare."""


class _Poller:
    """Counts who uses gRPC's poller, which begins with the first one and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use it; that there is room for it is seen to before it begins: it would end the process.

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
    """What a server says of itself: that it serves, until it is told to leave."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Answer that calls are welcome."""
        await self._servicer.set("", health_pb2.HealthCheckResponse.SERVING)

    async def leaving(self) -> None:
        """Answer from now on that new calls should go elsewhere."""
        await self._servicer.enter_graceful_shutdown()


_MIB = 1 << 20

HEADERS = 1 << 16
"""Bytes of a call's headers: a token, and the trace that the call is part of."""

GREET_WITHIN = 10.0
"""Seconds that a new connection gets for TLS and HTTP/2's own greeting."""

IDLE_FOR = 300.0
"""Seconds that a connection without a call is kept."""

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
    # To close this connection must not keep or break another one in this process.
    ("grpc.use_local_subchannel_pool", 1),
    # A repeated call is the caller's decision; gRPC would also buffer messages for it.
    ("grpc.enable_retries", 0),
    # Proxies of the web do not carry long streams.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Finds the peer whose host vanished silently; leases find it sooner.
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
    # Who connects and says nothing is let go, and who says hello and then calls nothing; so is a
    # peer whose host vanished silently.
    ("grpc.server_handshake_timeout_ms", int(GREET_WITHIN * 1000)),
    # Until its settings are acknowledged gRPC holds nobody to the bound of headers.
    ("grpc.http2.settings_timeout", int(GREET_WITHIN * 1000)),
    ("grpc.max_connection_idle_ms", int(IDLE_FOR * 1000)),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

TOLD = 16
"""Calls of one connection that are told that they are too many."""


class Channel:
    """A connection to *address*, made with the first call.

    *caller* says what is shown there. *server* is whose certificate is wanted; by default that of
    the host in *address*.
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
        """What calls go by.

        When there are other certificates there is a new one, as they are looked at when a
        connection is made; streams on the one before go on.
        """
        if (tls := self.caller.tls) != self._tls:
            self._tls = tls
            self._open.append(_open_channel(self.address, tls, self._options))
        return self._open[-1]

    @property
    def unused(self) -> bool:
        """Whether it is connected at this moment, as it would be made now, and carries no call."""
        found = self._open[-1].get_state()
        made_now = len(self._open) == 1 and self.caller.tls == self._tls
        return made_now and not self.calls and found is grpc.ChannelConnectivity.READY

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with each call: who calls."""
        shown = self.caller.shown(*self._place)
        return ((TOKEN, shown),) if shown else ()

    def stream(self, path: str) -> grpc.aio.StreamStreamCall:
        """Call the method of streams at *path*."""
        call = self.inner.stream_stream(path)(metadata=self.metadata)
        self.calls.add(call)
        return call

    async def aclose(self) -> None:
        """End it; calls under way are cancelled."""
        # gRPC finds only those that are waited for at this moment.
        for call in tuple(self.calls):
            call.cancel()
        for one in self._open:
            await one.close()


@asynccontextmanager
async def connect(
    address: str, *, patience: float = 5.0, caller: Caller | None = None, server: str = ""
) -> AsyncIterator[Channel]:
    """Open a channel to *address*, and close it on the way out: calls under way are cancelled.

    The connection is made with the first call. An attempt to make it gives up after *patience*
    seconds. *caller* says what is shown there; by default what this process shows to the
    dispatcher at *address*. *server* is whose certificate is wanted in place of the host's.

    Raises:
        ConfigError: when the credentials for *address* cannot be used.
        Unavailable: when this process may not open as many files as the first connection needs.
    """
    tracing()  # what that imports is imported before the first call waits for an answer
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
    """Answer calls with *handlers*; yield the port, which differs if 0 was asked.

    The gRPC health protocol is answered, too. On the way out no new call is taken, and those under
    way, streams too, get *drain* seconds. A message that arrives may have *largest* bytes
    (-1: any number); a larger one is refused before it is read. *entrance* says who may call what;
    without one everybody may.

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
        connections = Connections(entrance.max_connections_per_identity, _files(entrance))
    server = _server(entrance, largest, connections)
    server.add_generic_rpc_handlers(handlers)
    health = HealthServicer(server)
    try:
        bound = _open_port(server, host, port, None if entrance is None else entrance.folder)
    except ConfigError:
        await server.start()  # a server that never ran keeps files open for ever
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
    most = entrance.max_calls_per_identity
    return grpc.aio.server(
        interceptors=(Admission(entrance.guard, most, entrance.calls, connections),),
        maximum_concurrent_rpcs=entrance.max_calls,
        options=(*options, *_of_connections(entrance)),
    )


def _of_connections(entrance: Entrance) -> tuple[tuple[str, int], ...]:
    """Return how many connections there may be, and how many calls by one.

    More of either are refused before anything is read. Of an identity's calls the first ones beyond
    its bound get there, to be told so.
    """
    # Some files are needed for other things: without any, gRPC accepts nobody and cannot go on.
    most = min(entrance.max_connections, max(_files(entrance) * 3 // 4, 1))
    return (
        ("grpc.max_allowed_incoming_connections", most),
        ("grpc.max_concurrent_streams", min(entrance.max_calls_per_identity, MOST - TOLD) + TOLD),
    )


def _files(entrance: Entrance) -> int:
    """Return how many files this process may have open for a port: each gets as many."""
    return most_files() // entrance.ports


def _open_channel(
    address: str, tls: Tls | None, options: tuple[tuple[str, int | str], ...]
) -> grpc.aio.Channel:
    """Make a channel: by TLS, to what one of its CAs certified, if there is *tls*."""
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
    """Return what shows the certificate that is in *folder* when somebody connects.

    Who connects has to have one of a CA that is trusted there.
    """
    shown = ShownCertificate(folder)
    return grpc.dynamic_ssl_server_credentials(
        shown.first, shown.newer, require_client_authentication=True
    )


class ShownCertificate:
    """The certificate that a server shows, and whom it trusts: what is in *folder*.

    Raises:
        InternalError: when that is not read as a service's credentials.
    """

    def __init__(self, folder: WatchedFolder) -> None:
        self._folder = folder
        self._found = self._current()
        self._lock = threading.Lock()
        self.first = _configuration(self._found)
        """What is shown until there is a newer one."""

    def newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what is in the folder now; None if that is shown already.

        gRPC asks at each connection, on any thread. What it is given replaces what another one may
        just be shaking hands by, which crashes the process (grpc/grpc#36693): so it is given only
        what is new.
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
