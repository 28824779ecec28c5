"""A process's role and index, and the addresses of the others, as a launcher says them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.errors import ConfigError


class Role(StrEnum):
    """The role of a process in a cluster."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    DISPATCHER = "dispatcher"
    DATA_WORKER = "data_worker"

    @property
    def trains(self) -> bool:
        """Whether it is a consumer of training data."""
        return self in (Role.CHIEF, Role.WORKER)


@dataclass(frozen=True, slots=True)
class ClusterEnvironment:
    """The role and index of this process in its cluster, from `penstock.cluster_environment`.

    Attributes:
        role: ``"chief"``, ``"worker"``, ``"ps"``, ``"evaluator"``, ``"dispatcher"`` or
            ``"data_worker"``; a `Role` that equals its name.
        index: its number within its role, from 0 on.
        consumer_index: its number among the training processes: the chief is 0, workers follow.
            None for other processes, and if it is not known.
        num_consumers: the number of training processes; None for other processes, and if it is not
            known.
        local_rank: its number on its host, if the launcher gives it.
        trial: the trial of a hyperparameter search that it belongs to, if there is one.
        addresses: the address of each process, by role; None for an unknown address.
        source: the launcher that these values come from, as `prefer` names it; ``"local"`` without
            one.

    >>> import penstock
    >>> env = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "host-a", "MASTER_PORT": "29500"}
    >>> found = penstock.cluster_environment(env)
    >>> found.role == "worker", found.consumer_index, found.num_consumers, found.source
    (True, 1, 2, 'torchrun')
    """

    role: Role
    index: int
    consumer_index: int | None
    num_consumers: int | None
    local_rank: int | None = None
    trial: str | None = None
    addresses: Mapping[str, list[str | None]] = field(default_factory=dict)
    source: str = "local"
    said: Mapping[str, str] = field(default_factory=dict)
    """For each field, and each role whose addresses another one says, the variable that does."""

    @property
    def is_chief(self) -> bool:
        """Whether it is the chief or the first training process, for work to be done only once."""
        return self.consumer_index == 0

    @property
    def world(self) -> int:
        """The number of processes in the cluster; if it lists none, of training processes."""
        return sum(map(len, self.addresses.values())) or self.num_consumers or 1

    def explain(self) -> str:
        """Return a line for each known value, with the variable that it comes from.

        >>> import penstock
        >>> print(penstock.cluster_environment({"RANK": "0", "WORLD_SIZE": "1"}).explain())
        source: torchrun
        role: chief (RANK)
        index: 0 (RANK)
        consumer_index: 0 (RANK)
        num_consumers: 1 (WORLD_SIZE)
        """
        lines = [f"source: {self.source}"]
        known: dict[str, object] = {
            "role": self.role.value,
            "index": self.index,
            "consumer_index": self.consumer_index,
            "num_consumers": self.num_consumers,
            "local_rank": self.local_rank,
            "trial": self.trial,
        }
        for name, value in known.items():
            if value is not None:
                by = f" ({self.said[name]})" if name in self.said else ""
                lines.append(f"{name}: {value}{by}")
        for role, places in self.addresses.items():
            where = ", ".join(place or "?" for place in places)
            source = self.said.get(role, self.said.get("addresses"))
            by = f" ({source})" if source else ""
            lines.append(f"{role} at {where}{by}")
        return "\n".join(lines)


def of_rank(
    rank: int,
    world: int | None,
    source: str,
    *,
    by: tuple[str, str],
    local_rank: tuple[int, str] | None = None,
    trial: tuple[str, str] | None = None,
    addresses: tuple[Mapping[str, list[str | None]], str] | None = None,
) -> ClusterEnvironment:
    """Return the place of process *rank* of *world* that all train; the first is the chief.

    *by* names the variables of both. The other values come with the names of their variables.
    """
    role = Role.CHIEF if rank == 0 else Role.WORKER
    said = dict.fromkeys(("role", "index", "consumer_index"), by[0])
    if world is not None:
        said["num_consumers"] = by[1]
    for name, known in (("local_rank", local_rank), ("trial", trial), ("addresses", addresses)):
        if known is not None:
            said[name] = known[1]
    return ClusterEnvironment(
        role,
        max(0, rank - 1),
        rank,
        world,
        None if local_rank is None else local_rank[0],
        None if trial is None else trial[0],
        {} if addresses is None else addresses[0],
        source,
        said,
    )


def around(place: str, world: int) -> dict[str, list[str | None]]:
    """Return the addresses of a chief at *place* and of others that are not known."""
    chief: list[str | None] = [place]
    return {"chief": chief, "worker": [None] * (world - 1)} if world > 1 else {"chief": chief}


DIGITS = 7
"""Of a number in a variable: no cluster has more processes, and lists have all of them."""


def number(
    env: Mapping[str, str], name: str, *, least: int = 0, below: tuple[int, str] | None = None
) -> int:
    """Return the number that the variable *name* holds.

    Raises:
        ConfigError: when it is missing, no number, or out of bounds, naming it and its value.
    """
    text = env.get(name)
    if text is None:
        raise ConfigError(f"{name} is not set")
    given = text.strip()
    if not given.isdecimal() or len(given) > DIGITS:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {text!r}")
    value = int(given)
    if value < least:
        raise ConfigError(f"{name} must be at least {least}, not {text!r}")
    if below is not None and value >= below[0]:
        raise ConfigError(f"{name} must be below {below[1]}, which is {below[0]}, not {text!r}")
    return value


def missing(env: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return which of *names* are not set."""
    return [name for name in names if name not in env]
