"""Who asks for a save, in a process of its own, or follows it: each writes down how far it is.

The records are as those of `chaos.trainer`. Of who asks: ``d``: the newest version has so many
elements; ``x``: the save failed, and is begun again; ``l``: it was cancelled; ``e``: it is
complete. A reader that follows writes ``t`` and ``e``, and from time to time its state; when it
begins again, it forgets what it took after that.

The command ``leave`` comes on stdin.
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
    WaitedTooLong,
)
from penstock.protocol.recording import SaveStage
from penstock.service import save

AGAIN = 0.3
"""Seconds after which a save that failed is begun again."""

PATIENCE = 2.0
"""Seconds after which one who follows looks for commands, and follows again."""

EACH = 20
"""Elements after which a reader that follows writes its state."""


def main(spec):
    log = Log(spec["log"])
    if spec["follows"]:
        follow(spec, log)
    else:
        save_all(spec, log)


def save_all(spec, log):
    dataset = upstream(spec)
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
        except PenstockError as exc:
            print(f"again: {exc!r}", file=sys.stderr)
            if "is gone" in str(exc):
                raise
            log.write("x", [0])
            if any(commands(AGAIN)):
                log.write("l", [0])
                return
            continue
        log.write_all([("d", job.progress().elements), ("e", 0)])
        return


def tended(job, log):
    """Write down how far the save is, until it ends; return False when it was cancelled."""
    said = -1
    while True:
        if any(commands()):
            job.cancel()
            return job.manifest().stage is SaveStage.COMPLETE
        progress = job.progress()
        if progress.elements != said:
            said = progress.elements
            log.write("d", [said])
        if progress.stage != "open":
            return True
        time.sleep(0.05)


def follow(spec, log):
    state, count = None, 0
    if os.path.exists(spec["state"]):
        with open(spec["state"]) as file:
            state, count = json.load(file)
    os.truncate(log.path, count * 12)
    while True:
        it = Dataset.load(spec["saved"], wait=True, timeout=PATIENCE).iterator(state)
        try:
            with it:
                over = read_on(it, spec, log, count)
        except FileChanged:
            raise
        except (SaveIncomplete, DatasetError, WaitedTooLong) as exc:
            print(f"again: {exc!r}", file=sys.stderr)
            with open(spec["state"]) as file:
                state, count = json.load(file)
            os.truncate(log.path, count * 12)
            if not any(commands(AGAIN)):
                continue
            over = False
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
