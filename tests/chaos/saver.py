"""A save in a process of its own, or a reader that follows it: each writes down how far it is.

The records are as those of `chaos.trainer`. Of a saver: ``d``: its newest version has so many
elements; ``x``: the save failed, and is begun again; ``u``: another process continues it; ``l``:
it was cancelled; ``e``: it is complete. A reader that follows writes ``t`` and ``e``, and from time
to time its state; when it begins again, it forgets what it took after that.

Commands come on stdin: ``leave``, and of a saver ``die <number> <when>``: to be killed at its
so many-th call from now on that changes the folder, ``before`` or ``after`` it.
"""

import faulthandler
import json
import os
import signal
import sys
import time

import numpy as np
from trainer import Log, commands, upstream  # beside it, as a script

from penstock.dataset.dataset import Dataset
from penstock.errors import (
    DatasetError,
    FileChanged,
    PenstockError,
    SaveIncomplete,
    Superseded,
)
from penstock.saved import folder
from penstock.service import save

AGAIN = 0.3
"""Seconds after which a save that failed is begun again."""

EACH = 20
"""Elements after which a reader that follows writes its state."""

CHANGES = ("write", "create", "copy", "delete")


def dying(order):
    """Return a function for `map`, in whose process a call of a folder is the last, if ordered."""

    def armed(i):
        try:
            with open(order) as file:
                number, when = file.read().split()
            os.unlink(order)
        except (OSError, ValueError):  # there is no order, or another runner was faster
            return i
        die_at(int(number), when)
        return i

    return armed


def die_at(number, when):
    """Have this process be killed at its *number*-th call from now on that changes a folder."""
    left = [number]

    def killing(method):
        def call(*arguments):
            left[0] -= 1
            if left[0] == 0 and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for kind in (folder._LocalFolder, folder._StoreFolder):
        for name in CHANGES:
            setattr(kind, name, killing(getattr(kind, name)))


def main(spec):
    log = Log(spec["log"])
    if spec["follows"]:
        follow(spec, log)
    else:
        save_all(spec, log)


def save_all(spec, log):
    dataset = upstream(spec).map(dying(spec["dying"]))
    while True:
        try:
            job = save(
                dataset,
                spec["saved"],
                spec["target"],
                chunk_bytes=spec["chunk_bytes"],
                chunk_seconds=spec["chunk_seconds"],
                order=spec["order"],
                timeout=spec["timeout"],
                credentials=spec["credentials"],
            )
            if not tended(job, log):
                log.write("l", [0])
                return
            job.wait()
        except Superseded as exc:
            print(exc, file=sys.stderr)
            log.write("u", [0])
            return
        except PenstockError as exc:
            print(f"again: {exc!r}", file=sys.stderr)
            if "is gone" in str(exc):
                raise
            log.write("x", [0])
            time.sleep(AGAIN)
            continue
        log.write_all([("d", job.progress().elements), ("e", 0)])
        return


def tended(job, log):
    """Write down how far the save is, until it ends; return False when it was cancelled."""
    said = -1
    while job.is_running:
        for command in commands():
            verb, *rest = command.split()
            if verb == "leave":
                job.cancel()
                return job.progress().stage == "complete"
            die_at(int(rest[0]), rest[1])
        if (now := job.progress().elements) != said:
            said = now
            log.write("d", [now])
        time.sleep(0.01)
    return True


def follow(spec, log):
    state, count = None, 0
    if os.path.exists(spec["state"]):
        with open(spec["state"]) as file:
            state, count = json.load(file)
    os.truncate(log.path, count * 12)
    while True:
        it = Dataset.load(spec["saved"], wait=True).iterator(state)
        try:
            with it:
                over = read_on(it, spec, log, count)
        except FileChanged:
            raise
        except (SaveIncomplete, DatasetError) as exc:
            print(f"again: {exc!r}", file=sys.stderr)
            with open(spec["state"]) as file:
                state, count = json.load(file)
            os.truncate(log.path, count * 12)
            time.sleep(AGAIN)
            continue
        log.write("e" if over else "l", [0])
        return


def read_on(it, spec, log, count):
    """Take all; return False when told to leave."""
    keep(it, spec, count)
    for number, element in enumerate(it):
        ids = [int(i) for i in np.ravel(element)]
        log.write("t", ids)
        count += len(ids)
        if number % EACH == 0:
            keep(it, spec, count)
            if any(commands()):
                return False
        time.sleep(spec["pace"] * len(ids))
    return True


def keep(it, spec, count):
    part = spec["state"] + ".part"
    with open(part, "w") as file:
        json.dump([it.state(), count], file)
    os.replace(part, spec["state"])


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    with open(sys.argv[1]) as file:
        main(json.load(file))
