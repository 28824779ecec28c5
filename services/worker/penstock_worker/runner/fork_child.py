"""The fork server of runners: what it loads, and how a fork becomes a runner."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import numpy as np

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.frames.frame import FrameBuilder
from penstock.graph.run import open_root
from penstock.ipc import child
from penstock.ipc.child import ONE_THREAD
from penstock.ipc.fork_server import ForkPlan, Main, Program, Start
from penstock.protocol.types import Failure
from penstock.runtime import log_lines, malloc
from penstock_worker.runner import capacity, main, recorder_process
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.confinement import RECORDER, RUNNER, Confinement, RunnerSetup, confine

log = logging.getLogger("penstock.runner")

NAME = b"penstock-runner"
"""The name of the process in ``ps``."""

UNFIT = ("grpc", "uvloop")
"""Modules with threads and loops of their own: a process that has them must not fork."""


def fork_plan() -> ForkPlan:
    """Load everything that a runner needs; return how the server forks runners."""
    malloc.tune()
    warm_up()
    # A worker has variables that gRPC reads, which is not loaded here, and may have other numbers
    # of threads than the server, which has one.
    later = (b"GRPC_", *ONE_THREAD)
    programs = {
        RUNNER: Program(_prepare, NAME),
        RECORDER: Program(recorder_process.prepare, b"penstock-record"),
    }
    return ForkPlan(programs, later, UNFIT, capacity.lacking)


def _prepare(start: Start, files: Sequence[int]) -> Main:
    setup, (sock, memory) = RunnerSetup.from_bytes(start.details), files
    # Mapped before the fork: if there is no memory for it, no runner starts, and none dies.
    arena = Arena(memory, setup.budget, setup.largest)
    return partial(_run, setup.confinement, sock, memory, arena, os.getpid())


def _run(confinement: Confinement, sock: int, memory: int, arena: Arena, server: int) -> NoReturn:
    """Be a runner in this process, which *server* forked, and end with it."""
    code = 1
    try:
        os.close(memory)
        child.be_for_user_code()
        _reseed()
        os.nice(confinement.niceness)
        confine(confinement)
        child.die_with(server, NAME)  # a process that became another user is not bound any more
        log_lines.configure_runner()
        with socket.socket(fileno=sock) as line:
            main.serve(line, arena, alone=True)
        code = 0
    except BaseException:
        log.exception("the runner ends with an error")
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def warm_up() -> None:
    """Do once what a run does, so that forks of this process have everything loaded."""
    pipeline = main.load(encode(Dataset.range(2).map(abs).node).to_bytes())
    if isinstance(pipeline, Failure):
        raise pipeline.error()
    engine = open_root(pipeline.node, Context.local(seeds.fresh()))
    builder = FrameBuilder()
    builder.add(engine.block(2))
    layout, elements = builder.take()
    layout.write(elements, memoryview(bytearray(layout.nbytes)))
    layout.to_bytes()
    engine.close()
    _reseed()


def _reseed() -> None:
    """Be unlike other forks; Python reseeds its own `random` in a fork."""
    np.random.seed()  # noqa: NPY002  users' code may draw from it
