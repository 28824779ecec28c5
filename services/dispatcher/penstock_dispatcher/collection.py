"""Garbage collection that does not stop a dispatcher for tenths of a second.

A dispatcher keeps hundreds of thousands of objects for as long as a job runs, and hardly ever in
cycles: a full collection of Python's looks at each of them, again and again, and nobody is answered
meanwhile (250 ms with 1,000 workers and 500 readers). Here what outlives one full collection is set
aside (`gc.freeze`), so that the next one looks at what came since. Things set aside go away by
their reference counts as ever; cycles among them (those of calls that were under way) are looked
for once the objects set aside have doubled, so they never outnumber what lives.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

YOUNG = 20_000
"""Objects that come, beyond those that went, between two collections of the youngest.

Python's 700 are those of a few calls: with 500 readers collections took a tenth of the time.
"""

LEAST = 100_000
"""Objects set aside below which cycles among them may wait: some 20 MiB."""


class SettingAside:
    """Objects that full collections leave alone, by their callback."""

    def __init__(self) -> None:
        self._whole = LEAST

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Set aside what outlived a full collection, or have the next one look at all."""
        if phase != "stop" or info["generation"] < 2:
            return
        looked_at_all = gc.get_freeze_count() == 0
        gc.freeze()
        aside = gc.get_freeze_count()
        if looked_at_all:
            self._whole = max(aside, LEAST)
        elif aside > 2 * self._whole:
            gc.unfreeze()


@contextmanager
def short_collections() -> Iterator[None]:
    """Have this process's collections look at what is new; then again at everything."""
    before, set_aside = gc.get_threshold(), SettingAside()
    gc.unfreeze()  # what another set aside counts from the first full collection on
    gc.set_threshold(YOUNG, *before[1:])
    gc.callbacks.append(set_aside)
    try:
        yield
    finally:
        gc.callbacks.remove(set_aside)
        gc.set_threshold(*before)
        gc.unfreeze()
