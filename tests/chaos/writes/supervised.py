"""A dispatcher that is started again whenever it is killed, as a supervisor of services does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from chaos.writes.preload import Order
from penstock.runtime.signals import LIFELINE_FD

WARM = Path(__file__).with_name("warm.py")

MOST = 6
"""Starts behind which it is not started again: it is killed once, or twice."""


class Warm:
    """See `warm.py`. One for all runs; close it. It has imported all when it is made."""

    def __init__(self, order: Order) -> None:
        lifeline, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, str(WARM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(lifeline,),
            env=os.environ | order.env | {LIFELINE_FD: str(lifeline)},
            text=True,
        )
        os.close(lifeline)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def start(self, settings: Mapping[str, Any], log: Path, ready: Path) -> int:
        """Fork a dispatcher; return its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given = {"settings": settings, "log": str(log), "ready": str(ready)}
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        os.close(self._lifeline)
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Supervised:
    """A dispatcher with *settings*, whose log and pipe are in *folder*, kept alive by a thread."""

    def __init__(self, warm: Warm, settings: Mapping[str, Any], folder: Path) -> None:
        self._warm, self._settings = warm, settings
        self.log, self._pipe = folder / "dispatcher.log", folder / "ready"
        os.mkfifo(self._pipe)
        self._said = os.open(self._pipe, os.O_RDWR)
        self._text = b""
        self.starts = 0
        self.problem = ""
        """How it ended that should not have; "" if it did not."""
        self._told = False
        self._pid = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start it, and keep it alive until `end`. Return at once."""
        self._told = False
        self._thread = threading.Thread(target=self._keep, name="supervisor")
        self._thread.start()

    def end(self) -> None:
        """Tell it to end, again where it is killed before; wait until it has."""
        assert self._thread is not None
        with self._lock:
            self._told = True
            self._tell()
        self._thread.join()

    def close(self) -> None:
        """Leave nothing behind."""
        with self._lock:
            self._told, self.starts = True, MOST
            if self._pid:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
        if self._thread is not None:
            self._thread.join()
        os.close(self._said)

    def _tell(self) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def _keep(self) -> None:
        while self.starts < MOST:
            self.starts += 1
            pid = self._warm.start(self._settings, self.log, self._pipe)
            with suppress(ProcessLookupError):
                watched = os.pidfd_open(pid)
                try:
                    ended = self._live(pid, watched)
                finally:
                    os.close(watched)
                if ended is not None:
                    self.problem = self.problem or ended
                    return
        self.problem = f"it was started {self.starts} times"

    def _live(self, pid: int, watched: int) -> str | None:
        """See one life to its end; return what was wrong, None if it was killed."""
        if (line := self._line(watched)) is not None and not line.startswith("ended"):
            with self._lock:
                self._pid = pid
                if self._told:
                    self._tell()
            line = self._line(watched)
            with self._lock:
                self._pid = 0
        if line is None:
            return None
        return (
            "" if line == "ended 0" and self._told else f"{line}:\n{self.log.read_text()[-3000:]}"
        )

    def _line(self, watched: int) -> str | None:
        """Return what it says next; None if it ends without a word."""
        while b"\n" not in self._text:
            found = select.select([self._said, watched], [], [])[0]
            if self._said not in found:
                return None
            self._text += os.read(self._said, 4096)
        line, self._text = self._text.split(b"\n", 1)
        return line.decode()
