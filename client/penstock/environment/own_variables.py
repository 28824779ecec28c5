"""Penstock's own variables, for launchers that have none: `PENSTOCK_ROLE` and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.environment.cluster import ClusterEnvironment, Role, number
from penstock.errors import ConfigError

WHO = ("PENSTOCK_ROLE", "PENSTOCK_INDEX", "PENSTOCK_CONSUMER_INDEX")
SIZE, TRIAL, TARGET = "PENSTOCK_NUM_CONSUMERS", "PENSTOCK_TRIAL", "PENSTOCK_TARGET"
PREFER = "PENSTOCK_PREFER"
"""Which system is believed, where the caller does not say so."""


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return the place in ``PENSTOCK_*`` variables; None if none of `WHO` is set.

    Raises:
        ConfigError: when they are malformed, or contradict each other.
    """
    if not any(name in env for name in WHO):
        return None
    ranked, indexed = "PENSTOCK_CONSUMER_INDEX", "PENSTOCK_INDEX"
    world = number(env, SIZE, least=1) if SIZE in env else None
    below = None if world is None else (world, SIZE)
    rank = number(env, ranked, below=below) if ranked in env else None
    role = _role(env, rank)
    index = number(env, indexed) if indexed in env else max(0, (rank or 0) - 1)
    if role.trains and rank is None:
        rank = 0 if role is Role.CHIEF else index + 1
        if world is not None and rank >= world:
            raise ConfigError(f"{indexed} is {index}, and {SIZE} is {world}: that is one too many")
    if not role.trains and ranked in env:
        raise ConfigError(f"{ranked} is set, but PENSTOCK_ROLE is {role.value!r}: it is no trainer")
    said = {"role": WHO[0], "index": indexed, "consumer_index": ranked, "num_consumers": SIZE}
    return ClusterEnvironment(
        role, index, rank, world if role.trains else None, source="penstock", said=said
    )


def completed(
    found: ClusterEnvironment, env: Mapping[str, str], *, settled: bool = False
) -> ClusterEnvironment:
    """Return *found* with what variables of our own add: dispatcher, trial, number of consumers.

    Where it is *settled* that *found* is right, a number of consumers that differs is nothing.

    Raises:
        ConfigError: when the number is malformed, contradicts *found*, or is all that is said.
    """
    said, addresses, trial = dict(found.said), dict(found.addresses), found.trial
    if target := env.get(TARGET):
        addresses["dispatcher"] = [target.rpartition("://")[2]]
        said["dispatcher"] = TARGET
    if TRIAL in env:
        trial, said["trial"] = env[TRIAL] or None, TRIAL
    world = found.num_consumers
    if SIZE in env and found.role.trains:
        size = number(env, SIZE, least=1)
        if world is None:
            world, said["num_consumers"] = size, SIZE
            _check_rank(found, size)
        elif world != size and not settled:
            raise _disagreement(found, size)
    return replace(found, addresses=addresses, trial=trial, num_consumers=world, said=said)


def _check_rank(found: ClusterEnvironment, size: int) -> None:
    if found.consumer_index is not None and found.consumer_index >= size:
        raise ConfigError(
            f"by {found.said.get('consumer_index', found.source)} consumer_index is "
            f"{found.consumer_index}, but {SIZE} is {size}: indexes begin at 0"
        )


def _disagreement(found: ClusterEnvironment, size: int) -> ConfigError:
    if found.source == "local":
        return ConfigError(
            f"{SIZE} is {size}, but nothing says which of them this is: set {WHO[2]}, from 0 on"
        )
    return ConfigError(
        f"{found.source} and penstock disagree: by {found.said.get('num_consumers', found.source)} "
        f"num_consumers is {found.num_consumers}, and by {SIZE} it is {size}; say which one is "
        f"right by prefer={found.source!r} or {PREFER}={found.source}, or unset {SIZE}"
    )


def _role(env: Mapping[str, str], rank: int | None) -> Role:
    given = env.get("PENSTOCK_ROLE")
    if given is None:
        return Role.WORKER if rank else Role.CHIEF
    try:
        return Role("chief" if given == "master" else given)
    except ValueError:
        known = ", ".join(repr(role.value) for role in Role)
        raise ConfigError(f"PENSTOCK_ROLE must be one of {known}, not {given!r}") from None
