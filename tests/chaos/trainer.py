"""A training loop in a process of its own: it writes down what it took, as soon as it has it.

A record of its log is 12 bytes: a letter, ten digits, a line end. ``t``: took this id; ``s``:
saved under this number; ``f``: a save of this number failed; ``l``: left; ``p``: saw the end of
this pass; ``e``: saw the end of all.

Of a consumer, which reads in rounds, there are also ``b``: begins with this round; ``r``: this
round comes next, behind the ids that follow; ``m``: took this id, which is a filler; ``c``:
somebody was lost when this round came next; ``w``: stands still, having been asked with this
number; ``a``: at this round then; ``g``: goes on with this round; ``u``: another process has its
place; ``z``: the end came with this round.

Commands come on stdin, a line each: ``save <number> <seconds>`` and ``leave``; for consumers
``where <number>``, and then ``go <round>``.
"""

import faulthandler
import json
import os
import select
import signal
import sys
import time

import numpy as np

from penstock.dataset.dataset import Dataset
from penstock.errors import ConsumerLost, SaveFailed, StoreFull, Superseded, WaitedTooLong
from penstock.service import CrossTrainerCache, save_job

INNER = 20
"""Elements of one inner dataset of an interleave."""

HALVES = ("low", "high")
"""The names of the sources of a mixture."""

MIXED_BY = 3
"""The seed of a mixture whose weights change."""


def halves(n):
    """Return the sources of a mixture, of *n* ids each."""
    return dict(zip(HALVES, (Dataset.range(n), Dataset.range(n, 2 * n).global_shuffle(7))))


def upstream(spec):
    name, n, delay = spec["pipeline"], spec["elements"], spec["delay"]
    if "groups" in name:
        many = spec["consumers"]
        dataset = Dataset.range(n // many)
        if "shuffle" in name:
            dataset = dataset.shuffle(64)
        dataset = dataset.flat_map(lambda i: Dataset.range(many).map(lambda j: i * many + j))
    elif "interleave" in name:

        def opened(i):
            return Dataset.range(INNER).map(lambda j: i * INNER + j)

        dataset = Dataset.range(n // INNER).interleave(opened, cycle_length=4, block_length=3)
    elif "lines" in name:
        files = Dataset.list_files(spec["files"])
        dataset = files.interleave(Dataset.text_lines, cycle_length=3).map(int)
    elif "mixture" in name:
        weights = [(0, {"low": 3, "high": 1}), (n // 2, {"low": 1, "high": 2})]
        dataset = Dataset.mixture(halves(n // 2), weights, stop="drop", turns_per_task=64)
    elif name == "weighed":
        weights = dict.fromkeys(HALVES, 1)
        dataset = Dataset.mixture(halves(n), weights, seed=MIXED_BY, turns_per_task=8).take(n)
    elif "repeat" in name:
        dataset = Dataset.range(n // 2).repeat(2)
    elif "load" in name:
        dataset = Dataset.load(spec["saved"])
    else:
        dataset = Dataset.range(n)
    if "shuffle" in name and "groups" not in name:
        dataset = dataset.shuffle(64)
    if delay:

        def slow(i):
            time.sleep(delay)
            return i

        dataset = dataset.map(slow)
    if spec["greedy"]:
        dataset = dataset.map(greedy(spec["greedy"], spec["memory"]))
    if spec["payload"]:
        nbytes = spec["payload"]
        dataset = dataset.map(lambda i: (np.full(nbytes, i % 251, np.uint8), i))
    return dataset.batch(7) if "batch" in name else dataset


def greedy(order, nbytes):
    def asking(i):
        """Ask for more than there may be, if that is ordered: it is refused, and costs nothing."""
        try:
            os.unlink(order)
        except OSError:  # there is no order, or another runner was faster
            return i
        try:
            bytearray(nbytes)
        except MemoryError:
            return i
        raise RuntimeError(f"a runner may have {nbytes} bytes")

    return asking


def behind(dataset, spec):
    if "shuffle" in spec["local"]:
        dataset = dataset.shuffle(40)
    if "batch" in spec["local"]:
        # Batches of workers differ in length at the end of a task: they are padded, and -1 is none.
        if "batch" in spec["pipeline"]:
            dataset = dataset.padded_batch(3, padding_values=-1)
        else:
            dataset = dataset.batch(5)
    return dataset.prefetch(4) if "prefetch" in spec["local"] else dataset


class Log:
    def __init__(self, path):
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind, numbers):
        self.write_all((kind, n) for n in numbers)

    def write_all(self, records):
        os.write(self._fd, b"".join(b"%c%010d\n" % (kind.encode(), n) for kind, n in records))


def commands(wait=0):
    """Yield what there is; None waits for something."""
    while select.select([0], [], [], wait)[0]:
        wait = 0
        line = os.read(0, 64).decode()
        if not line:
            os._exit(3)  # whoever runs the chaos is gone
        yield from line.splitlines()


def main(spec):
    log = Log(spec["log"])
    dataset = upstream(spec).distribute(
        spec["mode"],
        spec["target"],
        job_name=spec["job"],
        compression=spec["codec"],
        data_transfer_protocol=spec["transport"],
        max_outstanding_requests=spec["frames"],
        timeout=spec["timeout"],
        credentials=spec["credentials"],
        on_finished="ignore",  # it may be in the place of one that was killed
        **shared(spec),
    )
    dataset = behind(dataset, spec)
    if spec["consumer"] is not None and not spec["in_order"]:
        consume(dataset, spec, log)
        return
    state = None
    if spec["restore"]:
        with open(spec["restore"]) as file:
            state = json.load(file)
    for number in range(spec["passes"]):
        with begun(lambda: dataset.iterator(state) if state is not None else iter(dataset)) as it:
            if not one_pass(it, spec, log):
                log.write("l", [0])
                return
        log.write("p", [number])
    log.write("e", [0])


def shared(spec):
    if spec["in_order"]:
        consumer = {"consumer_index": spec["consumer"], "num_consumers": spec["consumers"]}
        return {"ordered": True, **({} if spec["consumer"] is None else consumer)}
    if spec["consumer"] is not None:
        return {
            "consumer_index": spec["consumer"],
            "num_consumers": spec["consumers"],
            "start_round": spec["start"],
            "remainder": spec["remainder"],
            "ordered": spec["ordered"],
            "patience": spec["patience"],
        }
    if spec["trainer"]:
        return {
            "cross_trainer_cache": CrossTrainerCache(spec["trainer"]),
            "when_full": spec["when_full"],
        }
    return {}


def begun(begin):
    """Begin something; again, while the dispatcher has no room for it: starters of loops do."""
    while True:
        try:
            return begin()
        except StoreFull as exc:
            print(f"begins later: {exc}", file=sys.stderr)
            time.sleep(0.3)


def consume(dataset, spec, log):
    try:  # it may have begun before the other one, and been let in later
        with begun(lambda: iter(dataset)) as it:
            log.write("b", [it.round])
            in_rounds(it, spec, log)
    except Superseded:
        log.write("u", [0])


def in_rounds(it, spec, log):
    """Take a round a step, and stand still when asked to."""
    standing = False
    while True:
        for command in commands(None if standing else 0):
            verb, *rest = command.split()
            if verb == "leave":
                log.write("l", [0])
                return
            standing = verb == "where"
            if standing:
                log.write_all([("w", int(rest[0])), ("a", it.round)])
            else:
                it.skip_to(max(it.round, int(rest[0])))
                log.write("g", [it.round])
        if standing:
            continue
        try:
            element = next(it, None)
        except ConsumerLost as exc:
            print(exc, file=sys.stderr)
            log.write("c", [it.round])
            continue
        if element is None:
            log.write_all([("z", it.round), ("e", 0)])
            return
        ids = [int(i) for i in np.ravel(element)]
        kind = "m" if it.padding and spec["remainder"] == "pad" else "t"
        log.write_all([("r", it.round), *((kind, i) for i in ids)])
        time.sleep(spec["pace"] * len(ids))


def one_pass(it, spec, log):
    """Take all; return False when told to leave."""
    while True:
        for command in commands():
            verb, *rest = command.split()
            if verb == "leave":
                return False
            save(it, spec, log, int(rest[0]), float(rest[1]))
        element = next(it, None)
        if element is None:
            return True
        ids = [int(i) for i in np.ravel(element[-1] if spec["payload"] else element) if i >= 0]
        log.write("t", ids)
        time.sleep(spec["pace"] * len(ids))


def save(it, spec, log, number, timeout):
    try:
        if number % 2:
            state = save_job(it, f"save {number}", timeout=timeout)
        else:
            state = it.state(timeout=timeout)
    except (SaveFailed, WaitedTooLong) as exc:  # the latter: nobody could be asked
        print(f"save {number} failed: {exc}", file=sys.stderr)
        log.write("f", [number])
        return
    try:
        with open(f"{spec['log']}.{number}.json", "w") as file:
            json.dump(state, file)
    except OSError as exc:  # it may open no more files
        print(f"save {number} is not written: {exc}", file=sys.stderr)
        log.write("f", [number])
        return
    log.write("s", [number])


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    with open(sys.argv[1]) as file:
        main(json.load(file))
