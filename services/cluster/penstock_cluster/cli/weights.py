"""``penstock weights``: the shares of a mixture's sources, wanted and real, and new ones."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from penstock.errors import ConfigError
from penstock_cluster.cli.client import ask, screen
from penstock_cluster.cli.look import passes_meant
from penstock_cluster.cli.mixture_details import mixture_details, shares_of_turns
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


def turns_of(words: str) -> tuple[int, int]:
    """Return the span of turns that *words* such as ``1000:6000`` say.

    Raises:
        ConfigError: when they say none.
    """
    begin, _, end = words.partition(":")
    if not (begin.isdecimal() and end.isdecimal() and int(begin) < int(end)):
        raise ConfigError(f"{words!r} is no span of turns: write FIRST:END, such as 1000:6000")
    return int(begin), int(end)


def show_weights(target: str, job: str, turns: tuple[int, int] | None) -> None:
    """Print the shares of the mixtures that the jobs named *job* read now; or those in *turns*.

    Raises:
        ConfigError: when *job* means no job, or none that reads a mixture now.
        DatasetError: when a mixture has no such *turns*, or does not know them any more.
    """
    passes = [it for it in passes_meant(look(target).stats.iterations, job) if it.mixtures]
    if not passes:
        raise ConfigError(
            f"job {job!r} reads no mixture now: its pass is over, or the dispatcher hands out no "
            "turns of a mixture in it"
        )
    for it in passes:
        screen.print(Text(f"{it.job}, repetition {it.repetition}", "bold"))
        if turns is None:
            screen.print(Group(*mixture_details(it)))
        else:
            for mixture in it.mixtures:
                screen.print(Group(*shares_of_turns(mixture, *turns)))
