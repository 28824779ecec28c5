"""How a worker divides its buffer, its cache and its slots among the attempts that it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock_worker.core.attempt import Attempt
from penstock_worker.core.events import Effect
from penstock_worker.core.shares import LEAST


def divide_buffer(attempts: Collection[Attempt], total: int, out: list[Effect]) -> None:
    """Divide *total* bytes among those of *attempts* that are of no cached job."""
    sharing = [attempt for attempt in attempts if attempt.cache_room is None]
    part = total // (len(sharing) or 1)
    most = max(LEAST, 1 << max(0, part.bit_length() - 1))
    for attempt in sharing:
        attempt.buffer.resize(most, attempt.run, out)


def divide_cache(attempts: Collection[Attempt], cache: int, out: list[Effect]) -> None:
    """Give those of *attempts* that are of one cached job equal shares of its *cache* bytes."""
    jobs: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if (cached := attempt.assignment.cached) is not None:
            jobs.setdefault(cached.job, []).append(attempt)
    for members in jobs.values():
        for attempt in members:
            attempt.resize_cache(max(1, cache // len(members)), out)


def divide_slots(attempts: Collection[Attempt], slots: int, out: list[Effect]) -> None:
    """Divide *slots* slots among all *attempts* of a worker."""
    at_work = [each for each in attempts if _is_at_work(each)]
    tasks = Counter(each.assignment.iteration for each in at_work)
    each_has, over = divmod(slots, len(tasks) or 1)
    parts = {job: each_has + (i < over) for i, job in enumerate(sorted(tasks))}
    for attempt in attempts:
        job, fills = attempt.assignment.iteration, attempt.assignment.fills_slot
        attempt.share.slots = 1 if fills else max(1, parts.get(job, 1) // max(1, tasks[job]))
        attempt.share.tell(attempt.run, out)


def _is_at_work(attempt: Attempt) -> bool:
    delivery = attempt.delivery
    left = attempt.share.is_left(read=bool(delivery.readers))
    return delivery.total is None and attempt.failure is None and not left
