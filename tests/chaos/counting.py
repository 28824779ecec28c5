"""What must be true of the ids that training loops wrote down, and of the account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from chaos.mesh import JOB, Reader
from chaos.plan import OFF, Plan
from penstock_dispatcher.core.account import Account

UPSTREAM_BATCH = 7
LOCAL_BATCH = 5


@dataclass(frozen=True)
class Logged:
    """All ids that count, and how many loops were killed, each perhaps with one step consumed."""

    ids: Counter[int]
    killed: int
    copies: int
    """As many as were seen; under OFF."""


def before(readers: Iterable[Reader], save: int) -> Counter[int]:
    """Return what was consumed before the barrier of *save*."""
    ids: Counter[int] = Counter()
    for reader in readers:
        if reader.after_save >= save:
            continue
        for kind, number in reader.records():
            if kind in "sf" and number == save:
                break
            if kind == "t":
                ids[number] += 1
    return ids


def everything(readers: Iterable[Reader]) -> Counter[int]:
    """Return all that was consumed."""
    return Counter(n for reader in readers for kind, n in reader.records() if kind == "t")


def newest_in(stats: Any) -> int:
    """Return the highest id of an iteration."""
    return max((it["iteration"] for it in stats["iterations"]), default=0)


def accounts_of(plan: Plan, stats: Any, first: int) -> list[Account]:
    """Return the accounts of the job's passes; that of a restored one has what was before."""
    return [msgspec.convert(it["account"], Account) for it in _mine(stats, first)[-plan.passes :]]


def copies_in(stats: Any, first: int) -> int:
    """Return how many tasks the job's newest iteration had so far, as far as it shows."""
    newest = _mine(stats, first)[-1:]
    return max((task["index"] + 1 for it in newest for task in it["tasks"]), default=0)


def mixture_in(stats: Any, first: int) -> Any:
    """Return how far the mixture of the job's newest pass is; None if it is over."""
    return next((it for newest in _mine(stats, first)[-1:] for it in newest["mixtures"]), None)


def readers_in(stats: Any, first: int) -> int:
    """Return how many readers the job's newest pass had, counting again who came back."""
    return sum(len(it["readers"]) for it in _mine(stats, first)[-1:])


def _mine(stats: Any, first: int) -> list[Any]:
    mine = [it for it in stats["iterations"] if it["job"] == JOB and it["iteration"] >= first]
    return sorted(mine, key=lambda it: it["iteration"])


def step(plan: Plan) -> int:
    """Return how many ids one step of a training loop takes at most."""
    up = UPSTREAM_BATCH if "batch" in plan.pipeline else 1
    return up * (LOCAL_BATCH if "batch" in plan.local else 1)


def once(plan: Plan) -> Counter[int]:
    """Return what a single copy is, over all passes."""
    if "repeat" in plan.pipeline:
        return Counter(dict.fromkeys(range(plan.elements // 2), 2 * plan.passes))
    return Counter(dict.fromkeys(range(plan.elements), plan.passes))


def check(plan: Plan, logged: Logged, accounts: list[Account]) -> list[str]:
    """Return what is wrong, in words."""
    wanted = _wanted(plan, logged, accounts)
    missing, extra = wanted - logged.ids, logged.ids - wanted
    problems = []
    bound = logged.killed * step(plan)
    if missing.total() > bound:
        problems.append(
            f"{missing.total()} of {wanted.total()} ids are missing, and {logged.killed} loops "
            f"were killed, which explains {bound}: {_some(missing)}"
        )
    if len(accounts) < plan.passes:
        return [*problems, f"the dispatcher shows the accounts of {len(accounts)} passes"]
    problems += [f"a pass is not finished: {it}" for it in accounts if not it.finished]
    problems += [f"account: {fault}; {it}" for it in accounts for fault in it.faults()]
    in_doubt = sum(it.in_doubt for it in accounts)
    bounded = all(it.bounded for it in accounts)
    if bounded and extra.total() > in_doubt * (UPSTREAM_BATCH if "batch" in plan.pipeline else 1):
        problems.append(
            f"{extra.total()} ids were repeated, and {in_doubt} elements are in doubt: "
            f"{_some(extra)}; {accounts}"
        )
    consumed = sum(it.consumed for it in accounts)
    unreported = any(it.unreported for it in accounts)
    exact = consumed == logged.ids.total() or (unreported and consumed < logged.ids.total())
    if not logged.killed and step(plan) == 1 and not exact:
        problems.append(
            f"loops logged {logged.ids.total()} elements, the account says {consumed}: {accounts}"
        )
    return problems


def redelivered(plan: Plan, logged: Logged, accounts: list[Account]) -> int:
    """Return how many ids came again."""
    return (logged.ids - _wanted(plan, logged, accounts)).total()


def _wanted(plan: Plan, logged: Logged, accounts: list[Account]) -> Counter[int]:
    copies = 1
    if plan.mode == OFF:
        # How often ids came says nothing: most may come again where a worker and a loop die.
        each = -(-plan.elements // UPSTREAM_BATCH) if "batch" in plan.pipeline else plan.elements
        made = sum(account.elements for account in accounts) // (each * plan.passes)
        copies = max(logged.copies, made, 1)
    return Counter({i: many * copies for i, many in once(plan).items()})


def _some(ids: Counter[int]) -> str:
    some = sorted(ids.elements())
    return f"{some[:12]}{' ...' if len(some) > 12 else ''}"
