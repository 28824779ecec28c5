"""Metrics as text: Prometheus' format 0.0.4, and OpenMetrics 1.0.

As `prometheus_client` writes them, in a fifth of its time, which is most of a scrape's: a scrape is
on the event loop of a service. Names of metrics here are the classic ones, so none is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.metrics_core import Metric

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_OF_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def text(families: Iterable[Metric]) -> bytes:
    """Return *families* in the text format of Prometheus."""
    lines = list[str]()
    for family in families:
        name, kind = family.name, family.type
        match kind:
            case "counter":
                name += "_total"
            case "info":
                name, kind = f"{name}_info", "gauge"
            case "unknown":
                kind = "untyped"
        lines.append(f"# HELP {name} {family.documentation.translate(_OF_HELP)}")
        lines.append(f"# TYPE {name} {kind}")
        _samples(family, lines)
    return "".join(f"{line}\n" for line in lines).encode()


def openmetrics(families: Iterable[Metric]) -> bytes:
    """Return *families* in the format of OpenMetrics."""
    lines = list[str]()
    for family in families:
        words = family.documentation.translate(_ESCAPES)
        lines.append(f"# HELP {family.name} {words}")
        lines.append(f"# TYPE {family.name} {family.type}")
        _samples(family, lines)
    lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines).encode()


def _samples(family: Metric, lines: list[str]) -> None:
    for sample in family.samples:
        labels = ",".join(
            f'{key}="{value.translate(_ESCAPES)}"' for key, value in sample.labels.items()
        )
        inside = f"{{{labels}}}" if labels else ""
        lines.append(f"{sample.name}{inside} {_number(sample.value)}")


def _number(value: float) -> str:
    value = float(value)
    if value != value:  # noqa: PLR0124  only this is not itself
        return "NaN"
    return repr(value).replace("inf", "Inf") if value < float("inf") else "+Inf"
