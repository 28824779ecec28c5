"""What a load showed: figures by phase, as a table, as JSON, as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from loadtest.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process of the cluster has used: CPU seconds since it began, bytes of memory now."""

    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class HalfSecond:
    """Half a second of a load."""

    at: float
    phase: str
    readers: int
    elements: int
    nbytes: int
    p50: float
    p99: float
    costs: dict[str, Cost]
    """By process: ``dispatcher``, and the workers' addresses."""


@dataclass(slots=True)
class PhaseResult:
    """What one phase showed."""

    name: str
    readers: int
    seconds: float = 0.0
    elements: int = 0
    nbytes: int = 0
    waits: Histogram = field(default_factory=Histogram)

    def figures(self) -> dict[str, Any]:
        """Return the figures by name; waits in milliseconds, None where there was none.

        Of waits that had not ended when the phase did, each counts for as long as it was then.
        """
        seconds, waits = self.seconds, self.waits
        return {
            "phase": self.name,
            "readers": self.readers,
            "seconds": round(seconds, 2),
            "elements": self.elements,
            "elements_per_second": self.elements / seconds if seconds else 0.0,
            "bytes_per_second": self.nbytes / seconds if seconds else 0.0,
            "wait_p50_ms": _milliseconds(waits.quantile(0.5)),
            "wait_p99_ms": _milliseconds(waits.quantile(0.99)),
            "wait_p999_ms": _milliseconds(waits.quantile(0.999)),
            "wait_longest_ms": _milliseconds(waits.longest if len(waits) else None),
        }


@dataclass(slots=True)
class Result:
    """What a whole load showed."""

    phases: list[PhaseResult] = field(default_factory=list)
    moments: list[HalfSecond] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    joined: int = 0
    left: int = 0
    answers: Histogram = field(default_factory=Histogram)
    """How long small answers of the dispatcher took, as those to heartbeats do."""

    def used(self) -> dict[str, tuple[float | None, int]]:
        """Return, by process, the share of a core that it used and the most memory it had.

        The share is None of a process that was seen only once.
        """
        out = {}
        for name in {name for moment in self.moments for name in moment.costs}:
            seen = [(m.at, m.costs[name]) for m in self.moments if name in m.costs]
            spent = sum(max(0.0, b.cpu - a.cpu) for (_, a), (_, b) in pairwise(seen))  # new lives
            seconds = seen[-1][0] - seen[0][0]
            cores = spent / seconds if seconds else None
            out[name] = cores, max(cost.memory for _, cost in seen)
        return dict(sorted(out.items()))

    def grown(self) -> dict[str, int]:
        """Return, by process, how much more memory it had in the last quarter than in the second.

        Of each the most counts; a process that was not seen in both is left out.
        """
        quarter = len(self.moments) // 4
        second, last = self.moments[quarter : 2 * quarter], self.moments[3 * quarter :]
        before, after = _most_memory(second), _most_memory(last)
        return {name: after[name] - before[name] for name in before.keys() & after.keys()}

    def as_json(self) -> bytes:
        """Return everything, the course of it too."""
        grown = self.grown()
        return msgspec.json.encode(
            {
                "phases": [phase.figures() for phase in self.phases],
                "answer_p50_ms": _milliseconds(self.answers.quantile(0.5)),
                "answer_p99_ms": _milliseconds(self.answers.quantile(0.99)),
                "processes": {
                    name: {
                        "cores": cores,
                        "most_memory_bytes": memory,
                        "grown_bytes": grown.get(name),
                    }
                    for name, (cores, memory) in self.used().items()
                },
                "workers_joined": self.joined,
                "workers_left": self.left,
                "errors": self.errors,
                "course": [asdict(moment) for moment in self.moments],
            }
        )


def tables(result: Result) -> Sequence[Table]:
    """Return the figures as tables."""
    phases = Table(
        "phase", "readers", "elements/s", "MB/s", "p50", "p99", "p99.9", "longest",
        title="wait for the next element, ms",
    )  # fmt: skip
    for phase in result.phases:
        figures = phase.figures()
        phases.add_row(
            phase.name,
            str(phase.readers),
            f"{figures['elements_per_second']:,.0f}",
            f"{figures['bytes_per_second'] / 1e6:,.1f}",
            *(_number(figures[f"wait_{name}_ms"]) for name in ("p50", "p99", "p999", "longest")),
        )
    costs, grown = Table("process", "cores", "memory, MB", "grown, MB"), result.grown()
    for name, (cores, memory) in result.used().items():
        more = f"{grown[name] / 1e6:+,.1f}" if name in grown else "-"
        costs.add_row(name, _number(cores), f"{memory / 1e6:,.0f}", more)
    answers = Table("p50", "p99", "longest", title="answer of the dispatcher, ms")
    waits = result.answers
    shown = (waits.quantile(0.5), waits.quantile(0.99), waits.longest if len(waits) else None)
    answers.add_row(*(_number(_milliseconds(one)) for one in shown))
    return phases, costs, answers


def _most_memory(moments: Sequence[HalfSecond]) -> dict[str, int]:
    most: dict[str, int] = {}
    for moment in moments:
        for name, cost in moment.costs.items():
            most[name] = max(most.get(name, 0), cost.memory)
    return most


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def plot(result: Result, file: Path) -> None:
    """Draw throughput, waits, memory and CPU over time; needs matplotlib."""
    import matplotlib as mpl  # noqa: PLC0415  only who plots needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    moments = result.moments
    at = [moment.at for moment in moments]
    figure, (rate, waits, memory) = plt.subplots(3, 1, figsize=(9, 9), sharex=True)
    gaps = [now - before for before, now in zip([0.0, *at], at, strict=False)]
    rate.plot(at, [m.elements / max(gap, 1e-9) for m, gap in zip(moments, gaps, strict=True)])
    rate.set_ylabel("elements/s")
    waits.plot(at, [1000 * moment.p50 for moment in moments], label="p50")
    waits.plot(at, [1000 * moment.p99 for moment in moments], label="p99")
    waits.set_yscale("log")
    waits.set_ylabel("wait, ms")
    waits.legend()
    for name in result.used():
        seen = [(m.at, m.costs[name].memory / 1e6) for m in moments if name in m.costs]
        memory.plot(*zip(*seen, strict=True), label=name)
    memory.set_ylabel("memory, MB")
    memory.set_xlabel("seconds")
    memory.legend()
    for axes in (rate, waits, memory):
        _mark_phases(axes, moments)
    figure.tight_layout()
    figure.savefig(file)
    plt.close(figure)


def _mark_phases(axes: Any, moments: Sequence[HalfSecond]) -> None:
    for before, moment in pairwise(moments):
        if moment.phase != before.phase:
            axes.axvline(moment.at, color="grey", linestyle=":")
