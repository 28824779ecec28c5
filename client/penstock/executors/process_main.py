"""The child process: it loads a function, and calls it on the elements that it is sent.

It ends when its parent closes the socket, or ends.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, assert_never

import numpy as np

from penstock.element import Element, preview
from penstock.errors import DefinitionError, PenstockError, TransformError, describe
from penstock.executors import transfer
from penstock.executors.function import FunctionCaller, UserFunction, transform_error
from penstock.executors.messages import (
    COMMANDS,
    PROGRAM,
    BeginCalls,
    CallDone,
    CallFunction,
    ExecutorCommand,
    FunctionReady,
    LoadFunction,
    MemoryFrame,
    RowRange,
    UseBatches,
)
from penstock.executors.stacked_function import Stacked, caller
from penstock.executors.transfer import HEAD
from penstock.frames.row_layout import RowLayout
from penstock.ipc import child
from penstock.ipc.fork_server import ForkPlan, Main, Program, Start
from penstock.ipc.framing import FramedSocket
from penstock.ipc.shared_memory import MemoryFile
from penstock.protocol.types import Failure
from penstock.runtime import malloc
from penstock.serialization import pickling

NAME = b"penstock-map"
"""The name of the process in ``ps``."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


def fork_plan() -> ForkPlan:
    """Return what the server forks: processes in which this module is loaded."""
    program = Program(_prepare, NAME, ("-P", "-m", PROGRAM), session=False)
    return ForkPlan({PROGRAM: program}, later=(b"PYTHONPATH",))


def main() -> None:
    """Serve in a new interpreter: the arguments are the parent, and the files for `serve`."""
    parent, *files = map(int, sys.argv[1:])
    child.ignore_interrupts()
    child.die_with(parent, NAME)
    for fd in files:
        os.set_inheritable(fd, False)  # programs that the function starts must not hold them open
    serve(*files)


def serve(commands: int, given: int, made: int) -> None:
    """Serve the process at the other end of the socket *commands*."""
    child.be_for_user_code()
    malloc.tune()
    if "numpy.random" in sys.modules:  # else it seeds itself when a function loads it
        np.random.seed()  # noqa: NPY002  a fork is to be unlike other forks
    sys.argv[1:] = []
    with socket.socket(fileno=commands) as sock, suppress(ConnectionError):
        Child(FramedSocket(sock, COMMANDS), MemoryFile(given), MemoryFile(made)).serve()


def _prepare(_: Start, files: Sequence[int]) -> Main:
    return partial(serve, *files)


class Child:
    """Takes commands from *connection*, elements from *given*; writes elements to *made*."""

    def __init__(
        self, connection: FramedSocket[ExecutorCommand], given: MemoryFile, made: MemoryFile
    ) -> None:
        self._connection, self._given, self._made = connection, given, made
        self._fn: Callable[..., Any] | Stacked = _nothing
        self._label = ""
        self._call: FunctionCaller = UserFunction(_nothing, "", 0)
        self._batches: _Batches | None = None
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        """Carry out commands until there are no more."""
        while (command := self._connection.receive()) is not None:
            match command:
                case LoadFunction():
                    self._connection.send(self._load(command))
                case BeginCalls(label, seed, surroundings):
                    surroundings.settle()
                    self._label = label
                    self._call = caller(self._fn, label, seed)
                    self._batches = None
                    self._connection.send(FunctionReady())
                case UseBatches(layout, stride):
                    self._connection.send(self._use(layout, stride))
                case CallFunction(number, given, rows):
                    elements = transfer.get(given, self._given)
                    self._connection.send(self._make(elements, number, rows))
                    del elements
                case _:
                    assert_never(command)
            del command

    def _load(self, command: LoadFunction) -> FunctionReady:
        try:
            (self._fn,) = pickling.load(command.pickled, command.contents, adopt=True)
        except BaseException as exc:  # noqa: BLE001  an import may raise anything
            if not isinstance(exc, PenstockError):
                exc = DefinitionError(f"the function cannot be loaded: {describe(exc)}")
            return FunctionReady(Failure.of(exc))
        return FunctionReady()

    def _use(self, layout: bytes, stride: int) -> FunctionReady:
        fd = self._connection.receive_file()
        try:
            self._batches = _Batches(RowLayout.from_bytes(layout), stride, mmap.mmap(fd, 0))
        except OSError:  # no room for the map: results go the other way
            self._batches = None
        finally:
            os.close(fd)
        return FunctionReady()

    def _make(self, elements: list[Element], number: int, rows: list[RowRange]) -> CallDone:
        progress = self._made.room(HEAD)[:8].cast("q")
        try:
            out, failed = self._called(elements, progress, number)
        except BaseException as exc:  # noqa: BLE001  SystemExit, say: no reason to end for others
            at = progress[0]
            out, failed = self._up_to(elements[:at], number)
            if failed is None:
                given = preview(elements[at])
                failed = TransformError(self._label, number + at, describe(exc), given=given)
        written: list[MemoryFrame] = []
        placed = self._batches.put(out, rows) if self._batches is not None and out and rows else 0
        if not placed:
            written, unfit = self._write(out, number)
            failed = unfit or failed
        failure = Failure.of(failed) if failed else None
        return CallDone(written, placed, failure, _memory(self._statm))

    def _called(
        self, elements: list[Element], progress: memoryview, number: int
    ) -> tuple[list[Element], TransformError | None]:
        if isinstance(self._call, UserFunction):
            return self._call.call_block(_counted(elements, progress), number)
        progress[0] = 0  # all at once: which of them it is at is not known
        return self._call.call_block(elements, number)

    def _up_to(
        self, elements: list[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """Make again what was made before something that left no result."""
        return self._call.call_block(elements, number) if elements else ([], None)

    def _write(
        self, out: Sequence[Element], number: int
    ) -> tuple[list[MemoryFrame], TransformError | None]:
        """Write *out* for the other side; only what comes before an element that cannot cross."""
        try:
            return transfer.put(out, self._made, HEAD), None
        except PenstockError as exc:
            if len(out) == 1:
                return [], transform_error(self._label, number, exc)
        for i, element in enumerate(out):
            try:
                transfer.put([element], self._made, HEAD)
            except PenstockError as exc:
                error = transform_error(self._label, number + i, exc)
                return transfer.put(out[:i], self._made, HEAD), error
        raise AssertionError("elements that can cross one by one can together")


class _Batches:
    """Memory for batches of *layout*, which lie *stride* bytes apart in *memory*."""

    def __init__(self, layout: RowLayout, stride: int, memory: mmap.mmap) -> None:
        self._layout, self._stride = layout, stride
        self._memory = np.frombuffer(memory, np.uint8)

    def put(self, out: Sequence[Element], rows: Sequence[RowRange]) -> int:
        """Write *out* into *rows*; return how much that is: nothing unless all of it fits."""
        columns = self._layout.columns(out)
        if columns is None:
            return 0
        cut = [iter(column) for column in columns]
        left = len(out)
        for room in rows:
            count = min(room.count, left)
            if not count:
                break
            start = room.place * self._stride
            memory = self._memory[start : start + self._layout.nbytes]
            self._layout.write([list(islice(column, count)) for column in cut], memory, room.row)
            left -= count
        return len(out)


def _nothing(*_: Any) -> None:
    """Stand for the function before there is one."""


def _counted(elements: Iterable[Element], progress: memoryview) -> Iterator[Element]:
    for i, element in enumerate(elements):
        progress[0] = i
        yield element


def _memory(statm: int) -> int:
    """Return how many bytes this process has for itself."""
    _, resident, shared, *_ = os.pread(statm, 256, 0).split()
    return (int(resident) - int(shared)) * _PAGE


if __name__ == "__main__":
    main()
