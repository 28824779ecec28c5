"""Weights of a mixture that change while processes fail, and the sequence that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from chaos.trainer import HALVES, MIXED_BY, begun, halves
from penstock.errors import PenstockError
from penstock.protocol.mixture import WeightStage
from penstock.protocol.turns import Turns

PIPELINE = "weighed"
"""The pipeline whose weights change."""

FIRST = (1, 1)
CHOICES = ((1, 3), (3, 1), (2, 3), (5, 1), (1, 6), (7, 2), FIRST)
"""The weights that somebody may ask for."""

Record = dict[int, tuple[int, ...]]
"""The changes of the weights, by the turn from which they hold."""


def places(elements: int, record: Record) -> dict[int, int]:
    """Return the place of each id in the sequence of the mixture, with the changes *record*."""
    stages = [WeightStage(begin, parts) for begin, parts in sorted(({0: FIRST} | record).items())]
    turns = Turns(stages, (elements, elements), "repeat", None, MIXED_BY)
    rest = [map(int, half) for half in halves(elements).values()]
    return {next(rest[source]): at for at, source in enumerate(turns.sources(0, elements))}


def record_in(state: Any) -> Record:
    """Return the changes that a saved state has."""
    (passes,) = state["jobs"].values()
    (provider,) = passes[0]["state"].get("providers") or [{}]
    return {one["begin"]: tuple(one["parts"]) for one in provider.get("changes", ())}


class Changes:
    """Changes the weights of a job, and knows the *record* of the changes.

    It asks for a change when the one before is answered. *change* waits while there is no
    dispatcher, and asks again.
    """

    def __init__(self, change: Callable[[Mapping[str, float]], int]) -> None:
        self._change = change
        self.record: Record = {}
        self._pool = ThreadPoolExecutor(1)
        self._asked: list[Future[None]] = []
        self._confirmed: set[int] = set()
        self.answers = 0
        self.problems: list[str] = []

    def ask(self, number: int) -> None:
        """Have the weights changed to the *number*-th of `CHOICES`."""
        self._asked.append(self._pool.submit(self._ask, CHOICES[number % len(CHOICES)]))

    def _ask(self, parts: tuple[int, ...]) -> None:
        wanted = dict(zip(HALVES, map(float, parts), strict=True))
        try:
            begin = begun(lambda: self._change(wanted))
        except PenstockError as error:
            self.problems.append(f"weights {parts} are refused: {error}")
            return
        self.answers += 1
        if begin:  # they are not those that the next pass begins with
            self.record = {at: one for at, one in self.record.items() if at < begin}
            self.record[begin] = parts
            self._confirmed.add(begin)

    def look(self, mixture: Mapping[str, Any], answers: int) -> None:
        """Take over what the dispatcher shows, if nothing was answered since there were *answers*.

        That has also the changes whose answers were lost.
        """
        if answers != self.answers:
            return
        shown = {span["begin"]: _parts(span["wanted"]) for span in mixture["spans"]}
        if lost := self._confirmed - shown.keys():
            self.problems.append(f"changes at turns {sorted(lost)} were confirmed, and are lost")
        self.record = {at: one for at, one in shown.items() if (at, one) != (0, FIRST)}

    def settle(self, seconds: float) -> None:
        """Wait until all changes are answered."""
        if wait(self._asked, seconds).not_done:
            self.problems.append("a change of weights is not answered")
        self._pool.shutdown(wait=False, cancel_futures=True)


def _parts(shares: Sequence[float]) -> tuple[int, ...]:
    def same(parts: tuple[int, ...]) -> bool:
        return all(
            abs(part / sum(parts) - one) < 1e-5 for part, one in zip(parts, shares, strict=True)
        )

    return next(parts for parts in CHOICES if same(parts))
