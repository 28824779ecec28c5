"""`TF_CONFIG`: the cluster of TensorFlow's launchers, as JSON.

Format: ``{"cluster": {role: [address, ...]}, "task": {"type": role, "index": n, "trial": t},
"environment": ..., "job": ...}``; a role may list some of its addresses, ``{"1": address}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.environment.cluster import ClusterEnvironment, Role, number
from penstock.environment.own_variables import SIZE
from penstock.errors import ConfigError

VARIABLE = "TF_CONFIG"

LONGEST_INDEX = 10
"""Digits: no cluster is as large."""

ROLES: Mapping[str, Role] = {
    **{role.value: role for role in Role},
    "master": Role.CHIEF,  # what a chief was called in TensorFlow 1
}


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what `TF_CONFIG` says; None if it is not set, or names no cluster and no task.

    Raises:
        ConfigError: when it is malformed, or contradicts itself.
    """
    text = env.get(VARIABLE, "")
    if not text.strip():
        return None
    whole = parsed(VARIABLE, text)
    if not whole.get("cluster") and not whole.get("task"):
        return None
    addresses = _addresses(whole)
    task = section(VARIABLE, whole, "task")
    role = _role(task.get("type", Role.CHIEF.value), "task.type")
    index = index_of(VARIABLE, task)
    listed = addresses.get(role.value, [])
    if role is not Role.EVALUATOR or listed:
        check_listed(VARIABLE, role.value, index, listed, addresses)
    found = placed(VARIABLE, "tf_config", role, index, addresses, trial_of(task, whole))
    return _of_sparse(found, env) if _is_sparse(whole) else found


def parsed(variable: str, text: str) -> dict[str, Any]:
    """Return the object that *text* is in JSON.

    Raises:
        ConfigError: when it is none, saying where.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as exc:
        at = getattr(exc, "pos", 0)
        near = text[max(0, at - 20) : at + 20]
        raise ConfigError(f"{variable} is not JSON: {exc}, near {near!r}") from None
    if not isinstance(whole, dict):
        raise ConfigError(f"{variable} must be an object of JSON, not {text!r:.80}")
    return whole


def section(variable: str, whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object *name* within *whole*, empty if it is not there."""
    found = whole.get(name) or {}
    if not isinstance(found, dict):
        raise ConfigError(f"{variable}: {name} must be an object, not {found!r:.80}")
    return found


def index_of(variable: str, task: Mapping[str, Any]) -> int:
    """Return the index of *task*, a number or digits."""
    given = task.get("index", 0)
    if isinstance(given, str) and given.strip().isdecimal() and len(given) < LONGEST_INDEX:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ConfigError(
            f"{variable}: task.index must be a number of at least 0, not {given!r:.80}"
        )
    return given


def trial_of(task: Mapping[str, Any], whole: Mapping[str, Any]) -> str | None:
    """Return the trial that *task* belongs to, if it says so."""
    job = whole.get("job")
    given = task.get("trial", job.get("trial") if isinstance(job, dict) else None)
    return None if given in (None, "") else str(given)


def check_listed(
    variable: str,
    role: str,
    index: int,
    listed: list[str | None],
    addresses: Mapping[str, list[str | None]],
) -> None:
    """Refuse a task that its cluster does not list."""
    if not addresses:  # a task alone, of a cluster that is not described
        if index:
            raise ConfigError(
                f"{variable}: task.index is {index}, but no cluster is there that it is an index of"
            )
        return
    if not listed:
        there = ", ".join(addresses)
        raise ConfigError(f"{variable}: task.type is {role!r}, but the cluster has only {there}")
    if index >= len(listed):
        raise ConfigError(
            f"{variable}: task.index is {index}, but the cluster lists {len(listed)} {role}(s): "
            f"indexes begin at 0"
        )


def placed(
    variable: str,
    source: str,
    role: Role,
    index: int,
    addresses: Mapping[str, list[str | None]],
    trial: str | None,
) -> ClusterEnvironment:
    """Return the place of the process with *index* of *role* in the cluster of *addresses*."""
    chiefs, workers = (len(addresses.get(one, ())) for one in ("chief", "worker"))
    consumers = chiefs + workers if addresses else 1
    consumer = None
    if role.trains:
        consumer = index if role is Role.CHIEF else chiefs + index
    said = {
        "role": f"{variable}, task.type",
        "index": f"{variable}, task.index",
        "trial": f"{variable}, trial",
        "addresses": f"{variable}, cluster",
        "consumer_index": f"{variable}, task",
        "num_consumers": f"{variable}, cluster",
    }
    world = None if consumer is None else consumers
    return ClusterEnvironment(role, index, consumer, world, None, trial, addresses, source, said)


def _role(given: Any, where: str) -> Role:
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        known = ", ".join(map(repr, ROLES))
        raise ConfigError(f"{VARIABLE}: {where} must be one of {known}, not {given!r}")
    return role


def _addresses(whole: Mapping[str, Any]) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for name, given in section(VARIABLE, whole, "cluster").items():
        role = _role(name, f"a role of cluster, {name!r},").value
        if role in found:
            raise ConfigError(f"{VARIABLE}: cluster has both 'chief' and 'master', which are one")
        found[role] = list_of(VARIABLE, name, given)
    return found


def list_of(variable: str, name: str, given: Any) -> list[str | None]:
    """Return the addresses of a role: a list, or an object of some by their index.

    Raises:
        ConfigError: when one is none, saying which.
    """
    if isinstance(given, dict):
        return _sparse(variable, name, given)
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list):
        raise ConfigError(
            f"{variable}: cluster.{name} must be a list of addresses, not {given!r:.80}"
        )
    for at, address in enumerate(given):
        _check_address(variable, f"cluster.{name}[{at}]", address)
    return list(given)


def _sparse(variable: str, name: str, given: Mapping[str, Any]) -> list[str | None]:
    known: dict[int, str] = {}
    for key, address in given.items():
        if not key.isdecimal() or len(key) > 6:
            raise ConfigError(f"{variable}: cluster.{name} has the key {key!r}, which is no index")
        _check_address(variable, f"cluster.{name}.{key}", address)
        known[int(key)] = address
    return [known.get(at) for at in range(max(known, default=-1) + 1)]


def _is_sparse(whole: Mapping[str, Any]) -> bool:
    """Return whether workers may be missing, behind those that are listed."""
    return isinstance(section(VARIABLE, whole, "cluster").get(Role.WORKER.value), dict)


def _of_sparse(found: ClusterEnvironment, env: Mapping[str, str]) -> ClusterEnvironment:
    """Return *found* with the number of consumers that `PENSTOCK_NUM_CONSUMERS` says, if it does.

    An object of some addresses tells only that there are as many as its largest index says.
    """
    if SIZE not in env or found.num_consumers is None:
        return found
    world = number(env, SIZE, least=found.num_consumers)
    return replace(found, num_consumers=world, said={**found.said, "num_consumers": SIZE})


def _check_address(variable: str, where: str, address: Any) -> None:
    if not isinstance(address, str) or not address.strip():
        raise ConfigError(f"{variable}: {where} must be an address, host:port, not {address!r:.80}")
