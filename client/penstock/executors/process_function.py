"""A user's function that is called in child processes, one for each thread that calls it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.element import Element, preview
from penstock.engine.rows import Block, elements_of
from penstock.errors import Closed, ElementError, TransformError, Unavailable
from penstock.executors.batch_memory import Room
from penstock.executors.function import FunctionCaller, transform_error
from penstock.executors.messages import BeginCalls, LoadFunction
from penstock.executors.process import DiedError, FunctionProcess
from penstock.executors.process_pool import ProcessPool, pool
from penstock.executors.stacked_function import Stacked
from penstock.ipc.child import ProcessEnvironment
from penstock.serialization import pickling


class ProcessFunction(FunctionCaller):
    """See `UserFunction`, which is called where the operator runs."""

    run_seconds: float = 0.025
    most: int = 256
    ahead: int = 2
    places: bool = True
    elsewhere: bool = True

    def __init__(self, function: SharedFunction, *, again: bool = False) -> None:
        self._function = function
        self._again = again
        """Whether an element is tried again if its process ends."""
        self._tried: set[int] = set()
        """Those that were."""
        self._process: FunctionProcess | None = None
        self._pool: ProcessPool | None = None

    @classmethod
    def of(
        cls, fn: Callable[..., Any] | Stacked, label: str, seed: int, *, again: bool = False
    ) -> ProcessFunction:
        """Return *fn* as operator *label* calls it; see `UserFunction`.

        With *again* an element whose process ends is tried a second time, in another one.
        """
        return cls(SharedFunction(fn, label, seed), again=again)

    def copy(self) -> ProcessFunction:
        """See `FunctionCaller.copy`."""
        return ProcessFunction(self._function, again=self._again)

    def prepare(self) -> None:
        """See `FunctionCaller.prepare`. Have a process that has the function.

        Raises:
            ConfigError: where this is not Linux.
            DefinitionError: when the function cannot be sent there, or not be loaded there.
            Unavailable: when no process can be started, or the function ends it as it is loaded.
        """
        while self._process is None:
            self._pool = pool()
            key, _ = self._function.pickled()
            process = self._process = self._pool.take(key)
            was_warm = bool(process.key)
            try:
                self._begin(process)
            except DiedError as exc:
                self._discard()
                if not was_warm:  # else it may have died while it waited
                    label = self._function.label
                    raise Unavailable(f"{label}: {exc.how} while it loaded the function") from exc
            except BaseException:
                self._discard()
                raise

    def call_block(
        self, block: Sequence[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """See `FunctionCaller.call_block`."""
        made, failed = self.call_into(block, number, [])
        try:
            return [element for part in made for element in elements_of(part)], failed
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    def call_into(
        self, block: Sequence[Element], number: int, rooms: list[Room]
    ) -> tuple[list[Block], TransformError | None]:
        """See `FunctionCaller.call_into`. An element that ends the process is an error, too."""
        self.prepare()
        process = self._process
        assert process is not None  # noqa: S101  `prepare` has seen to it
        try:
            made = process.call(block, number, rooms)
        except ElementError as exc:
            if len(block) > 1:
                return self.call_into(block[:1], number, [])
            return [], transform_error(self._function.label, number, exc, block[0])
        except DiedError as exc:
            self._discard()
            if self._again and not self._function.ended and number + exc.at not in self._tried:
                self._tried.add(number + exc.at)
                return self.call_into(block, number, rooms)
            given = preview(block[exc.at])
            error = TransformError(self._function.label, number + exc.at, exc.how, given=given)
            if not exc.at or self._function.ended:
                return [], error
            # The results before it were lost with the process, and are made again.
            out, failed = self.call_block(block[: exc.at], number)
            return [out], failed or (error if len(out) == exc.at else None)
        except BaseException:
            self._discard()
            raise
        if self._pool is not None and self._pool.is_large(process):
            self.done()
        return made

    def done(self) -> None:
        """See `FunctionCaller.done`."""
        self._release(fit=True)

    def end(self) -> None:
        """See `FunctionCaller.end`."""
        self._function.end()

    def _begin(self, process: FunctionProcess) -> None:
        function = self._function
        if not function.has(process):
            raise Closed("this iterator was closed while it waited for a process")
        begin = BeginCalls(function.label, function.seed, ProcessEnvironment.here())
        process.begin(*function.pickled(), begin)

    def _discard(self) -> None:
        self._release(fit=False)

    def _release(self, *, fit: bool) -> None:
        process, self._process = self._process, None
        if process is not None and self._pool is not None:
            self._function.lost(process)
            self._pool.put(process, fit=fit)


class SharedFunction:
    """A user's function, and the processes that call it for one operator. For any thread."""

    def __init__(self, fn: Callable[..., Any] | Stacked, label: str, seed: int) -> None:
        self.label, self.seed = label, seed
        self.ended = False
        self._fn = fn
        self._pickling = threading.Lock()
        self._lock = threading.RLock()  # a signal handler may `end` in the middle of the others
        self._processes: set[FunctionProcess] = set()
        self._pickled: tuple[str, LoadFunction] | None = None

    def pickled(self) -> tuple[str, LoadFunction]:
        """Return a key for the function, and itself as it travels, as it was at the first call."""
        with self._pickling:
            if self._pickled is None:
                pickled, contents = pickling.dump([(self.label, self._fn)])
                parts = [msgspec.msgpack.encode(pickled), *sorted(map(str.encode, contents))]
                key = hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()
                self._pickled = key, LoadFunction(pickled, dict(contents))
            return self._pickled

    def has(self, process: FunctionProcess) -> bool:
        """Note that *process* works for this; return False when it has `ended`."""
        with self._lock:
            self._processes.add(process)
            return not self.ended

    def lost(self, process: FunctionProcess) -> None:
        """Note that *process* does not any more: it is not to be killed."""
        with self._lock:
            self._processes.discard(process)

    def end(self) -> None:
        """End the processes that are at work."""
        with self._lock:
            self.ended = True
            for process in self._processes:
                process.kill()
