"""The command loop of a runner: it loads pipelines and carries out one run after the other."""

from __future__ import annotations

import gc
import importlib
import socket
from contextlib import suppress
from typing import NoReturn, assert_never

from penstock.analysis.sharding import assignments, divided
from penstock.definition import decode
from penstock.protocol.definition import Definition
from penstock.protocol.types import Failure
from penstock.runtime import log_lines
from penstock.runtime.malloc import trim
from penstock_worker.runner import failures
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.connection import RunInbox, WorkerConnection, WorkerGoneError
from penstock_worker.runner.engine_loop import EngineLoop, NoRoomError, Pipeline
from penstock_worker.runner.messages import (
    LoadDefinition,
    ReturnPlaces,
    RunStopped,
    StartRun,
    StopRun,
)

QUIET = 0.2
"""Seconds without a command after which there is time to tidy up."""


def serve(sock: socket.socket, arena: Arena, *, alone: bool = False) -> None:
    """Carry out the commands from *sock* until the worker closes it, or there is no room.

    Where this is *alone* in its process, `import` and `pickle` find the pipeline's modules.
    """
    connection = WorkerConnection(sock)
    with suppress(WorkerGoneError, NoRoomError):
        _serve(connection, arena, alone)


def _serve(connection: WorkerConnection, arena: Arena, alone: bool) -> NoReturn:
    pipelines: dict[str, Pipeline | Failure] = {}
    tidy = read = True
    while True:
        command = connection.next_command(None if tidy else QUIET)
        tidy = command is None
        match command:
            case None:
                tidy_up(None if read else arena, connection.take_kept())
            case LoadDefinition(dataset, definition):
                pipelines = {dataset: load(definition, adopt=alone)}
            case RunInbox():
                arena.clear(connection.take_kept())
                arena.set_budget(command.start.room)
                arena.set_window(command.window)
                read = True
                _identify(command.start)
                EngineLoop(connection, command, arena).work(pipelines[command.start.dataset])
            case ReturnPlaces():
                pass  # their memory goes back when all is quiet
            case StopRun(run):
                read = False
                connection.post(RunStopped(run))
            case _:
                assert_never(command)


def _identify(run: StartRun) -> None:
    """Have what is logged here from now on say whose run it is."""
    worker = run.worker or None
    log_lines.identify(worker=worker, iteration=run.iteration, task=run.task, attempt=run.attempt)


def load(definition: bytes, *, adopt: bool = False) -> Pipeline | Failure:
    """Return the pipeline of a definition; that runs users' code, for it imports their modules.

    For *adopt* see `decode`.
    """
    importlib.invalidate_caches()
    try:
        parts = Definition.from_bytes(definition)
        node = decode(parts, adopt=adopt)
        sharded = divided(node) if parts.providers else node
        return Pipeline(node, sharded, assignments(parts.providers))
    except BaseException as exc:  # noqa: BLE001  an import may raise anything
        return failures.in_loading(exc)


def tidy_up(arena: Arena | None, kept: frozenset[int]) -> None:
    """Return unused memory to the system; of *arena* all but what is *kept*, if no run reads it."""
    if arena is not None:
        arena.release(kept)
    gc.collect()
    trim()
