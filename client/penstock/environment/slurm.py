"""The variables that `srun` gives its tasks: `SLURM_PROCID`, `SLURM_NTASKS` and others.

A list of nodes is written ``gpu[01-03,7],login``; how many tasks are on each, ``2(x3),1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, repeat

from penstock.environment.cluster import ClusterEnvironment, number, of_rank
from penstock.errors import ConfigError

LONGEST = 253
"""Letters of a host's name, by the rules of DNS."""

MOST_NODES = 1 << 17
"""More nodes than there are in a list that is meant."""


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return the place in the variables of Slurm; None if this is not a task of `srun`.

    Raises:
        ConfigError: when they are malformed, or contradict each other.
    """
    if "SLURM_PROCID" not in env:
        return None
    sized = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in env else "SLURM_NTASKS"
    world = number(env, sized, least=1)
    rank = number(env, "SLURM_PROCID", below=(world, sized))
    local = (number(env, "SLURM_LOCALID"), "SLURM_LOCALID") if "SLURM_LOCALID" in env else None
    trial = None
    if "SLURM_ARRAY_TASK_ID" in env:
        trial = (str(number(env, "SLURM_ARRAY_TASK_ID")), "SLURM_ARRAY_TASK_ID")
    return of_rank(
        rank,
        world,
        "slurm",
        by=("SLURM_PROCID", sized),
        local_rank=local,
        trial=trial,
        addresses=_addresses(env, world),
    )


def _addresses(
    env: Mapping[str, str], world: int
) -> tuple[Mapping[str, list[str | None]], str] | None:
    """Return the host of each task, with the variable that lists them."""
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    name = next((one for one in names if env.get(one)), None)
    if name is None:
        return None
    nodes, tasks = expand(env[name], name), _tasks(env, world)
    if tasks is None or len(tasks) != len(nodes):
        hosts: list[str | None] = [nodes[0], *[None] * (world - 1)]
    else:
        # Blocks of tasks, as srun places them unless it is told otherwise.
        hosts = list(chain.from_iterable(repeat(n, c) for n, c in zip(nodes, tasks, strict=True)))
    return {"chief": hosts[:1], **({"worker": hosts[1:]} if world > 1 else {})}, name


def _tasks(env: Mapping[str, str], world: int) -> list[int] | None:
    """Return how many tasks each node has, if that is known and adds up."""
    found: list[int] = []
    for part in env.get("SLURM_STEP_TASKS_PER_NODE", env.get("SLURM_TASKS_PER_NODE", "")).split(
        ","
    ):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip())
        if match is None:
            return None
        found += [int(match[1])] * int(match[2] or 1)
    return found if sum(found) == world else None


def expand(text: str, variable: str = "the list of nodes") -> list[str]:
    """Return the names that a list of nodes stands for, in its order.

    Raises:
        ConfigError: when it is malformed, saying where.

    >>> expand("gpu[01-03,7],login")
    ['gpu01', 'gpu02', 'gpu03', 'gpu7', 'login']
    """
    found: list[str] = []
    for at, part in _parts(text, variable):
        for name in _names(part, variable, at):
            if len(name) > LONGEST:
                raise ConfigError(
                    f"{variable} has a name of more than {LONGEST} letters: {name:.80}"
                )
            found.append(name)
            if len(found) > MOST_NODES:
                raise ConfigError(f"{variable} lists more than {MOST_NODES} nodes: {text!r:.80}")
    if not found:
        raise ConfigError(f"{variable} lists no nodes: {text!r}")
    return found


def _parts(text: str, variable: str) -> Iterator[tuple[int, str]]:
    """Yield each text between commas outside brackets, after its first position."""
    begin, inside = 0, False
    for at, letter in enumerate(f"{text},"):
        if letter == "[":
            if inside:
                raise ConfigError(f"{variable} has '[' within brackets at {at}: {text!r:.80}")
            inside = True
        elif letter == "]":
            if not inside:
                raise ConfigError(f"{variable} has ']' without '[' at {at}: {text!r:.80}")
            inside = False
        elif letter == "," and not inside:
            yield begin, text[begin:at]
            begin = at + 1
    if inside:
        raise ConfigError(f"{variable} has '[' without ']': {text!r:.80}")


def _names(part: str, variable: str, at: int) -> Iterator[str]:
    """Yield the names of one part; of several brackets the last changes first."""
    head, bracket, rest = part.partition("[")
    if not bracket:
        if not part.strip() or not re.fullmatch(r"[\w.:-]+", part.strip()):
            raise ConfigError(f"{variable} has no name at {at}: {part!r:.80}")
        yield part.strip()
        return
    inside, _, tail = rest.partition("]")
    for number_ in _numbers(inside, variable, at + len(head) + 1):
        if tail:
            yield from (f"{head}{number_}{more}" for more in _names(tail, variable, at))
        else:
            yield f"{head}{number_}"


def _numbers(inside: str, variable: str, at: int) -> Iterator[str]:
    for part in inside.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ConfigError(f"{variable} has no range of numbers at {at}: {part!r:.80}")
        if int(match[2] or match[1]) - int(match[1]) > MOST_NODES:
            raise ConfigError(f"{variable} lists more than {MOST_NODES} nodes: {part!r:.80}")
        width = len(match[1])
        yield from (f"{n:0{width}}" for n in range(int(match[1]), int(match[2] or match[1]) + 1))
        at += len(part) + 1
