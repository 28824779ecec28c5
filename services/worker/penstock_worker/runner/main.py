"""What a runner does all its life: it takes orders and carries out one run after the other."""

from __future__ import annotations

import ctypes
import gc
import importlib
import socket
from contextlib import suppress
from typing import NoReturn, assert_never

from penstock.definition import Definition
from penstock.messages import Failure
from penstock.selecting import selected
from penstock.sharding import assignments
from penstock_worker.runner import failure
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.desk import Desk, Inbox, WorkerGoneError
from penstock_worker.runner.orders import Load, Stop, Stopped
from penstock_worker.runner.run import Pipeline, Run

QUIET = 0.2
"""Seconds without an order after which there is time to tidy up."""


def serve(sock: socket.socket, arena: Arena) -> None:
    """Carry out the orders that come from *sock* until the worker closes it."""
    desk = Desk(sock)
    with suppress(WorkerGoneError):
        _serve(desk, arena)


def _serve(desk: Desk, arena: Arena) -> NoReturn:
    pipelines: dict[str, Pipeline | Failure] = {}
    tidy = read = True
    while True:
        order = desk.next_order(None if tidy else QUIET)
        tidy = order is None
        match order:
            case None:
                tidy_up(None if read else arena)
            case Load(dataset, definition):
                pipelines = {dataset: load(definition)}
            case Inbox():
                arena.clear()
                read = True
                Run(desk, order, arena).work(pipelines[order.start.dataset])
            case Stop(run):
                read = False
                desk.post(Stopped(run))
            case _:
                assert_never(order)


def load(definition: bytes) -> Pipeline | Failure:
    """Make a pipeline of a definition; that runs users' code, their modules are imported."""
    importlib.invalidate_caches()
    try:
        parts = Definition.from_bytes(definition)
        node = parts.decode()
        divided = selected(node) if parts.streams else node
        return Pipeline(node, divided, assignments(parts.streams))
    except BaseException as exc:  # noqa: BLE001  an import may raise anything
        return failure.in_loading(exc)


def tidy_up(arena: Arena | None) -> None:
    """Give back to the system what runs left behind; of *arena* everything, if nobody reads it."""
    if arena is not None:
        arena.release()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
