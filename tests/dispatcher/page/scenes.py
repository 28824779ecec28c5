"""Meshes as a dispatcher would count them: each a function of the seconds since it began."""

import math
from dataclasses import replace

from penstock.protocol.loop_time import LinkTraffic, LoopTime, ReaderProcess
from penstock.protocol.measures import OperatorFigures
from penstock.protocol.types import PROTOCOL, Versions
from penstock.runtime.usage import Usage
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.stats import (
    Counts,
    DispatcherStats,
    IterationStats,
    LostWorker,
    MixtureSourceStats,
    MixtureSpan,
    MixtureStats,
    ReaderStats,
    TaskStats,
    WorkerSummary,
)

VERSIONS = Versions(PROTOCOL, "3.11.2", "0.1.0")
ELEMENT = 150_528
"""Bytes of an element: an image of 224 × 224 × 3."""

OPERATORS = {"map(decode)": 0.71, "map(augment)": 0.18, "interleave": 0.04, "batch": 0.03}


def account(acked, *, finished=False, **more):
    made = acked if finished else acked + 640
    fields = dict.fromkeys(
        ["replayed", "requeued", "redelivered", "in_doubt", "unreported", "skipped"], 0
    )
    fields |= {"nondeterministic": 0, "lost": 0, "splits": 40, "units": 40_000}
    fields |= {"elements": made, "produced": made, "sent": made, "consumed": acked, **more}
    return Account(finished=finished, acked=acked, doubt_records=(), **fields)


def wobble(t, phase, size=0.15):
    return 1 + size * math.sin(t / 7 + phase) + size / 3 * math.sin(t * 1.7 + 2 * phase)


def runner(task, t, rate, held=0.02):
    seconds = t + 60.0
    made = int(rate * seconds)
    operators = [
        {"label": label, "elements": made, "worked": seconds * part, "waited": seconds * 0.02}
        for label, part in OPERATORS.items()
    ]
    times = {"seconds": seconds, "held_up": seconds * held, "starved": 0.0, "operators": operators}
    fill = int((64 << 20) * min(0.95, (0.1 + held) * wobble(t, task)))
    return {
        "task": task, "state": "runs", "times": times, "ready": 40, "unacked": 64,
        "compression": "NONE", "nbytes": fill, "room": 64 << 20,
    }  # fmt: skip


def worker(address, tasks, t, rate, *, slots=4, **more):
    made = int(rate * max(1, len(tasks)) * (t + 60)) if tasks else 0
    stats = {
        "tasks": [runner(task, t, rate) for task in tasks],
        "elements_made": made,
        "bytes_sent": made * ELEMENT,
        "buffers": [{"nbytes": 9 << 20} for _ in tasks],
        "runners_lost": more.pop("runners_lost", 0),
        "usage": {"cpu": 40.0 + t, "memory": 200 << 20, "busy": 0.9 * len(tasks), "cores": slots},
    }
    used = min(slots, len(tasks))
    fields = {"silent": 0.4, "connected": True, "draining": False, "host": address.split(":")[0]}
    fields |= {"transports": ("grpc",), "slots": slots, "slots_used": used, "versions": VERSIONS}
    return WorkerSummary(address, 1, tasks=tuple(tasks), stats=stats, **(fields | more))


def with_remote_files(one, requests):
    """Return the worker *one*, which reads an object store through a cache on disk."""
    storage = {
        "requests": requests, "nbytes": requests << 23, "retries": requests // 50, "slow_downs": 2,
        "hedges": requests // 25, "hedges_won": requests // 40, "wait_seconds": requests / 8,
        "cache_hits": 3 * requests, "cache_misses": requests, "cache_evictions": 0,
    }  # fmt: skip
    file_cache = {"held": 30 << 30, "bound": 64 << 30}
    return replace(one, stats={**one.stats, "storage": storage, "file_cache": file_cache})


def task(number, where, t, rate, **more):
    head = int(rate * (t + 60))
    return TaskStats(
        number, number % 100, more.pop("attempt", 1), where, head, max(0, head - 60), 12, 12_000,
        more.pop("done", False), more.pop("failure", None),
    )  # fmt: skip


def reader(number, t, wait, workers, rate, host="trainer-0", rank=0):
    steps = int(320 * (1 - wait)) + 1
    loop = LoopTime(steps, 10.0, 10.0 * wait, 0.002, 0.02, total=int(steps * (t + 10)))
    each = rate * ELEMENT / max(1, len(workers))
    total = int(each * (t + 60))
    links = tuple(
        LinkTraffic(w, "grpc", 100, total, total, each, "", int((8 << 20) * (1 - wait)), 8 << 20)
        for w in workers
    )
    process = ReaderProcess(host, 4000 + number % 1000, rank, "0.1.0", "3.11.2")
    consumed = int(rate * (t + 60))
    return ReaderStats(
        number, "live", 0.3, consumed, process, "", {"grpc": len(workers)}, loop, links
    )


def a_pass(number, job, tasks, readers, acked, **more):
    finished = more.pop("finished", False)
    balance = more.pop("balance", None) or account(acked, finished=finished)
    fields = {"outline": "from_files → interleave → map(decode) → map(augment) → batch(64)"}
    return IterationStats(
        number, job, more.pop("repetition", 1), "d4f1", more.pop("mode", "dynamic"), finished,
        False, 0, balance, balance.faults(), tuple(tasks), tuple(readers), **(fields | more),
    )  # fmt: skip


def mesh(workers=(), passes=(), **more):
    return DispatcherStats(
        "dispatcher.local:5050", 59_829_473_851_120, len(passes), len(passes), Counts(),
        tuple(workers), tuple(passes), Usage(41.5, 96 << 20), VERSIONS, **more,
    )  # fmt: skip


def empty(t):
    return mesh()


def a_job(t, wait, *, count=4, per_worker=2, rate=52.0, number=7100, job="imagenet", hosts=1):
    """One job on *count* workers, whose loops wait for the share *wait* of their time."""
    addresses = [f"worker-{i}.local:7001" for i in range(count)]
    by_worker = {
        a: [number + 10 + i * per_worker + k for k in range(per_worker)]
        for i, a in enumerate(addresses)
    }
    workers = [
        worker(a, names, t, rate * wobble(0, i)) for i, (a, names) in enumerate(by_worker.items())
    ]
    tasks = [
        task(name, a, t, rate * wobble(0, i))
        for i, (a, names) in enumerate(by_worker.items())
        for name in names
    ]
    whole = rate * count * per_worker
    share = min(0.98, max(0.0, wait * wobble(t, 1, 0.08)))
    readers = [
        reader(number + 1 + i, t, share, addresses, whole / hosts, f"trainer-{i}", i)
        for i in range(hosts)
    ]
    return workers, a_pass(number, job, tasks, readers, int(whole * (t + 60)))


def healthy(t):
    workers, one = a_job(t, 0.012, hosts=2)
    return mesh(workers, [one])


def object_storage(t):
    workers, one = a_job(t, 0.012, hosts=2)
    return mesh([with_remote_files(each, 400) for each in workers], [one])


def mixed(t):
    workers, one = a_job(t, 0.012, hosts=2)
    sources = (
        MixtureSourceStats("web", 0.5, 700, 350, 1000, 0, 1600),
        MixtureSourceStats("code", 0.5, 300, 150, None, 0, None),
    )
    spans = (
        MixtureSpan(0, 1000, (0.7, 0.3), (700, 300)),
        MixtureSpan(1000, None, (0.5, 0.5), (0, 0)),
    )
    figures = (OperatorFigures("pack", "tokens", 900_000, 4500.0, padding_share=0.015),)
    mixture = MixtureStats(0, 1000, sources, spans)
    return mesh(workers, [replace(one, mixtures=(mixture,), figures=figures)])


def slow_map(t):
    workers, one = a_job(t, 0.62, hosts=2)
    return mesh(workers, [one])


def lost_and_drained(t):
    """A worker drains at 20 s and is gone at 32; another is lost at 50 s: tasks go on elsewhere."""
    workers, one = a_job(t, 0.08 if t < 45 else 0.31, hosts=2)
    if t >= 20:
        workers[3] = replace(workers[3], draining=True)
    if 45 <= t < 50:
        workers[1] = replace(workers[1], connected=False, silent=t - 45.0)
    if t >= 32:
        del workers[3]
    if t >= 50:
        del workers[1]
    moved = {"worker-3.local:7001": 32, "worker-1.local:7001": 48}
    tasks = [
        replace(x, worker="worker-0.local:7001", attempt=2)
        if x.worker in moved and t >= moved[x.worker]
        else x
        for x in one.tasks
    ]
    balance = replace(one.account, requeued=64 if t >= 48 else 0, replayed=310 if t >= 48 else 0)
    lost = (LostWorker("worker-1.local:7001", t - 45.0),) if t >= 50 else ()
    return mesh(workers, [replace(one, tasks=tuple(tasks), account=balance)], lost_workers=lost)


def slow_worker(t):
    """A worker is six times slower than its peers, of another job than the fastest ones."""
    workers, one = a_job(t, 0.3, count=4)
    others, other = a_job(t, 0.0, count=8, rate=2000.0, number=8100, job="tokens")
    slow = "worker-2.local:7001"
    tasks = [task(x.task, x.worker, t, 8.0) if x.worker == slow else x for x in one.tasks]
    tokens = tuple(x for x in other.tasks if x.worker not in {w.address for w in workers})
    workers[2] = worker(slow, workers[2].tasks, t, 8.0)
    return mesh(
        [*workers, *others[4:]], [replace(one, tasks=tuple(tasks)), replace(other, tasks=tokens)]
    )


def unbalanced(t):
    """A pass that is over has lost elements; another one goes on."""
    workers, one = a_job(t, 0.02)
    wrong = account(50_000, finished=True, elements=50_012)
    over = a_pass(6900, "nightly eval", [], [], 50_000, finished=True, balance=wrong)
    fine = a_pass(6800, "imagenet", [], [], 1_281_167, finished=True, repetition=0)
    return mesh(workers, [fine, over, one])


def five_jobs(t):
    workers, passes = [], []
    for i, (job, wait, rate) in enumerate(
        [("imagenet", 0.03, 40.0), ("speech-large", 0.44, 22.0), ("tokens", 0.0, 90.0),
         ("segmentation", 0.12, 14.0), ("detector", 0.01, 35.0)]
    ):  # fmt: skip
        mine, one = a_job(t, wait, count=6, per_worker=1, rate=rate, number=7100 + 100 * i, job=job)
        passes.append(one)
        workers = mine if not workers else workers
    tasks = {
        a.address: [x.task for it in passes for x in it.tasks if x.worker == a.address]
        for a in workers
    }
    crowd = [worker(a, names, t, 44.0, slots=8) for a, names in tasks.items()]
    return mesh(crowd, passes)


def thirty_jobs(t):
    """Thirty jobs on thirty workers, of which every tenth waits."""
    workers, passes = [], []
    for i in range(30):
        wait = 0.2 + i / 100 if i % 10 == 3 else 0.01
        mine, one = a_job(t, wait, count=1, number=10_000 + 100 * i, job=f"trial-{i:02d}")
        name = f"worker-{i}.local:7001"
        workers.append(replace(mine[0], address=name))
        read = [
            replace(r, links=tuple(replace(k, worker=name) for k in r.links)) for r in one.readers
        ]
        tasks = tuple(replace(x, worker=name) for x in one.tasks)
        passes.append(replace(one, tasks=tasks, readers=tuple(read)))
    return mesh(workers, passes)


def thousand(t):
    """Three jobs on a thousand workers, of which some are slow, drain or are gone."""
    workers, passes = [], []
    addresses = [f"10.4.{i // 250}.{i % 250 + 1}:7001" for i in range(1000)]
    for j, (job, wait) in enumerate([("imagenet", 0.02), ("speech-large", 0.27), ("tokens", 0.01)]):
        number = 10_000 * (j + 1)
        mine = addresses[j::3]
        tasks = [
            task(number + 100 + i, a, t, 30 * _slowed(i) * wobble(0, i)) for i, a in enumerate(mine)
        ]
        readers = [
            reader(number + 1 + i, t, wait * wobble(t, i, 0.2), mine[i::16], 30 * len(mine) / 16,
                   f"trainer-{j}-{i:02d}", i)
            for i in range(16)
        ]  # fmt: skip
        passes.append(a_pass(number, job, tasks, readers, int(30 * len(mine) * (t + 60))))
        for i, a in enumerate(mine):
            more = {}
            if i % 83 == 5:
                more = {"draining": True}
            elif i % 140 == 9:
                more = {"connected": False, "silent": 4.0}
            rate = 30 * _slowed(i) * wobble(0, i)
            workers.append(worker(a, [number + 100 + i], t, rate, **more))
    return mesh(workers, passes)


def _slowed(i):
    return 0.3 if i % 29 == 3 else 1.0


SCENES = {
    "empty": empty,
    "healthy": healthy,
    "slow-map": slow_map,
    "object-storage": object_storage,
    "mixed": mixed,
    "lost-and-drained": lost_and_drained,
    "slow-worker": slow_worker,
    "unbalanced": unbalanced,
    "five-jobs": five_jobs,
    "thirty-jobs": thirty_jobs,
    "thousand": thousand,
}
