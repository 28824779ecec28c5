"""Meshes in which something is wrong, as a dispatcher would count them: see `scenes`."""

from dataclasses import replace

from penstock.protocol.loop_time import LoopTime
from penstock_dispatcher.core.counting import while_halted
from penstock_dispatcher.core.stats import LostWorker
from tests.dispatcher.page import scenes

SINCE = 60
"""The second from which on something is wrong."""


def _stands(seen, since, t, waits_for):
    """Return *seen* of second *since*, but with readers whose loops wait since then."""
    elapsed = t - since

    def waits(reader):
        loop = reader.loop
        late = min(10.0, elapsed)
        steps = int(loop.steps * (10.0 - late) / 10.0)
        before = loop.waited * (10.0 - late) / 10.0
        wait = LoopTime(
            steps, 10.0, before + late, waiting=elapsed, waits_for=waits_for, total=loop.total
        )
        links = tuple(replace(link, rate=0.0, held=0) for link in reader.links)
        return replace(reader, loop=wait, links=links)

    passes = [replace(it, readers=tuple(map(waits, it.readers))) for it in seen.iterations]
    return replace(seen, iterations=tuple(passes))


def blocked(t):
    """A map has not returned since 60 s: all buffers are empty, and both loops wait for it."""
    if t < SINCE:
        return scenes.healthy(t)
    seen = _stands(scenes.healthy(SINCE), SINCE, t, "elements of 2 tasks of worker worker-0")

    def held(one):
        operators = [
            {**op, "call": t - SINCE, "worked": op["worked"] + t - SINCE}
            if op["label"] == "map(decode)"
            else op
            for op in one["times"]["operators"]
        ]
        seconds = one["times"]["seconds"] + t - SINCE
        times = {**one["times"], "seconds": seconds, "operators": operators}
        newest = {"seconds": 10.0, "held_up": 0.0, "starved": 0.0, "operators": [
            {**op, "worked": 10.0 if op["call"] else 0.0, "waited": 0.0, "elements": 0}
            for op in ({"call": 0.0, **op} for op in operators)
        ]}  # fmt: skip
        return {**one, "times": times, "newest": newest, "ready": 0, "unacked": 0, "nbytes": 0}

    workers = [
        replace(
            worker,
            stats={
                **worker.stats,
                "tasks": [held(one) for one in worker.stats["tasks"]],
                "buffers": [],
                "usage": {**worker.stats["usage"], "busy": 0.01},
            },
        )
        for worker in seen.workers
    ]
    return replace(seen, workers=tuple(workers))


def workers_dead(t):
    """All four workers are killed at 60 s, and lost ten seconds later."""
    if t < SINCE:
        return scenes.healthy(t)
    silent = t - SINCE
    seen = _stands(scenes.healthy(SINCE), SINCE, t, "a worker")
    if silent < 10:
        gone = tuple(replace(w, connected=False, silent=silent) for w in seen.workers)
        return replace(seen, workers=gone, up=t + 600)
    passes = [
        replace(
            it,
            tasks=tuple(replace(task, worker=None) for task in it.tasks),
            waiting_for="a worker: none is registered",
        )
        for it in seen.iterations
    ]
    lost = tuple(LostWorker(w.address, silent) for w in seen.workers)
    return replace(
        seen, workers=(), iterations=tuple(passes), worker_lost=silent, lost_workers=lost, up=t
    )


FULL = (
    "the dispatcher has no room to write /data/penstock/journal.db (database or disk is full), and "
    "takes nothing new until there is: free space there, or raise the quota or limit. What it took "
    "before is safe, and goes on by itself"
)
"""What the journal's store says."""


def disk_full(t):
    """The disk of the journal is full since 60 s: the dispatcher decides nothing more."""
    if t < SINCE:
        return scenes.healthy(t)
    seen = _stands(scenes.healthy(SINCE), SINCE, t, "the dispatcher to hand out input")
    return while_halted(replace(seen, workers=tuple(map(_idle, seen.workers))), FULL)


def _idle(worker):
    """Return *worker* when all that it made is read, and it waits for input."""
    tasks = [
        {**one, "state": "waits for splits", "ready": 0, "unacked": 0, "nbytes": 0}
        for one in worker.stats["tasks"]
    ]
    usage = {**worker.stats["usage"], "busy": 0.01}
    stats = {**worker.stats, "tasks": tasks, "buffers": [], "usage": usage}
    return replace(worker, stats=stats)


def trainers_gone(t):
    """Of 32 trainers 31 are killed at 60 s; their leases end half a minute later."""
    workers, one = scenes.a_job(t, 0.01, hosts=32)
    if t < SINCE:
        return scenes.mesh(workers, [one])
    silent = t - SINCE
    first, *others = one.readers
    if silent < 30:
        quiet = [replace(r, silent=silent, loop=None, links=()) for r in others]
        return scenes.mesh(workers, [replace(one, readers=(first, *quiet))])
    since = SINCE + 30
    tasks = [
        replace(x, head=int(head), acked=int(head - 60))
        for x in one.tasks
        for head in [52.0 * (since + 60) + 52.0 / 32 * (t - since)]
    ]
    workers = [
        replace(
            w, stats={**idle, "elements_made": sum(x.head for x in tasks if x.worker == w.address)}
        )
        for w in workers
        for idle in [{**w.stats, "usage": {**w.stats["usage"], "busy": 0.06}}]
    ]
    account = scenes.account(int(416 * (since + 60) + 416 / 32 * (t - since)))
    one = replace(one, tasks=tuple(tasks), account=account)
    died = [replace(r, status="expired", silent=None, loop=None, links=()) for r in others]
    return scenes.mesh(workers, [replace(one, readers=(first, *died), readers_lost=31)])


BEGAN = 94
"""The second in which the dispatcher is there again."""


def restarted(t):
    """The dispatcher restarted a few seconds ago, and all reconnect after two seconds."""
    seen = scenes.healthy(t)
    up = t - BEGAN
    workers = tuple(
        w if up > 2 else replace(w, connected=False, silent=up, stats=None) for w in seen.workers
    )
    (it,) = seen.iterations
    if up <= 2:
        quiet = tuple(replace(r, silent=up, loop=None, links=()) for r in it.readers)
        it = replace(it, readers=quiet)
    return replace(seen, workers=workers, iterations=(it,), restarted=True, up=up)


SCENES = {
    "blocked": blocked,
    "workers-dead": workers_dead,
    "disk-full": disk_full,
    "trainers-gone": trainers_gone,
    "restarted": restarted,
}
