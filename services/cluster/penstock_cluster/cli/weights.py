"""``penstock weights``: the shares of a mixture's sources, wanted and real, and new ones."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from penstock.errors import ConfigError
from penstock_cluster.cli.client import ask, screen
from penstock_cluster.cli.look import passes_meant
from penstock_cluster.cli.mixture_details import mixture_details
from penstock_cluster.cli.status import look


def weights_of(pairs: Sequence[str]) -> dict[str, float]:
    """Return the weights that words such as ``web=0.5`` say.

    Raises:
        ConfigError: naming the word that says none.
    """
    found: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise ConfigError(
                f"{pair!r} is no weight: write SOURCE=NUMBER, such as web=0.5"
            ) from None
    return found


def set_weights(target: str, job: str, weights: dict[str, float], at: int | None) -> None:
    """Change the weights of the mixture that *job* reads, and print from which turn they hold."""
    begin = ask(target, lambda dispatcher: dispatcher.set_weights(job, weights, at))
    screen.print(f"the weights hold from turn {begin} on", soft_wrap=True)


def show_weights(target: str, job: str) -> None:
    """Print the shares of the mixtures that the jobs named *job* read now.

    Raises:
        ConfigError: when *job* means no job, or none that reads a mixture now.
    """
    passes = [it for it in passes_meant(look(target).stats.iterations, job) if it.mixtures]
    if not passes:
        raise ConfigError(
            f"job {job!r} reads no mixture now: its pass is over, or the dispatcher hands out no "
            "turns of a mixture in it"
        )
    for it in passes:
        screen.print(Text(f"{it.job}, repetition {it.repetition}", "bold"))
        screen.print(Group(*mixture_details(it)))
