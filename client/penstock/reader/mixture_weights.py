"""Changes the weights of a mixture while a job reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock.errors import DatasetError
from penstock.options import check_seconds
from penstock.protocol.definition import ENDLESS
from penstock.protocol.mixture import parts_of
from penstock.reader import arguments
from penstock.reader.registration import call


def set_weights(
    service: str | tuple[str, str],
    job_name: str,
    weights: Mapping[str, float],
    at: int | None = None,
    *,
    timeout: float = 60.0,
    credentials: str | os.PathLike[str] | None = None,
) -> int:
    """Change the weights of the mixture that a job reads, and return the turn from which they hold.

    The job continues. Turns that tasks already have keep their sources, so the weights hold a few
    tasks later. The dispatcher records the change, and a saved
    state contains it. A job that is resumed therefore gives the same elements, with any number of
    ranks and workers.

    The weights replace all that was planned from that turn on, such as the rest of a schedule.
    Later passes of the job begin with them. The change is made in the newest pass of the job. If
    tasks have all turns of that pass, the change is made at turn 0 of the next pass.

    A call that asks for what is already planned changes nothing, so it can be repeated.

    Args:
        service: the dispatcher, as in `distribute`.
        job_name: the `job_name` that readers give to `distribute`.
        weights: a number for each source. A source that is left out gets no more turns.
        at: the turn from which they hold; by default the first that no task has.
        timeout: for how many seconds the dispatcher may be absent.
        credentials: the folder of a trainer's or an operator's credentials, if the dispatcher asks
            for them; see `distribute`.

    Raises:
        DatasetError: when a weight is negative or no number, a source or the job is unknown, the
            job reads no mixture by turns, or tasks already have turn *at*; the last message names
            the first turn that is possible.
        WaitedTooLong: when no dispatcher answers.

    >>> from penstock_cluster import LocalCluster
    >>> from penstock.service import set_weights
    >>> web, code = Dataset.range(1_000_000), Dataset.range(1_000_000).map(lambda x: -x)
    >>> mixed = Dataset.mixture({"web": web, "code": code}, {"web": 0.7, "code": 0.3}, seed=1)
    >>> with LocalCluster(workers=1) as cluster:
    ...     mesh = ("distributed_epoch", cluster.target)
    ...     dataset = mixed.distribute(*mesh, job_name="train", ordered=True)
    ...     with iter(dataset) as elements:
    ...         first = next(elements)
    ...         begin = set_weights(cluster.target, "train", {"web": 0.5, "code": 0.5})
    >>> begin % 2048
    0
    """
    address = arguments.service_of(service, credentials)
    seconds = check_seconds("set_weights", "timeout", timeout)
    if not isinstance(job_name, str) or not job_name:
        raise DatasetError(f"set_weights: job_name must be the name of a job, not {job_name!r}")
    turn = None if at is None else _turn(at)
    parts_of(weights, tuple(weights) if isinstance(weights, Mapping) else ())
    for name in weights:
        if not isinstance(name, str):
            raise DatasetError(f"set_weights: weights must name sources by strings, not {name!r}")
    plain = {name: float(weight) for name, weight in weights.items()}
    return call(address, seconds, lambda dispatcher: dispatcher.set_weights(job_name, plain, turn))


def _turn(at: Any) -> int:
    """Return *at* as a number of a turn; integers of NumPy are fine, too."""
    whole = hasattr(at, "__index__") and not isinstance(at, bool)
    if not (whole and 0 <= int(at) < ENDLESS):
        raise DatasetError(
            f"set_weights: at must be a turn, an integer from 0 to 2**62 - 1, not {at!r}"
        )
    return int(at)
