"""`CLUSTER_SPEC`: the cluster of a custom container on Vertex AI, as JSON.

Format: ``{"cluster": {"workerpool0": [address, ...], ...}, "environment": "cloud",
"task": {"type": "workerpool1", "index": n, "trial": t}, "job": ..., "open_ports": [...]}``. Pool 0
is the chief, 1 are workers, 2 parameter servers, 3 evaluators. The names of `TF_CONFIG` mean the
same: ``chief`` or ``master``, ``worker``, ``ps`` and ``evaluator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.environment.tf_config import (
    ROLES,
    check_listed,
    index_of,
    list_of,
    parsed,
    placed,
    section,
    trial_of,
)
from penstock.errors import ConfigError

VARIABLE = "CLUSTER_SPEC"

TASKS = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)

POOLS: Mapping[str, Role] = {
    "workerpool0": Role.CHIEF,
    "workerpool1": Role.WORKER,
    "workerpool2": Role.PS,
    "workerpool3": Role.EVALUATOR,
    **{name: role for name, role in ROLES.items() if role in TASKS},
}


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what `CLUSTER_SPEC` says; None if it is not set.

    Raises:
        ConfigError: when it is malformed, or contradicts itself.
    """
    text = env.get(VARIABLE, "")
    if not text.strip():
        return None
    whole = parsed(VARIABLE, text)
    addresses = _addresses(whole)
    _check_ports(whole.get("open_ports", []))
    task = section(VARIABLE, whole, "task")
    role = _pool(task.get("type", "workerpool0"), "task.type")
    index = index_of(VARIABLE, task)
    listed = addresses.get(role.value, [])
    if role is not Role.EVALUATOR or listed:
        check_listed(VARIABLE, role.value, index, listed, addresses)
    return placed(VARIABLE, "cluster_spec", role, index, addresses, trial_of(task, whole))


def _addresses(whole: Mapping[str, Any]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    names: dict[str, str] = {}
    for name, given in section(VARIABLE, whole, "cluster").items():
        role = _pool(name, f"a pool of cluster, {name!r},").value
        if role in found:
            raise ConfigError(
                f"{VARIABLE}: cluster has both {names[role]!r} and {name!r}, which are one"
            )
        names[role], found[role] = name, list_of(VARIABLE, name, given)
    return found


def _pool(given: Any, where: str) -> Role:
    role = POOLS.get(given) if isinstance(given, str) else None
    if role is None:
        known = ", ".join(map(repr, POOLS))
        raise ConfigError(f"{VARIABLE}: {where} must be one of {known}, not {given!r}")
    return role


def _check_ports(given: Any) -> None:
    good = isinstance(given, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 < one < 1 << 16 for one in given
    )
    if not good:
        raise ConfigError(f"{VARIABLE}: open_ports must be a list of ports, not {given!r:.80}")
