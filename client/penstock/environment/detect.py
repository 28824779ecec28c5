"""`cluster_environment`: which launcher started this process, and with which variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import combinations

from penstock.environment import cluster_spec, launchers, own_variables, slurm, tf_config
from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.errors import ConfigError

Resolver = Callable[[Mapping[str, str]], ClusterEnvironment | None]

SYSTEMS: Mapping[str, Resolver] = {
    "penstock": own_variables.resolve,
    "tf_config": tf_config.resolve,
    "cluster_spec": cluster_spec.resolve,
    "torchrun": launchers.resolve_torchrun,
    "jax": launchers.resolve_jax,
    "leader_worker_set": launchers.resolve_leader_worker_set,
    "kubernetes": launchers.resolve_indexed_job,
    "slurm": slurm.resolve,
    "mpi": launchers.resolve_mpi,
}
"""By what *prefer* calls them; of several that agree the first is believed."""


def cluster_environment(
    env: Mapping[str, str] | None = None, prefer: str | None = None
) -> ClusterEnvironment:
    """Return this process's place in its cluster, as its launcher's variables say.

    Reads ``TF_CONFIG``, ``CLUSTER_SPEC``, and the variables of torchrun, JAX, LeaderWorkerSet,
    indexed Kubernetes jobs, Slurm, MPI, and ``PENSTOCK_*``, with each call. Where nothing is set,
    this process trains alone.

    Args:
        env: the variables; those of this process by default.
        prefer: which system is believed where several are there that disagree: ``"tf_config"``,
            ``"cluster_spec"``, ``"torchrun"``, ``"jax"``, ``"leader_worker_set"``,
            ``"kubernetes"``, ``"slurm"``, ``"mpi"`` or ``"penstock"``. By default what
            ``PENSTOCK_PREFER`` says, if it is set: so it holds for ``service="env"``, too.

    Raises:
        ConfigError: when variables are malformed, when systems disagree, naming both, or when
            nothing of *prefer* is set.

    >>> import json, penstock
    >>> cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    >>> config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    >>> found = penstock.cluster_environment({"TF_CONFIG": config})
    >>> found.index, found.consumer_index, found.num_consumers, found.addresses["chief"]
    (0, 1, 3, ['a:1'])
    """
    variables = os.environ if env is None else env
    by = "prefer"
    if prefer is None and variables.get(own_variables.PREFER):
        prefer, by = variables[own_variables.PREFER], own_variables.PREFER
    if prefer is not None:
        return own_variables.completed(_preferred(variables, prefer, by), variables, settled=True)
    found = [place for resolve in SYSTEMS.values() if (place := resolve(variables)) is not None]
    for first, second in combinations(found, 2):
        _check_agreement(first, second)
    alone = ClusterEnvironment(Role.CHIEF, 0, 0, 1)
    return own_variables.completed(found[0] if found else alone, variables)


def trial_of_process(env: Mapping[str, str] | None = None) -> str | None:
    """Return the trial of a search that this process belongs to, if its variables say so.

    Malformed or contradictory variables are ignored, because the caller did not ask for an
    environment. An empty ``PENSTOCK_TRIAL`` says that there is none.
    """
    variables = os.environ if env is None else env
    if own_variables.TRIAL in variables:
        return variables[own_variables.TRIAL] or None
    try:
        return cluster_environment(variables).trial
    except ConfigError:
        return None


def _preferred(variables: Mapping[str, str], prefer: str, by: str) -> ClusterEnvironment:
    """Return what the system *prefer* says, which *by* asks for."""
    if prefer not in SYSTEMS:
        known = ", ".join(map(repr, SYSTEMS))
        raise ConfigError(f"{by} must be one of {known}, not {prefer!r}")
    chosen = SYSTEMS[prefer](variables)
    if chosen is None:
        there = [name for name, resolve in SYSTEMS.items() if _says_something(resolve, variables)]
        there_is = ", ".join(there) or "nothing"
        raise ConfigError(f"{by}={prefer!r}, but nothing of that is set: there is {there_is}")
    return chosen


def _says_something(resolve: Resolver, variables: Mapping[str, str]) -> bool:
    try:
        return resolve(variables) is not None
    except ConfigError:  # malformed, but there
        return True


def _check_agreement(first: ClusterEnvironment, second: ClusterEnvironment) -> None:
    """Refuse two systems that say different things.

    Raises:
        ConfigError: naming both, and what each says.
    """
    train = first.role.trains and second.role.trains  # then a first worker may be called chief
    names = ("consumer_index", "num_consumers") if train else ("role", "index")
    for name in (*names, "trial"):
        one, other = getattr(first, name), getattr(second, name)
        if one is not None and other is not None and one != other:
            raise ConfigError(
                f"{first.source} and {second.source} disagree: {_words(first, name)}, and "
                f"{_words(second, name)}; say which one is right by "
                f"cluster_environment(prefer={first.source!r}) or prefer={second.source!r}, by "
                f"{own_variables.PREFER}={first.source} for all of this process, or unset the "
                "variables of the other"
            )


def _words(place: ClusterEnvironment, name: str) -> str:
    if name == "role":
        return f"by {place.said.get('role', place.source)} this is {place.role.value!r}"
    return f"by {place.said.get(name, place.source)} {name} is {getattr(place, name)}"
