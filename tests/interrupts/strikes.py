"""Signals that come at random moments, while a loop runs, and raise there."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
from collections.abc import Callable
from enum import Enum
from typing import Any, Self

SHORTEST, LONGEST = 0.0001, 0.05
"""Seconds between two signals; those in between are as likely on a logarithmic scale."""


class Late(TimeoutError):
    """What the handler of an alarm raises: an `Exception`, unlike Ctrl-C's."""


class Source(Enum):
    """Where signals come from."""

    ALARM = "alarm"
    SIGINT = "sigint"

    @property
    def error(self) -> type[BaseException]:
        """What its handler raises."""
        return Late if self is Source.ALARM else KeyboardInterrupt

    @property
    def number(self) -> signal.Signals:
        """The signal."""
        return signal.SIGALRM if self is Source.ALARM else signal.SIGINT


class Strikes:
    """Interrupts what is *struck*. One at a time: the handler raises once for each call."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source, self.count = source, 0
        self._random = random.Random(seed)
        self._armed = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(self.source.number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(self.source.number, self._before)

    def struck(self, call: Callable[[], object]) -> bool:
        """Make *call*; return whether a signal interrupted it."""
        seconds = math.exp(self._random.uniform(math.log(SHORTEST), math.log(LONGEST)))
        timer = None
        try:
            self._armed = True
            if self.source is Source.ALARM:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            else:
                timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
            call()
            self._armed = False
        except self.source.error:  # the handler is not armed any more
            return True
        finally:
            if timer is not None:
                timer.cancel()
        return False

    def _handle(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            self.count += 1
            raise self.source.error
