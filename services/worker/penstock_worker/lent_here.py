"""Lends runners' memory to readers in this process, until the last view of it dies.

Every view of a frame refers to one root array. When that dies its loan goes into a queue, by a
callback that takes no lock and may run in any thread; the worker's loop empties it.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from contextlib import suppress
from typing import Protocol

from penstock_worker.core.loans import BorrowerId, Loan
from penstock_worker.reply_form import Payload
from penstock_worker.runner.messages import FrameReady
from penstock_worker.runner.process import RunnerProcess

SMALL = 1 << 14
"""Frames of fewer bytes are copied, because a copy costs less than a loan."""

GIVE_BACK_WITHIN = 0.02
"""Seconds that an ended loan may wait if nothing else is lent in that time."""

HERE = BorrowerId(0)
"""All readers in this process together: views outlive the stream that they came on. Readers at the
door are counted from 1."""


class LendsFrames(Protocol):
    """Lends frames; see `penstock_worker.runners.ActiveRunners`."""

    def runner_of(self, frame: FrameReady) -> RunnerProcess | None:
        """Return the runner in whose memory *frame* lies, if it lives."""
        ...

    def lend(self, borrower: BorrowerId, frame: FrameReady) -> Loan:
        """Lend *frame*, which has a runner, to a reader."""
        ...

    def give_back(self, borrower: BorrowerId, loans: tuple[int, ...]) -> None:
        """Note that a reader gave back *loans*."""
        ...


class LentHere:
    """The loans of *lender*'s frames to readers in this process. It is used on one event loop."""

    def __init__(self, lender: LendsFrames) -> None:
        self._lender, self._process = lender, os.getpid()
        self._over: deque[int] = deque()
        self._posted = False
        """Whether the loop will look at ended loans."""
        self._roots: dict[int, weakref.ref[object]] = {}
        """The root array of each loan; the references are kept for their callbacks."""

    def payload(self, frame: FrameReady, payload: Payload) -> memoryview:
        """Return the bytes of *frame*, which stay valid: lent, or copied if that is better."""
        self._give_back()
        if frame.nbytes < SMALL or self._lender.runner_of(frame) is None:
            return memoryview(bytes(payload(frame)))
        loan = self._lender.lend(HERE, frame)
        if loan.out:
            copy = memoryview(bytes(payload(frame)))
            self._lender.give_back(HERE, (loan.number,))
            return copy
        import numpy as np  # noqa: PLC0415  workers do without; who reads here has it

        root = np.frombuffer(payload(frame), np.uint8)
        self._note(loan.number, root)
        return root.data

    def _note(self, number: int, root: object) -> None:
        """Give the loan *number* back when *root* dies."""
        loop = asyncio.get_running_loop()

        def over(_: object) -> None:
            self._over.append(number)  # before it is looked whether the loop was told
            if not self._posted and self._process == os.getpid():  # a fork has views of its own
                self._posted = True
                with suppress(RuntimeError):  # the loop is closed, and the worker gone
                    loop.call_soon_threadsafe(self._give_back_later)

        self._roots[number] = weakref.ref(root, over)

    def _give_back_later(self) -> None:
        """Wait for more: each batch may cost a message to a runner."""
        asyncio.get_running_loop().call_later(GIVE_BACK_WITHIN, self._give_back_now)

    def _give_back_now(self) -> None:
        self._posted = False  # before it is looked what is there
        self._give_back()

    def _give_back(self) -> None:
        numbers: list[int] = []
        while self._over:
            numbers.append(self._over.popleft())
            del self._roots[numbers[-1]]
        if numbers:
            self._lender.give_back(HERE, tuple(numbers))
