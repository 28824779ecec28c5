"""Sends errors over a connection, and turns gRPC's own failures into Penstock's errors.

Penstock's errors travel in the trailing metadata, as class name and fields. The status code gives
only the error's family, for tools that know nothing of Penstock.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, cast

import grpc
import grpc.aio
import msgspec

from penstock import errors
from penstock.credentials.caller import LOCAL, Caller
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.types import Failure

log = logging.getLogger("penstock.wire")

Code = grpc.StatusCode

_KEY = "penstock-error-bin"
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Failure)

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
"""Control characters, which gRPC's messages contain if they show the bytes of an address."""

_LONGEST = 1 << 16
"""Most characters of one field, because gRPC bounds the size of metadata."""

_FAMILIES: tuple[tuple[type[errors.PenstockError], grpc.StatusCode], ...] = (
    (errors.Overloaded, Code.RESOURCE_EXHAUSTED),
    (errors.UnknownDataset, Code.NOT_FOUND),
    (errors.UnknownIteration, Code.NOT_FOUND),
    (errors.StoreFull, Code.RESOURCE_EXHAUSTED),
    (errors.Unauthenticated, Code.UNAUTHENTICATED),
    (errors.WrongRole, Code.PERMISSION_DENIED),
    (errors.Refused, Code.FAILED_PRECONDITION),
    (errors.WaitedTooLong, Code.DEADLINE_EXCEEDED),
    (errors.Unavailable, Code.UNAVAILABLE),
    (errors.ConfigError, Code.INVALID_ARGUMENT),
    (errors.DatasetError, Code.INVALID_ARGUMENT),
    (errors.TransformError, Code.ABORTED),
    (errors.PenstockError, Code.INTERNAL),
)


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended."""

    code: grpc.StatusCode
    details: str | None
    trailing: Iterable[tuple[str, str | bytes]] | None

    @classmethod
    def of(cls, exc: grpc.aio.AioRpcError) -> Status:
        """Return the status in *exc*."""
        details = exc.details()
        shown = None if details is None else _UNPRINTABLE.sub("?", details)
        return cls(exc.code(), shown, exc.trailing_metadata())

    def error(
        self, address: str, path: str, timeout: float | None = None, caller: Caller = LOCAL
    ) -> errors.PenstockError:
        """Return the error that this status of a call of *path* at *address* means to *caller*."""
        for key, value in self.trailing or ():
            if key == _KEY:
                with suppress(*MALFORMED):
                    return _UNPACK.decode(cast("bytes", value)).error()
        return self._own_failure(address, path, timeout) or self._lost(address, path, caller)

    def _own_failure(
        self, address: str, path: str, timeout: float | None
    ) -> errors.PenstockError | None:
        """Return the error for a failure that gRPC itself reports from a live service, if any."""
        if self.code is Code.UNIMPLEMENTED:
            return errors.Refused(
                f"{address} speaks gRPC but does not know {path}: it is another service, or an "
                "older Penstock; check the address and the version there"
            )
        if self.code is Code.RESOURCE_EXHAUSTED and (bound := _bound(self.details or "", path)):
            kind, met = bound
            return kind(f"{address} {met} ({path}: {self.details})")
        if self.code is Code.DEADLINE_EXCEEDED and timeout is not None:
            return errors.WaitedTooLong(f"{address} did not answer {path} within {timeout:g} s")
        return None

    def _lost(self, address: str, path: str, caller: Caller) -> errors.PenstockError:
        """Return the error for a connection that failed or was lost."""
        if untrusted := _untrusted(self.details or ""):
            return errors.Untrusted(f"{address} {untrusted}")
        refused = _may_be_refused(self.details)
        if refused and (trouble := caller.trouble()):
            return errors.Unauthenticated(f"{address} hung up: {trouble}")
        return errors.Unavailable(
            f"{address} cannot be reached, or hung up during {path} "
            f"({self.code.name}: {self.details}){f'; {caller.hint}' if refused else ''}"
        )


_UNTRUSTED = {
    "certificate has expired": (
        "shows a certificate that has expired: make new ones there (penstock keys renew), or set "
        "the clock of this host"
    ),
    "certificate is not yet valid": (
        "shows a certificate that is not valid yet: the clock of this host, or of the one where it "
        "was made, is off; set it"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "shows a certificate of a CA that is not trusted here: it is of another cluster, or the "
        "ca.crt in the credentials here is old; copy the folder that `penstock keys` made again"
    ),
    "Hostname Verification Check failed": (
        "shows a certificate for another name: call it by a name in its certificate, or make one "
        "with this name (penstock keys renew DIR --host NAME)"
    ),
    "WRONG_VERSION_NUMBER": (
        "speaks no TLS, and there are credentials for it here: start it with credentials, or call "
        "it without (grpc://)"
    ),
}
"""Maps parts of gRPC's messages about failed connections to explanations."""


def _bound(details: str, path: str) -> tuple[type[errors.PenstockError], str] | None:
    """Return the error and text for a limit of the service that gRPC enforced, if any."""
    if "larger than max" in details and path.endswith("/RegisterDataset"):
        return errors.DefinitionTooLarge, (
            "takes no pipeline so large: keep large data in files, and read these in the pipeline; "
            "or raise the limit max_definition_bytes there"
        )
    if "larger than max" in details:
        return errors.Refused, (
            "takes no message so large: raise the limit max_message_bytes there"
        )
    if "Concurrent RPC limit" in details:
        return errors.Overloaded, (
            "has as many calls and streams open as it may: try again, close some, or raise "
            "max_calls there"
        )
    return None


def _may_be_refused(details: str | None) -> bool:
    """Return whether the service may have closed the connection for lack of credentials."""
    return details is not None and "Socket closed" in details


def _untrusted(details: str) -> str:
    return next((meaning for sign, meaning in _UNTRUSTED.items() if sign in details), "")


async def abort(context: grpc.aio.ServicerContext, exc: Exception, path: str) -> NoReturn:
    """End a call with *exc*; if it is not Penstock's error, log it and send only its text."""
    while isinstance(exc, ExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    if not isinstance(exc, errors.PenstockError):
        log.error("%s failed", path, exc_info=exc)
        exc = errors.PenstockError(
            f"{path} failed with {type(exc).__name__}: {exc}; the log of that service has more"
        )
    code = next(code for kind, code in _FAMILIES if isinstance(exc, kind))
    failure = Failure.of(exc)
    short = Failure(failure.kind, tuple(map(_shortened, failure.fields)))
    # With text that is not valid UTF-8 gRPC would send no status at all.
    words = str(short.error())[:200]
    await context.abort(code, words, ((_KEY, _PACK.encode(short)),))
    raise AssertionError("abort() always raises")


def _shortened(field: str | int | None) -> str | int | None:
    if isinstance(field, str) and len(field) > _LONGEST:
        half = _LONGEST // 2
        return f"{field[:half]}\n[... {len(field) - 2 * half} characters ...]\n{field[-half:]}"
    return field
