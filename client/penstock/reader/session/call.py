"""A call to a dispatcher that may be away for a while."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.errors import Overloaded, PenstockError, Untrusted
from penstock.reader.session.deadlines import WaitTimeout, dispatcher_silent
from penstock.reader.session.line import Line
from penstock.runtime import clock
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

log = logging.getLogger("penstock.reader")

T = TypeVar("T")

RETRY, MAX_RETRY = 0.05, 1.0
"""Seconds before an absent dispatcher is called again: doubled each time, up to the second."""

REPLACED_WITHIN = 3.0
"""Seconds within which certificates of both sides are replaced, when they are."""


async def call_dispatcher(
    address: str,
    timeout: float,
    call: Callable[[DispatcherClient], Awaitable[T]],
    line: Line | None = None,
) -> T:
    """Call until the dispatcher at *address* answers, or *timeout* seconds are over.

    The connection is one of *line*'s, or one for this call alone.

    Raises:
        WaitedTooLong: when nothing answers there.
        Untrusted: when what answers has not the right certificate, and not for a moment only.
    """
    patience = WaitTimeout(timeout, clock.now(), longest_step=timeout)
    reason, pause, began = "", RETRY, clock.now()
    async with connect(address) if line is None else line.channel() as channel:
        while True:
            why = dispatcher_silent(address, reason)
            if news := patience.spend(why, clock.now()):
                log.warning("%s", news)
            try:
                return await call(DispatcherClient(channel, timeout=patience.left))
            except PenstockError as exc:
                for_good = isinstance(exc, Untrusted) and clock.now() > began + REPLACED_WITHIN
                if for_good or not exc.retryable:
                    raise
                reason, told = str(exc), exc.retry_after if isinstance(exc, Overloaded) else 0.0
            # All that were refused together would come together again.
            await asyncio.sleep(min(max(pause, told * random.uniform(1.0, 1.5)), patience.left))
            pause = min(2 * pause, MAX_RETRY)
