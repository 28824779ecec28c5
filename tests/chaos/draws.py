"""Plans of every kind of run, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from chaos import plan as plain
from chaos.plan import (
    DYNAMIC,
    LEASE,
    OFF,
    Back,
    Cached,
    Fault,
    Kind,
    Life,
    Ordered,
    Plan,
    Rounds,
    Saved,
    Whose,
)
from chaos.weights import CHOICES, PIPELINE

LOCALS = ("none", "none", "batch", "prefetch", "batch-prefetch")
"""What may stand behind coordinated reads: nothing that reorders rounds."""

PIPELINES = ("groups", "groups", "groups-shuffle", "range", "shuffle")

READERS = (Kind.KILL_READER, Kind.STOP_READER, Kind.LEAVE_READER, Kind.ADD_READER)


def random_rounds(seed: int) -> Plan:
    """Draw a plan of consumers that read in rounds."""
    chance = random.Random(seed)
    consumers, local = chance.choice((2, 2, 3, 4)), chance.choice(LOCALS)
    remainders = ("drop", "pad", "repeat") if local == "none" else ("drop", "repeat")
    ordered = chance.random() < 0.2
    sharing = Rounds(
        consumers,
        chance.choice(remainders),
        ordered,
        None if ordered else chance.choice((None, None, 0, 1)),
    )
    workers = chance.randint(1, 3)
    faults = [
        _of_consumer(_fault(chance, workers, consumers), chance) for _ in range(_many(chance))
    ]
    if chance.random() < 0.2:  # all at once
        at, lasts = chance.uniform(0.1, 0.9), chance.choice((0.0, 1.0, LEASE + 1.0))
        faults += [Fault(at, Kind.KILL_READER, 0, lasts) for _ in range(consumers)]
    faults.sort(key=lambda fault: fault.at)
    pipeline = chance.choice(PIPELINES)
    delay, pace = chance.choice((0.001, 0.002, 0.004)), chance.choice((0.0, 0.001, 0.002))
    mode = chance.choice((DYNAMIC, DYNAMIC, OFF))
    if ordered and mode == DYNAMIC and "shuffle" not in pipeline:  # that would be one order instead
        sharing = replace(sharing, ordered=False)
    steps = int(chance.uniform(2.0, 5.0) / max(delay * consumers / workers, pace))
    number = consumers * max(60, min(steps, 1500) // (workers if mode == OFF else 1))
    return Plan(
        seed,
        (Life(workers, consumers, tuple(faults)),),
        mode=mode,
        pipeline=pipeline,
        local=local,
        elements=number if "groups" in pipeline else number + chance.randrange(consumers),
        delay=delay,
        pace=pace,
        codec=chance.choice((None, "AUTO")),
        frames=chance.choice((None, None, 4)),
        buffer=chance.choice((64 << 20, 1 << 16)),
        deadline=180.0,
        sharing=sharing,
    )


def random_cached(seed: int) -> Plan:
    """Draw a plan of trainers that share a cached job."""
    chance = random.Random(seed)
    trainers = tuple(chance.choice((1, 1, 2)) for _ in range(chance.choice((1, 2, 2, 3))))
    window = chance.choice((None, None, 1 << 18, 1 << 20))
    sharing = Cached(
        trainers,
        chance.choice(("skip", "wait")),
        window,
        0 if window is None else chance.choice((1 << 10, 1 << 13)),
        chance.choice((1.0, 1.5, 3.0)),
    )
    workers = chance.randint(1, 3)
    faults = [_fault(chance, workers, sum(trainers)) for _ in range(_many(chance))]
    faults.sort(key=lambda fault: fault.at)
    delay, pace = chance.choice((0.0, 0.001, 0.002)), chance.choice((0.0005, 0.001, 0.002))
    slowest = pace * sharing.slower ** (len(trainers) - 1)
    mode = chance.choice((DYNAMIC, DYNAMIC, OFF))
    steps = int(chance.uniform(2.0, 5.0) / max(slowest, delay)) // (workers if mode == OFF else 1)
    elements = 20 * max(15, min(steps // 20, 200))
    return Plan(
        seed,
        (Life(workers, sum(trainers), tuple(faults)),),
        mode=mode,
        pipeline=chance.choice(("range", "shuffle", "interleave")),
        local=chance.choice(("none", "none", "prefetch") if sharing.payload else LOCALS[:2]),
        elements=elements,
        delay=delay,
        pace=pace,
        codec=chance.choice((None, "AUTO")),
        frames=chance.choice((None, None, 1, 4)),
        deadline=180.0,
        sharing=sharing,
    )


def random_ordered(seed: int) -> Plan:
    """Draw a plan of a job in one order: of one that is saved, or goes to consumers."""
    chance = random.Random(seed)
    drawn = plain.random_plan(seed)
    plan = replace(
        drawn,
        mode=DYNAMIC,
        passes=1,
        pipeline=chance.choice(("range", "range", "batch", "interleave", "lines", "mixture")),
        local=chance.choice(LOCALS),
        sharing=Ordered(),
    )
    plan = replace(plan, elements=plain.enough(plan, chance.uniform(2.0, 5.0)))
    if chance.random() < 0.4:
        return plan
    consumers, workers = chance.choice((1, 2, 3)), chance.randint(1, 3)
    faults = [
        _of_consumer(_fault(chance, workers, consumers), chance) for _ in range(_many(chance))
    ]
    faults.sort(key=lambda fault: fault.at)
    return replace(
        plan,
        lives=(Life(workers, consumers, tuple(faults)),),
        pipeline=chance.choice(("range", "interleave", "mixture")),
        sharing=Ordered(consumers),
        deadline=180.0,
    )


def random_weighed(seed: int) -> Plan:
    """Draw a plan of a mixture whose weights change, in one order or in rounds.

    Behind every other change the dispatcher or a worker is killed.
    """
    chance = random.Random(f"weighed {seed}")
    drawn = chance.choice((random_ordered, random_ordered, random_rounds))(seed)
    sharing = drawn.sharing
    if isinstance(sharing, Rounds):
        sharing = replace(sharing, ordered=False)
    lives = tuple(replace(life, faults=_with_changes(life.faults, chance)) for life in drawn.lives)
    plan = replace(drawn, mode=DYNAMIC, pipeline=PIPELINE, sharing=sharing, lives=lives)
    seconds = chance.uniform(3.0, 6.0)
    return replace(plan, elements=plain.enough(plan, seconds), delay=max(plan.delay, 0.001))


def _with_changes(faults: tuple[Fault, ...], chance: random.Random) -> tuple[Fault, ...]:
    more = []
    for _ in range(chance.randint(1, 4)):
        at = chance.uniform(0.01, 0.7)
        more.append(Fault(at, Kind.SET_WEIGHTS, chance.randrange(len(CHOICES))))
        if chance.random() < 0.5:
            kind = chance.choice((Kind.KILL_DISPATCHER, Kind.KILL_WORKER))
            more.append(Fault(at, kind, chance.randrange(3), chance.choice((0.1, 0.5, 1.5))))
    return tuple(sorted((*faults, *more), key=lambda fault: fault.at))


def random_saved(seed: int) -> Plan:
    """Draw a plan of a dataset that is saved; or of one that was, and is read."""
    chance = random.Random(f"saved {seed}")
    drawn = plain.random_plan(seed)
    if chance.random() < 0.3:
        pipeline = chance.choice(("load", "load-batch", "load-shuffle-batch"))
        plan = replace(drawn, pipeline=pipeline, passes=1, deadline=240.0)
        return replace(plan, elements=plain.enough(plan, chance.uniform(2.0, 5.0)))
    order = chance.choice(("split", "split", "any"))
    pipelines = ("range", "range", "batch", "interleave", "lines", "mixture")
    sharing = Saved(
        order,
        chance.random() < 0.4,
        chance.choice((0, 1, 1, 2)),
        chance.choice((200, 1000, 1 << 20)),
        chance.choice((0.1, 0.5, 10.0)),
    )
    lives = tuple(
        replace(
            life,
            readers=1 + sharing.followers,
            faults=tuple(
                sorted(
                    (_of_saver(chance, life.workers, 2) for _ in range(_many(chance))),
                    key=lambda fault: fault.at,
                )
            ),
        )
        for life in drawn.lives
    )
    plan = replace(
        drawn,
        lives=lives,
        mode=DYNAMIC,
        passes=1,
        pipeline=chance.choice(pipelines if order == "split" else (*pipelines, "shuffle")),
        delay=chance.choice((0.001, 0.002, 0.004)),
        pace=chance.choice((0.0, 0.001)),
        deadline=240.0,
        sharing=sharing,
    )
    return replace(plan, elements=plain.enough(plan, chance.uniform(2.0, 5.0)))


OF_SAVES = (Kind.STORE, Kind.STORE, Kind.DIE_AT_WRITE, Kind.DIE_AT_WRITE, Kind.DIE_AT_WRITE)


def _of_saver(chance: random.Random, workers: int, readers: int) -> Fault:
    """Draw a fault, of which every third comes to the store, or at a write."""
    fault = _fault(chance, workers, readers)
    if chance.random() < 0.35:
        kind = chance.choice(OF_SAVES)
        whose = chance.choice((Whose.READER, Whose.READER, Whose.WORKER))
        lasts = chance.uniform(0.2, 2.0) if kind is Kind.STORE else None
        return replace(fault, kind=kind, whose=whose, lasts=lasts, target=chance.randrange(36))
    if fault.kind in (Kind.KILL_READER, Kind.LEAVE_READER):
        return replace(fault, lasts=chance.choice((0.0, 0.5, 1.5)))
    if fault.kind is Kind.FEW_FILES and fault.whose is Whose.READER:
        return replace(fault, whose=Whose.WORKER)
    return fault


def _many(chance: random.Random) -> int:
    return chance.randint(2, 6)


def _fault(chance: random.Random, workers: int, readers: int) -> Fault:
    """Draw a fault, one of three of a reader's; nothing is saved."""
    while True:
        fault = plain.random_fault(chance, workers, readers)
        if fault.kind is not Kind.SAVE and (fault.kind in READERS or chance.random() < 0.6):
            return fault


def _of_consumer(fault: Fault, chance: random.Random) -> Fault:
    """Have a consumer that is killed, or leaves, be back."""
    if fault.kind not in (Kind.KILL_READER, Kind.LEAVE_READER):
        return fault
    lasts = chance.choice((0.0, 0.5, 1.5, LEASE + 1.0))
    return replace(fault, lasts=lasts, back=chance.choice((Back.AGREED, Back.AGREED, Back.ALONE)))


def draw_fault(kind: str, chance: random.Random, workers: int, readers: int) -> Fault:
    """Draw a fault more for a plan of *kind*."""
    if kind == "plain":
        return plain.random_fault(chance, workers, readers)
    if kind == "saved":
        return _of_saver(chance, workers, readers)
    fault = _fault(chance, workers, readers)
    return fault if kind == "cache" else _of_consumer(fault, chance)


def kind_of(kind: str, seed: int) -> str:
    """Return *kind*; of ``all``, seeds give each in turn."""
    return list(DRAWS)[seed % len(DRAWS)] if kind == "all" else kind


DRAWS: Mapping[str, Callable[[int], Plan]] = {
    "plain": plain.random_plan,
    "rounds": random_rounds,
    "cache": random_cached,
    "ordered": random_ordered,
    "weighed": random_weighed,
    "saved": random_saved,
}


def draw(kind: str, seed: int) -> Plan:
    """Draw a plan of *kind*, or of each in turn."""
    return DRAWS[kind_of(kind, seed)](seed)
