"""Penstock's own variables, for launchers that have none: `PENSTOCK_ROLE` and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.environment.cluster import ClusterEnvironment, Role, number
from penstock.errors import ConfigError

WHO = ("PENSTOCK_ROLE", "PENSTOCK_INDEX", "PENSTOCK_CONSUMER_INDEX")
SIZE, TRIAL, TARGET = "PENSTOCK_NUM_CONSUMERS", "PENSTOCK_TRIAL", "PENSTOCK_TARGET"


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what they say; None if none of those is set that say who this is.

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


def completed(found: ClusterEnvironment, env: Mapping[str, str]) -> ClusterEnvironment:
    """Return *found* with the dispatcher and the trial that variables of our own name."""
    said, addresses, trial = dict(found.said), dict(found.addresses), found.trial
    if target := env.get(TARGET):
        addresses["dispatcher"] = [target.rpartition("://")[2]]
        said["addresses"] = f"{said['addresses']}; {TARGET}" if "addresses" in said else TARGET
    if given := env.get(TRIAL):
        trial, said["trial"] = given, TRIAL
    return replace(found, addresses=addresses, trial=trial, said=said)


def _role(env: Mapping[str, str], rank: int | None) -> Role:
    given = env.get("PENSTOCK_ROLE")
    if given is None:
        return Role.WORKER if rank else Role.CHIEF
    try:
        return Role("chief" if given == "master" else given)
    except ValueError:
        known = ", ".join(repr(role.value) for role in Role)
        raise ConfigError(f"PENSTOCK_ROLE must be one of {known}, not {given!r}") from None
