"""How a fork of the zygote becomes a runner."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import NoReturn

import numpy as np

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.frames.frame import FrameBuilder
from penstock.graph.run import open_root
from penstock.ipc import child
from penstock.protocol.types import Failure
from penstock.runtime import log_lines
from penstock_worker.runner import main
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.confinement import confine
from penstock_worker.runner.fork_protocol import ForkRunner

log = logging.getLogger("penstock.runner")


def run(
    request: ForkRunner, sock: int, arena: Arena, zygote: int, inherited: list[int]
) -> NoReturn:
    """Be a runner in this process, forked by *zygote*, and end with it.

    The descriptors *inherited* are the zygote's own.
    """
    code = 1
    try:
        _detach(zygote, inherited)
        _set_environment(request)
        os.nice(request.niceness)
        confine(request.memory, request.uid, request.gid, request.files)
        child.die_with(zygote, b"penstock-runner")  # another user is not bound to that any more
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
    """Do once in the zygote what a run does, so that its forks have everything loaded."""
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


def _detach(zygote: int, inherited: list[int]) -> None:
    # A group of its own, so that whatever users' code starts can be ended with it.
    os.setpgid(0, 0)
    child.die_with(zygote, b"penstock-runner")
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd in inherited:
        os.close(fd)


def _set_environment(request: ForkRunner) -> None:
    """Take over what the worker looks like by now."""
    gc.enable()
    child.be_for_user_code()
    variables = {**os.environb, **request.environment}
    environment = {name: value for name, value in variables.items() if value is not None}
    child.ProcessEnvironment(request.directory, request.path, environment).settle()
    _reseed()


def _reseed() -> None:
    """Be unlike other forks; Python sees to its own `random` by itself."""
    np.random.seed()  # noqa: NPY002  users' code may draw from it
